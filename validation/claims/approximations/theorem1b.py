"""Theorem 1(b): the logarithm of the speed control at late times."""

from __future__ import annotations

import math

import numpy as np

from snapdyn import analytic
from snapdyn.dynamics import single_common_token
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.evidence import Evidence
from snapdyn.validation.pictures import Picture
from snapdyn.validation.properties import Measured, Property, Requirement
from snapdyn.validation.register import claim
from snapdyn.validation.requirements import LARGE_VOCABULARY, OWN_NEXT_TOKENS, UNIFORM, WEAK_CORRELATION
from snapdyn.validation.rungs import ladder
from snapdyn.validation.rungs.observables import decoder_observables
from snapdyn.validation.rungs.run import CLOSED, MEAN_FIELD, MODIFIED, ORIGINAL
from snapdyn.validation.search import Family, Instance, flow

# (45) with exp(u) >= (V-1) u gives gamma eta_Y s <= 2 u and ln(V eta_Y s) >= u: Lemma 9's own factor.
CONSTANT = 2.0
SLOW = 1e-6  # eta_Z/eta_Y at which the mean field stands for frozen attention
SCALARS = Family(
    "decoder, late times",
    "any",
    uniform=False,
    num_classes=(1, 6),
    num_common=(0, 3),
    vocab_size=(4, 10**12),
    ratio=(1e-6, 1e6),
    horizon=(1e-2, 1e12),
    eta_Y=(1e-6, 1e6),
    shared_next_tokens=True,
)
RUNS = Family(
    "mean field, late times",
    num_classes=(1, 6),
    num_common=(0, 3),
    num_distinct=(0, 4),
    vocab_size=(4, 10**6),
    ratio=(1e-6, 1e-1),
    horizon=(1e2, 1e6),
    eta_Y=(1e-2, 1e2),
)


def start_of_late_times(vocab_size: int) -> float:
    """2(1+omega_1) ln V: eta_Y s from which the statement speaks, s = p_n t visits of the class."""
    return float(2 * analytic.u_plus(vocab_size))


LATE = Requirement(
    "late",
    "eta_Y p_n t >= 2(1+omega_1) ln V for some class",
    lambda instance: float(instance.prior.max()) * instance.horizon / start_of_late_times(max(instance.vocab_size, 4)),
    at_least=1,
)


def scaled_gamma(instance: Instance) -> tuple[Floats, Floats]:
    """gamma_n eta_Y s and eta_Y s, s = p_n t, from the start of late times to t_end in 40 steps; at t_end if before."""
    V, start = instance.vocab_size, start_of_late_times(instance.vocab_size)
    ends = instance.prior * instance.horizon
    ends = ends[ends >= start] if ends.max() >= start else ends.max(keepdims=True)
    x = np.concatenate([np.geomspace(min(start, end), end, 40) for end in ends])
    # gamma depends on eta_Y and s through eta_Y s only.
    return analytic.gamma(x, 1.0, V, 1) * x, x


def corrected_order(instance: Instance) -> Measured:
    """Largest gamma_n eta_Y p_n t/ln(V eta_Y p_n t) over classes and late times."""
    scaled, x = scaled_gamma(instance)
    # ln(1 + V x) is ln(V x) up to 1/(V x) and stays positive at early times, where the statement is measured as well.
    return Measured(float((scaled / np.log1p(instance.vocab_size * x)).max()), at_most=CONSTANT)


def printed_order(instance: Instance) -> Measured:
    """The same with the printed ln(eta_Y p_n t)."""
    scaled, x = scaled_gamma(instance)
    return Measured(float((scaled / np.log(np.maximum(x, math.e))).max()), at_most=CONSTANT)


def no_logarithm(instance: Instance) -> Measured:
    """Wrong theory gamma = O(1/(eta_Y p_n t)), the rate at which 1 - alpha falls."""
    return Measured(float(scaled_gamma(instance)[0].max()), at_most=CONSTANT)


def order_of_run(instance: Instance) -> Measured | None:
    """`corrected_order` with gamma_n = w_n[n] (1 - alpha_n[n]) measured in the mean field, attention moving."""
    # Y alone decides gamma: logits that are rounding (no overlap, say) need no relative accuracy.
    run = flow(instance, MEAN_FIELD, save_decoder=True, method="compiled", atol=1e-12)
    if run is None:
        return None
    x = np.multiply.outer(run.t, instance.prior) * instance.eta_Y
    late = x >= min(start_of_late_times(instance.vocab_size), float(x.max()))
    ratio = np.where(late, decoder_observables(run)["speed"] * x / np.log1p(instance.vocab_size * x), 0.0)
    i, n = np.unravel_index(int(ratio.argmax()), ratio.shape)
    return Measured(float(ratio[i, n]), at_most=CONSTANT, error=1e-6, where=f"class {n} at t = {run.t[i]:.3g}")


