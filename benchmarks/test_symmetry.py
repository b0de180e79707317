"""Exact reduction by symmetry: one value of all that stay equal, compared with the full mean field and with diffrax."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pytest
from cases import ATOL, CASES, RTOL, system, times
from diffrax_program import diffrax_run

from snapdyn.dynamics import (
    ClassKind,
    FiniteLengthMeanField,
    FrozenDecoder,
    MeanField,
    ModifiedDecoder,
    SequenceClasses,
    Trajectory,
    from_text,
    integrate,
    integrate_many,
    log_times,
    symmetric_classes,
)
from snapdyn.dynamics.systems.base import System
from snapdyn.dynamics.systems.reduction import reduced

OPTIONS: dict[str, Any] = {"method": "compiled", "rtol": RTOL, "atol": ATOL, "z_only": True}
ROUTES = ["full", "reduced, with the search", "reduced, found before", "diffrax, Tsit5", "diffrax, Dopri8"]


def forget(ready: System) -> None:
    """Let the system look for symmetries again."""
    ready.reductions.clear()
    if ready.classes is not None:
        ready.classes.kept.clear()


def searched(ready: MeanField, t: np.ndarray) -> Trajectory:
    """A run that looks for the symmetries."""
    forget(ready)
    return integrate(ready, t, reduce=True, **OPTIONS)


@pytest.mark.benchmark(group="symmetry, z only")
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("route", ROUTES)
def test_routes(benchmark: Any, case: str, route: str) -> None:
    """Time of a case with 100 saves; the reduced runs make the same steps as the full one."""
    ready, t = system(case), times(case)
    full = integrate(ready, t, reduce=False, **OPTIONS)
    rounds = {"A": 50, "B": 15, "C": 3}[case]
    if "diffrax" in route:
        pytest.importorskip("diffrax")
        run_in_diffrax, z_of = diffrax_run(case, f"{route.removeprefix('diffrax, ')}, z only")
        z = z_of(benchmark.pedantic(run_in_diffrax, rounds=rounds, warmup_rounds=1))
        assert np.abs(z - full.z).max() < 1e-5
        return
    if route == "full":
        run = benchmark.pedantic(integrate, (ready, t), {**OPTIONS, "reduce": False}, rounds=rounds, warmup_rounds=1)
    elif route == "reduced, with the search":
        run = benchmark.pedantic(searched, (ready, t), rounds=100, warmup_rounds=1)
    else:
        run = benchmark.pedantic(integrate, (ready, t), {**OPTIONS, "reduce": True}, rounds=100, warmup_rounds=1)
    benchmark.extra_info.update(run.stats)
    assert run.stats["steps"] == full.stats["steps"]
    assert np.abs(run.z_support - full.z_support).max() < 100 * RTOL * np.abs(full.z_support).max()


SEARCHED: dict[str, Callable[[SequenceClasses], System]] = {
    "MeanField": lambda classes: MeanField(classes, 1.0, 1.0),
    "FrozenDecoder": lambda classes: FrozenDecoder(classes, 1.0),
    "ModifiedDecoder, exact": lambda classes: ModifiedDecoder(classes, 1.0, 1.0),
    "ModifiedDecoder, leading": lambda classes: ModifiedDecoder(classes, 1.0, 1.0, beta="leading"),
    "FiniteLengthMeanField": lambda classes: FiniteLengthMeanField(classes, 1.0, 1.0, 10**6),
}


@pytest.mark.benchmark(group="symmetry, the search")
@pytest.mark.parametrize("case", ["B", "C"])
@pytest.mark.parametrize("kind", SEARCHED)
def test_search(benchmark: Any, case: str, kind: str) -> None:
    """Time of the search and of what the reduced system needs before a run, in evaluations of the full right-hand side.

    Descent without sampling makes the search of MeanField.
    """
    ready = SEARCHED[kind](CASES[case][0])
    state, rate = ready.initial_state(), np.empty(ready.size)

    def search() -> None:
        forget(ready)
        assert reduced(ready) is not None

    benchmark.pedantic(search, rounds=200, warmup_rounds=1)
    search_seconds = min(_seconds_of(search, 1) for _ in range(50))
    one = min(_seconds_of(lambda: ready.write_rate(state, rate), 10) for _ in range(50))
    print(
        f"{case}, {kind}: {search_seconds * 1e6:.0f} us, {search_seconds / one:.1f} evaluations of {one * 1e6:.1f} us"
    )


def _seconds_of(call: Callable[[], Any], times: int) -> float:
    """Processor time of a call, from several in a row."""
    before = process_time()
    for _ in range(times):
        call()
    return (process_time() - before) / times


@pytest.mark.benchmark(group="symmetry, nothing to find")
@pytest.mark.parametrize("case", ["B", "C", "text"])
def test_nothing_to_find(benchmark: Any, case: str, tmp_path: Path) -> None:
    """Processor time of a run, and the share of it that a search takes where no two weights are equal."""
    if case == "text":
        words = np.random.default_rng(0).zipf(1.3, 60_000)
        (tmp_path / "text.txt").write_text(" ".join(f"w{word}" for word in words))
        ready, t = MeanField(from_text(tmp_path / "text.txt", max_classes=100), 1.0, 0.1), log_times(1.0, 1e4, 100)
    else:
        ready, t = system(case, jitter=True), times(case)
    times_of_runs = []

    def whole() -> Trajectory:
        before = process_time()
        run = integrate(ready, t, reduce=False, **OPTIONS)
        times_of_runs.append(process_time() - before)
        return run

    run = benchmark.pedantic(whole, rounds=3 if case == "text" else 8, warmup_rounds=1)
    state, rate = ready.initial_state(), np.empty(ready.size)
    one = min(_seconds_of(lambda: ready.write_rate(state, rate), 10) for _ in range(50))
    search = min(_seconds_of(lambda: _search_in_vain(ready), 1) for _ in range(50))
    benchmark.extra_info.update(run.stats)
    seconds = min(times_of_runs)
    print(
        f"{case}: {ready.size} values, the search takes {search * 1e6:.0f} us, {search / one:.2f} evaluations, "
        f"{100 * search / seconds:.4f} % of a run; a run takes {seconds / (run.stats['evaluations'] * one):.2f} times "
        "its evaluations"
    )


def _search_in_vain(ready: MeanField) -> None:
    """A search that finds nothing."""
    forget(ready)
    assert reduced(ready, asked=False) is None


def equivalent_classes(num_classes: int, end: float = 1e3) -> tuple[MeanField, np.ndarray]:
    """Ten common and ten distinct tokens, V = 1000 K, and times to `end` K."""
    kind = ClassKind([0.03] * 10, np.arange(1, 11) * 0.7 / 55, num_classes)
    ready = MeanField(symmetric_classes(kind, vocab_size=1000 * num_classes), 1.0, 10 / num_classes)
    return ready, log_times(0.01 * num_classes, end * num_classes, 100)


@pytest.mark.benchmark(group="symmetry, equivalent classes, 600 evaluations")
@pytest.mark.parametrize("num_classes", [10, 10**3, 10**6, 10**9])
def test_equal_numbers_of_evaluations(benchmark: Any, num_classes: int) -> None:
    """Time for any number of classes, up to the time at which a run has made about 600 evaluations."""

    def evaluations(end: float) -> int:
        return int(integrate(*equivalent_classes(num_classes, end), **OPTIONS).stats["evaluations"])

    end = min(np.geomspace(2.0, 1e4, 60), key=lambda end: abs(evaluations(end) - 600))
    ready, t = equivalent_classes(num_classes, end)
    run = benchmark.pedantic(integrate, (ready, t), OPTIONS, rounds=300, warmup_rounds=1)
    benchmark.extra_info.update(run.stats)
    assert abs(run.stats["evaluations"] - 600) < 12


@pytest.mark.benchmark(group="symmetry, equivalent classes")
@pytest.mark.parametrize("num_classes", [10, 10**3, 10**6, 10**9])
def test_equivalent_classes(benchmark: Any, num_classes: int) -> None:
    """Time for any number of classes, and per evaluation: K moves the number of evaluations a little."""
    ready, t = equivalent_classes(num_classes)
    run = benchmark.pedantic(integrate, (ready, t), OPTIONS, rounds=200, warmup_rounds=1)
    benchmark.extra_info.update(run.stats)
    assert run.status == "finished"
    microseconds = 1e6 * benchmark.stats.stats.min / run.stats["evaluations"]
    print(f"K = {num_classes:.0e}: {run.stats['evaluations']} evaluations, {microseconds:.3f} us each")


RATES = np.exp(np.random.default_rng(0).uniform(np.log(0.1), np.log(10.0), (256, 2)))


@pytest.mark.benchmark(group="symmetry, ensembles, rates log-uniform in [0.1, 10], two threads")
@pytest.mark.parametrize("members", ["A", "A, built anew", "C, found before", "C, with the search", "C, built anew"])
def test_ensemble(benchmark: Any, members: str) -> None:
    """Wall time of an ensemble to t = 1e4: 256 times Syn-Small in full, or 256 times case C reduced.

    Members share classes: one of them looks for the symmetries, and, built anew, one of them makes the layout.
    """
    case = members[0]
    classes = CASES[case][0]
    options = {**OPTIONS, "reduce": case == "C"}

    def built() -> list[MeanField]:
        return [MeanField(classes, *pair) for pair in RATES]

    systems = built()
    integrate_many(systems, times("A"), 2, **options)

    def before() -> None:
        if "search" in members or "anew" in members:
            for each in systems:
                forget(each)

    def ensemble() -> list[Trajectory]:
        return integrate_many(built() if "anew" in members else systems, times("A"), 2, **options)

    runs = benchmark.pedantic(ensemble, setup=before, rounds=10)
    assert {run.status for run in runs} == {"finished"}
    evaluations = sum(run.stats["evaluations"] for run in runs)
    rate = len(systems) / benchmark.stats.stats.min
    print(f"{members}: {rate:.0f} trajectories per second, {evaluations / len(systems):.0f} evaluations each")


def test_memory_of_many_classes() -> None:
    """Peak memory of 10^9 classes in a fresh process is that of Syn-Small within 2 MB."""
    code = """if True:
        import sys
        sys.path.insert(0, sys.argv[1])
        from cases import ATOL, RTOL, system, times
        from test_symmetry import OPTIONS, equivalent_classes
        from snapdyn.dynamics import integrate
        # The code of both kernels in both processes.
        ready, t = equivalent_classes(10)
        integrate(ready, t[:2], **OPTIONS)
        integrate(system("A"), times("A")[:2], **OPTIONS)
        ready, t = (system("A"), times("A")) if sys.argv[2] == "A" else equivalent_classes(10**9)
        integrate(ready, t, **OPTIONS)
        print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
    """
    folder = __file__.rsplit("/", 1)[0]
    peak = {}
    for case in ("A", "10^9 classes"):
        run = subprocess.run([sys.executable, "-c", code, folder, case], capture_output=True, text=True, check=True)
        peak[case] = int(run.stdout) / 1e3
    print("peak memory in MB:", peak)
    assert abs(peak["A"] - peak["10^9 classes"]) < 2.0
