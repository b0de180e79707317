"""Lemma 6: h in continuous time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from snapdyn import analytic
from snapdyn.dynamics import log_times
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.claims.decoder._shared import SCALARS, SOLVER_ERROR
from snapdyn.validation.dense_algebra import IDENTITY_ERROR
from snapdyn.validation.evidence import Evidence
from snapdyn.validation.pictures import Picture
from snapdyn.validation.properties import Measured, Property
from snapdyn.validation.register import claim
from snapdyn.validation.search import Instance
from snapdyn.validation.search.flows import limited

# u = V h of each class from eta_Y p_n t (S,) and V.
Law = Callable[[Floats, float], Floats]


def implicit(tau: Floats, vocab_size: float) -> Floats:
    """Root u of (45), from the evaluator."""
    return vocab_size * analytic.h(tau, 1.0, vocab_size)


def without_one(tau: Floats, vocab_size: float) -> Floats:
    """Wrong theory: root of exp(u) + (V-1) u = V eta_Y s, without the 1, which is h at s - 1/(V eta_Y)."""
    return implicit(np.maximum(tau - 1 / vocab_size, 0.0), vocab_size)


def logarithm(tau: Floats, vocab_size: float) -> Floats:
    """Wrong theory: u = ln(V eta_Y s + 1), (45) without its linear term."""
    return np.asarray(np.log1p(vocab_size * tau))


def solved(tau: float, vocab_size: float) -> float | None:
    """u at eta_Y s = tau by scipy's LSODA on du/dtau = V/(V-1+exp(u)); None if it fails."""
    from scipy.integrate import solve_ivp

    def slope(_: float, u: Floats) -> Floats:
        decay = np.exp(-u)
        return np.asarray(vocab_size * decay / ((vocab_size - 1) * decay + 1))

    # The solver's own steps: its dense output is of lower order.
    run = solve_ivp(limited(slope, 1), (0.0, tau), [0.0], method="LSODA", rtol=1e-11, atol=1e-14 * min(tau, 1.0))
    return float(run.y[0, -1]) if run.success else None


def against_solver(law: Law) -> Callable[[Instance], Measured | None]:
    """Largest relative distance of the law at p_n t_end from the solution of (44)."""

    def measure(instance: Instance) -> Measured | None:
        V, tau = float(instance.vocab_size), instance.flow_rates[0] * instance.prior * instance.t_end
        rarest_and_most = np.array([tau.min(), tau.max()])
        u = [solved(float(end), V) for end in rarest_and_most]
        if None in u:
            return None
        distance = np.abs(law(rarest_and_most, V) / np.array(u, dtype=float) - 1)
        worst = int(distance.argmax())
        where = f"eta_Y p_n t = {rarest_and_most[worst]:.3g}"
        return Measured(float(distance[worst]), at_most=SOLVER_ERROR, where=where)

    return measure


def against_50_digits(law: Law) -> Callable[[Instance], Measured]:
    """Largest relative distance of the law at p_n t_end from the root of (45) at 50 digits."""

    def measure(instance: Instance) -> Measured:
        V, tau = float(instance.vocab_size), float(instance.flow_rates[0] * instance.prior.max() * instance.t_end)
        u = float(law(np.array([tau]), V)[0])
        return Measured(_distance(u, tau, V), at_most=IDENTITY_ERROR, where=f"eta_Y p_n t = {tau:.3g}")

    return measure


def _distance(u: float, tau: float, vocab_size: float) -> float:
    """|u/root - 1|, the root of expm1(u) + (V-1) u = V tau by Newton at 50 digits."""
    import mpmath

    with mpmath.workdps(50):
        V, y = mpmath.mpf(vocab_size), mpmath.mpf(vocab_size) * mpmath.mpf(tau)
        # The left side is convex and at least V u and expm1(u): Newton from there falls to the root.
        root = min(y / V, mpmath.log1p(y))
        for _ in range(200):
            step = (mpmath.expm1(root) + (V - 1) * root - y) / (mpmath.exp(root) + V - 1)
            root -= step
            if abs(step) < abs(root) * mpmath.mpf(10) ** -40:
                break
        return float(abs(mpmath.mpf(u) / root - 1))


@claim(
    "lemma6",
    source="Lemma 6, Eqs. (44)-(45)",
    title="Continuous h solves exp(V h) + (V-1) V h = V eta_Y s + 1",
    answer="Holds; solved for h, it is a closed form with the Wright omega function.",
    statement="dh/ds = eta_Y/(V-1+exp(V h)) with h(0) = 0 gives exp(V h) + (V-1) V h = V eta_Y s + 1.",
    latex=r"\dot h=\frac{\eta_Y}{V-1+e^{Vh}},\quad e^{Vh}+(V-1)Vh=V\eta_Y s+1",
    grade="proved",
    properties=(
        Property(
            "V h by (45) at p_n t against scipy's LSODA on (44), relative",
            "frozen decoder",
            against_solver(implicit),
            SCALARS,
            controls={
                "wrong theory: exp(V h) + (V-1) V h = V eta_Y s, without the 1": against_solver(without_one),
                "wrong theory: V h = ln(V eta_Y s + 1)": against_solver(logarithm),
            },
            evaluations=(60, 3000),
            directed=False,
        ),
        Property(
            "V h of the evaluator at p_n t against the root of (45) at 50 digits, relative",
            "closed form",
            against_50_digits(implicit),
            SCALARS,
            controls={"wrong theory: (45) without the 1": against_50_digits(without_one)},
            evaluations=(200, 10_000),
            directed=False,
        ),
    ),
)
def lemma6(evidence: Evidence) -> None:
    evidence.proved("h-implicit", "h-closed")
    evidence.certified("h-increasing")
    evidence.conclusion = "Holds; the closed form is V h = A - omega(A - ln(V-1)), A = (V eta_Y s + 1)/(V-1)."
    visits = log_times(1e-2, 1e4, 60)
    evidence.picture = Picture(
        "s (visits of the class)",
        "V h, V = 1000, eta_Y = 1",
        (
            Picture.line("closed form", visits, implicit(visits, 1000)),
            Picture.line(
                "LSODA on the ODE", visits, np.array([solved(s, 1000) for s in visits], dtype=float), "simulation"
            ),
        ),
    )
