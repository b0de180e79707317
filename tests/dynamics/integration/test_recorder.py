"""What a run keeps, and conserved sums: a run that leaves its bound has failed; times that float64 resolves."""

import numpy as np
import pytest

from snapdyn.core.errors import InputError
from snapdyn.dynamics import (
    FiniteLengthMeanField,
    FrozenDecoder,
    MeanField,
    ModifiedDecoder,
    integrate,
    log_times,
    single_common_token,
    syn_small,
)
from snapdyn.dynamics.integration.driver import NEVER, run
from snapdyn.dynamics.integration.request import LATEST_TIME, Request
from tests.dynamics.helpers import EPS
from tests.dynamics.integration.helpers import SYSTEMS


class Leaking(MeanField):
    """Mean field whose rate of one value of the state is wrong by `error`, relative; MeanField for error 0."""

    index, error = 0, 1e-8

    def write_rate(self, state: np.ndarray, out: np.ndarray) -> float:
        loss = super().write_rate(state, out)
        out[self.index] *= 1.0 + self.error
        return loss


class LeakingDecoder(Leaking):
    """The same for a value of Y, which is sought after the logits."""

    index = 40


@pytest.mark.parametrize("z_only", [False, True])
@pytest.mark.parametrize("method", ["DOP853", "RK45"])
@pytest.mark.parametrize(("kind", "name"), [(Leaking, "row sum of Z"), (LeakingDecoder, "row sum of Y")])
def test_a_rate_with_wrong_digits_fails(kind: type[Leaking], name: str, method: str, z_only: bool) -> None:
    """Assert that a rate wrong by 1e-8 ends as "failed", the sum is named, and the same run without error finishes."""
    times = log_times(1e-3, 30.0, 20)
    run = integrate(kind(syn_small(), 1.0, 1.0), times, method=method, z_only=z_only)
    assert (run.status, run.success) == ("failed", False)
    assert f"the {name}, which the flow conserves" in run.message
    assert "\n" not in run.message
    assert run.t.size == times.size
    assert integrate(MeanField(syn_small(), 1.0, 1.0), times, method=method, z_only=z_only).status == "finished"


@pytest.mark.parametrize("method", ["compiled", "DOP853", "RKC", "LSODA", "CVODE"])
@pytest.mark.parametrize("rtol", [1e-3, 1e-9])
def test_valid_runs_are_within_the_bound(method: str, rtol: float) -> None:
    """Assert "finished" for every method at loose and tight tolerances, V up to 1e12 and rates of 1e-6 to 1e6."""
    if (method, rtol) == ("RKC", 1e-9):
        rtol = 1e-6  # of second order
    for V, eta_Y, eta_Z in ((10, 1.0, 1.0), (10**12, 1e6, 1e-6), (1000, 1e-6, 1e-4)):
        classes = single_common_token(3, 2, 0.3, V)
        systems = [MeanField(classes, eta_Y, eta_Z), FrozenDecoder(classes, eta_Y)]
        if method != "compiled":
            systems.append(FiniteLengthMeanField(classes, eta_Y, eta_Z, seq_len=500))
        systems += [ModifiedDecoder(classes, eta_Y, eta_Z), FrozenDecoder(classes, eta_Y, modified=True)]
        for system in systems:
            run = integrate(system, log_times(1e-2 / eta_Y, 1e3 / eta_Y, 7), method=method, rtol=rtol, atol=rtol / 100)
            assert (run.status, run.message) == ("finished", "")


def test_times_up_to_the_latest_are_resolved_and_later_ones_refused() -> None:
    """Assert that a run to 1e145 keeps its row sums and loses z to no more than 10; 1e200 is refused."""
    system = MeanField(single_common_token(3, 3, 0.3, 1000), 1.0, 1.0)
    run = integrate(system, log_times(1.0, LATEST_TIME, 50))
    assert run.status == "finished"
    assert np.abs(run.z).max() < 10
    assert max(values.max() for values in run.invariants.values()) < 1e-10
    with pytest.raises(InputError, match=r"t_eval to be finite and from 0 to 1e\+145, received 1e\+200"):
        integrate(system, [1.0, 1e200])


