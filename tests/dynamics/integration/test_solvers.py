"""The compiled integrator: order, step control, dense output, saves, pauses, honest endings; what stiff runs say."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import sympy
from scipy.stats import linregress

import snapdyn as sd
from snapdyn.dynamics import (
    Event,
    FiniteLengthMeanField,
    FrozenDecoder,
    MeanField,
    ModifiedDecoder,
    SequenceClasses,
    SingleCommonToken,
    System,
    integrate,
    log_times,
    single_common_token,
    syn_small,
)
from snapdyn.dynamics.integration import methods, solvers
from snapdyn.dynamics.integration.clock import Clock
from snapdyn.dynamics.integration.solvers import DormandPrinceSolver, Outlook
from snapdyn.dynamics.kernels.dormand_prince import Rows
from snapdyn.dynamics.symmetry.systems import MeanFieldQuotient, ModifiedDecoderQuotient
from snapdyn.errors import InputError
from snapdyn.memory import MOST_OF_A_RUN, Unaffordable
from tests.dynamics.dense_reference import random_instance
from tests.dynamics.integration.helpers import SYSTEMS, mean_field_system, overflowing, reference_z, tolerance
from tests.dynamics.symmetry.helpers import plain
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


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("log_time", [False, True], ids=["time", "log time"])
def test_error_on_random_instances_is_that_of_scipy(seed: int, log_time: bool) -> None:
    """Assert that z errs, against LSODA at 1e-12, as scipy's DOP853 at the same tolerance; 0.1 % of eta_Z is seen.

    Equal steps make equal errors; 1 % is left for the rounding of the error estimates, 1e-10 for LSODA's own error,
    a hundred of its tolerances. (The error itself is 1e-6 in one of these instances, where attention amplifies it.)
    """
    rng = np.random.default_rng(seed)
    classes = random_instance(100 + seed, num_classes=4, num_tokens=8, vocab_size=9).classes()
    eta_Y, eta_Z = np.exp(rng.uniform(-1, 1, 2))
    times = log_times(0.05, 1e3, 25)
    reference = integrate(MeanField(classes, eta_Y, eta_Z), times, "LSODA", 1e-12, 1e-14).z_support

    def error(method: str, rate: float) -> float:
        run = integrate(MeanField(classes, eta_Y, rate), times, method, 1e-9, 1e-11, log_time)
        return float(np.abs(run.z_support - reference).max())

    bound = 1.01 * error("DOP853", eta_Z) + 1e-10
    assert error("compiled", eta_Z) < bound < 1e-5
    assert error("compiled", 1.001 * eta_Z) > 10 * bound


def test_tight_tolerance_reaches_an_independent_solution() -> None:
    """Assert the compiled run at rtol 1e-11 against numpy equations under scipy's RK45 at 1e-12."""
    times = log_times(0.05, 100.0, 12)
    run = integrate(mean_field_system(), times, "compiled", 1e-11, 1e-13)
    assert np.abs(run.z - reference_z(times, "RK45", 1e-12, 1e-14)).max() < tolerance(run) < 1e-7


def test_error_falls_with_the_tolerance() -> None:
    """Assert that the error is proportional to the tolerance, exponent fitted (margins as for scipy's solvers)."""
    reference = integrate(mean_field_system(), [50.0], "LSODA", 1e-13, 1e-15).z_support
    rtols = np.geomspace(1e-5, 1e-9, 9)
    errors = [
        np.abs(integrate(mean_field_system(), [50.0], "compiled", r, r / 100).z_support - reference).max()
        for r in rtols
    ]
    assert abs(linregress(np.log(rtols), np.log(errors)).slope - 1.0) < 1 / 6


@pytest.mark.parametrize("log_time", [False, True], ids=["time", "log time"])
def test_saves_inside_steps_are_as_good_as_step_ends(log_time: bool) -> None:
    """Assert that 301 saves from t = 0 on agree with runs that end at the save, where nothing is interpolated."""
    times = np.linspace(0.0, 30.0, 301)
    run = integrate(mean_field_system(), times, "compiled", 1e-7, 1e-9, log_time)
    np.testing.assert_array_equal(run.z[0], 0.0)
    for i in (1, 10, 77, 150, 299):
        end = integrate(mean_field_system(), [times[i]], "compiled", 1e-7, 1e-9, log_time)
        assert np.abs(run.z[i] - end.z[0]).max() < 2 * tolerance(run)
        assert abs(run.loss[i] - end.loss[0]) < 2 * tolerance(run)


