"""Runs of an instance: what a solver of scipy may cost."""

import tracemalloc

import numpy as np
import pytest

import snapdyn as sd
from snapdyn.validation.search.instance_runs import DENSE, by_scipy, kept_on_instance


def test_many_values_need_no_dense_jacobian() -> None:
    """Assert the solution of y' = -y above the limit of LSODA, in less memory than its Jacobian takes."""
    size = 2 * DENSE
    tracemalloc.start()
    found = by_scipy(lambda t, y: -y, 1.0, np.ones(size), np.array([0.5, 1.0]), rtol=1e-10, atol=1e-12)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found == pytest.approx(np.exp(-np.array([[0.5], [1.0]])) * np.ones(size), rel=1e-8)
    assert most < 8 * size**2 / 4


def test_a_run_that_never_ends_is_stopped() -> None:
    with pytest.raises(sd.validation.NoNumber, match="stopped after"):
        by_scipy(lambda t, y: -1e9 * y, 1.0, np.ones(2 * DENSE), rtol=1e-8, atol=1e-10)


def test_a_failed_run_is_not_made_again() -> None:
    """Assert one call for an instance, whose reason each property receives; another instance is computed."""
    made = []

    @kept_on_instance
    def fails(instance: sd.Instance) -> float:
        made.append(instance)
        raise sd.validation.NoNumber("the run failed")

    instances = [sd.Instance.of(sd.syn_small(), 1.0, eta_Z, 10.0) for eta_Z in (0.1, 0.2)]
    for each in (*instances, *instances):
        with pytest.raises(sd.validation.NoNumber, match="the run failed"):
            fails(each)
    assert len(made) == 2