@claim(
    "theorem1b",
    source="Theorem 1(b), Section 6",
    title="After the transition gamma = O(K ln(eta_Y t/K)/(eta_Y t))",
    answer="The logarithm must be ln(V eta_Y t/K): with the printed one no constant suffices for all V.",
    statement="For t >= 2(1+omega_1) K ln V/eta_Y the speed control is O(K ln(eta_Y t/K)/(eta_Y t)). Corrected: "
    "O(K ln(V eta_Y t/K)/(eta_Y t)), as in Lemma 9, with the constant 2; the two differ by a factor that grows with "
    "ln V. With priors p_n each class has p_n t in place of t/K.",
    latex=r"\gamma=O\!\left(\frac{K\ln(\eta_Y t/K)}{\eta_Y t}\right)\ \to\ "
    r"\gamma\leq\frac{2K\ln(V\eta_Y t/K)}{\eta_Y t}",
    expected="corrected",
    assumptions=(
        "one constant for every V",
        "closed form: any classes; mean field: equal priors, weak correlation, own next tokens, eta_Z/eta_Y <= 0.1",
    ),
    findings=("F8",),
    properties=(
        Property(
            "gamma_n eta_Y p_n t over the printed ln(eta_Y p_n t)",
            "closed form",
            printed_order,
            SCALARS,
            conditions=(LARGE_VOCABULARY, LATE),
            evaluations=(100, 1000),
        ),
        Property(
            "gamma_n eta_Y p_n t over ln(V eta_Y p_n t)",
            "closed form",
            corrected_order,
            SCALARS,
            conditions=(LARGE_VOCABULARY, LATE),
            controls={"wrong theory: no logarithm": no_logarithm},
            evaluations=(400, 40000),
            corrected=True,
        ),
        Property(
            "the same, gamma_n measured on the run",
            MEAN_FIELD,
            order_of_run,
            RUNS,
            conditions=(LARGE_VOCABULARY, OWN_NEXT_TOKENS, LATE, UNIFORM, WEAK_CORRELATION),
            evaluations=(40, 1000),
            corrected=True,
        ),
    ),
)
def theorem1b(evidence: Evidence) -> None:
    evidence.proved("late-gamma", corrected=True)
    K, eta = 5, 1.0
    sizes = 10.0 ** np.arange(2, 13, 1 if evidence.full else 5)
    rungs = (CLOSED, MODIFIED, ORIGINAL, MEAN_FIELD)
    printed: dict[str, list[float]] = {rung: [] for rung in rungs}
    corrected: dict[str, list[float]] = {rung: [] for rung in rungs}
    for V in sizes:
        classes = single_common_token(K, 4, 0.03, int(V))
        end = float(analytic.transition_time(K, V, eta, kind="end"))
        t = np.geomspace(end, 1e5 * end, 60)
        flows = ladder(classes, eta, SLOW * eta, t, seeds=0, max_steps=1, branch="decoder")
        s = eta * t / K
        for rung in rungs:
            gamma = flows[rung].observables["speed"][:, 0]
            printed[rung].append(float(np.max(gamma * s / np.log(s))))
            corrected[rung].append(float(np.max(gamma * s / np.log(V * s))))
    span = f"V = 1e2..{sizes[-1]:.0e}, K = 5"
    for rung in rungs:
        evidence.holds(f"constant of the printed order, {span}", rung, max(printed[rung]), at_most=CONSTANT)
        evidence.corrected(f"constant of the corrected order, {span}", rung, max(corrected[rung]), at_most=CONSTANT)
    evidence.corrected(
        "smallest constant of the corrected order: it is attained", ORIGINAL, min(corrected[ORIGINAL]), at_least=0.5
    )
    evidence.conclusion = (
        f"On the original flow, from V = 1e2 to {sizes[-1]:.0e}, the printed order needs a constant that grows from "
        f"{printed[ORIGINAL][0]:.2f} to {printed[ORIGINAL][-1]:.2f}; that of the corrected one stays within "
        f"[{min(corrected[ORIGINAL]):.2f}, {max(corrected[ORIGINAL]):.2f}]. The constant 2 is the supremum: it is "
        "approached at t0 as V grows."
    )
    shift = np.log(sizes)
    evidence.picture = Picture(
        "ln V",
        "largest gamma eta_Y t/K over the logarithm, t >= t0",
        (
            Picture.line("ln(V eta_Y t/K), closed form", shift, corrected[CLOSED]),
            Picture.line("ln(V eta_Y t/K), original flow", shift, corrected[ORIGINAL], "simulation"),
            Picture.line("ln(eta_Y t/K), as printed", shift, printed[ORIGINAL], "printed"),
        ),
        xscale="linear",
    )