def test_a_pause_after_every_step_changes_nothing() -> None:
    """Assert bit-identical saves from steps made one by one."""
    times = log_times(0.1, 100.0, 30)
    system = mean_field_system()
    whole = integrate(system, times, "compiled")
    solver = DormandPrinceSolver(system, Clock(None), 100.0, 1e-8, 1e-10)
    saved, losses = np.empty((30, system.size)), np.empty(30)
    count = 0
    while solver.status == "running":
        count += solver.advance(Rows(times, saved[count:], losses[count:]), 1)[0]
    np.testing.assert_array_equal(system.z_support(saved), whole.z_support)
    np.testing.assert_array_equal(losses, whole.loss)
    assert solver.nfev == whole.stats["evaluations"]


def test_restart_in_the_middle_equals_one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that a run continued from its state at t = 10 ends at t = 60 where one run does."""
    whole, system = mean_field_system(), mean_field_system()
    first = DormandPrinceSolver(whole, Clock(None), 10.0, 1e-9, 1e-11)
    while first.status == "running":
        first.step()
    state = first.y.copy()
    monkeypatch.setattr(system, "initial_state", lambda: state)
    rest, run = (integrate(s, [t], "compiled", 1e-9, 1e-11) for s, t in ((system, 50.0), (whole, 60.0)))
    assert np.abs(rest.z - run.z).max() < 2 * tolerance(run) < 1e-3 * np.abs(run.z).max()
    assert np.abs(whole.z_support(state) - run.z_support[0]).max() > 1e3 * tolerance(run)


def test_failure_names_time_quantity_and_remedy() -> None:
    """Assert that a state that overflows ends as failed with the start kept and finite saves only."""
    run = integrate(overflowing(), [0.0, 1.0, 2.0], "compiled")
    assert run.status == "failed"
    assert run.message.startswith("failed at t = 0 in ")
    assert "try " in run.message
    assert run.t.tolist() == [0.0]
    assert np.isfinite(run.z).all()


def test_ctrl_c_keeps_what_is_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that an interrupt between calls keeps the saves made so far, equal to those of a full run."""
    import importlib

    module = importlib.import_module("snapdyn.dynamics.integration.driver")
    monkeypatch.setattr(module, "SECONDS_AT_ONCE", 0.0)
    monkeypatch.setattr(module, "FIRST_NUMBERS_AT_ONCE", 0)
    times = np.arange(0.0, 41.0)
    full = integrate(mean_field_system(), times, "compiled")

    def interrupt(t: float, share: float) -> None:
        if t > 20:
            raise KeyboardInterrupt

    run = integrate(mean_field_system(), times, "compiled", progress=interrupt)
    assert run.status == "interrupted"
    assert f"{run.t.size} of 41 times" in run.message
    assert 20 < run.t.size < 41
    np.testing.assert_array_equal(run.z, full.z[: run.t.size])
    np.testing.assert_array_equal(run.loss, full.loss[: run.t.size])


def test_progress_ends_at_one() -> None:
    """Assert that times and fractions rise and end at the last time and 1."""
    calls: list[tuple[float, float]] = []
    integrate(mean_field_system(), [1e3], "compiled", progress=lambda t, share: calls.append((t, share)))
    times, shares = np.array(calls).T
    assert (np.diff(times) >= 0).all()
    assert (times[-1], shares[-1]) == (1e3, 1.0)


