"""The clock of Eq. (10): priors of the classes, and the steps of SGD."""

from __future__ import annotations

import numpy as np

from snapdyn.dynamics import log_times, single_common_token, whole_run
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.dense_algebra import dense_attention, modified_decoder_gradient
from snapdyn.validation.evidence import Evidence
from snapdyn.validation.pictures import Picture
from snapdyn.validation.properties import Measured, Property
from snapdyn.validation.register import claim
from snapdyn.validation.requirements import INDEPENDENT_ATTENTION, OVERLAPPING, OWN_NEXT_TOKENS, SEVERAL_CLASSES
from snapdyn.validation.rungs import ladder
from snapdyn.validation.rungs.run import EXACT, MODIFIED, SGD, run_on_rung, system_on_rung
from snapdyn.validation.search import Family, Instance
from snapdyn.validation.search.flows import most_evaluations

DOMAIN = Family(
    "Eq. (10), any priors",
    "any",
    uniform=False,
    num_classes=(2, 6),
    vocab_size=(2, 10**6),
    ratio=(1e-3, 1e1),
    horizon=(1e0, 1e4),
    eta_Y=(1e-6, 1e6),
)
# A central difference over this relative step errs by its square; the solver's error is divided by it.
STEP = 3e-3
ALLOWED = 1e-3


def update_at_end(instance: Instance, weight: Floats) -> tuple[Floats, Floats, float] | None:
    """Slope dz/dt (Q, M) of a run of Eq. (10) near t_end, and the weighted sum over classes of the update of one step.

    The update is that of (4) when class n is drawn, T infinite, with Y of the modified flow, by dense linear algebra.
    Both are multiplied by t. The last number is the size of the largest term.
    """
    end = instance.t_end
    key = ("slope", STEP)
    if key not in instance.runs:
        times = end * np.array([1 - STEP, 1.0, 1 + STEP])
        system = system_on_rung(EXACT, instance.classes, instance.eta_Y, instance.eta_Z, z_initial=instance.start)
        try:
            allowed = most_evaluations(system.size, compiled=False)
            instance.runs[key] = whole_run(
                system, times, method="LSODA", rtol=1e-11, atol=1e-18, most_evaluations=allowed
            )
        except RuntimeError:
            instance.runs[key] = None
    run = instance.runs[key]
    if run is None:
        return None
    z, h = run.z[1], run.extra["h"][1]
    classes = instance.classes
    g = modified_decoder_gradient(classes, z, h)
    _, f = dense_attention(classes, z)
    updates = instance.eta_Z * f * (g - f * (f * g).sum(axis=1, keepdims=True))
    total = np.zeros_like(z)
    np.add.at(total, classes.query_index, weight[:, None] * updates)
    slope = (run.z[2] - run.z[0]) / (2 * STEP)
    # Solver and rounding: 1e-11 of the logits over the step.
    return slope, end * total, float(np.abs(end * total).max()) + 1e-4 * float(np.abs(run.z).max())


def _difference(instance: Instance, weight: Floats) -> Measured | None:
    found = update_at_end(instance, weight)
    if found is None:
        return None
    slope, update, scale = found
    return Measured(float(np.abs(slope - update).max()) / scale, at_most=ALLOWED)


def mean_update(instance: Instance) -> Measured | None:
    """dz/dt of Eq. (10) with p_n against the mean over the drawn class of one step's update."""
    return _difference(instance, instance.prior)


def plain_sum(instance: Instance) -> Measured | None:
    """The printed plain sum over classes: the updates of a round of K steps, in one step."""
    return _difference(instance, np.ones(instance.num_classes))


def squared_priors(instance: Instance) -> Measured | None:
    """Wrong theory: the prior twice, in the class's gamma as s = p_n t and again in its weight on top of p_n."""
    return _difference(instance, instance.prior**2)


