"""The compiled integrator: order, step control, dense output, saves, pauses, honest endings; what stiff runs say."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy

import snapdyn as sd
from snapdyn.core.errors import InputError
from snapdyn.core.memory import Unaffordable
from snapdyn.dynamics import (
    Event,
    FiniteLengthMeanField,
    MeanField,
    SequenceClasses,
    System,
    integrate,
    log_times,
    syn_small,
)
from snapdyn.dynamics.integration import solvers
from snapdyn.dynamics.integration.request import METHODS
from tests.dynamics.integration.helpers import SYSTEMS, tolerance
from tests.helpers import ROOT


@pytest.mark.kernel
@pytest.mark.parametrize("name", SYSTEMS)
def test_agrees_with_scipy_on_the_same_right_hand_side(name: str) -> None:
    """Assert all saves, extra quantities and the cost against scipy's DOP853 for every system.

    Both make the same steps up to rounding. scipy evaluates the rate at the end of a rejected step as well, one
    evaluation in twelve; the last step may fall on the other side of a rounding error.
    """
    times = np.array([0.0, 0.01, 0.5, 1.0, 3.0, 20.0])
    ours, theirs = (integrate(SYSTEMS[name](), times, method) for method in ("compiled", "DOP853"))
    assert (ours.status, ours.stats["compiled"], theirs.stats["compiled"]) == ("finished", True, False)
    bound = 0.1 * tolerance(ours)
    assert np.abs(ours.z - theirs.z).max() < bound
    assert np.abs(ours.loss - theirs.loss).max() < bound
    assert ours.extra.keys() == theirs.extra.keys()
    assert ours.invariants.keys() == theirs.invariants.keys()
    for key, values in ours.extra.items():
        assert np.abs(values - theirs.extra[key]).max() < bound
    assert abs(ours.stats["steps"] - theirs.stats["steps"]) <= 1
    assert -16 <= ours.stats["evaluations"] - theirs.stats["evaluations"] <= 16
    if not name.endswith("FrozenDecoder"):
        assert np.abs(theirs.z[-1] - theirs.z[0]).max() > 1e3 * bound


def test_auto_takes_the_compiled_route_where_there_is_one() -> None:
    """Assert compiled for plain systems, with and without events; scipy for subclasses."""

    class Changed(MeanField):
        pass

    classes = syn_small()
    assert integrate(MeanField(classes, 1.0, 1.0), [1.0]).stats["compiled"]
    assert integrate(MeanField(classes, 1.0, 1.0), [1.0], events={"x": Event(lambda t, s: t - 0.5)}).stats["compiled"]
    assert integrate(FiniteLengthMeanField(classes, 1.0, 1.0, 1000), [1.0]).stats["compiled"]
    system = Changed(classes, 1.0, 1.0)
    assert not integrate(system, [1.0]).stats["compiled"]
    with pytest.raises(InputError, match="use method='DOP853'"):
        integrate(system, [1.0], "compiled")


def compiled_systems() -> list[type[System]]:
    """All systems that declare an integrator."""
    found, waiting = [], [System]
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        found += [kind] if vars(kind).get("compiled") else []
    return found


@pytest.mark.slow
def test_each_system_is_compiled_once_and_kept_on_disk() -> None:
    """Assert no compilation in a fresh process, after runs of every system here."""
    for build in SYSTEMS.values():
        integrate(build(), [1.0], "compiled")
    code = """if True:
        from tests.dynamics.integration.helpers import SYSTEMS
        from tests.dynamics.integration.test_solvers import compiled_systems
        from snapdyn.dynamics import integrate
        for build in SYSTEMS.values():
            integrate(build(), [1.0], "compiled")
        compiled = [kind.compiled.advance for kind in compiled_systems()]
        print(sum(sum(advance.stats.cache_misses.values()) for advance in compiled))
    """
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert (run.returncode, run.stdout.strip()) == (0, "0"), run.stderr


@pytest.mark.long
def test_the_process_that_compiles_and_later_ones_give_the_same_bits(tmp_path: Path) -> None:
    """Assert equal bits with an empty cache of compiled code, with a full one, and in another order.

    A function and its copy in a caller may be compiled to different roundings, and which of them runs depends on
    what the process has compiled or loaded before.
    """
    code = """if True:
        import hashlib, sys
        import numpy as np
        from snapdyn.dynamics import MeanField, SequenceClasses, integrate, log_times
        from snapdyn.dynamics import single_common_token, syn_medium, syn_small
        sets = [single_common_token(K, D, 0.2, 50) for K in (1, 2, 3, 5) for D in (1, 3)]
        sets += [syn_small(), syn_medium(1)]
        P = np.random.default_rng(0).random((60, 80))  # many output columns
        sets.append(SequenceClasses(P / P.sum(axis=1, keepdims=True), np.zeros(60, int), vocab_size=90))
        runs = {}
        for name in range(len(sets)) if sys.argv[1] == "forward" else reversed(range(len(sets))):
            system = MeanField(sets[name], 1.0, 0.3)
            if sys.argv[1] == "backward":
                system.loss(system.initial_state())
            runs[name] = [integrate(system, log_times(0.1, 1e4, 12), "compiled", reduce=False)]
            runs[name].append(integrate(system, [0.1, 1.0], "DOP853"))
        for name in sorted(runs):
            print(name, *(hashlib.md5(run.z_support.tobytes() + run.loss.tobytes()).hexdigest() for run in runs[name]))
    """
    outputs = []
    for order in ("forward", "forward", "backward"):
        run = subprocess.run(
            [sys.executable, "-c", code, order],
            capture_output=True,
            text=True,
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
        )
        assert run.returncode == 0, run.stderr
        outputs.append(run.stdout.splitlines())
    assert len(outputs[0]) == 11
    assert outputs[1] == outputs[0]
    assert outputs[2] == outputs[0]


@pytest.mark.parametrize("log_time", [False, True], ids=["time", "log time"])
def test_a_step_to_a_state_without_a_rate_is_rejected(log_time: bool) -> None:
    """Assert that u' = -u^(3/2), whose steps reach u < 0 once u is below atol, goes on as with scipy's DOP853."""
    u = sympy.Symbol("u")
    decay = sd.System.from_sympy("Decay", {u: 1.0}, {u: -(u ** sympy.Rational(3, 2))})
    times = np.array([1e2, 1e4, 1e6, 1e8])
    ours, scipys = (integrate(decay, times, method, log_time=log_time) for method in ("compiled", "DOP853"))
    assert (ours.success, ours.stats["steps"]) == (True, scipys.stats["steps"])
    # u falls, so that errors of steps, at most rtol + atol each, do not grow.
    bound = ours.stats["steps"] * (ours.stats["rtol"] + 1e-10)
    assert ours.state[:, 0] == pytest.approx(4 / (2 + times) ** 2, rel=0, abs=bound)


def stiff_system() -> MeanField:
    """Figure 2's classes at eta_Z/eta_Y = 1e8: 28 state values."""
    P = np.array([[0.2, 0.12, 0.08, 0.6, 0, 0, 0], [0, 0, 0, 0.6, 0.2, 0.12, 0.08]])
    return MeanField(SequenceClasses(P, query=[0, 0], vocab_size=100), 1e-4, 1e4)


