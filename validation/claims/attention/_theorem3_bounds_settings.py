"""Theorem 3's bounds along runs of weakly correlated instances."""

from __future__ import annotations

import numpy as np

from snapdyn.dynamics import log_times
from snapdyn.validation.assumptions import assumption_2
from snapdyn.validation.evidence import Evidence
from snapdyn.validation.maps.common_logit import common_logit_maps
from snapdyn.validation.observables import growth_integral
from snapdyn.validation.pictures import Picture
from snapdyn.validation.rungs.run import EXACT, run_on_rung
from snapdyn.validation.sample_classes import dominant_token, weak_instances


def along_runs(evidence: Evidence, missed: float) -> None:
    """Add both bounds along runs of Eq. (10), with B by another rule than that of the searched property.

    `missed` is the share of B_n that the mean field may leave the bounds by.
    """
    times = log_times(1e-3, 1e5, 300)
    lower = upper = np.inf
    quadrature = 0.0
    instances = weak_instances(50 if evidence.full else 2, first_seed=300)
    for classes in instances:
        run = run_on_rung(EXACT, classes, 1.0, 5.0, times, rtol=1e-10, atol=1e-14)
        # An integral in ln t by another rule than that of the searched property.
        B = growth_integral(run, 5.0)
        quadrature = max(quadrature, float(np.abs(growth_integral(run, 5.0, every=2) / B[::2] - 1).max()))
        for n in range(classes.num_classes):
            l0 = dominant_token(classes, n)
            f0 = classes.decoder_inputs()[n, l0]
            log_chi = np.log(run.growth_factor(n, l0))
            lower = min(lower, float(((log_chi - 2 * f0**2 * B[:, n]) / B[:, n]).min()))
            upper = min(upper, float(((2 * B[:, n] - log_chi) / B[:, n]).min()))
    # At t -> 0 the lower bound is an equality, up to the quadrature of B: every second point gives its error, and
    # chi up to the solver's.
    margin = -(2 * quadrature + 1e-7)
    evidence.holds("smallest (ln chi - 2 f(0)^2 B)/B, 300 times", "modified decoder", lower, at_least=margin)
    evidence.holds("smallest (2 B - ln chi)/B, 300 times", "modified decoder", upper, at_least=margin)
    evidence.maps = [common_logit_maps(evidence.level)[0]]
    evidence.conclusion = (
        "Both bounds hold under (10) with B on the clock of the dynamics: per step B carries p_n. The lower one fails "
        "where a common token rises. In the mean field attention moves by about 1/(V E') of what the xi of Theorem 1 "
        f"says (F4), so that (12) holds to {missed:.0%} of B only where V f_n.f_k is small and priors are equal."
    )
    evidence.conditions = assumption_2(instances[0])[1:2]
    evidence.picture = Picture(
        "t (batch-size-1 steps)",
        "ln chi of the dominant token",
        (
            Picture.line("Eq. (10), integrated", times, log_chi, "simulation"),
            Picture.line("2 f(0)^2 B", times, 2 * f0**2 * B[:, n], "bound"),
            Picture.line("2 B", times, 2 * B[:, n]),
        ),
    )
