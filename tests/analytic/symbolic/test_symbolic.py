"""The formulas behind the proofs, evaluated, against independent computations.

References: the recursion (33) run step by step, roots of (45) at 50 digits, dense linear algebra, complex steps.
"""

from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from snapdyn.analytic.symbolic import derivations
from tests.analytic.mpmath_reference import root, scaled_h

BY_ID = {derivation.id: derivation for derivation in derivations()}


def value(id_: str, **values: float) -> float:
    """Return the right-hand side of a derivation in numbers, symbols by name."""
    expression = BY_ID[id_].statement.rhs
    return float(expression.subs({symbol: values[symbol.name] for symbol in expression.free_symbols}).evalf(30))


SMALL, LARGE = (0.8, 50, 3.0), (1.3, 2000, 400.0)  # eta_Y, V, visits: before and after the transition


@pytest.mark.parametrize(("eta_Y", "V", "s"), [SMALL, LARGE])
@pytest.mark.parametrize(
    ("id_", "reference"),
    [
        ("h-early-stage", lambda u, V: u / V),
        ("h-late-stage", lambda u, V: u / V),
        ("gamma-early-stage", lambda u, V: (V - 1) ** 2 / V * u / (V - 1 + mp.exp(u))),
        ("gamma-late-stage", lambda u, V: (V - 1) ** 2 / V * u / (V - 1 + mp.exp(u))),
    ],
)
def test_the_stages_of_lemma_9_are_identities(
    id_: str, reference: Callable[..., Any], eta_Y: float, V: int, s: float
) -> None:
    """Assert that (53), (54), (56), (57) give h and gamma at the root of (45), before and after the transition."""
    u = scaled_h(s, eta_Y, V)
    assert value(id_, u=u, V=V, eta_Y=eta_Y, s=s) == pytest.approx(float(reference(u, V)), rel=1e-12)


@pytest.mark.parametrize("V", [4, 5, 100, 10**6])
def test_the_first_stage_outlasts_ln_V_from_five_outputs_on(V: int) -> None:
    """Assert that (52) is the s of (45) at exp(V h) = V-1, and exceeds ln V/eta_Y for V >= 5 only."""
    s = value("first-stage", V=V, eta_Y=0.6)
    assert float(scaled_h(s, 0.6, V)) == pytest.approx(np.log(V - 1), rel=1e-12)
    assert (s > np.log(V) / 0.6) == (V >= 5)


@pytest.mark.parametrize("V", [100, 10**4])
def test_omega_0_is_the_smaller_root(V: int) -> None:
    """Assert that V^(omega_0 - 1) solves exp(u) = (V-1) u below its minimum, and that omega_0 < 0.01."""
    with mp.workdps(30):
        smaller = root(lambda u: (V - 1) * u - mp.exp(u), mp.mpf(0), mp.log(V - 1))
    omega_0 = value("omega-0", V=V)
    assert V ** (omega_0 - 1) == pytest.approx(float(smaller), rel=1e-12)
    assert omega_0 < 0.01


def test_h_at_the_ends_of_the_pieces() -> None:
    """Assert that V h misses ln V by W(1) at t0', and that ln(V eta_Y t0) exceeds V h by ln 2, as V grows."""
    early, late = [], []
    for V in (1e4, 1e8, 1e12):
        early.append(np.log(V) - float(scaled_h(float(np.log(V)), 1.0, V)))
        with mp.workdps(30):
            upper = root(lambda u, V=V: mp.exp(u) - (V - 1) * u, mp.log(V - 1), 3 * mp.log(V))
        t0 = 2 * upper
        late.append(float(mp.log(V * t0) - scaled_h(float(t0), 1.0, V)))
    # Corrections: exp(-x) = x (1 - ln V/V) early, O(1/V) late.
    np.testing.assert_allclose(early, value("early-end"), atol=1e-3)
    np.testing.assert_allclose(early[1:], value("early-end"), atol=1e-6)
    np.testing.assert_allclose(late, [value("late-start", V=V) for V in (1e4, 1e8, 1e12)], atol=3e-4)


def test_visits_until_an_error_are_a_sum_not_a_product() -> None:
    """Assert that the error reaches epsilon after the derived visits; the product in (73) is 13.6 times that."""
    V, eta_Y, epsilon = 1000, 0.5, 1e-3
    s = value("visits-to-error", V=V, eta_Y=eta_Y, epsilon=epsilon)
    u = float(scaled_h(s, eta_Y, V))
    error = (V - 1) / (V - 1 + np.exp(u)) * np.sqrt(V / (V - 1))
    # exp(V h) = V/epsilon makes the norm epsilon up to 1/V and epsilon.
    assert error == pytest.approx(epsilon, rel=2e-3)
    assert np.log(V / epsilon) / (epsilon * eta_Y) / s == pytest.approx(13.6, abs=0.05)
