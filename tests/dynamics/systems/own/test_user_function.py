"""Systems stated as a function: the same numbers as stated in sympy, and one sentence for what does not compile."""

import math
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

import snapdyn as sd
from snapdyn.dynamics.systems.own.user_function import FunctionSystem

FACTOR = 1.0


def oscillator(t: float, state: Any, out: Any, frequency: float, drive: Any) -> None:
    """A driven oscillator; `drive` is (amplitude, frequency)."""
    out[0] = state[1]
    out[1] = -(frequency**2) * state[0] + drive[0] * np.cos(drive[1] * t)


@pytest.fixture(scope="module")
def driven() -> FunctionSystem:
    """From rest, with the closed form of `position`."""
    return sd.System.from_function(
        "Driven",
        oscillator,
        [0.0, 0.0],
        {"frequency": 2.0, "drive": [0.5, 1.0]},
        names=["x", "v"],
        observables={"energy": lambda state, frequency, drive: state[1] ** 2 + (frequency * state[0]) ** 2},
    )


def position(times: Any, w: float, amplitude: float, f: float) -> Any:
    """x of x'' = -w^2 x + A cos(f t) from rest."""
    return amplitude / (w**2 - f**2) * (np.cos(f * times) - np.cos(w * times))


@pytest.mark.parametrize("method", ["compiled", "DOP853", "BDF"])
def test_closed_form(driven: FunctionSystem, method: str) -> None:
    """Assert the closed form, whoever makes the steps, in both integration variables, and with other parameters."""
    times = np.array([0.0, 1.0, 7.0])
    for log_time in (False, True):
        run = sd.integrate(driven, times, method, log_time=log_time, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(run.observable("x"), position(times, 2.0, 0.5, 1.0), atol=1e-6)
    energy = run.state[:, 1] ** 2 + 4 * run.state[:, 0] ** 2
    np.testing.assert_allclose(run.observable("energy"), energy)
    other = sd.integrate(driven.with_parameters(frequency=3.0, drive=[1.0, 0.5]), times, method, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(other.observable("x"), position(times, 3.0, 1.0, 0.5), atol=1e-6)


def test_jitted_function_and_threads(driven: FunctionSystem) -> None:
    """Assert the same bits from a jitted function, given its parameters as a list, from one thread and from two."""
    jitted = sd.System.from_function("Jitted", numba.njit(oscillator), [0.0, 0.0], [2.0, [0.5, 1.0]])
    expected = sd.integrate(driven, [1.0, 7.0]).state
    for threads in (1, 2):
        for run in sd.integrate_many([jitted, driven] * 3, [1.0, 7.0], threads=threads):
            np.testing.assert_allclose(run.state, expected, rtol=1e-14)


def test_errors_of_the_function_are_shown() -> None:
    """Assert that an error that the compiled function raises within a run ends it, with its message."""

    def until_one(t: float, state: Any, out: Any) -> None:
        if t > 1.0:
            raise ValueError("only until t = 1")
        out[0] = -state[0]

    system = sd.System.from_function("Until", until_one, [1.0])
    np.testing.assert_allclose(sd.integrate(system, [0.5]).state, np.exp(-0.5))
    with pytest.raises(ValueError, match="only until t = 1"):
        sd.integrate(system, [3.0])


@pytest.mark.parametrize("method", ["compiled", "DOP853", "LSODA", "CVODE"])
def test_an_entry_that_is_not_written(method: str) -> None:
    """Assert that a call that does not write an entry has no value of an earlier call: the run fails there."""

    def until_half(t: float, state: Any, out: Any) -> None:
        if t < 0.5:
            out[0] = 1.0

    system = sd.System.from_function("Until", until_half, [0.0])
    assert sd.integrate(system, [0.25], method).state[0, 0] == pytest.approx(0.25, rel=1e-12)
    run = sd.integrate(system, [0.25, 1.0], method)
    assert run.status == "failed"
    assert "not finite" in run.message
    np.testing.assert_allclose(run.state, [[0.25]])
    assert math.isnan(system.derivative(0.6, np.zeros(1))[0])


def test_a_local_function_can_be_pickled() -> None:
    """Assert the closed form after a pickle of a system with a function, a value and an observable of a closure."""
    factor = 3.0

    def decay_faster(t: float, state: Any, out: Any, rate: float) -> None:
        out[0] = -rate * factor * state[0]

    system = sd.System.from_function("Faster", decay_faster, [1.0], [2.0], ["x"], {"o": lambda state, rate: rate})
    other = pickle.loads(pickle.dumps(system.with_parameters(rate=0.5)))
    assert repr(other) == "Faster(rate=0.5)"
    run = sd.integrate(other, [1.0])
    np.testing.assert_allclose(run.observable("x"), np.exp(-1.5), rtol=1e-7)
    np.testing.assert_array_equal(run.observable("o"), 0.5)


def test_without_compiler(tmp_path: Path) -> None:
    """Assert that a function runs in Python where numba's compiler is switched off, as for a debugger."""
    program = """
import snapdyn as sd
def decay(t, state, out, rate):
    out[0] = -rate * state[0]
system = sd.System.from_function("Decay", decay, [1.0], [2.0])
run = sd.integrate(system, [1.0])
print(run.stats["compiled"], run.state[0, 0], sd.descend(system, 2, 0.25).state[-1, 0])
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    compiled, value, descended = done.stdout.split()
    assert compiled == "False"
    assert float(value) == pytest.approx(np.exp(-2.0), rel=1e-6)
    assert float(descended) == 0.25


def test_whether_the_rate_depends_on_time(driven: FunctionSystem) -> None:
    """Assert that a system counts as autonomous where its function does not read t, and that momentum then works."""
    assert not driven.is_autonomous
    assert not sd.System.from_function("Jitted", numba.njit(oscillator), [0.0, 0.0], [2.0, [0.5, 1.0]]).is_autonomous
    system = sd.System.from_function("Decay", decay, [1.0])
    assert system.is_autonomous
    assert sd.ladder_of(system, [1.0], 0.01, momentum=0.5).first_break() is None
    with pytest.raises(sd.InputError, match="momentum=0 for a rate that depends on time"):
        sd.ladder_of(driven, [1.0], 0.01, momentum=0.5)


def with_attribute(t: float, state: Any, out: Any) -> None:
    """Not numba."""
    out[0] = state[0]
    out[0] = state.nothing()


def with_unknown(t: float, state: Any, out: Any) -> None:
    """Not Python."""
    out[0] = nowhere(state[0])  # type: ignore[name-defined]  # noqa: F821


def decay(t: float, state: Any, out: Any) -> None:
    """Of one value."""
    out[0] = -state[0]


def beyond(t: float, state: Any, out: Any) -> None:
    """Of two values."""
    out[0] = state[1]


def returning(t: float, state: Any, out: Any) -> Any:
    """Does not write."""
    return -state


def writing(t: float, state: Any, out: Any) -> None:
    """Changes the state."""
    state[0] *= 2.0
    out[0] = state[0]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"rate": with_attribute},
            f"error in line {with_attribute.__code__.co_firstlineno + 3} of test_user_fu.*nothing",
        ),
        ({"rate": with_unknown}, f"error in line {with_unknown.__code__.co_firstlineno + 2} of test_user_fu.*nowhere"),
        ({"rate": lambda t, state: state}, r"\(t, state, out, parameters one by one\)"),
        ({"parameters": {"a": 1.0}}, "expected parameters none.*received a"),
        ({"observables": {"a": lambda state: state.nothing}}, "received AttributeError"),
        ({"initial_state": [1.0, 2.0]}, "finite rate at the start, received nan for state value 1"),
        ({"rate": beyond}, "of 1 state values.*another entry"),
        ({"rate": writing}, "changes state"),
        ({"rate": returning}, r"writes to out, received one that returns array\(\[-1\.\]\); write out\[0\]"),
    ],
)
def test_one_sentence(changed: dict[str, Any], message: str) -> None:
    """Assert one sentence for each mistake, with the line of a function that does not compile."""
    arguments: dict[str, Any] = {"name": "Wrong", "rate": decay, "initial_state": [1.0]}
    with pytest.raises(sd.InputError, match=message) as error:
        sd.System.from_function(**{**arguments, **changed})
    assert "\n" not in str(error.value)


def test_a_function_is_compiled_once_and_again_where_it_sees_other_values() -> None:
    """Assert one compiled rate for one function, also made twice, and another after a change of what it sees."""

    def decay(speed: Any) -> FunctionSystem:
        def rate(t: float, state: Any, out: Any) -> None:
            out[0] = -np.sum(np.asarray(speed)) * state[0] if FACTOR == 1.0 else 0.0

        return sd.System.from_function("Decay", rate, [1.0])

    one, same, other = decay(1.0), decay(1.0), decay(2.0)
    assert one.compiled_rate is same.compiled_rate is not other.compiled_rate
    np.testing.assert_allclose(sd.integrate(other, [1.0]).state, [[np.exp(-2.0)]], rtol=1e-7)
    speeds = np.ones(3)
    assert decay(speeds).compiled_rate is not decay(speeds).compiled_rate  # an array may have changed
    globals()["FACTOR"] = 2.0
    try:
        np.testing.assert_array_equal(sd.integrate(decay(1.0), [1.0]).state, 1.0)
    finally:
        globals()["FACTOR"] = 1.0
