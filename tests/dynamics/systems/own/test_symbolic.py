"""Systems stated in sympy: compared with closed forms, sympy's own numbers, and every solver."""

import math
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.integrate
import scipy.linalg
import sympy

import snapdyn as sd
from snapdyn.dynamics.systems.own.symbolic import SymbolicSystem
from snapdyn.experiments.run_files import Simulation, read_simulation
from snapdyn.validation.design import default_observables

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


def test_dense_output_events_and_files(growth: SymbolicSystem, tmp_path: Path) -> None:
    """Assert states between the saved times, a located event, and a file that brings all of it back."""
    half = sd.Event(lambda t, state: state.values[0] - 0.75, terminal=True)
    run = sd.integrate(growth, [0.0, 1.0, 8.0], events={"half": half}, rtol=1e-10, atol=1e-12)
    assert run.status == "terminated"
    assert run.events[0].t == pytest.approx(math.log(1.5 / 0.01 - 1) / 3.0, rel=1e-8)  # u = s/2
    inside = np.array([0.5, 0.0, run.events[0].t, 1.0])
    np.testing.assert_allclose(run(inside)[:, 0], mode(inside, 1.5, 0.01), rtol=1e-8)
    np.testing.assert_array_equal(run(1.0), run.state[1])
    loaded = sd.load(run.save(tmp_path / "run.nc"))
    for name in ("u", "share", "both"):
        np.testing.assert_array_equal(loaded.observable(name), run.observable(name))
    np.testing.assert_array_equal(loaded.invariants["first integral"], run.invariants["first integral"])
    for call, words in (
        (lambda: run(7.0), "end of the run"),
        (lambda: loaded(0.5), "without dense output"),
        (lambda: loaded.observable("shar"), "did you mean 'share'"),
        (lambda: growth.with_parameters(S=1.0), "one of s, u_0, received 'S'"),
        (lambda: growth.with_parameters(u_0=1e200), r"finite start|finite rate"),
    ):
        with pytest.raises(sd.InputError, match=words):
            call()


def test_depends_on_time() -> None:
    """Assert the closed form of u' = -u + sin t in both solvers, and in log time; u is a function of the time."""
    f = sympy.Function("f")(t)
    system = sd.System.from_sympy("Driven", {f: 1.0}, {f: -f + sympy.sin(t)}, time=t)
    times = np.array([0.5, 3.0, 20.0])
    expected = 1.5 * np.exp(-times) + 0.5 * (np.sin(times) - np.cos(times))
    for method in ("auto", "CVODE"):
        for log_time in (False, True):
            run = sd.integrate(system, times, method, log_time=log_time)
            np.testing.assert_allclose(run.state[:, 0], expected, atol=1e-6)


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
    """Assert value and derivative of every printed function against 30 digits of sympy, at points on both sides."""
    x, y = sympy.symbols("x y", real=True)
    functions: list[Any] = [
        x**3 / 7 - y / 3, x**-2 + y**-1, sympy.sqrt(y) + y ** sympy.Rational(-1, 2), y ** sympy.Rational(3, 2), y**x,
        sympy.exp(-x) * sympy.log(y), sympy.E**2 * x, sympy.pi * sympy.tanh(x), sympy.erf(x) + sympy.erfc(y),
        sympy.atan2(x, y), sympy.asin(sympy.tanh(x)), sympy.Abs(x) * y, sympy.Max(x, y, 1) + sympy.Min(x, 0),
        sympy.Piecewise((x**2, x > 0), (y, True)), sympy.sign(x) * y, sympy.Heaviside(x) * y,
        sympy.sinh(x) + sympy.cosh(y),
        10**20 * x, sympy.Float("0.1") * x, sympy.exp(sympy.exp(-(x**2)) + y) / (1 + sympy.exp(x)),
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


def test_runs_from_files(growth: SymbolicSystem, tmp_path: Path) -> None:
    """Assert that a registered system takes its parameters from a run file, and its observables to sweeps."""
    sd.register(growth)
    file = tmp_path / "run.toml"
    file.write_text('[system]\nkind = "Growth"\ns = 2.0\n[run]\nfirst = 0.1\nlast = 5.0\n', encoding="utf-8")
    simulation = read_simulation(file)
    assert isinstance(simulation, Simulation)
    system = simulation.build()
    assert system.parameters == {"s": 2.0, "u_0": 0.01}
    run = simulation.run.integrate(system)
    np.testing.assert_allclose(run.observable("u"), mode(run.t, 2.0, 0.01), rtol=1e-6)
    assert default_observables("ode", False, type(growth)) == ("share", "u", "v")
    assert not {"share", "u", "v"} & {*default_observables("ode", False, sd.SingleCommonToken)}
    file.write_text(file.read_text().replace("s =", "q ="), encoding="utf-8")
    with pytest.raises(sd.InputError, match="received 'q'"):
        read_simulation(file)


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
