"""Integration: accuracy against independent solutions, stiff runs, events, honest endings, bad input."""

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import linregress

from snapdyn.core.errors import InputError
from snapdyn.dynamics import (
    Event,
    MeanField,
    ModifiedDecoder,
    SingleCommonToken,
    System,
    integrate,
    integrate_many,
    log_times,
    sgd,
    syn_medium,
    syn_small,
)
from tests.dynamics.dense_reference import Array, random_instance
from tests.dynamics.helpers import EPS
from tests.dynamics.integration.helpers import (
    ETA_Z,
    INSTANCE,
    SYSTEMS,
    mean_field_system,
    overflowing,
    reference_z,
    tolerance,
)

METHODS = ["DOP853", "LSODA", "BDF"]  # one explicit, one with steps of its own, one with a Jacobian
TIMES = log_times(0.05, 300.0, 40)


@pytest.fixture(scope="module")
def reference() -> Array:
    """z at TIMES from RK45 at 1e-12, a hundred times tighter than anything compared with it."""
    return reference_z(TIMES, "RK45", 1e-12, 1e-14)


@pytest.mark.parametrize("log_time", [False, True], ids=["time", "log time"])
@pytest.mark.parametrize("method", ["compiled", "DOP853", "RK45", "RK23", "RKC", "LSODA", "BDF", "Radau", "CVODE"])
def test_every_method_agrees_with_an_independent_solution(method: str, log_time: bool, reference: Array) -> None:
    """Assert that all saves, early to late and inside steps, lie within the tolerance of the dense solution."""
    run = integrate(mean_field_system(), TIMES, method=method, rtol=1e-7, atol=1e-9, log_time=log_time)
    assert run.status == "finished"
    assert run.stats["method"] == ("DOP853" if method == "compiled" else method)
    assert (run.stats["log_time"], run.stats["compiled"]) == (log_time, method == "compiled")
    np.testing.assert_array_equal(run.t, TIMES)
    error = np.abs(run.z - reference).max(axis=(1, 2))
    # Dense output is of lower order than the step and adds about one tolerance of its own.
    assert (error < tolerance(run)).all()
    # Signal over tolerance: at every time the start is rejected, and so is a run at a rate 1 % off.
    assert tolerance(run) < 0.01 * np.abs(reference[-1]).max()


def test_a_wrong_rate_is_rejected(reference: Array) -> None:
    """Assert that a run with eta_Z 0.1 % off differs by more than the tolerance used above."""
    run = integrate(mean_field_system(1.001 * ETA_Z), TIMES, rtol=1e-7, atol=1e-9)
    assert np.abs(run.z - reference).max() > tolerance(run)


@pytest.mark.parametrize("method", ["compiled", "DOP853", "RK45", "RK23"])
def test_error_falls_with_the_tolerance(method: str, reference: Array) -> None:
    """Assert that the error is proportional to the tolerance, exponent fitted.

    A step of a pair of orders q (estimate) and q + 1 keeps the estimate h^(q+1) at the tolerance, and the
    propagated global error is h^(q+1): exponent 1. Order lost or gained in RK23 would show as 2/3 or 4/3;
    half of that gap is the margin.
    """
    rtols = np.geomspace(1e-6, 10**-9.5, 8)
    errors = []
    for rtol in rtols:
        run = integrate(mean_field_system(), [TIMES[-1]], method=method, rtol=float(rtol), atol=float(rtol) / 100)
        errors.append(np.abs(run.z[-1] - reference[-1]).max())
    slope = linregress(np.log(rtols), np.log(errors)).slope
    assert abs(slope - 1.0) < 1 / 6


@pytest.mark.parametrize("name", SYSTEMS)
def test_start_is_kept_exactly(name: str) -> None:
    """Assert that t = 0 gives the initial logits exactly and the loss ln V of the zero decoder."""
    system = SYSTEMS[name]()
    for run in (integrate(system, [0.0]), integrate(system, [0.0, 2.0])):
        np.testing.assert_array_equal(run.z[0], system.z_initial)
        V = 100 if name == "SingleCommonToken" else 12
        assert math.isclose(run.loss[0], math.log(V), rel_tol=4 * EPS)
        assert all(np.max(value[0]) == 0 for value in run.invariants.values())
    assert integrate(system, [0.0]).stats["evaluations"] == 0


