"""Gaps between rungs: their definition, noise of seeds, the first break."""

import numpy as np
import pytest

from snapdyn.dynamics import SequenceClasses, Trajectory
from snapdyn.validation import Ladder, Rung, ladder
from snapdyn.validation.rungs.run import MEAN_FIELD
from tests.validation.rungs.helpers import whole


def _made_up(values: list[list[float]]) -> tuple[Trajectory, ...]:
    """Runs whose first logit takes the given values (runs x times), the others 0."""
    template = whole()[MEAN_FIELD].runs[0]
    found = []
    for path in values:
        z = np.zeros((len(path), template.z_support.shape[1]))
        z[:, 0] = path
        found.append(template.changed(t=np.arange(len(path), dtype=float), z_support=z))
    return tuple(found)


def test_gap_is_the_largest_difference_over_the_farthest_move() -> None:
    """Assert the definition of a gap on made-up paths: |1 - 1.5|/2 at t = 1, |2 - 1|/2 at t = 2."""
    pair = Ladder(np.arange(3.0), (Rung("a", _made_up([[0, 1, 2]])), Rung("b", _made_up([[0, 1.5, 1]]))))
    z = pair.compare("a", "b").sel(observable="z")
    assert z.gap.values == pytest.approx([0, 0.25, 0.5])
    assert float(z.scale) == 2
    assert z.resolved.values == pytest.approx(z.gap.values)
    first = pair.first_break(0.3)
    assert (first.rung, first.t) == ("b", 2.0)


def test_rounding_has_no_gap() -> None:
    """Assert no gap where z is only rounding of the rate, which is eta_Z times a sum of terms of order 1."""
    apart = SequenceClasses(np.array([[0.5, 0.5, 0, 0], [0, 0, 0.3, 0.7]]), query=[0, 0], vocab_size=50)
    still = ladder(apart, 1e-2, 1e-5, [1.0, 1e4], seeds=0)
    assert 0 < np.abs(still[MEAN_FIELD].observables["z"]).max() < 1e-15
    assert not still.gaps.gap.sel(observable="z").values.any()


def test_where_one_rung_has_ended_the_gap_is_infinite_and_zero_where_both_have() -> None:
    """Assert that NaN against a number is infinitely far, and NaN against NaN no gap."""
    nan = float("nan")
    ended, whole = _made_up([[0, 1, nan]]), _made_up([[0, 1, 2]])
    apart = Ladder(np.arange(3.0), (Rung("a", whole), Rung("b", ended))).gaps.gap.sel(observable="z")
    assert apart.values.ravel().tolist() == [0, 0, np.inf]
    together = Ladder(np.arange(3.0), (Rung("a", ended), Rung("b", ended))).gaps.gap.sel(observable="z")
    assert together.values.ravel().tolist() == [0, 0, 0]


def test_noise_of_the_seeds_is_not_a_break_but_undecided() -> None:
    """Assert that a gap within the noise of few seeds is undecided, and the same gap with little noise a break."""
    rng = np.random.default_rng(0)
    still = _made_up([[0.0, 1.0]])
    for spread, broken in ((1.0, False), (0.01, True)):
        seeds = [[0.0, 1.3 + spread * shift] for shift in rng.normal(size=6)]
        pair = Ladder(np.arange(2.0), (Rung("seeds", _made_up(seeds)), Rung("flow", still)))
        tolerance = 0.5 * float(pair.gaps.gap.sel(observable="z").max())
        assert ("flow" in [found.rung for found in pair.breaks(tolerance)]) is broken
        assert (pair.undecided(tolerance) == ("flow",)) is not broken
