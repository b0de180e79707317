"""Linear conserved quantities that are found: of the mean field written down in sympy, and of small systems."""

from typing import Any

import numpy as np
import pytest
import sympy

import snapdyn as sd
from snapdyn.dynamics.systems.own.linear_conserved import vanishes
from snapdyn.dynamics.systems.own.symbolic import SymbolicSystem

half, third = sympy.Rational(1, 2), sympy.Rational(1, 3)
# One common token and a distinct token for each of two classes, with one query; V = 4 outputs.
P = [[half / 2, 3 * half / 2, 0], [third, 0, 2 * third]]
V = 4


@pytest.fixture(scope="module")
def mean_field() -> SymbolicSystem:
    """The full mean field (section 8) at K = 2, from its formulas, dense and without any reduction.

    Y' = eta_Y sum_n p_n f_n (e_n - alpha_n)^T and z' = eta_Z sum_n p_n f_n o (g_n - f_n (f_n . g_n)), with
    g_n = Y (e_n - alpha_n).
    """
    Y, Z, eta_Y, eta_Z = sympy.MatrixSymbol("Y", 3, V), sympy.MatrixSymbol("Z", 1, 3), *sympy.symbols("eta_Y eta_Z")
    dY, dZ = sympy.zeros(3, V), sympy.zeros(1, 3)
    for n in range(2):
        c = sympy.Matrix([P[n][l] * sympy.exp(Z[0, l]) for l in range(3)])
        f = c / sympy.sqrt(c.dot(c))
        w = [sum(f[l] * Y[l, v] for l in range(3)) for v in range(V)]
        alpha = sympy.Matrix([sympy.exp(each) for each in w]) / sum(map(sympy.exp, w))
        error = sympy.Matrix([int(v == n) for v in range(V)]) - alpha
        g = sympy.Matrix([sum(Y[l, v] * error[v] for v in range(V)) for l in range(3)])
        dY += eta_Y * half * f * error.T
        dZ += eta_Z * half * sympy.Matrix([[f[l] * (g[l] - f[l] * f.dot(g)) for l in range(3)]])
    start = {Y: np.zeros((3, V)), Z: np.zeros((1, 3))}
    return sd.System.from_sympy("MeanFieldK2", start, {Y: dY, Z: dZ}, {eta_Y: 1.0, eta_Z: 0.5})


def test_row_sums_of_the_mean_field(mean_field: SymbolicSystem) -> None:
    """Assert that the row sums of Y and of Z are found, proved, and are all there is."""
    found = sd.linear_conserved(mean_field)
    expected = [[f"Y[{l},{v}]" for v in range(V)] for l in range(3)] + [[f"Z[0,{l}]" for l in range(3)]]
    assert [each.expression for each in found] == [" + ".join(names) for names in expected]
    assert {each.grade for each in found} == {"proved"}


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