@claim(
    "clock",
    source="Eq. (10), Theorem 4",
    title="Attention follows Eq. (10) on the clock of the training steps",
    answer="Each class needs its prior p_n: for equal priors, Eq. (10) as printed runs K times faster than SGD.",
    statement="Attention follows Eq. (10), a plain sum over classes, on the clock t of the training steps on which "
    "gamma takes s = t/K. Corrected: each class carries its prior p_n; without it (10) runs K times faster than SGD.",
    latex=r"\dot z_m=\eta_Z\gamma\sum_{n}f_n\circ\dots\ \to\ \dot z_m=\eta_Z\gamma\sum_{n}p_n\,f_n\circ\dots",
    expected="corrected",
    assumptions=(
        "any classes with next tokens of their own: the mean over the drawn class of one step's update under (8)",
        "SGD itself: V E' small, so that the modified decoder moves attention as the original flow does; small rates",
    ),
    findings=("F7",),
    properties=(
        Property(
            "slope of z in Eq. (10) with p_n against the mean update of one step",
            MODIFIED,
            mean_update,
            DOMAIN,
            conditions=(OWN_NEXT_TOKENS, SEVERAL_CLASSES, OVERLAPPING, INDEPENDENT_ATTENTION),
            controls={"wrong theory: p_n squared": squared_priors},
            evaluations=(60, 3000),
            corrected=True,
        ),
        Property(
            "slope of z in Eq. (10) with p_n against the plain sum over classes, as printed",
            MODIFIED,
            plain_sum,
            DOMAIN,
            conditions=(OWN_NEXT_TOKENS, SEVERAL_CLASSES, OVERLAPPING, INDEPENDENT_ATTENTION),
            evaluations=(20, 200),
            directed=False,
        ),
    ),
)
def clock(evidence: Evidence) -> None:
    K, eta = 5, 0.05
    # V = K: V E' = 0.03 here, and beta of the modified flow exceeds that of the original one by that share.
    classes = single_common_token(K, 5, 0.04, K)
    steps = ladder(classes, eta, eta, log_times(10, 4000, 30), seeds=400 if evidence.full else 40, batch_size=1)
    per_round = steps.with_rung(EXACT, run_on_rung(EXACT, classes, eta, K * eta, steps.t))
    slower = steps.with_rung(EXACT, run_on_rung(EXACT, classes, eta, eta / K, steps.t))
    bound = classes.vocab_size * float(classes.E_prime()[0, 1]) + eta
    right, wrong, squared = (
        float(rungs.compare(SGD, EXACT).resolved.sel(observable="z").max()) for rungs in (steps, per_round, slower)
    )
    evidence.holds("SGD against (10) as printed, z, beyond the seeds' noise", SGD, wrong, at_most=bound)
    evidence.corrected(
        "SGD against (10) with p_n, z, beyond the seeds' noise: bound V E' + eta", SGD, right, at_most=bound
    )
    evidence.control("wrong theory: p_n squared, SGD against it, z", SGD, squared, at_most=bound)
    z = {name: rungs[EXACT].observables["z"] for name, rungs in (("with", steps), ("without", per_round))}
    ratio = float(z["without"][0, 0] / z["with"][0, 0])
    evidence.corrected(
        "|early z without p_n over z with p_n - K|/K",
        MODIFIED,
        abs(ratio / K - 1),
        # The drift depends on z through exp(2 z), so the ratio strays from K by the order of z.
        at_most=2 * float(np.abs(z["without"][0]).max()),
    )
    named = per_round.first_break(0.2)
    evidence.corrected(
        "the ladder names this rung when (10) is put in without p_n (1: yes)",
        MODIFIED,
        float(named is not None and named.rung == EXACT),
        at_least=1.0,
    )
    faster = float(z["without"][0, 0] / steps[SGD].observables["z"][0, 0])
    evidence.conclusion = (
        f"With p_n, (10) stays within {right:.1%} of the mean of SGD (K = V = 5). As printed it runs {ratio:.3f} times "
        f"too fast: at t = {steps.t[0]:g} its common logit is {faster:.1f} times that of SGD."
    )
    evidence.picture = Picture(
        "t (batch-size-1 steps)",
        "common logit",
        (
            Picture.line("Eq. (10) with p_n", steps.t, z["with"][:, 0]),
            Picture.line("Eq. (10) as printed", steps.t, z["without"][:, 0], "printed"),
            Picture.line("SGD, mean of the seeds", steps.t, steps[SGD].observables["z"][:, 0], "simulation"),
        ),
    )
