"""Limits of many classes: the growth exponent, attention before the transition; equations, limits, refusals."""

import mpmath
import numpy as np
import pytest
import sympy as sp
from scipy.integrate import solve_ivp

from snapdyn.analytic import (
    early_common_logit_of_many_classes,
    growth_exponent_of_many_classes,
    turn_of_distinct_tokens_of_many_classes,
)


def test_it_solves_the_equation_of_the_limit() -> None:
    """Assert by sympy that dB/dx = w^-2/(4K (1 + q/w)), w = exp(2 K B), and B = 0 at x = 0; control: without q."""
    x, q, K = sp.symbols("x q K", positive=True)
    w = sp.sqrt((1 + q) ** 2 + x) - q
    B = sp.log(w) / (2 * K)
    assert sp.simplify(sp.diff(B, x) - 1 / (4 * K * w**2 * (1 + q / w))) == 0
    assert sp.simplify(B.subs(x, 0)) == 0
    assert sp.simplify(sp.diff(B, x) - 1 / (4 * K * w**2)) != 0
    value = float(B.subs({x: 3.0, q: 2.0, K: 50}))
    assert growth_exponent_of_many_classes(3.0, 50, 5.0) == pytest.approx(value, rel=1e-13)


@pytest.mark.parametrize("ratio", [1e-2, 1e2, 1e4, 1e6])
def test_early_common_logit_solves_its_equation(ratio: float) -> None:
    """Assert the limit's rate equation by scipy, and the integral as a hypergeometric function at 30 digits.

    Control: without the decoder's memory the logit is another one where attention is fast.
    """
    K, V, u, f = 10**6, 10**9, 0.1, 0.6
    b, kappa = f**2 * (1 - f**2), K / V

    def rate(u: float, state: np.ndarray) -> list[float]:
        fall = ratio * b * (kappa * u - state[1])
        return [fall, u * fall]

    solution = solve_ivp(rate, (0, u), [0.0, 0.0], rtol=1e-10, atol=1e-18, method="LSODA").y[0, -1]
    found = early_common_logit_of_many_classes(u * K, 1.0, ratio / K, K, V, f)
    assert found == pytest.approx(-solution, rel=1e-6)
    x = mpmath.mpf(u) * mpmath.sqrt(ratio * b / 2)
    assert found == pytest.approx(float(-kappa * x**2 * mpmath.hyp2f2(1, 1, 1.5, 2, -(x**2))), rel=1e-8)
    assert bool(found == pytest.approx(float(-kappa * x**2), rel=1e-3)) == (ratio < 1)
    if x > 20:
        assert found == pytest.approx(float(-kappa * (mpmath.log(2 * x) + mpmath.euler / 2)), rel=1e-3)


def test_turn_of_distinct_tokens_is_where_their_rate_vanishes() -> None:
    """Assert by scipy that c_k I reaches (K/V) <c> u at the turn, and that classes of equal profiles never turn."""
    c, shares = np.array([0.2, 0.5, 0.8]), np.array([0.5, 0.3, 0.2])
    a, b, mean = (float(np.sum(shares * part)) for part in (c * (1 - c**2), c**2 * (1 - c**2), c))
    turns = turn_of_distinct_tokens_of_many_classes(c, shares)
    assert np.isfinite(turns).tolist() == (c > b / a).tolist() == [False, True, True]
    # On the clock v = sqrt(K eta_Z/eta_Y) u, over K/V: y' = <c> a v - b I, I' = v y'.
    end = float(np.sqrt(turns[2]))
    solution = solve_ivp(lambda v, I: v * (mean * a * v - b * I), (0, end), [0.0], rtol=1e-10, atol=1e-12)
    assert c[2] * solution.y[0, -1] == pytest.approx(mean * end, rel=1e-7)
    assert c[1] * solution.y[0, -1] < mean * end
    assert turns[1] > turns[2]
    assert turns[2] > 1.1 * 3 / (a * c[2])  # control: memory slows the common token
    assert np.isinf(turn_of_distinct_tokens_of_many_classes([0.4, 0.4, 0.4])).all()
