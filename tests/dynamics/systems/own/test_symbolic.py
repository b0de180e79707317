"""Systems stated in sympy: compared with closed forms, sympy's own numbers, and every solver."""

import math
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.integrate
import scipy.linalg
import sympy
from sympy.codegen.cfunctions import hypot, log1p, log2, log10

import snapdyn as sd
from snapdyn.dynamics.systems.own.symbolic import SymbolicSystem
from snapdyn.dynamics.systems.own.theory import FUNCTIONS
from tests.helpers import ROOT

q = sympy.Function("q")(sympy.Symbol("t"))
t, u, v, s, u0 = sympy.symbols("t u v s u_0")
METHODS = ["DOP853", "BDF", "Radau", "LSODA", "CVODE"]


@pytest.fixture(scope="module")
def growth() -> SymbolicSystem:
    """Saxe's mode, u' = 2 u (s - u), with its integral."""
    return sd.System.from_sympy(
        "Growth",
        {u: u0, v: 0},
        {u: 2 * u * (s - u), v: u},
        {s: 1.5, u0: 0.01},
        observables={"share": u / s, "both": sympy.Matrix([[u, v]])},
        conserved={"first integral": sympy.log(u) / 2 + v},
    )


def mode(times: Any, strength: float, start: float) -> Any:
    """The closed form of u, of Saxe, McClelland and Ganguli (2014)."""
    grown = np.exp(2 * strength * np.asarray(times))
    return strength * grown / (grown - 1 + strength / start)


