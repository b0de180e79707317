"""Events: crossings inside steps, terminal events, bad events."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from snapdyn.core.errors import InputError
from snapdyn.dynamics import (
    Event,
    FrozenDecoder,
    integrate,
)
from tests.dynamics.helpers import EPS
from tests.dynamics.integration.helpers import INSTANCE, mean_field_system, tolerance


@pytest.mark.parametrize("method", ["DOP853", "LSODA", "CVODE"])
def test_event_times_match_the_closed_form(method: str) -> None:
    """Assert that each class of the modified flow reaches V h = 3 at the time of Eq. (45), non-uniform priors."""
    system = FrozenDecoder(INSTANCE.classes(), 0.5, modified=True)
    V = 12
    own_logit = (V - 1) * 3.0 / V  # (V - 1) h

    def crossing(n: int) -> Event:
        return Event(lambda t, state: float(state.extra["own_logit"][n]) - own_logit, direction=1)

    run = integrate(system, [1e3], method=method, events={str(n): crossing(n) for n in range(4)})
    assert len(run.events) == 4
    for event in run.events:
        p = INSTANCE.prior[int(event.name)]
        exact = (math.expm1(3.0) + (V - 1) * 3.0) / (V * 0.5 * p)
        slope = V * 0.5 * p / (V - 1 + math.exp(3.0))  # du/dt there
        assert abs(event.t - exact) < tolerance(run) / slope < 0.01 * exact


def test_terminal_event_stops_there() -> None:
    """Assert that a terminal event ends the run at its time, keeping earlier saves and earlier events only."""
    events = {
        "later": Event(lambda t, state: t - 9.0),
        "wrong way": Event(lambda t, state: t - 2.0, direction=-1, terminal=True),
        "stop": Event(lambda t, state: t - 5.0, terminal=True),
        "earlier": Event(lambda t, state: t - 2.5),
    }
    times = np.arange(0.0, 21.0)
    run, full = (integrate(mean_field_system(), times, events=each) for each in (events, None))
    assert run.status == "terminated"
    assert "'stop'" in run.message
    assert [e.name for e in run.events] == ["earlier", "stop"]
    assert 4.0 <= run.t[-1] <= 5.0 * (1 + 1e-12)
    assert run.z.shape[0] == run.loss.size == run.t.size
    # Dense output sums 16 terms, in another order when it is called from Python.
    np.testing.assert_allclose(run.z, full.z[: run.t.size], rtol=0, atol=16 * EPS * np.abs(full.z).max())


@pytest.mark.parametrize("log_time", [False, True])
def test_compiled_events_are_those_of_steps_from_python(log_time: bool) -> None:
    """Assert the times of crossings of z, Y and the loss to 1e-9.

    scipy's DOP853 makes the same steps and locates crossings on its own dense output.
    """
    target = integrate(mean_field_system(), [8.0], save_decoder=True)
    z, loss = float(target.z[0, 0, 0]), float(target.loss[0])
    events = {
        "z": Event(lambda t, state: float(state.z[0, 0]) - z),
        "all losses": Event(lambda t, state: state.loss - loss, vectorized=True),
        "all z": Event(lambda t, state: state.z[:, 0, 0] - z, vectorized=True),
        "values": Event(lambda t, state: state.values[:, -1] - target.Y[0, -1, -1], vectorized=True),
    }
    options = {"rtol": 1e-10, "atol": 1e-14, "log_time": log_time}
    ours, scipys = (integrate(mean_field_system(), [40.0], m, events=events, **options) for m in ("compiled", "DOP853"))
    assert sorted(event.name for event in ours.events) == sorted(event.name for event in scipys.events)
    times = {event.name: event.t for event in scipys.events}
    assert times.keys() == events.keys()
    for event in ours.events:
        assert event.t == pytest.approx(times[event.name], rel=1e-9)
        assert event.t == pytest.approx(8.0, rel=1e-8)
    assert times["z"] == pytest.approx(times["all z"], rel=1e-12)


def test_an_event_before_a_failure_ends_the_run() -> None:
    """Assert that a terminal event is found where the same call of the compiled integrator fails later."""
    stop = Event(lambda t, state: state.loss - 2.0, terminal=True)
    run = integrate(mean_field_system(), [1e9], events={"stop": stop}, most_evaluations=2000)
    assert integrate(mean_field_system(), [1e9], most_evaluations=300).status == "failed"
    assert (run.status, run.events[0].name) == ("terminated", "stop")


BAD_EVENTS: dict[str, Callable[[], Any]] = {
    "no event": lambda: {"x": lambda t, s: t},
    "no function": lambda: {"x": Event(3)},  # type: ignore[arg-type]
    "direction": lambda: {"x": Event(lambda t, s: t, direction=7)},
    "one number for all times": lambda: {"x": Event(lambda t, s: np.zeros(2), vectorized=True)},
    "a bool": lambda: {"x": Event(lambda t, s: t > 5.0)},
    "NaN": lambda: {"x": Event(lambda t, s: math.nan)},
    "text": lambda: {"x": Event(lambda t, s: "a", vectorized=True)},  # type: ignore[return-value, arg-type]
}


@pytest.mark.parametrize("events", BAD_EVENTS)
def test_bad_events_are_refused(events: str) -> None:
    """Assert one sentence for what is no event, and for functions that return something else."""
    for method in ("compiled", "LSODA"):
        with pytest.raises(InputError, match=r"^expected "):
            integrate(mean_field_system(), [20.0], method, events=BAD_EVENTS[events]())
