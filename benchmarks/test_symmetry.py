"""Exact reduction by symmetry: one value of all that stay equal, compared with the full mean field."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cases import ATOL, CASES, RTOL, system, times

from snapdyn.dynamics import ClassKind, MeanField, Trajectory, integrate, log_times, symmetric_classes
from snapdyn.dynamics.symmetry.reduction import LARGEST_SHARE, reduced

OPTIONS: dict[str, Any] = {"method": "compiled", "rtol": RTOL, "atol": ATOL, "z_only": True}


def searched(ready: MeanField, t: np.ndarray) -> Trajectory:
    """A run that looks for the symmetries."""
    ready.reductions.clear()
    return integrate(ready, t, reduce=True, **OPTIONS)


@pytest.mark.benchmark(group="symmetry, z only")
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("route", ["full", "reduced, with the search", "reduced, found before"])
def test_routes(benchmark: Any, case: str, route: str) -> None:
    """Time of a case with 100 saves; the reduced runs make the same steps as the full one."""
    ready, t = system(case), times(case)
    full = integrate(ready, t, reduce=False, **OPTIONS)
    rounds = {"A": 50, "B": 15, "C": 3}[case]
    if route == "full":
        run = benchmark.pedantic(integrate, (ready, t), {**OPTIONS, "reduce": False}, rounds=rounds, warmup_rounds=1)
    elif route == "reduced, with the search":
        run = benchmark.pedantic(searched, (ready, t), rounds=rounds, warmup_rounds=1)
    else:
        run = benchmark.pedantic(integrate, (ready, t), {**OPTIONS, "reduce": True}, rounds=50, warmup_rounds=1)
    benchmark.extra_info.update(run.stats)
    assert run.stats["steps"] == full.stats["steps"]
    assert np.abs(run.z_support - full.z_support).max() < 100 * RTOL * np.abs(full.z_support).max()


@pytest.mark.benchmark(group="symmetry, nothing to find")
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("route", ["search", "run, z only"])
def test_jittered(benchmark: Any, case: str, route: str) -> None:
    """Time of the search where no two weights are equal, and of the run that it comes before."""
    ready, t = system(case, jitter=True), times(case)

    def search() -> None:
        ready.reductions.clear()
        assert reduced(ready, LARGEST_SHARE) is None

    if route == "search":
        benchmark.pedantic(search, rounds=5, warmup_rounds=1)
    else:
        benchmark.pedantic(integrate, (ready, t), {**OPTIONS, "reduce": False}, rounds=3, warmup_rounds=1)


@pytest.mark.benchmark(group="symmetry, equivalent classes")
@pytest.mark.parametrize("num_classes", [10, 10**3, 10**6, 10**9])
def test_equivalent_classes(benchmark: Any, num_classes: int) -> None:
    """Time for ten common and ten distinct tokens, V = 1000 K, to a time that grows with K."""
    kind = ClassKind([0.03] * 10, np.arange(1, 11) * 0.7 / 55, num_classes)
    ready = MeanField(symmetric_classes(kind, vocab_size=1000 * num_classes), 1.0, 10 / num_classes)
    t = log_times(0.01 * num_classes, 1e3 * num_classes, 100)
    run = benchmark.pedantic(integrate, (ready, t), {**OPTIONS, "reduce": True}, rounds=50, warmup_rounds=1)
    benchmark.extra_info.update(run.stats)
    assert run.status == "finished"
