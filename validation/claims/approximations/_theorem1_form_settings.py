"""Theorem 1's form at named settings: the common logit under both flows, its order in eta_Z and its law."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.integrate import simpson

from snapdyn.dynamics import SequenceClasses, log_times, single_common_token
from snapdyn.validation.claims.approximations._shared import original_flow_in_span
from snapdyn.validation.evidence import Evidence
from snapdyn.validation.maps.common_logit import common_logit_law, common_logit_maps
from snapdyn.validation.pictures import Picture
from snapdyn.validation.rungs.run import EXACT, MEAN_FIELD, MODIFIED, ORIGINAL, run_on_rung
from snapdyn.validation.statistics import DECISIVE, fit_order


def common_logits(evidence: Evidence) -> None:
    """Add the common logit under both flows: its size, its order in eta_Z and its law, and their maps."""
    K, eta_Y, eta_Z = 10, 1.0, 1e-3
    cases = [(1000, 414.0), (100_000, 691.0)] + ([(10_000, 553.0), (1_000_000, 829.0)] if evidence.full else [])
    by_size = {}
    for V, t_end in sorted(cases):
        by_size[V] = _common_logit(single_common_token(K, 5, 0.04, V), eta_Y, eta_Z, t_end)
        evidence.holds(
            f"common logit under (10) over the mean field's at V = {V}, t = {t_end:g}: |ratio - 1|",
            MODIFIED,
            abs(by_size[V].modified / by_size[V].mean_field - 1),
            at_most=0.05,
        )
    small = by_size[1000]
    # Equal overlaps rho and priors: the bound by rho and the own logit's lead u alone.
    evidence.corrected(
        "equal overlaps: beta (V-1)/iota - 1 over 2 (exp(rho u/(1-rho)) - 1) + K/V, u the own logit's lead: largest",
        ORIGINAL,
        max(case.excess for case in by_size.values()),
        at_most=1.0,
    )
    evidence.corrected(
        "the same: smallest (beta (V-1)/iota is at least 1)",
        ORIGINAL,
        min(case.least for case in by_size.values()),
        at_least=-1e-9,  # solver tolerance
    )
    evidence.control(
        "wrong theory: E' for beta of the original flow, over the same bound at V = 1e5",
        ORIGINAL,
        by_size[100_000].modified_excess,
        at_most=1.0,
    )
    # The quadrature freezes attention, so it errs by the order of the logits it moves: O(eta_Z).
    rates = eta_Z * 2.0 ** -np.arange(5)
    gaps = [abs(small.quadrature * rate / small.z(rate) - 1) for rate in rates]
    order = fit_order(rates, gaps, [small.error] * 5, next_order=1.0)
    evidence.corrected(
        f"common logit by quadrature along the original flow against the mean field: order in eta_Z ({order}): "
        "|corrected slope - 1|",
        MEAN_FIELD,
        abs(order.corrected - 1),
        at_most=order.margin(),
    )
    evidence.corrected("margin of that order", MEAN_FIELD, order.margin(), at_most=DECISIVE)
    by_modified = fit_order(rates, [abs(small.modified / small.z(rate) * rate / eta_Z - 1) for rate in rates])
    evidence.control(
        "wrong theory: E' for beta, order of its gap to the mean field in eta_Z",
        MEAN_FIELD,
        abs(by_modified.slope - 1),
        at_most=order.margin(),
    )
    law = common_logit_law(evidence.level)
    evidence.corrected(
        f"ratio of the common logits against (1 + V E')/(2 (exp(X) - 1)/X - 1), X = rho V h, {law.instances} "
        "instances with weak correlation and V >= 100 K: largest relative error over K/V + (K-1) rho",
        MEAN_FIELD,
        law.excess,
        at_most=1.0,
    )
    evidence.control(
        "wrong theory: the ratio is 1 + V E', without the original flow's own growth: error over the bound",
        MEAN_FIELD,
        law.without_denominator,
        at_most=1.0,
    )
    for i, name in ((1, "V"), (2, "E'")):
        evidence.corrected(
            f"that ratio fitted: |exponent of {name} - 1|",
            MEAN_FIELD,
            abs(float(law.coefficients[i]) - 1),
            # What the law leaves out shifts ln by up to K/V + (K-1) rho <= 0.11, over more than two decades.
            at_most=0.11 / np.log(100),
        )
    sizes = np.array(sorted(by_size), dtype=float)
    evidence.difference = (
        "Under the modified decoder the common token's logit moves "
        + " and ".join(f"{by_size[V].modified / by_size[V].mean_field:.3g} times (V = {V:,})" for V in (1000, 100_000))
        + f" as far as in the full mean field (K = {K})."
    )
    evidence.conclusion = (
        "The common logit moves under Eq. (10) "
        + ", ".join(
            f"{by_size[V].modified / by_size[V].mean_field:.4g} times as far as in the mean field at V = {V:,}"
            for V in sorted(by_size)
        )
        + f". The original flow's beta is {1 + small.ratio:.2f} times iota/(V-1) at V = 1000; frozen attention with "
        f"that beta gives the mean field's common logit to {gaps[0]:.1e} at eta_Z/eta_Y = 0.001, "
        "an error of order eta_Z. At weak correlation and V >= 100 K the ratio is (1 + V E')/(2 (exp(X) - 1)/X - 1), "
        f"X = rho V h: fitted exponents {law.coefficients[1]:.4f} +- {law.errors[1]:.4f} of V and "
        f"{law.coefficients[2]:.4f} +- {law.errors[2]:.4f} of E', prefactor {np.exp(law.coefficients[0]):.3f} +- "
        f"{np.exp(law.coefficients[0]) * law.errors[0]:.3f}."
    )
    evidence.picture = Picture(
        "V",
        "beta (V-1)/iota at the last time",
        (
            Picture.line("original flow", sizes, [1 + by_size[int(V)].ratio for V in sizes], "simulation"),
            Picture.line("1", sizes, np.ones_like(sizes)),
            Picture.line("modified flow: E' (V-1)", sizes, [by_size[int(V)].modified_beta for V in sizes], "printed"),
        ),
        yscale="log",
    )
    evidence.maps = list(common_logit_maps(evidence.level))


@dataclass(frozen=True)
class _CommonLogit:
    """Common logit at one V by three routes, and beta (V-1)/iota - 1 against its bound."""

    classes: SequenceClasses
    eta_Y: float
    t: float
    modified: float
    mean_field: float
    quadrature: float  # per unit of eta_Z
    error: float  # of the quadrature, relative
    ratio: float
    excess: float
    least: float
    modified_beta: float
    modified_excess: float

    def z(self, eta_Z: float) -> float:
        """Common logit of the mean field at another rate of attention."""
        return _last_common(MEAN_FIELD, self.classes, self.eta_Y, eta_Z, self.t)


def _last_common(rung: str, classes: SequenceClasses, eta_Y: float, eta_Z: float, t: float) -> float:
    return float(run_on_rung(rung, classes, eta_Y, eta_Z, [t], rtol=1e-10, atol=1e-16).z[0, 0, 0])


def _common_logit(classes: SequenceClasses, eta_Y: float, eta_Z: float, t_end: float) -> _CommonLogit:
    K, V = classes.num_classes, classes.vocab_size
    times = log_times(1e-2 * t_end / 414, t_end, 401)
    run = original_flow_in_span(classes, eta_Y, times)
    assert run is not None
    W, a = run.W, run.coefficients
    f = classes.decoder_inputs().toarray()
    g = np.einsum("tnk,kl->tnl", a, f)
    drift = classes.prior @ (f[:, 0] * (g[:, :, 0] - f[:, 0] * np.einsum("tnl,nl->tn", g, f))).T

    def integral(every: int) -> float:
        """z_c by Simpson in ln t; z' grows like t at first, which gives the piece below the first time."""
        t, rate = times[::every], drift[::every]
        return float(rate[0] * t[0] / 2 + simpson(rate * t, x=np.log(t)))

    z = integral(1)
    rho = float(f[0] @ f[1])
    lead = W[:, 0, 0] - W[:, 0, K]
    bound = 2 * np.expm1(rho * lead / (1 - rho)) + K / V
    excess = -a[:, 0, 1] / a[:, 0, 0] * (V - 1) - 1
    E_prime = classes.E_prime()
    return _CommonLogit(
        classes=classes,
        eta_Y=eta_Y,
        t=t_end,
        modified=_last_common(EXACT, classes, eta_Y, eta_Z, t_end),
        mean_field=_last_common(MEAN_FIELD, classes, eta_Y, eta_Z, t_end),
        quadrature=z,
        error=abs(integral(2) / z - 1),
        ratio=float(excess[-1]),
        excess=float((excess / bound).max()),
        least=float(excess.min()),
        modified_beta=float(E_prime[0, 1] * (V - 1)),
        modified_excess=float((E_prime[0, 1] * (V - 1) - 1) / bound[-1]),
    )