@pytest.mark.parametrize("method", ["compiled", "DOP853", "LSODA"])
def test_progress_is_monotone_and_ends_at_one(method: str) -> None:
    """Assert that times and fractions never fall and end at the last time and 1."""
    calls: list[tuple[float, float]] = []
    run = integrate(mean_field_system(), [1e3], method=method, progress=lambda t, share: calls.append((t, share)))
    times, shares = np.array(calls).T
    assert run.success
    assert len(calls) > (method != "compiled")
    assert (np.diff(times) >= 0).all()
    assert (np.diff(shares) >= 0).all()
    assert (times[-1], shares[-1]) == (1e3, 1.0)


ARGUMENTS = (5, 100, 1.0, 0.1, 5.0)


@pytest.mark.parametrize(("where", "method"), [("event", "DOP853"), ("rate", "LSODA"), ("rate", "CVODE")])
def test_ctrl_c_keeps_what_is_finished(where: str, method: str) -> None:
    """Assert that an interrupt returns the saves made so far, equal to those of a full run."""
    times = np.arange(0.0, 41.0)

    def interrupt(t: float, *_: Any) -> float:
        if t > 20:
            raise KeyboardInterrupt
        return 1.0

    options: dict[str, Any] = {"events": {"x": Event(interrupt)}} if where == "event" else {}
    system = (Stopping if where == "rate" else SingleCommonToken)(*ARGUMENTS)
    run = integrate(system, times, method, **options)
    full = integrate(SingleCommonToken(*ARGUMENTS), times, method)
    assert run.status == "interrupted"
    assert f"{run.t.size} of 41 times" in run.message
    assert 3 <= run.t.size <= 41
    np.testing.assert_array_equal(run.t, times[: run.t.size])
    np.testing.assert_array_equal(run.z, full.z[: run.t.size])
    assert run.loss.shape == run.t.shape


@pytest.mark.parametrize("method", ["compiled", "DOP853", "LSODA", "CVODE", "RKC"])
def test_failure_at_the_start_ends(method: str) -> None:
    """Assert that a state that overflows ends as failed with the start kept, and says what and what to try."""
    run = integrate(overflowing(), [0.0, 1.0, 2.0], method)
    assert run.status == "failed"
    assert re.match(r"failed at t = \S+ in .*; try ", run.message)
    assert run.t.tolist() == [0.0]


@pytest.mark.parametrize("size", [700.0, 1e300])
def test_extreme_initial_logits_do_not_diverge(size: float) -> None:
    """Assert that a prior that puts all attention on one token runs, with attention exactly there."""
    z_initial = np.zeros((2, 8))
    z_initial[:, 0], z_initial[:, 3] = size, -size
    run = integrate(MeanField(INSTANCE.classes(), 1.0, 1.0, z_initial=z_initial), [0.0, 10.0])
    assert run.status == "finished"
    np.testing.assert_allclose(run.attention.sum(axis=2), 1.0, rtol=1e-14)
    np.testing.assert_allclose(run.attention[0, INSTANCE.P[:, 0] > 0, 0], 1.0, atol=1e-12)


def integrated(times: Any = (1.0,), **options: Any) -> Any:
    """A run of the mean field with one thing wrong."""
    return integrate(mean_field_system(), times, **options)


SHARED = random_instance(4, next_token=(3, 3, 3, 1, 8)).classes()


REFUSED: dict[str, Callable[[], Any]] = {
    "t_eval to increase": lambda: integrated([2.0, 1.0]),
    "finite": lambda: integrated([math.nan]),
    "rtol to be a finite number of at least": lambda: integrated(rtol=1e-15),
    "did you mean 'RK45'": lambda: integrated(method="RK46"),
    "use CVODE or DOP853": lambda: integrate(MeanField(syn_medium(10), 1.0, 1.0), [1.0], method="Radau"),
    "system to be a System": lambda: integrate(INSTANCE.classes(), [1.0]),  # type: ignore[arg-type]
    "classes to be a SequenceClasses": lambda: MeanField(INSTANCE.P, 1.0, 1.0),  # type: ignore[arg-type]
    "different next tokens": lambda: ModifiedDecoder(SHARED, 1.0, 1.0),
    "the last time after": lambda: log_times(2.0, 1.0, 5),
}


@pytest.mark.parametrize("words", REFUSED)
def test_bad_input_is_refused(words: str) -> None:
    """Assert one sentence for each check of times, tolerances, names and systems."""
    with pytest.raises(InputError, match=f"^expected .*{words.strip()}"):
        REFUSED[words]()


