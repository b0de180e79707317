"""CVODE: Jacobian products, accuracy, invariants, dense output, choice, honest endings."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

from snapdyn.dynamics import (
    Event,
    FiniteLengthMeanField,
    MeanField,
    System,
    integrate,
    log_times,
    syn_medium,
    syn_small,
)
from snapdyn.dynamics.integration import cvode as stiff
from snapdyn.dynamics.integration.driver import run as run_request
from snapdyn.dynamics.integration.request import Request
from snapdyn.dynamics.kernels.mean_field.jacobian import SCRATCH_ROWS, mean_field_jacobian
from tests.dynamics.dense_reference import Array, random_instance
from tests.dynamics.helpers import EPS
from tests.dynamics.integration.helpers import SYSTEMS, mean_field_system, overflowing, reference_z, tolerance


def product(system: MeanField, state: Array, vector: Array) -> Array:
    *arguments, scratch = system.kernel_arguments()
    out = np.empty_like(state)
    mean_field_jacobian(state, vector, out, *arguments, np.empty((SCRATCH_ROWS, scratch.shape[1])))
    return out


@pytest.mark.slow
@pytest.mark.kernel
@pytest.mark.parametrize("seed", range(4))
def test_product_is_the_derivative_of_the_rate(seed: int) -> None:
    """Assert J v against five-point differences of the rate, whose error is h^4 |f^(5)|/30 < 1e-10 and rounding.

    Classes that share queries, next tokens and rows, lumped tokens and a shared column; eta_Z off by 1e-6 is seen.
    """
    rng = np.random.default_rng(seed)
    classes = random_instance(seed, next_token=(0, 1, 2, 1, 4) if seed % 2 else None).classes()
    system, changed = MeanField(classes, 1.3, 0.7), MeanField(classes, 1.3, 0.7 * (1 + 1e-6))
    state, vector = rng.normal(size=(2, system.size))
    h = 1e-3
    rate = {k: system.derivative(0.0, state + k * h * vector) for k in (-2, -1, 1, 2)}
    difference = (8 * (rate[1] - rate[-1]) - (rate[2] - rate[-2])) / (12 * h)
    bound = 1e-9 * np.abs(difference).max()
    assert np.abs(product(system, state, vector) - difference).max() < bound
    assert np.abs(product(changed, state, vector) - difference).max() > 10 * bound


@pytest.mark.parametrize("log_time", [False, True], ids=["time", "log time"])
def test_reaches_an_independent_solution(log_time: bool) -> None:
    """Assert a run at rtol 1e-9 against numpy equations under scipy's RK45 at 1e-12; 1e-5 of eta_Z is seen."""
    times = log_times(0.05, 100.0, 12)
    run, changed = (
        integrate(mean_field_system(0.5 * factor), times, "CVODE", 1e-9, 1e-11, log_time) for factor in (1, 1 + 1e-4)
    )
    assert (run.status, run.stats["method"], run.stats["log_time"]) == ("finished", "CVODE", log_time)
    reference = reference_z(times, "RK45", 1e-12, 1e-14)
    assert np.abs(run.z - reference).max() < tolerance(run) < 1e-4 * np.abs(reference).max()
    assert np.abs(changed.z - reference).max() > tolerance(run)


@pytest.mark.parametrize("name", SYSTEMS)
def test_agrees_with_scipy_on_every_system(name: str) -> None:
    """Assert z, loss and extra quantities against scipy's DOP853 at a tighter tolerance."""
    times = np.array([0.0, 0.5, 3.0, 20.0])
    ours, theirs = (
        integrate(SYSTEMS[name](), times, method, rtol, 1e-2 * rtol)
        for method, rtol in (("CVODE", 1e-8), ("DOP853", 1e-10))
    )
    assert np.abs(ours.z - theirs.z).max() < tolerance(ours)
    assert np.abs(ours.loss - theirs.loss).max() < tolerance(ours)
    for key, values in ours.extra.items():
        assert np.abs(values - theirs.extra[key]).max() < tolerance(ours)


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