def test_closed_form(growth: SymbolicSystem) -> None:
    """Assert the sigmoid of the mode, observables on it, and its parameters changed."""
    times = np.linspace(0.0, 8.0, 9)
    run = sd.integrate(growth, times, rtol=1e-11, atol=1e-13)
    assert run.success
    assert run.stats["compiled"]
    np.testing.assert_allclose(run.observable("u"), mode(times, 1.5, 0.01), rtol=1e-9)
    np.testing.assert_allclose(run.observable("share"), mode(times, 1.5, 0.01) / 1.5, rtol=1e-9)
    np.testing.assert_array_equal(run.observable("both")[:, 0], run.state)
    other = pickle.loads(pickle.dumps(growth.with_parameters(s=0.7, u_0=0.02)))
    assert repr(other) == "Growth(s=0.7, u_0=0.02)"
    slower = sd.integrate(other, times, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(slower.observable("u"), mode(times, 0.7, 0.02), rtol=1e-9)
    # ln(u)/2 + v grows as s t, so as a conserved quantity of this flow it is monitored as violated.
    np.testing.assert_allclose(run.invariants["first integral"], 1.5 * times, atol=1e-9)


def test_dense_output_and_events(growth: SymbolicSystem) -> None:
    """Assert states between the saved times, a located event, and one sentence for what a run does not have."""
    half = sd.Event(lambda t, state: state.values[0] - 0.75, terminal=True)
    run = sd.integrate(growth, [0.0, 1.0, 8.0], events={"half": half}, rtol=1e-10, atol=1e-12, dense=True)
    assert run.status == "terminated"
    assert run.events[0].t == pytest.approx(math.log(1.5 / 0.01 - 1) / 3.0, rel=1e-8)  # u = s/2
    inside = np.array([0.5, 0.0, run.events[0].t, 1.0])
    np.testing.assert_allclose(run(inside)[:, 0], mode(inside, 1.5, 0.01), rtol=1e-8)
    np.testing.assert_allclose(run(1.0), run.state[1], rtol=1e-13)
    for call, words in (
        (lambda: run(7.0), "end of the run"),
        (lambda: sd.integrate(growth, [1.0])(0.5), "with dense output"),
        (lambda: run.observable("shar"), "did you mean 'share'"),
        (lambda: growth.with_parameters(S=1.0), "one of s, u_0, received 'S'"),
        (lambda: growth.with_parameters(u_0=1e200), r"finite start|finite rate"),
    ):
        with pytest.raises(sd.InputError, match=words):
            call()


def test_arrays() -> None:
    """Assert exp(A t) for a state and a parameter that are matrices, and the row sums that A keeps."""
    Y, A = sympy.MatrixSymbol("Y", 2, 3), sympy.MatrixSymbol("A", 2, 2)
    start, matrix = np.arange(6.0).reshape(2, 3), np.array([[-1.0, 2.0], [1.0, -2.0]])
    system = sd.System.from_sympy(
        "Linear", {Y: start}, {Y: A * Y}, {A: matrix}, {"trace": sympy.Trace(Y * Y.T)}, {"sums": sympy.ones(1, 2) * Y}
    )
    expected = scipy.linalg.expm(0.7 * matrix) @ start
    for factor in (1, 2):
        faster = system.with_parameters(A=(factor * matrix).tolist())
        run = sd.integrate(faster, [0.7 / factor], "DOP853", rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(run.observable("Y")[0], expected, rtol=1e-10)
        np.testing.assert_allclose(run.observable("Y[1,2]")[0], expected[1, 2], rtol=1e-10)
        np.testing.assert_allclose(run.observable("trace")[0], (expected**2).sum(), rtol=1e-10)
        assert run.invariants["sums"].max() < 1e-13


def test_generated_numbers_are_sympy_s() -> None:
    """Assert values and derivatives of what is printed against 30 digits of sympy, at points on both sides."""
    x, y = sympy.symbols("x y", real=True)
    functions: list[Any] = [
        x**3 / 7 - y / 3, sympy.sqrt(y) + x**-2, y**x, sympy.Max(x, y, 1) + sympy.Min(x, 0),
        sympy.Piecewise((x**2, x > 0), (y, True)), sympy.exp(sympy.exp(-(x**2)) + y) / (1 + sympy.exp(x)),
    ]  # fmt: skip
    names = sympy.symbols(f"w:{len(functions) - 2}")
    state = {x: 0.3, y: 0.7} | dict.fromkeys(names, 0.0)
    system = sd.System.from_sympy("Functions", state, dict(zip(state, functions, strict=True)))
    direction = np.random.default_rng(7).normal(size=system.size)
    along = [each.diff(x) * direction[0] + each.diff(y) * direction[1] for each in functions]
    for point in ({x: 0.3, y: 0.7}, {x: -1.2, y: 2.5}):
        values = np.array([*point.values(), *np.zeros(len(names))])
        product = np.empty(system.size)
        system.write_jacobian_product(0.0, values, direction, product)
        exact = [[float(each.subs(point).evalf(30)) for each in of] for of in (functions, along)]
        np.testing.assert_allclose(system.derivative(0.0, values), exact[0], rtol=1e-13)
        np.testing.assert_allclose(product, exact[1], rtol=1e-11)


POINTS = {  # inside the domain of each function, on both sides of 0 where it has both
    sympy.log: (0.7, 2.5), sympy.acosh: (1.3, 2.5), sympy.asech: (0.3, 0.7), sympy.acoth: (1.3, -2.5),
    sympy.asec: (1.3, -2.5), sympy.acsc: (1.3, -2.5), sympy.loggamma: (0.7, 2.5), sympy.gamma: (0.7, 2.5),
    log1p: (0.7, -0.3), log2: (0.7, 2.5), log10: (0.7, 2.5),
    # Not at a value 0, which the second expression divides by.
    sympy.floor: (-2.8, 1.2), sympy.ceiling: (-2.8, 1.2), sympy.Heaviside: (2.8, 1.2),
}  # fmt: skip


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_functions_within_operations(kind: Any) -> None:
    """Assert each accepted function in products, powers, quotients and as an argument, against 30 digits of sympy."""
    applied = kind(u, sympy.Rational(3, 2)) if kind in (sympy.atan2, sympy.Mod, hypot) else kind(u)
    expressions = [-2 * applied, 3 / applied, -(applied**2), u - applied, 2 ** (-applied), sympy.tanh(u - 2 * applied)]
    if kind not in (sympy.floor, sympy.sign, sympy.ceiling):
        expressions.append(sympy.exp(-applied / 3) * (applied - v) / (1 - 3 * applied))
    names = {f"o{i}": each for i, each in enumerate(expressions)}
    points = POINTS.get(kind, (0.7, -0.3))
    system = sd.System.from_sympy("F", {u: points[0], v: 0.4}, {u: -2 * applied, v: -v}, observables=names)
    for point in points:
        found = system.observables(np.array([[point, 0.4]]))
        for name, each in names.items():
            exact = float(each.subs({u: sympy.Float(point, 30), v: sympy.Float(0.4, 30)}).evalf(30))
            assert found[name][0] == pytest.approx(exact, rel=1e-12)
        rate = float((-2 * applied).subs(u, sympy.Float(point, 30)).evalf(30))
        assert system.derivative(0.0, np.array([point, 0.4]))[0] == pytest.approx(rate, rel=1e-12)


@pytest.mark.parametrize(
    ("factor", "value"),
    [
        (sympy.Rational(10**400, 10**400 + 1), 1.0),
        (sympy.Float("1e400", 30) * sympy.exp(-921), float(sympy.Float("1e400", 30) * sympy.exp(-921).evalf(30))),
    ],
)
def test_numbers_are_rounded_once(factor: Any, value: float) -> None:
    """Assert the value of numbers whose parts float64 does not hold, as a rate and as a parameter."""
    assert stated(rate={u: s + factor}).derivative(0.0, np.ones(1))[0] == pytest.approx(1.0 + value, rel=1e-15)
    assert stated(parameters={s: factor}).parameters["s"] == pytest.approx(value, rel=1e-15)


@pytest.mark.long
def test_compiled_code_is_kept(growth: SymbolicSystem, tmp_path: Path) -> None:
    """Assert that another process takes the compiled integrator from the disk, and that observables do not matter."""
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, sympy, snapdyn as sd\n"
        "u = sympy.Symbol('u')\n"
        "system = sd.System.from_sympy('Decay', {u: 1.0}, {u: -u}, observables={'power': u ** int(sys.argv[1])})\n"
        "sd.integrate(system, [1.0], z_only=True)\n"
        "print(sum(system.theory.flow.called.stats.cache_hits.values()))\n",
        encoding="utf-8",
    )
    hits = [
        subprocess.run(
            [sys.executable, program, power],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")},
        ).stdout.strip()
        for power in ("2", "3")
    ]
    assert hits == ["0", "1"]


def test_the_page_lists_what_is_accepted() -> None:
    """Assert that the page on own theories names each accepted function, and no other."""
    page = (ROOT / "docs" / "how_to" / "own_theory.md").read_text(encoding="utf-8")
    listed = page.partition("<!-- functions -->")[2].partition("<!-- end -->")[0]
    assert re.findall(r"`(\w+)`", listed) == [*map(str, FUNCTIONS), "Max", "Min", "Piecewise"]


def stated(**changed: Any) -> SymbolicSystem:
    """A system with one thing wrong."""
    arguments: dict[str, Any] = {"name": "Wrong", "state": {u: 1.0}, "rate": {u: -s * u}, "parameters": {s: 1.0}}
    return sd.System.from_sympy(**{**arguments, **changed})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rate": {u: "-s*u"}}, "without quotes"),
        ({"rate": {u: sympy.Matrix([u, u])}}, r"shape \(\), as the state, received shape \(2, 1\)"),
        ({"rate": {u: -sympy.factorial(u)}}, "functions that compile .* factorial"),
        ({"rate": {u: sympy.Piecewise((-u, u > 0.5))}}, "a value of Piecewise everywhere"),
        ({"rate": {u: sympy.log(u - 2)}}, "finite rate at the start, received nan for u"),
        ({"state": {sympy.MatrixSymbol("U", 2, sympy.Symbol("n")): 1.0}}, "lengths that are whole numbers"),
        ({"parameters": {s: 1.0, u: 2.0}}, "received 'u' in the state and in the parameters"),
        ({"parameters": {s: 1.0, sympy.Symbol("lambda"): 1.0}}, "write for example lambda_"),
        ({"observables": {"state": u}}, "a name of an observable other than"),
        ({"observables": {"w": u * t}, "time": t}, "a function of state and parameters.* with t"),
        ({"state": {q: 1.0}, "rate": {q: -s * q.diff(t)}, "time": t}, "the rate of q in functions .* Derivative in"),
        ({"rate": {u: sympy.Function("g")(u)}}, "a value of every symbol"),
        ({"rate": {u: -u + sympy.DiracDelta(t - 1)}, "time": t}, "received DiracDelta in"),
        ({"conserved": {"w": sympy.Integral(sympy.exp(-s * u), (s, 0, 1))}}, "quantity 'w' .* received Integral in"),
        ({"state": {u: sympy.DiracDelta(s)}}, "the start of u in functions .* received DiracDelta in"),
        ({"rate": {u: u * 10**400}}, r"or between 2\.3e-308 and 1\.7e308, received 1000"),
        ({"rate": {u: u * (-2) ** sympy.Rational(1, 3)}}, "expected real numbers"),
        ({"rate": {u: u + sympy.oo}}, "to be finite"),
        ({"parameters": {s: sympy.nan}}, "received nan"),
    ],
)
def test_one_sentence(changed: dict[str, Any], message: str) -> None:
    """Assert one sentence for each mistake, before a run."""
    with pytest.raises(sd.InputError, match=message) as error:
        stated(**changed)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("method", METHODS[1:])
def test_implicit_methods_follow_stiff_reactions(method: str) -> None:
    """Assert Robertson's reaction at t = 40 as scipy finds it from a plain function, by the derivative from sympy."""
    x, y, z = sympy.symbols("x y z")
    slow, fast, faster = x / 25, 10**4 * y * z, 3 * 10**7 * y**2
    rate = {x: fast - slow, y: slow - fast - faster, z: faster}
    start = {x: 1.0, y: 0.0, z: 0.0}
    system = sd.System.from_sympy("Robertson", start, rate)
    plain = sympy.lambdify([(x, y, z)], list(rate.values()))
    expected = scipy.integrate.solve_ivp(
        lambda t, w: plain(w), (0.0, 40.0), [*start.values()], "Radau", rtol=1e-11, atol=1e-15
    ).y[:, -1]
    for log_time in (False, True):
        run = sd.integrate(system, [40.0], method, rtol=1e-8, atol=1e-13, log_time=log_time)
        np.testing.assert_allclose(run.state[0], expected, rtol=1e-5)
