"""The compiled Dormand-Prince step: its coefficients, its fitted orders, its references."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from scipy.stats import linregress

from snapdyn.dynamics.integration.clock import Clock
from snapdyn.dynamics.integration.solvers import NO_SAMPLES, DormandPrinceSolver
from snapdyn.dynamics.kernels import dormand_prince as kernel
from tests.dynamics.helpers import EPS
from tests.dynamics.integration.helpers import SYSTEMS, mean_field_system


def equal_steps(scale: float | None, step: float, steps: int) -> DormandPrinceSolver:
    """Solver of a mean field after equal steps: tolerances so loose that every step is accepted."""
    system = mean_field_system()
    solver = DormandPrinceSolver(system, Clock(scale), 1e6, 1e6, 1e6)
    for _ in range(steps):
        solver.advance(NO_SAMPLES, 0)  # the first call would choose the first step
        solver._work.reals[kernel.STEP] = step
        solver.step()
    assert solver.steps == steps
    assert solver.t == pytest.approx(step * steps, rel=1e-12)
    return solver


def fitted_orders(scale: float | None) -> tuple[float, float]:
    """Exponents of the error after a fixed time, in the step, and of dense output inside one step, in its size.

    Against 3 times as many steps as the finest, which change it by 3^-8. Other tests say that the limit is right.
    """
    reach, number = (6.0, np.arange(2, 6)) if scale is None else (2.0, np.arange(3, 9))
    limit = equal_steps(scale, reach / 24, 24).y
    errors = [np.linalg.norm(equal_steps(scale, reach / n, int(n)).y - limit) for n in number]
    sizes = np.geomspace(0.7, 2.0, 5) if scale is None else np.geomspace(0.15, 0.3, 5)
    inside = []
    for size in sizes:
        limit = equal_steps(scale, 0.1 * size, 4).y
        inside.append(np.linalg.norm(equal_steps(scale, size, 1).dense_output()(0.4 * size) - limit))
    # Far above rounding.
    assert min(*errors, *inside) > EPS * np.linalg.norm(limit)
    return (
        -linregress(np.log(number), np.log(errors)).slope,
        linregress(np.log(sizes), np.log(inside)).slope,
    )


def test_coefficients_meet_the_conditions_of_order_eight() -> None:
    """Assert sum_j a_sj = c_s, sum_j b_j c_j^k = 1/(k+1) to k = 7 and not beyond, and that estimates vanish."""
    table = np.zeros((len(kernel.USED), kernel.ALL_STAGES))
    for row, used, coefficients in zip(table, kernel.USED, kernel.COEFFICIENTS, strict=True):
        np.add.at(row, used, coefficients)
    nodes = kernel.STAGE_TIMES
    # Sums of numbers up to 40 (a_sj) in double precision.
    np.testing.assert_allclose(table[: kernel.ALL_STAGES].sum(axis=1), nodes, atol=40 * 16 * EPS)
    moments = np.array([table[kernel.STAGES] @ nodes**k * (k + 1) for k in range(9)])
    np.testing.assert_allclose(moments[:8], 1.0, atol=1e-13)
    assert abs(moments[8] - 1.0) > 1e-6
    for estimate, order in ((kernel.ERROR_5, 5), (kernel.ERROR_3, 3)):
        found = np.array([table[estimate] @ nodes**k for k in range(order + 1)])
        np.testing.assert_allclose(found[:order], 0.0, atol=1e-13)
        assert abs(found[order]) > 1e-6


@pytest.mark.kernel
@pytest.mark.parametrize("scale", [None, 0.25], ids=["time", "log time"])
def test_orders_are_eight_and_seven(scale: float | None) -> None:
    """Assert the fitted exponents: 8 for equal steps over a fixed time, 8 = 7 + 1 for dense output in one step.

    Steps are finite, so the next order contributes: between neighbouring orders lies 1, half of it is the margin.
    """
    step, dense = fitted_orders(scale)
    assert abs(step - 8.0) < 0.5
    assert abs(dense - 8.0) < 0.5


@pytest.mark.parametrize("name", ["MeanField", "ModifiedDecoder"])
def test_every_array_is_given_back(name: str) -> None:
    """Assert that compiled code, which counts no references itself, leaves those to every array as they were."""
    system = SYSTEMS[name]()
    solver = DormandPrinceSolver(system, Clock(None), 5.0, 1e-8, 1e-10)
    saves = kernel.Rows(np.linspace(0.0, 5.0, 40), np.empty((40, system.size)), np.empty(40))
    arrays = [array for array in (*solver._arguments, *solver._work, *saves) if isinstance(array, np.ndarray)]
    assert len(arrays) >= 7
    before = [sys.getrefcount(array) for array in arrays]
    solver.advance(saves, 10**6)
    assert solver.status == "finished"
    assert [sys.getrefcount(array) for array in arrays] == before
