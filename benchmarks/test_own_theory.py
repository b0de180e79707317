"""Generated right-hand sides compared with hand-written ones: the same theory, stated in sympy and as a function."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sympy

import snapdyn as sd
from snapdyn.dynamics.integration.driver import problem_of
from snapdyn.dynamics.integration.request import Request
from snapdyn.dynamics.integration.solvers import NOTHING, DormandPrinceSolver
from snapdyn.dynamics.kernels.dormand_prince import Rows

K, V, ETA_Y, ETA_Z, RHO0 = 5, 100, 1.0, 0.5, 3.0
END = 3000.0


def in_sympy() -> sd.System:
    """Eq. (13) in its consistent form, as it is printed: z_c, B, and H = V h."""
    z, B, H, k, size, eta_Y, eta_Z, rho = sympy.symbols("z B H K V eta_Y eta_Z rho")
    others = size - 1 + sympy.exp(H)
    gamma = (size - 1) ** 2 * (H / size) / others
    fall = eta_Z * gamma * (k - 1) / rho**4 * sympy.exp(4 * z)
    rate = {z: -fall, B: fall / k, H: eta_Y / k * size / others}
    values = {k: K, size: V, eta_Y: ETA_Y, eta_Z: ETA_Z, rho: RHO0}
    return sd.System.from_sympy("Sympy13", {z: 0.0, B: 0.0, H: 0.0}, rate, values)


def rate_13(t: float, state: Any, out: Any, K: float, V: float, eta_Y: float, eta_Z: float, rho: float) -> None:
    """The same as a function."""
    others = V - 1.0 + math.exp(state[2])
    fall = eta_Z * (V - 1.0) ** 2 * (state[2] / V) / others * (K - 1.0) / rho**4 * math.exp(4.0 * state[0])
    out[0], out[1], out[2] = -fall, fall / K, eta_Y / K * V / others


ROUTES: dict[str, Callable[[], sd.System]] = {
    "by hand": lambda: sd.SingleCommonToken(K, V, ETA_Y, ETA_Z, RHO0),
    "from sympy": in_sympy,
    "from a function": lambda: sd.System.from_function("F13", rate_13, np.zeros(3), (K, V, ETA_Y, ETA_Z, RHO0)),
}


def integrated(system: sd.System) -> DormandPrinceSolver:
    """One call of the compiled integrator, without what `integrate` does around it."""
    solver = DormandPrinceSolver(problem_of(system, Request([END])))
    solver.advance(Rows(np.array([END]), np.empty((1, 3)), NOTHING), 10**9)
    return solver


@pytest.mark.benchmark(group="a theory of one's own")
@pytest.mark.parametrize("route", ROUTES)
def test_whole_runs(benchmark: Any, route: str) -> None:
    """`integrate` with two saved times, compilation excluded."""
    system = ROUTES[route]()
    sd.integrate(system, [1.0, END])
    run = benchmark.pedantic(sd.integrate, args=(system, [1.0, END]), rounds=200, warmup_rounds=5)
    benchmark.extra_info.update(run.stats)


def test_generated_against_hand_written() -> None:
    """With either rate the compiled integrator takes at most 1.5 times as long: minima of calls in turn."""
    systems = {route: make() for route, make in ROUTES.items()}
    steps = {route: integrated(system).steps for route, system in systems.items()}
    assert len(set(steps.values())) == 1
    best = dict.fromkeys(ROUTES, math.inf)
    for _ in range(500):
        for route, system in systems.items():
            started = time.perf_counter()
            integrated(system)
            best[route] = min(best[route], time.perf_counter() - started)
    ratios = {route: best[route] / best["by hand"] for route in ROUTES}
    print({route: round(ratio, 2) for route, ratio in ratios.items()})
    assert max(ratios.values()) < 1.5


@pytest.mark.benchmark(group="a theory of one's own")
def test_first_run(benchmark: Any) -> None:
    """State a theory that was never compiled, and integrate it: generation of code and compilation."""

    def first(number: int) -> None:
        u = sympy.Symbol("u")
        system = sd.System.from_sympy("New", {u: 1.0}, {u: -u * (1 + u / (number + time.time()))})
        sd.integrate(system, [1.0])

    benchmark.pedantic(first, setup=lambda: ((np.random.default_rng().integers(10**9),), {}), rounds=3)
