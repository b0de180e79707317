"""Lemma 6: h in continuous time."""

from collections.abc import Callable
from functools import partial

import numpy as np

from snapdyn import analytic
from snapdyn.validation.claims.decoder._shared import SCALARS, SOLVER_ERROR
from snapdyn.validation.claims.language import IDENTITY_ERROR, Claim, Floats, Instance, Measured, Property, by_scipy

# u = V h of each class from eta_Y p_n t (S,) and V.
Law = Callable[..., Floats]


def implicit(tau: Floats, vocab_size: float) -> Floats:
    """Root u of (45), as `analytic.h` computes it."""
    return vocab_size * analytic.h(tau, 1.0, vocab_size)


def without_one(tau: Floats, vocab_size: float) -> Floats:
    """Wrong theory: root of exp(u) + (V-1) u = V eta_Y s, without the 1; this is V h at s - 1/(V eta_Y)."""
    return implicit(np.maximum(tau - 1 / vocab_size, 0.0), vocab_size)


def solved(tau: float, vocab_size: float) -> float:
    """u at eta_Y s = tau by scipy's LSODA on du/dtau = V/(V-1+exp(u))."""

    def slope(_: float, u: Floats) -> Floats:
        decay = np.exp(-u)
        return vocab_size * decay / ((vocab_size - 1) * decay + 1)

    # The solver's own steps: its dense output is of lower order.
    return float(by_scipy(slope, tau, np.zeros(1), rtol=1e-11, atol=1e-14 * min(tau, 1.0))[-1, 0])


def against_solver(instance: Instance, law: Law = implicit) -> Measured:
    """Largest relative distance of the law from the solution of (44) at p_n t_end, rarest and most frequent class."""
    V = float(instance.vocab_size)
    tau = instance.flow_rates[0] * np.quantile(instance.prior, (0, 1)) * instance.t_end
    distance = np.abs(law(tau, V) / [solved(float(end), V) for end in tau] - 1)
    i = distance.argmax()
    return Measured(distance[i], at_most=SOLVER_ERROR, where=f"eta_Y p_n t = {tau[i]:.3g}")


def against_50_digits(instance: Instance, law: Law = implicit) -> Measured:
    """Relative distance of the law at p_n t_end from the root of (45), by one step of Newton's method at 50 digits.

    The error of the step is of the order of the square of this distance.
    """
    import mpmath

    V, tau = float(instance.vocab_size), float(instance.flow_rates[0] * instance.prior.max() * instance.t_end)
    with mpmath.workdps(50):
        u = mpmath.mpf(float(law(np.array([tau]), V)[0]))
        step = (mpmath.expm1(u) + (V - 1) * u - mpmath.mpf(V) * tau) / (mpmath.exp(u) + V - 1)
        distance = float(abs(step / (u - step)))
    return Measured(distance, at_most=IDENTITY_ERROR, where=f"eta_Y p_n t = {tau:.3g}")


CLAIM = Claim(
    "lemma6",
    under_rules="Under sign descent and Adam the transition comes without the factor K: see sign-transition",
    source="Lemma 6, Eqs. (44)-(45)",
    title="In continuous time, the size of the logits of a class solves one equation in its visits",
    statement="dh/ds = eta_Y/(V-1+exp(V h)) with h(0) = 0 gives exp(V h) + (V-1) V h = V eta_Y s + 1.",
    latex=r"\dot h=\frac{\eta_Y}{V-1+e^{Vh}},\quad e^{Vh}+(V-1)Vh=V\eta_Y s+1",
    conclusion="Holds; solved for h, it is a closed form with the Wright omega function: V h = A - omega(A - ln(V-1)), "
    "A = (V eta_Y s + 1)/(V-1).",
    grade="proved",
    properties=(
        Property(
            "V h by (45) at p_n t against scipy's LSODA on (44), relative",
            "frozen decoder",
            against_solver,
            SCALARS,
            controls={
                "wrong theory: exp(V h) + (V-1) V h = V eta_Y s, without the 1": partial(
                    against_solver, law=without_one
                ),
                "wrong theory: V h = ln(V eta_Y s + 1)": partial(against_solver, law=lambda tau, V: np.log1p(V * tau)),
            },
            evaluations=(60, 2000),
            directed=False,
        ),
        Property(
            "V h of the evaluator at p_n t against the root of (45) at 50 digits, relative",
            "closed form",
            against_50_digits,
            SCALARS,
            controls={"wrong theory: (45) without the 1": partial(against_50_digits, law=without_one)},
            directed=False,
        ),
    ),
    proved=("h-implicit", "h-closed"),
    certified=("h-increasing",),
)
