"""Times at which a rate in sympy jumps: no step passes over a jump, whatever makes the steps."""

import math
from typing import Any

import numpy as np
import pytest
import sympy

import snapdyn as sd
from snapdyn.dynamics.integration.request import METHODS
from snapdyn.dynamics.systems.own import theory
from snapdyn.dynamics.systems.own.symbolic import SymbolicSystem

t, x, p = sympy.symbols("t x p")
THOUSANDTH = sympy.Rational(1, 1000)


def driven(rate: Any, parameters: Any = None) -> SymbolicSystem:
    """x' = rate, x(0) = 1."""
    return sd.System.from_sympy("Driven", {x: 1.0}, {x: rate}, parameters, time=t)


@pytest.mark.parametrize("log_time", [None, True])
@pytest.mark.parametrize("method", METHODS)
def test_a_short_pulse(method: str, log_time: bool | None) -> None:
    """Assert the closed form of x' = -x + 20 from t = 1 to 1.05, at the jumps and between, and on dense output."""
    pulse = driven(-x + sympy.Piecewise((20, (t > 1) & (t < 1.05)), (0, True)))
    times = np.array([0.5, 1.0, 1.03, 1.05, 1.5, 2.0])
    inside = np.clip(times, 1.0, 1.05)
    exact = np.exp(-times) + 20 * (np.exp(inside - times) - np.exp(1.0 - times))
    # The local error of 1e-8 may add up over the steps; RKC is of second order.
    rtol, bound = (1e-5, 1e-3) if method == "RKC" else (1e-8, 1e-6)
    run = sd.integrate(pulse, times, method, rtol=rtol, log_time=log_time, dense=True)
    np.testing.assert_allclose(run.state[:, 0], exact, rtol=bound)
    np.testing.assert_allclose(run(times)[:, 0], exact, rtol=bound)


@pytest.mark.parametrize(
    ("rate", "end"),
    [
        (sympy.Heaviside(t - p) - sympy.Heaviside(t - p - THOUSANDTH), 1.001),
        (x * sympy.sign(t - 1), 1.0),
        (-2 * sympy.frac(t), -1.0),
        (sympy.Piecewise((1000, sympy.Mod(t, 1) < THOUSANDTH), (0, True)), 3.0),
        (sympy.Piecewise((1000, (t - 1) ** 2 < THOUSANDTH**2 / 100), (0, True)), 1.2),
        (sympy.sign(sympy.sin(50 * t)), 1.0 + math.acos(math.cos(100.0)) / 50),
        (sympy.Max(0, 1 - 10**4 * sympy.Abs(t - 1)), 1.0001),
    ],
)
def test_kinds_of_jumps(rate: Any, end: float) -> None:
    """Assert the integral to t = 2 of a rate of each kind, which a step from 0 to 2 does not see."""
    for method in ("compiled", "LSODA"):
        run = sd.integrate(driven(rate, {p: 1.3} if rate.has(p) else None), [2.0], method)
        assert run.state[0, 0] == pytest.approx(end, abs=1e-6)


def test_events_and_saves_over_many_jumps() -> None:
    """Assert all saves of a staircase, and the one zero of x - 4.5, with compiled steps and with others."""
    times = np.linspace(0.0, 4.0, 33)
    exact = 1.0 + np.floor(times) * (np.floor(times) - 1) / 2 + np.floor(times) * (times - np.floor(times))
    for method in ("compiled", "DOP853"):
        events = {"level": sd.Event(lambda t, state: state.values[0] - 4.5)}
        run = sd.integrate(driven(sympy.floor(t)), times, method, events=events)
        np.testing.assert_allclose(run.state[:, 0], exact, atol=1e-9)
        assert [event.t for event in run.events] == pytest.approx([3.0 + 0.5 / 3.0], rel=1e-9)


def test_too_many_jumps_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert one sentence for more jumps than a run may have, and none for fewer."""
    monkeypatch.setattr(theory, "MOST_JUMPS", 100)
    assert sd.integrate(driven(sympy.floor(t)), [50.0]).success
    with pytest.raises(sd.InputError, match="jumps at most 100 times in a run, received 1000"):
        sd.integrate(driven(sympy.floor(t)), [1000.0])


@pytest.mark.parametrize("method", ["compiled", "DOP853", "LSODA", "CVODE", "RKC"])
def test_largest_step(method: str) -> None:
    """Assert that a narrow pulse that no symbol shows is seen with `max_step`, and is passed over without."""
    pulse = driven(20 * sympy.exp(-(((t - 50) * 100) ** 2)) - x)
    expected = 0.2 * math.sqrt(math.pi) * math.exp(-0.5)
    options: dict[str, Any] = {"rtol": 1e-5} if method == "RKC" else {}
    found = [sd.integrate(pulse, [50.5], method, max_step=step, **options).state[0, 0] for step in (0.01, None)]
    assert found[0] == pytest.approx(expected, abs=1e-4)
    assert abs(found[1]) < 1e-3


def test_largest_step_of_a_file(tmp_path: Any) -> None:
    """Assert that [run] of a file takes max_step, and that it and log time exclude each other."""
    from snapdyn.experiments.run_files import Simulation, read_simulation

    file = tmp_path / "run.toml"
    text = '[system]\nkind = "SingleCommonToken"\nnum_classes = 3\nvocab_size = 20\neta_Y = 1.0\neta_Z = 1.0\n'
    text += "rho0 = 0.5\n[run]\ntimes = [10.0]\nmax_step = 0.01\n"
    file.write_text(text, encoding="utf-8")
    simulation = read_simulation(file)
    assert isinstance(simulation, Simulation)
    assert simulation.run.integrate(simulation.build()).stats["steps"] >= 1000
    with pytest.raises(sd.InputError, match="max_step, which is in units of t, without log_time"):
        sd.integrate(driven(-x), [1.0], max_step=0.1, log_time=True)