def test_linear_invariants_are_kept_to_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert row sums of Y and Z: every correction is a combination of rates and products, which sum to 0.

    Bound: a rounding error of values of order 10 in each of some 1500 evaluations. With a product that is
    wrong in one row Newton's method still converges, to the same z, but the sums drift as its tolerance lets them.
    """
    times = log_times(1e-2, 1e4, 5)

    def drift_and_z() -> tuple[float, Array]:
        run = integrate(MeanField(syn_small(), 1.0, 100.0), times, "CVODE")
        assert run.status == "finished"
        return max(float(values.max()) for values in run.invariants.values()), run.z

    def wrong(state: Array, vector: Array, out: Array, *arguments: Any) -> None:
        mean_field_jacobian(state, vector, out, *arguments)
        out[0] += 0.1 * vector[0]

    bound = 1500 * 10 * EPS
    drift, z = drift_and_z()
    assert drift < bound
    monkeypatch.setattr(stiff, "mean_field_jacobian", wrong)
    wrong_drift, wrong_z = drift_and_z()
    assert wrong_drift > 10 * bound
    assert np.abs(wrong_z - z).max() < 1e-4


def test_saves_inside_steps_are_as_good_as_step_ends() -> None:
    """Assert that 101 saves agree with runs that end at the save, and make no other steps than one save."""
    times = np.linspace(0.0, 30.0, 101)
    run, one = (integrate(mean_field_system(), t, "CVODE", 1e-7, 1e-9, False) for t in (times, times[-1:]))
    assert run.stats["steps"] == one.stats["steps"]
    for i in (1, 10, 77):
        end = integrate(mean_field_system(), [times[i]], "CVODE", 1e-7, 1e-9, False)
        assert np.abs(run.z[i] - end.z[0]).max() < 2 * tolerance(run)


def test_event_stops_the_run() -> None:
    """Assert that an event on t is located and ends the run."""
    stop = {"stop": Event(lambda t, state: t - 7.0, terminal=True)}
    run = integrate(mean_field_system(), np.arange(0.0, 21.0), "CVODE", events=stop)
    assert run.status == "terminated"
    assert run.events[0].t == pytest.approx(7.0, rel=1e-12)
    assert run.t.size in (7, 8)


def test_failure_names_time_quantity_and_remedy() -> None:
    """Assert that a state that overflows ends as failed, with the start kept."""
    run = integrate(overflowing(), [0.0, 1.0], "CVODE")
    assert run.status == "failed"
    assert run.message.startswith("failed at t = 0 in ")
    assert "try " in run.message
    assert run.t.tolist() == [0.0]


def test_interruption_keeps_what_is_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that Ctrl-C inside a step keeps the saves made so far, and that `stop` ends a run."""
    system = mean_field_system()
    times = np.arange(0.0, 41.0)
    full = integrate(system, times, "CVODE")
    calls, rate = 0, system.write_rate

    def interrupt(state: Array, out: Array) -> float:
        nonlocal calls
        calls += 1
        if calls == 100:
            raise KeyboardInterrupt
        return rate(state, out)

    monkeypatch.setattr(system, "write_rate", interrupt)
    part = integrate(system, times, "CVODE", z_only=True)
    assert part.status == "interrupted"
    assert 1 < part.t.size < 41
    np.testing.assert_array_equal(part.z, full.z[: part.t.size])
    stop = threading.Event()
    stop.set()
    assert run_request(system, Request(times, "CVODE"), stop).status == "interrupted"


def chosen(system: System) -> str:
    return str(integrate(system, [1e-9], reduce=False).stats["method"])


def test_auto_takes_cvode_where_it_is_faster() -> None:
    """Assert both sides of the thresholds: by size where there is a compiled integrator, 30 where there is none."""
    small, medium = syn_small(), syn_medium(10)  # 85 and 4431 state values
    assert chosen(MeanField(small, 1.0, 2e6 / 85 - 1)) == "DOP853"
    assert chosen(MeanField(small, 1.0, 2e6 / 85 + 1)) == "CVODE"
    assert chosen(MeanField(medium, 1.0, 499.0)) == "DOP853"
    assert chosen(MeanField(medium, 1.0, 500.0)) == "CVODE"
    assert chosen(FiniteLengthMeanField(small, 1.0, 29.0, 1000)) == "DOP853"
    assert chosen(FiniteLengthMeanField(small, 1.0, 30.0, 1000)) == "CVODE"


def test_sundials_prints_nothing() -> None:
    """Assert that SUNDIALS writes no line to stdout or stderr when CVODE gives up; the run's message has a reason."""
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
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
