"""CVODE: Jacobian products, accuracy, invariants, dense output, choice, honest endings."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from snapdyn.dynamics import (
    FiniteLengthMeanField,
    MeanField,
    System,
    integrate,
    log_times,
    syn_medium,
    syn_small,
)
from tests.dynamics.helpers import EPS
from tests.dynamics.integration.helpers import tolerance


@pytest.mark.parametrize("build", [
    lambda: MeanField(syn_small(), 1.0, 1000.0),
    lambda: MeanField(syn_small(), 1.0, 300.0, residual=True),
    lambda: FiniteLengthMeanField(syn_small(), 1.0, 100.0, 1000),
], ids=["mean field", "residual", "finite length"])  # fmt: skip
def test_stiff_run_agrees_with_scipy_and_costs_less(build: Any) -> None:
    """Assert a stiff run to t = 100 against scipy's Radau at a tight tolerance, and fewer evaluations than DOP853."""
    times = log_times(1e-2, 100.0, 10)
    run = integrate(build(), times, "CVODE")
    reference = integrate(build(), times, "Radau", 1e-10, 1e-12, log_time=True)
    assert (run.status, reference.status) == ("finished", "finished")
    assert np.abs(run.z - reference.z).max() < tolerance(run) < 1e-2 * np.abs(reference.z).max()
    assert run.stats["evaluations"] < 0.7 * integrate(build(), times, "DOP853").stats["evaluations"]


def test_linear_invariants_are_kept_to_rounding() -> None:
    """Assert row sums of Y and Z: every correction is a combination of rates and products, which sum to 0.

    Bound: a rounding error of values of order 10 in each of some 1500 evaluations; the tolerance of Newton's method,
    within which sums would drift with a product that is wrong in one row, is far above.
    """
    run = integrate(MeanField(syn_small(), 1.0, 100.0), log_times(1e-2, 1e4, 5), "CVODE")
    assert run.status == "finished"
    assert max(float(values.max()) for values in run.invariants.values()) < 1500 * 10 * EPS < 1e-3 * run.stats["rtol"]


class NotCompiled(MeanField):
    """A subclass, which may change the right-hand side."""


def chosen(system: System) -> str:
    return str(integrate(system, [1e-9], reduce=False).stats["method"])


def test_auto_takes_cvode_where_it_is_faster() -> None:
    """Assert both sides of the thresholds: by size where there is a compiled integrator, 30 where there is none."""
    small, medium = syn_small(), syn_medium(10)  # 85 and 4431 state values
    assert chosen(MeanField(small, 1.0, 2e6 / 85 - 1)) == "DOP853"
    assert chosen(MeanField(small, 1.0, 2e6 / 85 + 1)) == "CVODE"
    assert chosen(MeanField(medium, 1.0, 499.0)) == "DOP853"
    assert chosen(MeanField(medium, 1.0, 500.0)) == "CVODE"
    assert chosen(NotCompiled(small, 1.0, 29.0)) == "DOP853"
    assert chosen(NotCompiled(small, 1.0, 30.0)) == "CVODE"


def test_sundials_writes_to_stderr_only() -> None:
    """Assert that SUNDIALS writes no line to stdout when CVODE gives up; the run's message has a reason."""
    script = """
import numpy as np
import snapdyn as sd

class Growing(sd.System):
    def initial_state(self):
        return np.ones(2)

    def write_rate(self, state, out):
        out[:] = state * state

class Broken(Growing):
    def write_rate(self, state, out):
        out[:] = np.nan

for system in (Growing(), Broken()):
    run = sd.integrate(system, [0.5, 2.0], method="CVODE")
    assert run.status == "failed"
    assert "Successful" not in run.message
    assert "step size" in run.message
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
