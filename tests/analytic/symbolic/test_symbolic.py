"""The formulas behind the proofs, evaluated, against independent computations.

References: roots of (45) at 50 digits.
"""

import mpmath as mp
import numpy as np
import pytest

from snapdyn.analytic.symbolic import derivation_of
from tests.analytic.mpmath_reference import root, scaled_h


def value(id_: str, **values: float) -> float:
    """Return the right-hand side of a derivation in numbers, symbols by name."""
    expression = derivation_of(id_).statement.rhs
    return float(expression.subs({symbol: values[symbol.name] for symbol in expression.free_symbols}).evalf(30))


@pytest.mark.parametrize("V", [4, 5, 100, 10**6])
def test_the_first_stage_outlasts_ln_V_from_five_outputs_on(V: int) -> None:
    """Assert that (52) is the s of (45) at exp(V h) = V-1, and exceeds ln V/eta_Y for V >= 5 only."""
    s = value("first-stage", V=V, eta_Y=0.6)
    assert float(scaled_h(s, 0.6, V)) == pytest.approx(np.log(V - 1), rel=1e-12)
    assert (s > np.log(V) / 0.6) == (V >= 5)


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


def test_limits_of_the_first_gaps() -> None:
    """Assert V rho and 1/(1 + V rho) for V >> K, and at V = K the gaps rho/(1 - rho) and 0 for many classes."""
    for K, V, rho, modified, leading in ((10, 1e12, 0.6e-12, 0.6, 1 / 1.6), (1e8, 1e8, 0.1, 1 / 9, 0)):
        assert value("first-gap-modified", K=K, V=V, rho=rho) == pytest.approx(modified, rel=1e-6)
        assert -value("gap-leading", V=V, rho=rho) == pytest.approx(leading, abs=1e-6)
