"""Mean-field integration and right-hand side compared with plain numpy in the same run."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from cases import ATOL, CASES, RTOL, numpy_mean_field, system, times
from scipy.integrate import DOP853

from snapdyn.dynamics import integrate
from snapdyn.dynamics.kernels.law import mean_field


def numpy_integration(case: str) -> np.ndarray:
    """Run scipy's DOP853 on the plain numpy right-hand side; save z at the same times."""
    rate, nz, size = numpy_mean_field(CASES[case][0])
    solver = DOP853(rate, 0.0, np.zeros(size), CASES[case][1], rtol=RTOL, atol=ATOL)
    saves, z = times(case), []
    while solver.status == "running":
        solver.step()
        dense = None
        while len(z) < saves.size and saves[len(z)] <= solver.t:
            dense = dense or solver.dense_output()
            z.append(dense(saves[len(z)])[:nz].copy())
    return np.array(z)


@pytest.mark.benchmark(group="integrate")
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("route", ["snapdyn", "snapdyn, weights jittered", "numpy"])
def test_integrate(benchmark: Any, case: str, route: str) -> None:
    """Time to integrate a case with 100 saves, compilation excluded; the two routes agree."""
    rounds = 1 if case == "C" and route == "numpy" else 3 if case == "C" else 15
    if route == "numpy":
        z = benchmark.pedantic(numpy_integration, args=(case,), rounds=rounds)
        ours = integrate(system(case), times(case), "DOP853", RTOL, ATOL).z
        assert np.abs(z.reshape(ours.shape) - ours).max() < 1e-5
    else:
        ready = system(case, jitter="jittered" in route)
        integrate(ready, times(case)[:2], "DOP853", RTOL, ATOL)
        result = benchmark.pedantic(
            integrate, args=(ready, times(case), "DOP853", RTOL, ATOL), rounds=rounds, warmup_rounds=1
        )
        benchmark.extra_info.update(result.stats)
        assert result.status == "finished"


@pytest.mark.benchmark(group="right-hand side")
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("route", ["kernel", "kernel, weights jittered", "numpy"])
def test_right_hand_side(benchmark: Any, case: str, route: str) -> None:
    """Time of 2000 (A), 100 (B) or 1 (C) evaluations on every route; the kernel's loop is compiled too."""
    rng = np.random.default_rng(0)
    calls = {"A": 2000, "B": 100, "C": 1}[case]
    if route == "numpy":
        rate, _, size = numpy_mean_field(CASES[case][0])
        state = 0.1 * rng.normal(size=size)

        def repeat_numpy() -> None:
            for _ in range(calls):
                rate(0.0, state)

        benchmark.pedantic(repeat_numpy, rounds=10, warmup_rounds=1)
    else:
        ready = system(case, jitter="jittered" in route)
        state, out = 0.1 * rng.normal(size=ready.size), np.empty(ready.size)
        repeat = _repeated()
        repeat(1, state, out, ready.kernel_arguments())
        benchmark.pedantic(repeat, args=(calls, state, out, ready.kernel_arguments()), rounds=30, warmup_rounds=2)
    benchmark.extra_info["microseconds per evaluation"] = benchmark.stats.stats.min / calls * 1e6


def _repeated() -> Any:
    from numba import njit

    @njit
    def repeat(calls: int, state: Any, out: Any, arguments: Any) -> None:
        for _ in range(calls):
            mean_field(state, out, *arguments)

    return repeat


@pytest.mark.benchmark(group="dgemm")
def test_dgemm(benchmark: Any) -> None:
    """One-thread matrix product of 1000 x 1000 (run with OPENBLAS_NUM_THREADS=1): 2e9 floating-point operations."""
    a = np.random.default_rng(0).normal(size=(1000, 1000))
    benchmark(np.matmul, a, a)


@pytest.mark.parametrize("case", ["A", "B"])
@pytest.mark.parametrize("jitter", [False, True])
def test_accuracy_over_all_saves(case: str, jitter: bool) -> None:
    """The worst error over all saves against a tight run of another method is within 100 times the tolerance."""
    ready, t = system(case, jitter), times(case)
    ours = integrate(ready, t, "DOP853", RTOL, ATOL)
    reference = integrate(ready, t, "LSODA", 1e-12, 1e-13).z_support
    assert np.abs(ours.z_support - reference).max() < 100 * RTOL * np.abs(reference).max()


def test_memory_of_case_c() -> None:
    """Peak memory of case C in a fresh process stays under 0.7 GB, z and observables saved."""
    # VmHWM, not getrusage: a child inherits its parent's maximum there.
    code = """if True:
        import sys
        sys.path.insert(0, sys.argv[1])
        from cases import ATOL, RTOL, system, times
        from snapdyn.dynamics import integrate
        integrate(system("C"), times("C"), "DOP853", RTOL, ATOL)
        print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
    """
    folder = __file__.rsplit("/", 1)[0]
    run = subprocess.run([sys.executable, "-c", code, folder], capture_output=True, text=True, check=True)
    gigabytes = int(run.stdout) / 1e6
    print(f"case C: peak {gigabytes:.2f} GB")
    assert gigabytes < 0.7
