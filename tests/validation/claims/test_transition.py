"""Claims on the transition: the measures, by hand."""

from dataclasses import replace

import numpy as np
import pytest

from snapdyn import analytic
from snapdyn.dynamics import SequenceClasses
from snapdyn.validation.claims.transition import insight_a, insight_c, snapping
from snapdyn.validation.claims.transition._shared import largest_step, monotonicity_violation
from snapdyn.validation.search.instance import Instance


def test_half_time_of_a_loss_that_falls_or_stays_above() -> None:
    """Assert linear interpolation in ln t, the first time of a loss that starts below, infinity above the level."""
    t = np.array([0.25, 1, 4])
    assert insight_a.half_time(t, np.array([1, 0.75, 0.25]), 0.5) == pytest.approx(2)
    assert insight_a.half_time(t, np.array([0.4, 0.3, 0.2]), 0.5) == 0.25
    assert insight_a.half_time(t, np.array([1, 0.9, 0.8]), 0.5) == np.inf


@pytest.mark.parametrize(("vocab_size", "t_end"), [(4, 12.1), (10**12, 1e6)])
def test_elasticity_is_the_slope_of_the_logarithms(vocab_size: int, t_end: float) -> None:
    """Assert d ln u/d ln t of the rarest class by a central difference, whose error is of the order of its step^2."""
    classes = SequenceClasses([[0.2, 0.8, 0], [0.2, 0, 0.8]], [0, 0], prior=[1, 3], vocab_size=vocab_size)
    step, visits = 1e-3, t_end / 4
    u = analytic.h(visits * np.exp([-step, step]), 0.7, vocab_size)
    slope = float(np.diff(np.log(u))[0]) / (2 * step)
    measured = insight_c.AFTER.measure(Instance.of(classes, 0.7, 0.1, t_end))
    assert measured == pytest.approx(slope, rel=1e-4)


def test_largest_step_must_be_a_fall_beyond_its_error() -> None:
    """Assert the worst step of two cells, and the bound of seeds: 3.1 standard errors of a difference, by hand."""
    falling = np.array([[[3.0], [5.0]], [[2.0], [4.5]]])
    assert (largest_step(falling).value, largest_step(falling).bound) == (-0.5, 0)
    assert not largest_step(falling[::-1]).holds
    seeds = np.array([[[1.0, 3.0]], [[0.0, 2.0]]])
    assert largest_step(seeds).value == -1
    assert largest_step(seeds).bound == pytest.approx(-3.1 * np.sqrt(1 + 1))


@pytest.mark.parametrize("num_classes", [60, 100])
def test_one_half_counts_the_classes_of_a_query(num_classes: int) -> None:
    """Assert that K classes of one query leave the statement at eta_Z/eta_Y = 1e-4, and keep it at 1e-4/K."""
    prop = insight_a.CLAIM.properties[1]
    instance = insight_a.equal_classes_of_a_query(num_classes)
    reading = prop.at(instance)
    assert not reading.measured.holds
    assert [each.value for each in reading.unmet] == [pytest.approx(num_classes * 1e-4)]
    slow = prop.at(replace(instance, eta_Z=0.999e-4 / num_classes))
    assert slow.unmet == []
    # The common logits of the query set the change: it falls by K as eta_Z does.
    assert slow.measured.value < 2 * reading.measured.value / num_classes


@pytest.mark.parametrize(("prior", "tokens", "exponent"), [(1e-6, 30, 1.11), (1e-10, 100, 1.27)])
def test_a_rare_class_breaks_the_exponent_of_snapping(prior: float, tokens: int, exponent: float) -> None:
    """Assert an exponent above 1, outside the condition on priors alone, and none at priors of one order."""
    prop = snapping.CLAIM.properties[0]
    reading = prop.at(snapping.rare_class(prior, tokens))
    assert reading.measured.value == pytest.approx(exponent, abs=0.01)
    assert [each.name for each in reading.unmet] == ["priors of one order"]
    inside = prop.at(snapping.rare_class(0.101, tokens))
    assert (inside.unmet, inside.measured.holds) == ([], True)


@pytest.mark.parametrize(
    ("path", "violation"),
    [([1.0, 2.0, 3.0], -1 / 3), ([1.0, 3.0, 2.0], 1.0), ([-1.0, 1.0, 4.0], 1.0), ([2.0, 3.0, 3.5], -0.5 / 3.5)],
)
def test_a_fall_is_measured_from_the_running_maximum(path: list[float], violation: float) -> None:
    """Assert the largest drop of paths that fall, and minus the smallest late gain of those that do not."""
    assert monotonicity_violation(np.array(path)) == pytest.approx(violation)