def members() -> list[System]:
    """Mean fields of random rates."""
    rng = np.random.default_rng(0)
    return [MeanField(syn_small(), *np.exp(rng.uniform(-2, 2, 2))) for _ in range(12)]


@pytest.mark.parametrize(("threads", "z_only", "reduce"), [(1, True, False), (2, False, True), (5, True, True)])
def test_ensemble_equals_single_runs(threads: int, z_only: bool, reduce: bool) -> None:
    """Assert bit-identical members in their order, whatever the number of threads, one system given twice.

    Members share no mapping or list.
    """
    systems = members()
    systems.append(systems[0])
    times = log_times(0.1, 1e3, 20)
    options: dict[str, Any] = {"z_only": z_only, "reduce": reduce, "dense": True}
    runs = integrate_many(systems, times, threads=threads, **options)
    for system, run in zip(systems, runs, strict=True):
        single = integrate(system, times, **options)
        for name in ("z", "loss"):
            np.testing.assert_array_equal(getattr(run, name), getattr(single, name))
        assert run.invariants.keys() == single.invariants.keys()
        for name, violation in run.invariants.items():
            np.testing.assert_array_equal(violation, single.invariants[name])
        assert (run.parameters, run.stats, run.status) == (system.parameters, single.stats, "finished")
        np.testing.assert_array_equal(run(5.0), single(5.0))
    assert len({float(run.z[-1].max()) for run in runs}) == len(systems) - 1
    for name in ("parameters", "stats", "invariants", "extra", "observables", "state_shapes", "events"):
        assert len({id(getattr(run, name)) for run in runs}) == len(runs)


def test_a_misspelt_argument_is_answered_with_the_right_one() -> None:
    """Assert the name of the function that was called, where it passes its arguments on."""
    system = mean_field_system()
    with pytest.raises(TypeError, match=r"^integrate\(\) got .*'rtoll'; did you mean 'rtol' or 'atol'\?"):
        integrate(system, [1.0], rtoll=1e-6)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^integrate_many\(\) got .*'zonly'; did you mean 'z_only'"):
        integrate_many([system], [1.0], zonly=True)
    with pytest.raises(TypeError, match=r"^sgd\(\) got .*'batchsize'; did you mean 'batch_size'"):
        sgd(syn_small(), 1.0, 1.0, 2, batchsize=3)


def test_failure_of_one_member_stops_no_other() -> None:
    """Assert statuses member by member, and one sentence for a member that is no system or a bad option."""
    systems = [mean_field_system(), overflowing(), mean_field_system()]
    runs = integrate_many(systems, [1.0, 2.0], threads=2)
    assert [(run.status, run.t.size) for run in runs] == [("finished", 2), ("failed", 0), ("finished", 2)]
    assert "failed at t = " in runs[1].message
    assert integrate_many([], [1.0]) == []
    without_decoder = ModifiedDecoder(random_instance(3).classes(), 1.0, 1.0)
    for given, options, words in (
        ([3], {}, "a list of System"),
        (systems, {"threads": 0}, "threads"),
        ([systems[0], without_decoder], {"save_decoder": True}, r"a system with a decoder Y.* \(systems\[1\]\)$"),
    ):
        with pytest.raises(InputError, match=f"^expected .*{words}"):
            integrate_many(given, [1.0], **options)  # type: ignore[arg-type]


def test_progress_of_an_ensemble_and_ctrl_c() -> None:
    """Assert that progress counts all members, and that Ctrl-C in one thread ends those that wait."""
    seen: list[tuple[int, int]] = []
    runs = integrate_many(members(), [1.0, 10.0], threads=2, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(done, 12) for done in range(1, 13)]
    for system, run in zip(members(), runs, strict=True):
        np.testing.assert_array_equal(run.z, integrate(system, [1.0, 10.0]).z)

    def interrupt(done: int, total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    stopped = [run.status for run in integrate_many(members(), [1e3], threads=1, progress=interrupt)]
    assert stopped[:3] == ["finished"] * 3
    assert stopped[-1] == "interrupted"


class Stopping(SingleCommonToken):
    """Raises KeyboardInterrupt inside the right-hand side once V h passes 2."""

    def write_rate(self, state: Array, out: Array) -> float:
        if state[2] > 2:
            raise KeyboardInterrupt
        return super().write_rate(state, out)
