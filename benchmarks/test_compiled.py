"""The compiled integrator compared with scipy's DOP853 on the same right-hand side and with diffrax; ensembles."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from cases import ATOL, CASES, RTOL, system, times
from diffrax_program import diffrax_run, diffrax_solver
from heyoka_program import heyoka_ensemble

from snapdyn.dynamics import MeanField, integrate, syn_small
from snapdyn.dynamics.integration.driver import integrate_many, problem_of
from snapdyn.dynamics.integration.request import Request
from snapdyn.dynamics.integration.solvers import NOTHING, new_solver
from snapdyn.dynamics.kernels.dormand_prince import Rows

ROUTES: dict[str, dict[str, Any]] = {
    "compiled": {"method": "compiled", "reduce": False},
    "compiled, z and Y saved": {"method": "compiled", "z_only": True, "save_decoder": True, "reduce": False},
    "compiled, z only": {"method": "compiled", "z_only": True, "reduce": False},
    "scipy": {"method": "DOP853"},
}


@pytest.mark.benchmark(group="compiled integrator")
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("route", ROUTES)
def test_routes(benchmark: Any, case: str, route: str) -> None:
    """Time of a case with 100 saves (z, loss and invariants unless the route says otherwise), compilation excluded."""
    ready, t = system(case), times(case)
    integrate(ready, t[:2], **ROUTES[route])
    rounds = {"A": 50, "B": 15, "C": 3}[case]
    run = benchmark.pedantic(integrate, args=(ready, t), kwargs={**ROUTES[route], "rtol": RTOL, "atol": ATOL},
                             rounds=rounds, warmup_rounds=1)  # fmt: skip
    benchmark.extra_info.update(run.stats)
    assert run.status == "finished"


@pytest.mark.parametrize("case", CASES)
def test_routes_agree(case: str) -> None:
    """Both routes make the same steps and agree at every save far below the tolerance of the run."""
    ready, t = system(case), times(case)
    ours, theirs = (integrate(ready, t, method, RTOL, ATOL, reduce=False) for method in ("compiled", "DOP853"))
    assert ours.stats["steps"] == theirs.stats["steps"]
    assert np.abs(ours.z_support - theirs.z_support).max() < 100 * RTOL * np.abs(theirs.z_support).max()


@pytest.mark.benchmark(group="compiled integrator")
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("route", ["Dopri8, z and Y saved", "Dopri8, z only", "Tsit5, z and Y saved", "Tsit5, z only"])
def test_diffrax(benchmark: Any, case: str, route: str) -> None:
    """The same system, tolerances and saves in diffrax, jitted, float64, on the processor."""
    pytest.importorskip("diffrax")
    run, z_of = diffrax_run(case, route)
    rounds = {"A": 50, "B": 15, "C": 3}[case]
    saved = benchmark.pedantic(run, rounds=rounds, warmup_rounds=1)
    ours = integrate(system(case), times(case), "compiled", RTOL, ATOL).z
    assert np.abs(z_of(saved) - ours).max() < 1e-5


CLASSES = syn_small()
RATES = np.exp(np.random.default_rng(0).uniform(np.log(0.1), np.log(10.0), (256, 2)))


@pytest.mark.benchmark(group="256 copies of case A, rates log-uniform in [0.1, 10], to t = 1e4")
@pytest.mark.parametrize("route", ["Dopri8", "Tsit5"])
@pytest.mark.parametrize("way", ["loop", "vmap"])
def test_ensemble_in_diffrax(benchmark: Any, route: str, way: str) -> None:
    """The same ensemble in diffrax, z only: members one after the other in one compiled loop, or by vmap."""
    pytest.importorskip("diffrax")
    import jax
    import jax.numpy as jnp

    solve = diffrax_solver("A", f"{route}, z only")
    rates = jnp.asarray(RATES)
    many = jax.jit(jax.vmap(solve) if way == "vmap" else lambda rates: jax.lax.map(solve, rates))
    saved = benchmark.pedantic(lambda: jax.block_until_ready(many(rates)), rounds=3, warmup_rounds=1)
    ours = integrate_many([MeanField(CLASSES, *pair) for pair in RATES[:3]], times("A"), z_only=True)
    for run, z in zip(ours, np.asarray(saved)[:3], strict=True):
        assert np.abs(run.z - z).max() < 1e-5 * max(1.0, np.abs(z).max())
    benchmark.extra_info["trajectories per second"] = 256 / benchmark.stats.stats.min
    print(f"diffrax, {route}, {way}: {256 / benchmark.stats.stats.min:.0f} trajectories per second")


@pytest.mark.benchmark(group="256 copies of case A, rates log-uniform in [0.1, 10], to t = 1e4")
def test_ensemble_in_heyoka(benchmark: Any) -> None:
    """The same ensemble in heyoka, Taylor series on all cores."""
    pytest.importorskip("heyoka")
    z = benchmark.pedantic(heyoka_ensemble("A", RATES), rounds=3, warmup_rounds=1)
    ours = integrate_many([MeanField(CLASSES, *pair) for pair in RATES], times("A"), z_only=True)
    for run, each in zip(ours, z, strict=True):
        assert np.abs(run.z_support - each).max() < 1e-5 * max(1.0, np.abs(each).max())
    benchmark.extra_info["trajectories per second"] = 256 / benchmark.stats.stats.min
    print(f"heyoka: {256 / benchmark.stats.stats.min:.0f} trajectories per second")


@pytest.mark.benchmark(group="256 copies of case A, rates log-uniform in [0.1, 10], to t = 1e4")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kept", ["z only", "z, loss, invariants"])
def test_ensemble(benchmark: Any, threads: int, kept: str) -> None:
    """Wall time of the whole ensemble, without the construction of the systems."""
    systems = [MeanField(CLASSES, *pair) for pair in RATES]
    options = {"rtol": RTOL, "atol": ATOL, "method": "compiled", "z_only": kept == "z only"}
    integrate_many(systems[:2], times("A"), 1, **options)
    runs = benchmark.pedantic(integrate_many, args=(systems, times("A"), threads), kwargs=options, rounds=10)
    benchmark.extra_info["trajectories per second"] = 256 / benchmark.stats.stats.min
    print(f"{kept}, {threads} threads: {256 / benchmark.stats.stats.min:.0f} trajectories per second")
    assert {run.status for run in runs} == {"finished"}


@pytest.mark.benchmark(group="256 copies of case A, rates log-uniform in [0.1, 10], to t = 1e4")
def test_kernel_alone(benchmark: Any) -> None:
    """The compiled integrator alone, on one thread, z only: solvers and arrays are made before."""
    request = Request(times("A"), "compiled", RTOL, ATOL, z_only=True)
    problems = [problem_of(MeanField(CLASSES, *pair), request) for pair in RATES]
    saved = np.empty((request.times.size, problems[0].system.num_logit_values))

    def solvers() -> tuple[tuple[Any, ...], dict[str, Any]]:
        return ([new_solver(problem) for problem in problems],), {}

    def run(made: list[Any]) -> None:
        for solver in made:
            solver.advance(Rows(request.times, saved, NOTHING), 10**9)

    benchmark.pedantic(run, setup=solvers, rounds=10, warmup_rounds=1)
    benchmark.extra_info["trajectories per second"] = 256 / benchmark.stats.stats.min
    print(f"the kernel alone: {256 / benchmark.stats.stats.min:.0f} trajectories per second")


@pytest.mark.parametrize("options", ["", ", z_only=True"])
def test_memory_of_case_c(options: str) -> None:
    """Peak memory of case C in a fresh process stays under 0.45 GB."""
    # VmHWM, because getrusage in a child process starts from the maximum of its parent.
    code = f"""if True:
        import sys
        sys.path.insert(0, sys.argv[1])
        from cases import ATOL, RTOL, system, times
        from snapdyn.dynamics import integrate
        integrate(system("C"), times("C"), "compiled", RTOL, ATOL, reduce=False{options})
        print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
    """
    folder = __file__.rsplit("/", 1)[0]
    run = subprocess.run([sys.executable, "-c", code, folder], capture_output=True, text=True, check=True)
    gigabytes = int(run.stdout) / 1e6
    print(f"case C{options}: peak {gigabytes:.2f} GB")
    assert gigabytes < 0.45