def test_rates_that_float64_does_not_hold_are_refused() -> None:
    """Assert one sentence in log time for a ratio of rates that overflows, and for a last time of 1e310 time scales."""
    for eta_Y, eta_Z, t in ((1e-300, 1e300, 1.0), (1.0, 1e300, 1e10), (1e-320, 1.0, 1.0)):
        with pytest.raises(InputError, match="1 over the fastest rate"):
            integrate(MeanField(syn_small(), eta_Y, eta_Z), [t], log_time=True)


@pytest.mark.parametrize("method", ["compiled", "DOP853", "LSODA"])
def test_a_run_ends_after_the_allowed_evaluations(method: str) -> None:
    """Assert "failed" with the number for a limit below what the run needs, and the same bits for one above it."""
    system, times = MeanField(syn_small(), 1.0, 1.0), [1.0, 1000.0]
    free = integrate(system, times, method=method)
    needed = free.stats["evaluations"]
    stopped = integrate(system, times, method=method, most_evaluations=needed // 2)
    assert stopped.status == "failed"
    assert f"stopped after {needed // 2} evaluations" in stopped.message
    enough = integrate(system, times, method=method, most_evaluations=needed)
    assert enough.status == "finished"
    np.testing.assert_array_equal(enough.z, free.z)


@pytest.mark.parametrize("name", SYSTEMS)
def test_z_alone_is_the_same_z(name: str) -> None:
    """Assert that keeping z only changes a logit by rounding only, keeps no loss, and makes no other step."""
    times = log_times(0.1, 50.0, 20)
    whole, z = (integrate(SYSTEMS[name](), times, "compiled", z_only=only) for only in (False, True))
    # The last values of a vector are not computed in lanes: another rounding in each of about 30 operations.
    np.testing.assert_allclose(z.z, whole.z, rtol=0, atol=30 * EPS * max(1.0, np.abs(whole.z).max()))
    assert np.isnan(z.loss).all()
    assert (z.invariants, z.extra, z.stats) == ({}, {}, whole.stats)


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("method", ["compiled", "DOP853"])
def test_states_that_are_not_kept_are_read_on_the_way(name: str, method: str) -> None:
    """Assert that a run that holds two states at a time has the quantities of one that keeps all, but no transition."""
    system, request = SYSTEMS[name](), Request(np.linspace(0.0, 20.0, 51), method, reduce=False)
    whole = run(system, request, NEVER)
    parts = run(system, request, NEVER, numbers=2 * system.size)
    assert (parts.stats, parts.status, parts.message) == (whole.stats, "finished", "")
    np.testing.assert_array_equal(parts.z, whole.z)
    np.testing.assert_array_equal(parts.loss, whole.loss)
    for kind in ("invariants", "extra"):
        mine, theirs = getattr(parts, kind), getattr(whole, kind)
        assert mine.keys() == theirs.keys()
        for key in mine:
            np.testing.assert_allclose(mine[key], theirs[key], rtol=1e-12, atol=1e-14)
    if name == "MeanField":
        assert np.isfinite(whole.transition).any()
        with pytest.raises(InputError, match="save_decoder=True"):
            _ = parts.transition


def test_a_wrong_rate_fails_where_states_are_not_kept() -> None:
    """Assert "failed" for a rate wrong by 1e-8, judged on states at the ends of steps, and "finished" without error."""
    request = Request(log_times(1e-3, 30.0, 20), "DOP853", reduce=False)
    for kind, status in ((LeakingDecoder, "failed"), (MeanField, "finished")):
        assert run(kind(syn_small(), 1.0, 1.0), request, NEVER, numbers=200).status == status
