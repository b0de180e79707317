"""Theorem 1(b): the logarithm of the speed control at late times."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from snapdyn import analytic
from snapdyn.dynamics import single_common_token
from snapdyn.dynamics.classes import Floats
from snapdyn.dynamics.observables import OBSERVABLES
from snapdyn.validation.claims.approximations._shared import picture_of
from snapdyn.validation.requirements import LARGE_VOCABULARY, OWN_NEXT_TOKENS, UNIFORM, WEAK_CORRELATION
from snapdyn.validation.rungs.run import CLOSED
from snapdyn.validation.statement import (
    MEAN_FIELD,
    Claim,
    Family,
    Instance,
    Measure,
    Measured,
    Property,
    Requirement,
    flow,
)

# (45) with exp(u) >= (V-1) u gives gamma eta_Y s <= 2 u and ln(V eta_Y s) >= u: Lemma 9's own factor.
CONSTANT = 2.0
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
    lambda instance: instance.prior.max() * instance.horizon / start_of_late_times(max(instance.vocab_size, 4)),
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


def gamma_over(logarithm: Callable[[Floats, int], Floats | float]) -> Measure:
    """Largest gamma_n eta_Y p_n t over a logarithm of x = eta_Y p_n t and V, over classes and late times."""

    def measure(instance: Instance) -> Measured:
        scaled, x = scaled_gamma(instance)
        return Measured((scaled / logarithm(x, instance.vocab_size)).max(), at_most=CONSTANT)

    return measure


printed_order = gamma_over(lambda x, V: np.maximum(np.log(x), 1.0))
# ln(1 + V x) is ln(V x) up to 1/(V x) and stays positive at early times, where the statement is measured as well.
corrected_order = gamma_over(lambda x, V: np.log1p(V * x))
no_logarithm = gamma_over(lambda x, V: 1.0)


def order_of_run(instance: Instance) -> Measured | None:
    """`corrected_order` with gamma_n = w_n[n] (1 - alpha_n[n]) measured in the mean field, attention moving."""
    # Y alone decides gamma: logits that are rounding (no overlap, say) need no relative accuracy.
    run = flow(instance, MEAN_FIELD, save_decoder=True, method="compiled", atol=1e-12)
    if run is None:
        return None
    x = np.multiply.outer(run.t, instance.prior) * instance.eta_Y
    late = x >= min(start_of_late_times(instance.vocab_size), x.max())
    ratio = np.where(late, OBSERVABLES["speed"].values(run) * x / np.log1p(instance.vocab_size * x), 0.0)
    return Measured(ratio.max(), at_most=CONSTANT, error=1e-6)


def at(vocab_size: float) -> Instance:
    """Five classes with one common token, slow attention, from t0 to 1e5 t0."""
    V = round(vocab_size)
    end = 1e5 * float(analytic.transition_time(5, V, 1.0, kind="end"))
    return Instance.of(single_common_token(5, 4, 0.03, V), 1.0, 1e-6, end)


CLAIM = Claim(
    "theorem1b",
    source="Theorem 1(b), Section 6",
    title="After the transition gamma = O(K ln(eta_Y t/K)/(eta_Y t))",
    statement="For t >= 2(1+omega_1) K ln V/eta_Y the speed control is O(K ln(eta_Y t/K)/(eta_Y t)). Corrected: "
    "O(K ln(V eta_Y t/K)/(eta_Y t)), as in Lemma 9, with the constant 2; the two differ by a factor that grows with "
    "ln V. With priors p_n each class has p_n t in place of t/K.",
    latex=r"\gamma=O\!\left(\frac{K\ln(\eta_Y t/K)}{\eta_Y t}\right)\ \to\ "
    r"\gamma\leq\frac{2K\ln(V\eta_Y t/K)}{\eta_Y t}",
    conditions=(
        "one constant for every V",
        "closed form: any classes; mean field: equal priors, weak correlation, own next tokens, eta_Z/eta_Y <= 0.1",
    ),
    conclusion="The logarithm must be ln(V eta_Y t/K): with the printed one no constant suffices for all V. The "
    "printed order needs {V = 100} at V = 100 and {V = 1e12} at V = 1e12, the corrected one "
    "{gamma_n eta_Y p_n t over ln(V eta_Y p_n t)} at most. Its constant 2 is approached at t0 as V grows.",
    expected="corrected",
    properties=(
        Property(
            "gamma_n eta_Y p_n t over the printed ln(eta_Y p_n t)",
            CLOSED,
            printed_order,
            SCALARS,
            conditions=(LARGE_VOCABULARY, LATE),
            evaluations=(100, 1000),
            cases={"V = 100": at(100), "V = 1e12": at(1e12)},
        ),
        Property(
            "gamma_n eta_Y p_n t over ln(V eta_Y p_n t)",
            CLOSED,
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
    proved=("late-gamma",),
    picture=lambda: picture_of(
        "V",
        np.geomspace(100, 1e12, 11),
        "largest gamma eta_Y t/K over its logarithm",
        {"ln(V eta_Y t/K)": corrected_order, "ln(eta_Y t/K), as printed": printed_order},
        at,
    ),
    findings=("F8",),
)
