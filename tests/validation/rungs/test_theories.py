"""The ladder of a theory of one's own: least squares with noise, whose every rung has a closed form."""

from typing import Any

import numpy as np
import pytest
import sympy

import snapdyn as sd
from snapdyn.validation import Ladder

x, y = sympy.symbols("x y")
TIMES = [0.5, 1.0, 3.0]


def sample(state: Any, rng: Any, out: Any) -> None:
    """Of the rate below, with noise of variance 0.01 and 0.04."""
    out[0] = -state[0] + 0.1 * rng.normal()
    out[1] = 1.0 - 2.0 * state[1] + 0.2 * rng.normal()


def biased_sample(state: Any, rng: Any, out: Any) -> None:
    """Of another rate of x."""
    out[0] = -1.1 * state[0] + 0.1 * rng.normal()
    out[1] = 1.0 - 2.0 * state[1] + 0.2 * rng.normal()


def solution(t: Any) -> Any:
    """Of the flow."""
    return np.column_stack([np.exp(-t), 0.5 - 0.5 * np.exp(-2 * t)])


def wrong_solution(t: Any) -> Any:
    """With a factor of the clock."""
    return solution(1.1 * t)


@pytest.fixture(scope="module")
def linear() -> sd.System:
    """Two linear rates."""
    return sd.System.from_sympy("Linear", {x: 1.0, y: 0.0}, {x: -x, y: 1 - 2 * y}, observables={"sum": x + y})


@pytest.fixture(scope="module")
def rungs(linear: sd.System) -> Ladder:
    """All four rungs."""
    return sd.ladder_of(linear, TIMES, 0.02, sample, solution)


@pytest.mark.long
def test_rungs_and_gaps(rungs: Ladder) -> None:
    """Assert the four rungs, no gap above 5 %, and the gaps that the linear recursions have."""
    assert [rung.name for rung in rungs.rungs] == ["stochastic", "descent", "flow", "closed form"]
    assert list(rungs.t) == [0.0, *TIMES]
    assert rungs.first_break() is None
    gaps = rungs.gaps.gap.max("t").sel(observable="state")
    steps = rungs.t / 0.02
    made = np.column_stack([0.98**steps, 0.5 - 0.5 * 0.96**steps])
    change = 1.0 - made[-1, 0]
    assert float(gaps.sel(rung="flow")) == pytest.approx(np.abs(made - solution(rungs.t)).max() / change, rel=1e-3)
    assert float(gaps.sel(rung="closed form")) < 1e-7
    assert set(rungs.gaps.observable.values) == {"state", "sum"}


def test_a_wrong_closed_form_breaks(linear: sd.System) -> None:
    """Assert that a wrong theory breaks the ladder at its rung, whether it gives states or an observable."""
    for wrong in (wrong_solution, lambda t: {"sum": wrong_solution(t).sum(axis=1)}):
        broken = sd.ladder_of(linear, TIMES, 0.002, closed_form=wrong, tolerance=0.02).first_break()
        assert broken.rung == "closed form"


@pytest.mark.long
def test_orders(linear: sd.System) -> None:
    """Assert the orders 1 of descent and of the mean and 1/2 of the spread, and that orders of other things differ."""
    orders = sd.ladder_of(linear, [1.0, 3.0], 0.1, sample).orders(seeds=150)
    assert all(orders[name].agrees for name in ("descent", "stochastic", "mean"))
    assert not orders["descent"].order.agrees(0.5)
    assert not orders["stochastic"].order.agrees(1.0)
    assert not orders["mean"].order.agrees(0.5)


@pytest.mark.long
def test_samples_whose_mean_is_not_the_rate(linear: sd.System) -> None:
    """Assert that the order of the mean shows a factor 1.1 in the samples, which the spread does not show."""
    orders = sd.ladder_of(linear, [1.0, 3.0], 0.1, biased_sample).orders(seeds=50)
    assert orders["stochastic"].agrees
    assert not orders["mean"].agrees
    assert orders["mean"].order.corrected < 0.5


@pytest.mark.long
def test_momentum(linear: sd.System) -> None:
    """Assert that the rungs with momentum follow the flow at the momentum clock."""
    rungs = sd.ladder_of(linear, TIMES, 0.001, momentum=0.9, tolerance=0.1)
    assert rungs.absent == {"stochastic": "no sample_update", "closed form": "no closed_form"}
    assert rungs.first_break() is None
    assert rungs.orders()["descent"].agrees
    slow = sd.ladder_of(linear, TIMES, 0.001, max_steps=100)
    assert set(slow.absent) == {"stochastic", "descent", "closed form"}


def test_one_sentence(linear: sd.System) -> None:
    """Assert one sentence for each mistake."""
    with pytest.raises(sd.InputError, match="without attention logits"):
        sd.ladder_of(sd.MeanField(sd.syn_small(), 1.0, 1.0), TIMES)
    with pytest.raises(sd.InputError, match=r"closed_form of shape \(4, 2\)"):
        sd.ladder_of(linear, TIMES, 0.1, closed_form=np.exp)
    with pytest.raises(sd.InputError, match=r"closed_form 'sum' of shape \(4,\)"):
        sd.ladder_of(linear, TIMES, 0.1, closed_form=lambda t: {"sum": 1.0})
