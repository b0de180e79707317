"""Linear conserved quantities that are found."""

from typing import Any

import numpy as np
import pytest
import sympy

import snapdyn as sd
from snapdyn.dynamics.systems.own.linear_conserved import vanishes


def test_fractions_parameters_and_measured() -> None:
    """Assert coefficients that are no whole numbers, the grade of each kind of proof, and nothing where nothing is."""
    x, y, w, a, b, t = sympy.symbols("x y w a b t")
    rate = {x: -a * x * y, y: b * x * y, w: sympy.sin(t)}
    system = sd.System.from_sympy("R", {x: 1.0, y: 2.0, w: 0.0}, rate, {a: 0.25, b: 0.75}, time=t)
    (found,) = sd.linear_conserved(system)
    assert (found.expression, found.grade) == ("x + 1/3 y", "proved at these parameters")
    # pi is near 355/113.
    (measured,) = sd.linear_conserved(system.with_parameters(a=np.pi))
    assert measured.grade == "measured"
    np.testing.assert_allclose(measured.coefficients, [1.0, np.pi / 0.75, 0.0], rtol=1e-9, atol=1e-14)

    def rate_function(t: float, state: Any, out: Any) -> None:
        out[0] = 2.0 * state[1]
        out[1] = -state[1]

    (plain,) = sd.linear_conserved(sd.System.from_function("F", rate_function, [1.0, 1.0]))
    assert (plain.expression, plain.grade) == ("state value 0 + 2 state value 1", "measured")
    assert sd.linear_conserved(sd.System.from_sympy("N", {x: 1.0, y: 2.0}, {x: y, y: -x})) == []


def test_proofs() -> None:
    """Assert that identities of exponentials and roots are proved, and that near misses are not."""
    x, y = sympy.symbols("x y", real=True)
    soft = sympy.exp(x) / (sympy.exp(x) + sympy.exp(y))
    root = sympy.sqrt(sympy.exp(2 * x) + y**2)
    zeros = [
        soft + sympy.exp(y - x) * soft - 1,
        (sympy.exp(x) / root) ** 2 + y**2 / root**2 - 1,
        sympy.sin(x) ** 2 + sympy.cos(x) ** 2 - 1,
        sympy.tanh(x) - 1 + 2 / (sympy.exp(2 * x) + 1),
        1 / root - root / (sympy.exp(2 * x) + y**2),
    ]
    assert all(vanishes(each) for each in zeros)
    near = [zeros[0] + sympy.Rational(1, 10**30), zeros[1] + x - y, sympy.exp(x) - 1 - x]
    assert not any(vanishes(each) for each in near)


def test_one_sentence() -> None:
    """Assert one sentence for what has no rate to sample."""
    with pytest.raises(sd.InputError, match="make it with System"):
        sd.linear_conserved("Reaction")  # type: ignore[arg-type]
    x = sympy.Symbol("x")
    narrow = sd.System.from_sympy("Narrow", {x: 1.0}, {x: sympy.sqrt(10**-9 - (x - 1) ** 2)})
    with pytest.raises(sd.InputError, match="finite around the start"):
        sd.linear_conserved(narrow)
