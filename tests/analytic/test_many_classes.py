"""The growth exponent in the limit of many classes: its equation, its limits, refusals."""

import numpy as np
import pytest
import sympy as sp

from snapdyn.analytic import growth_exponent_of_many_classes
from snapdyn.errors import InputError


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


@pytest.mark.parametrize("q", [1e-3, 1.0, 1e3])
def test_limits(q: float) -> None:
    """Assert x/(4K(1+q)) for small x, and ln(1+x)/(4K) for x far above (1+q)^2."""
    K, rho0 = 10**9, np.sqrt(10**9 / q)
    assert growth_exponent_of_many_classes(1e-9, K, rho0) == pytest.approx(1e-9 / (4 * K * (1 + q)), rel=1e-8)
    x = 1e12 * (1 + q) ** 2
    assert growth_exponent_of_many_classes(x, K, rho0) == pytest.approx(np.log1p(x) / (4 * K), rel=1e-6)


def test_refusals() -> None:
    with pytest.raises(InputError, match="expected x >= 0"):
        growth_exponent_of_many_classes(-1.0, 5, 2.0)
