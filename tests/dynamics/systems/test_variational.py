"""Sensitivities of systems from sympy and of the mean field: closed forms, differences of runs, sympy's Jacobian."""

import numpy as np
import pytest
import sympy

import snapdyn as sd

t, u, v, s, u0 = sympy.symbols("t u v s u_0")


def test_observables() -> None:
    """Assert derivatives of observables, exact and by differences, and of the time at which one passes a level.

    u = u_0 exp(s t) has d(s u)/ds = u + s t u; it passes c at t = ln(c/u_0)/s, so dt/ds = -t/s, dt/du_0 = -1/(s u_0).
    """

    def rate(t, state, out, s, u_0):  # type: ignore[no-untyped-def]
        out[0] = s * state[0]

    measures = {"speed": s * u, "pair": sympy.Matrix([[u, s]])}
    exact = sd.System.from_sympy("Exponential", {u: u0}, {u: s * u}, {s: 0.5, u0: 2.0}, observables=measures)
    speed = {"speed": lambda state, s, u_0: s * state[0]}
    called = sd.System.from_function("Called", rate, [2.0], (0.5, 2.0), ["u"], speed)
    times = np.linspace(0.0, 2.0, 21)
    x = 2 * np.exp(0.5 * times)
    by_differences = sd.sensitivity(called, times, "s", rtol=1e-11, atol=1e-13)
    result = sd.sensitivity(exact, times, ("s", "u_0"), rtol=1e-11, atol=1e-13)
    for each in (result, by_differences):
        np.testing.assert_allclose(each.observables["speed"][:, 0], x + 0.5 * times * x, rtol=1e-7)
    np.testing.assert_allclose(result.observables["pair"][:, 0, 0, 0], times * x, rtol=1e-7)
    at, slopes = result.crossing("speed", level=1.5)  # u = 3, but ds moves the level of u too
    np.testing.assert_allclose([at, *slopes], [2 * np.log(1.5), -at / 0.5 - 1 / 0.5**2, -1.0], rtol=1e-5)
    at, slopes = result.crossing("pair", 0, 0, level=3.0)
    np.testing.assert_allclose([at, *slopes], [2 * np.log(1.5), -at / 0.5, -1.0], rtol=1e-5)
    with pytest.raises(sd.InputError, match="2 indices for pair"):
        result.crossing("pair", 0, level=3.0)
