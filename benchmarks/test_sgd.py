"""The sweep of Fig. 6 in snapdyn and in a straightforward PyTorch program; run time as a function of T and V."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from typing import Any

import pytest

from snapdyn.dynamics import SGD, SequenceClasses, sgd_runs, syn_medium, syn_small

QUERIES = (1, 3, 5, 10)
SETTINGS: dict[str, Any] = {"steps": 100, "batch_size": 128, "seq_len": 127, "momentum": 0.9}


def sweep(seeds: int = 10) -> list[SGD]:
    """Fig. 6: Q in 1, 3, 5, 10, eta_Z in 0.5, 1, 2, 3, eta_Y/eta_Z in 1, 2, 5, 10; 640 runs with 10 seeds."""
    return [
        SGD(classes, ratio * eta_Z, eta_Z, **SETTINGS, init="uniform", seed=seed, record=[0, 100])
        for classes in map(syn_medium, QUERIES)
        for eta_Z in (0.5, 1.0, 2.0, 3.0)
        for ratio in (1, 2, 5, 10)
        for seed in range(seeds)
    ]


@pytest.mark.benchmark(group="Fig. 6 sweep, 640 runs")
@pytest.mark.parametrize("threads", [1, 2])
def test_sweep(benchmark: Any, threads: int) -> None:
    """Wall time of the whole sweep, compilation excluded."""
    sgd_runs(sweep(seeds=1)[:1])
    runs = benchmark.pedantic(sgd_runs, args=(sweep(), threads), rounds=2)
    assert len(runs) == 640
    assert {run.status for run in runs} == {"finished"}


@pytest.mark.benchmark(group="one run of the sweep")
@pytest.mark.parametrize("num_queries", QUERIES)
def test_run_against_torch(benchmark: Any, num_queries: int) -> None:
    """Time of one run on one thread, per run of 32 on two threads, and of the PyTorch program on one thread."""
    classes = syn_medium(num_queries)
    run = SGD(classes, 2.0, 1.0, **SETTINGS, init="uniform", record=[0, 100])
    ours = benchmark.pedantic(run.run, rounds=15, warmup_rounds=1)
    torch = pytest.importorskip("torch", reason="torch is not installed: the PyTorch program is not timed")
    from torch_program import train

    torch.set_num_threads(1)
    train(classes, 2.0, 1.0, 2, 128, 127, 0.9, 0)
    times = []
    for _ in range(3):
        started = time.perf_counter()
        _, losses = train(classes, 2.0, 1.0, **SETTINGS, seed=0)
        times.append(time.perf_counter() - started)
    assert 0.2 < losses[-1] / ours.loss[-1] < 5.0  # the same training, on other draws
    several = [replace(run, seed=seed) for seed in range(32)]
    times_of_several = []
    for _ in range(5):
        started = time.perf_counter()
        sgd_runs(several, 2)
        times_of_several.append(time.perf_counter() - started)
    benchmark.extra_info["PyTorch program, s"] = min(times)
    benchmark.extra_info["ratio per run"] = min(times) / benchmark.stats.stats.min
    benchmark.extra_info["ratio per run, two threads"] = min(times) / (min(times_of_several) / len(several))


@pytest.mark.benchmark(group="T")
@pytest.mark.parametrize("seq_len", [127, 1000, 10_000, 100_000, 1_000_000])
@pytest.mark.parametrize("case", ["Syn-Small, zero start", "Syn-Medium Q = 10, uniform start"])
def test_sequence_length(benchmark: Any, case: str, seq_len: int) -> None:
    """Time of one run for T - 1 = 127 .. 1e6."""
    small = case.startswith("Syn-Small")
    run = SGD(
        syn_small() if small else syn_medium(10), 2.0, 1.0, **(SETTINGS | {"seq_len": seq_len}),
        init="zeros" if small else "uniform", record=[0, 100],
    )  # fmt: skip
    benchmark.pedantic(run.run, rounds=25, warmup_rounds=1)


@pytest.mark.benchmark(group="V")
@pytest.mark.parametrize("vocab_size", [34, 1000, 1_000_000])
def test_vocabulary(benchmark: Any, vocab_size: int) -> None:
    """Time of one run from zero start for V = 34 .. 1e6."""
    classes = syn_small()
    classes = SequenceClasses(classes.P, classes.query, classes.next_token, vocab_size=vocab_size)
    benchmark.pedantic(SGD(classes, 2.0, 1.0, **SETTINGS, record=[0, 100]).run, rounds=25, warmup_rounds=1)


def test_memory_of_the_sweep() -> None:
    """Peak memory of the sweep in a fresh process stays under 0.3 GB."""
    # VmHWM, because getrusage in a child process starts from the maximum of its parent.
    code = """if True:
        import sys
        sys.path.insert(0, sys.argv[1])
        from test_sgd import sgd_runs, sweep
        sgd_runs(sweep(), 2)
        print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
    """
    folder = __file__.rsplit("/", 1)[0]
    run = subprocess.run([sys.executable, "-c", code, folder], capture_output=True, text=True, check=True)
    gigabytes = int(run.stdout) / 1e6
    print(f"Fig. 6 sweep: peak {gigabytes:.2f} GB")
    assert gigabytes < 0.3
