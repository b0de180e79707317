"""The compiled Dormand-Prince step: its coefficients, its fitted orders, its references."""

import sys

import numpy as np
import pytest

from snapdyn.dynamics.integration.driver import problem_of
from snapdyn.dynamics.integration.request import Request
from snapdyn.dynamics.integration.solvers import DormandPrinceSolver
from snapdyn.dynamics.kernels import dormand_prince as kernel
from tests.dynamics.helpers import EPS
from tests.dynamics.integration.helpers import SYSTEMS


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


@pytest.mark.parametrize("name", ["MeanField", "ModifiedDecoder"])
def test_every_array_is_given_back(name: str) -> None:
    """Assert that compiled code, which counts no references itself, leaves those to every array as they were."""
    system = SYSTEMS[name]()
    solver = DormandPrinceSolver(problem_of(system, Request([5.0])))
    saves = kernel.Rows(np.linspace(0.0, 5.0, 40), np.empty((40, system.size)), np.empty(40))
    arrays = [array for array in (*solver._arguments, *solver._work, *saves) if isinstance(array, np.ndarray)]
    assert len(arrays) >= 7
    before = [sys.getrefcount(array) for array in arrays]
    solver.advance(saves, 10**6)
    assert solver.status == "finished"
    assert [sys.getrefcount(array) for array in arrays] == before