def test_auto_takes_the_compiled_route_where_there_is_one() -> None:
    """Assert compiled for plain systems, with and without events; scipy for subclasses and finite sequences."""

    class Changed(MeanField):
        pass

    classes = syn_small()
    assert integrate(MeanField(classes, 1.0, 1.0), [1.0]).stats["compiled"]
    assert integrate(MeanField(classes, 1.0, 1.0), [1.0], events={"x": Event(lambda t, s: t - 0.5)}).stats["compiled"]
    for system in (Changed(classes, 1.0, 1.0), FiniteLengthMeanField(classes, 1.0, 1.0, 1000)):
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
    """Assert one specialisation per system whatever its options, and no compilation in a fresh process.

    The decoders of all classes and of kinds share one: it is compiled for a step control with weights and without.
    """
    classes = random_instance(5, num_classes=3, num_tokens=8, vocab_size=9).classes()
    for build in SYSTEMS.values():
        integrate(build(), [1.0], "compiled", z_only=True)
    integrate(FrozenDecoder(classes, 1.0), [1.0], "compiled")
    integrate(ModifiedDecoder(syn_small(), 1.0, 1.0, "leading"), [0.0, 1.0], "compiled", log_time=True)
    integrate(MeanField(syn_small(), 1.0, 1.0), [1.0], "compiled", reduce=False)
    integrate(MeanField(syn_small(), 1.0, 1.0), [1.0], "compiled", reduce=True)
    integrate(MeanField(plain(syn_small()), 1.0, 1.0), [1.0], "compiled", reduce=True)
    integrate(MeanField(single_common_token(10**9, 1, 0.3), 1.0, 1e-9), [1.0], "compiled")
    counts = {kind: len(kind.compiled.advance.signatures) for kind in compiled_systems()}
    here = (MeanField, MeanFieldQuotient, FrozenDecoder, ModifiedDecoder, SingleCommonToken)
    several = (FrozenDecoder, ModifiedDecoder, ModifiedDecoderQuotient)
    assert [counts[kind] for kind in here if kind not in several] == [1] * 3
    assert all(counts[kind] <= (2 if kind in several else 1) for kind in counts)  # another test may have run them
    assert len(MeanField.compiled_for_three_columns.advance.signatures) == 1
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("classes", "compiled"),
    [
        ("syn_small()", {"advance_three_column_rate", "three_column_rate", "mean_field_of_three_columns"}),
        ("syn_medium(2)", {"advance_mean_field_of_any_columns", "mean_field_of_any_columns"}),
    ],
)
def test_the_first_run_compiles_only_what_it_calls(tmp_path: Path, classes: str, compiled: set[str]) -> None:
    """Assert that a run of three output columns compiles no kernel of the others, and the reverse."""
    code = f"""if True:
        from snapdyn.dynamics import MeanField, integrate, syn_medium, syn_small
        integrate(MeanField({classes}, 1.0, 1.0), [0.1, 1.0], "compiled", reduce=False)
    """
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert run.returncode == 0, run.stderr
    names = {path.name.split(".")[1].rsplit("-", 1)[0] for path in tmp_path.rglob("*.nbi")}
    assert {name for name in names if "mean_field" in name or "three" in name} == compiled


@pytest.mark.slow
def test_the_process_that_compiles_and_later_ones_give_the_same_bits(tmp_path: Path) -> None:
    """Assert equal bits with an empty cache of compiled code, with a full one, and in another order.

    A function and its copy in a caller may be compiled to different roundings, and which of them runs depends on
    what the process has compiled or loaded before.
    """
    code = """if True:
        import hashlib, sys
        import numpy as np
        from snapdyn.dynamics import MeanField, SequenceClasses, integrate, log_times, sgd
        from snapdyn.dynamics import single_common_token, syn_medium, syn_small
        sets = [single_common_token(K, D, 0.2, 50) for K in (1, 2, 3, 5) for D in (1, 3, 4)]
        sets += [syn_small(), syn_medium(1), syn_medium(2)]
        P = np.random.default_rng(0).random((60, 80))  # many output columns
        sets.append(SequenceClasses(P / P.sum(axis=1, keepdims=True), np.zeros(60, int), vocab_size=90))
        runs = {}
        for name in range(len(sets)) if sys.argv[1] == "forward" else reversed(range(len(sets))):
            system = MeanField(sets[name], 1.0, 0.3)
            if sys.argv[1] == "backward":
                system.loss(system.initial_state())
            runs[name] = [integrate(system, log_times(0.1, 1e4, 12), "compiled", reduce=False)]
            runs[name].append(integrate(system, log_times(0.1, 1e4, 12), "compiled", reduce=True))
            runs[name].append(integrate(system, [0.1, 1.0], "DOP853"))
            if name % 4 == 0:
                settings = {"steps": 30, "batch_size": 8, "seq_len": 100, "momentum": 0.5}
                runs[name].append(sgd(sets[name], 0.5, 0.3, **settings))
                runs[name].append(sgd(sets[name], 0.5, 0.3, **settings, init="uniform", seed=1))
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
    assert len(outputs[0]) == 16
    assert outputs[1] == outputs[0]
    assert outputs[2] == outputs[0]


def test_memory_of_a_run_is_the_workspace() -> None:
    """Assert that a run with all saves in a buffer allocates 19 states, the saves and little else."""
    import tracemalloc

    system = FrozenDecoder(random_instance(9, num_classes=60, num_tokens=70, vocab_size=90).classes(), 1.0)
    integrate(system, [0.1], "compiled")
    tracemalloc.start()
    try:
        integrate(system, log_times(0.01, 1.0, 5), "compiled", z_only=True)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # The initial state as well, and 100 kB for everything that does not grow with the state.
    assert peak < 20 * 8 * system.size + 100_000


def test_late_times_cost_little_more() -> None:
    """Assert that Syn-Small to t = 1e12 in log time takes at most twice the evaluations of t = 1e4 in time."""
    early, late = (
        integrate(MeanField(syn_small(), 1.0, 1.0), log_times(1e-2, end, 100), "compiled", log_time=end > 1e6)
        for end in (1e4, 1e12)
    )
    assert (early.status, late.status) == ("finished", "finished")
    assert late.stats["evaluations"] < 2 * early.stats["evaluations"]


@pytest.mark.parametrize("log_time", [False, True], ids=["time", "log time"])
def test_a_step_to_a_state_without_a_rate_is_rejected(log_time: bool) -> None:
    """Assert that u' = -u^(3/2), whose steps reach u < 0 once u is below atol, goes on as with scipy's DOP853."""
    u = sympy.Symbol("u")
    decay = sd.System.from_sympy("Decay", {u: 1.0}, {u: -(u ** sympy.Rational(3, 2))})
    times = np.array([1e2, 1e4, 1e6, 1e8])
    compiled = sd.integrate(decay, times, method="compiled", log_time=log_time)
    scipy_run = sd.integrate(decay, times, method="DOP853", log_time=log_time)
    assert compiled.success
    assert scipy_run.success
    assert compiled.stats["steps"] == scipy_run.stats["steps"]
    # u falls, so that errors of steps, at most rtol + atol each, do not grow.
    bound = compiled.stats["steps"] * (compiled.stats["rtol"] + 1e-10)
    assert compiled.state[:, 0] == pytest.approx(4 / (2 + times) ** 2, rel=0, abs=bound)


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
    words = r"estimated to take \S+ evaluations .* from t = \S+, reached by \d+, to t_end = 1e\+09, more .*'CVODE'"
    assert run.status == "failed"
    assert re.search(words, run.message)


def test_a_run_with_a_limit_of_its_own_runs_on_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that `most_evaluations` takes the place of the estimate, before the start and during a run."""
    monkeypatch.setattr(solvers, "MOST_OF_A_RUN", 1.0)
    monkeypatch.setattr(methods, "MOST_OF_A_RUN", 1.0)
    for method in ("compiled", "DOP853"):
        run = integrate(stiff_system(), [1e9], method, most_evaluations=100_000)
        assert run.message.startswith("stopped after 100000 evaluations")
    with pytest.raises(Unaffordable, match=r"28 state values, in some 1000 evaluations, .* or most_evaluations"):
        integrate(stiff_system(), [1e9])