def test_a_stiff_run_ends_by_default() -> None:
    """Assert that a run at eta_Z/eta_Y = 1e8 ends at t = 1e9, by CVODE and in less than 50,000 evaluations."""
    run = integrate(stiff_system(), log_times(1.0, 1e9, 20), rtol=1e-9)
    assert (run.status, run.stats["method"]) == ("finished", "CVODE")
    assert run.stats["evaluations"] < 50_000


@pytest.mark.parametrize("method", ["compiled", "DOP853"])
def test_an_explicit_run_says_what_is_left(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert evaluations, both times, the estimate and a remedy, in runs with and without Python between steps."""
    monkeypatch.setattr(solvers, "MOST_OF_A_RUN", 1e5 * (stiff_system().multiplications + solvers.STEP_IN_PYTHON))
    run = integrate(stiff_system(), [1e9], method)
    words = r"stopped at t = \S+ after \d+ evaluations .* to t_end = 1e\+09 was estimated to take \S+, more .*'CVODE'"
    assert run.status == "failed"
    assert re.search(words, run.message)


def test_many_unlike_classes_are_refused_before_the_start_and_few_hundred_are_not() -> None:
    """Assert the estimate of a dense table: 2 K M (K + 1) multiplications and 50 a state value, 1000 times."""
    for K in (300, 1000):
        P = np.random.default_rng(0).random((K, K)) + 0.05
        classes = SequenceClasses(P / P.sum(axis=1, keepdims=True), np.zeros(K, int), vocab_size=2 * K)
        system = MeanField(classes, 1.0, 1.0)
        assert system.multiplications == 2.0 * K * K * (K + 1) + 50.0 * system.size
        assert integrate(system, [1e-3 if K == 300 else 0.0]).success
    with pytest.raises(Unaffordable, match=r"at most 1\.2e\+12 multiplications, received an estimate of 2\.1e\+12"):
        integrate(system, [1.0])


X, Y, T = sympy.symbols("x y t")
BLOW_UPS = {  # rate, start, and the time of the pole
    "square": (X**2, 1.0, 1.0),
    "pole in time": (1 / (1 - T), 0.0, 1.0),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", BLOW_UPS)
def test_every_method_stops_at_a_blow_up(kind: str, method: str) -> None:
    """Assert a failure with its time, where the exact solution becomes infinite."""
    rate, start, pole = BLOW_UPS[kind]
    system = sd.System.from_sympy("Blow-up", {X: start}, {X: rate}, time=T)
    run = integrate(system, [0.4, 2.0], method)
    assert run.status == "failed"
    found = re.search(r"at t = (\S+)", run.message)
    assert found is not None
    assert float(found[1]) == pytest.approx(pole, rel=1e-4)


SLIDING = {
    "sign": ({X: 1.0}, {X: -sympy.sign(X)}),
    "oblique": ({X: 1.0, Y: 0.5}, {X: -sympy.sign(X + Y), Y: sympy.cos(T) / 2 + X / 3}),
    "controller": ({X: 0.0}, {X: 2 * sympy.Heaviside(1 - X) - X / 2}),
}


@pytest.mark.parametrize("method", ["auto", "LSODA", "CVODE", "BDF", "Radau"])
@pytest.mark.parametrize("kind", SLIDING)
def test_sliding_along_a_jump_is_said(kind: str, method: str) -> None:
    """Assert that a run whose steps chatter across a jump ends within 10,000 steps and says why."""
    run = integrate(sd.System.from_sympy("Sliding", *SLIDING[kind], time=T), [20.0], method)
    assert run.status == "failed"
    assert re.search(r"stopped at t = \S+: the solution slides along a jump of the rate of [xy]", run.message)
    assert run.stats["steps"] < 10_000


@pytest.mark.parametrize("method", ["auto", "CVODE", "BDF", "Radau"])
def test_a_pole_is_no_jump(method: str) -> None:
    """Assert that a run into x' = -1/x, whose rate changes its sign at a pole, is not called sliding."""
    run = integrate(sd.System.from_sympy("Pole", {X: 1.0}, {X: -1 / X}), [2.0], method)
    assert run.message.startswith("failed at t = 0.5")


@pytest.mark.parametrize(
    ("rate", "t_end"),
    [
        ({X: Y, Y: 1000 * (1 - X**2) * Y - X}, 1500.0),  # Van der Pol
        ({X: -sympy.tanh(10**5 * X), Y: 1}, 20.0),  # as steep as the steps are short
        ({X: -(10**5) * (X - sympy.cos(T)), Y: 0}, 10.0),
        ({X: Y, Y: -sympy.sign(X)}, 1000.0),  # crosses its jump, and does not stay at it
    ],
)
def test_stiff_and_crossing_runs_are_not_called_sliding(rate: Any, t_end: float) -> None:
    """Assert that runs of many short steps, smooth or across jumps, end."""
    assert integrate(sd.System.from_sympy("Stiff", {X: 2.0, Y: 0.0}, rate, time=T), [t_end], "compiled").success