@pytest.mark.parametrize("K", [300, 2000])
def test_many_unlike_classes_are_refused_before_the_start_and_few_hundred_are_not(K: int) -> None:
    """Assert the estimate of a dense table: 2 K M (K + 1) multiplications and 50 a state value, 1000 times."""
    P = np.random.default_rng(0).random((K, K)) + 0.05
    system = MeanField(SequenceClasses(P / P.sum(axis=1, keepdims=True), np.zeros(K, int), vocab_size=2 * K), 1.0, 1.0)
    assert system.multiplications == 2.0 * K * K * (K + 1) + 50.0 * system.size
    assert integrate(system, [0.0]).success
    if K == 300:
        assert integrate(system, [1e-3]).success
    else:
        with pytest.raises(Unaffordable, match=r"at most 1\.2e\+12 multiplications, received an estimate of 1\.6e\+13"):
            integrate(system, [1.0])


MOST_LEFT = 10_000_000  # evaluations, of a system that takes 1e-7 of what a run may take


def ended(per_factor: float, t_end: float) -> list[str]:
    """Messages about a run that takes `per_factor` evaluations, 12 a step, for each further factor e of t."""
    solver = SimpleNamespace(nfev=0)
    request = SimpleNamespace(times=[t_end], most_evaluations=None)
    plan = SimpleNamespace(integrator=True, system=SimpleNamespace(multiplications=MOST_OF_A_RUN / MOST_LEFT))
    seen = Outlook(solver, plan, request)  # type: ignore[arg-type]
    found = []
    while (t := math.exp(solver.nfev / per_factor)) < t_end:
        solver.nfev += 12_000
        found.append(seen.look(solver.nfev // 12, t))
    return [each for each in found if each]


def test_the_estimate_is_right_where_steps_grow_with_time() -> None:
    """Assert the end at the second look for 1.1 times the number after it, with what is left then, and none for .9."""
    t_end, before = 1e12, 48_000  # evaluations at the second look
    for factor in (0.9, 1.1):
        whole = factor * MOST_LEFT + before
        messages = ended(whole / math.log(t_end), t_end)
        assert bool(messages) == (factor > 1)
    assert "estimated to take 1.1e+07 evaluations of the right-hand side from t = " in messages[0]
    assert "reached by 48000, to t_end = 1e+12" in messages[0]
