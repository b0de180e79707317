"""Linear response of the mean field against the mean field itself, integrated."""

from dataclasses import replace

import numpy as np
import pytest

from snapdyn.core.memory import Unaffordable
from snapdyn.dynamics import MeanField, log_times, single_common_token, whole_run
from snapdyn.validation.claims.attention._linear_response import LITTLE_MEMORY, response
from snapdyn.validation.claims.sample_classes import correlated_classes, counterexample
from snapdyn.validation.search.counterexamples import load
from snapdyn.validation.search.instance import Instance


def first_fall(instance: Instance) -> float:
    """First time at which a distinct logit of the mean field is past its highest value, batch-size-1 steps."""
    times = log_times(1e-1, instance.t_end, 600)
    run = whole_run(MeanField(instance.classes, instance.eta_Y, instance.eta_Z), times, rtol=1e-10, atol=1e-16)
    query, token = instance.classes.z_coordinates
    kept = np.isin(token, instance.classes.distinct_tokens())
    steps = np.diff(run.z[:, query[kept], token[kept]], axis=0)
    return float(times[np.argmax((steps < 0).any(axis=1))])


@pytest.mark.parametrize(
    "instance",
    [Instance.of(counterexample(), 1.0, 0.3, 1e2), load("theorem2a-memory").instance],
    ids=["F10", "theorem2a-memory"],
)
def test_onset_is_that_of_the_mean_field(instance: Instance) -> None:
    """Assert the onset to 10 %: attention has moved by less than that (first order in its change)."""
    found = response(instance)
    assert found.change < 0.1
    assert found.onset == pytest.approx(first_fall(instance), rel=0.1)


def test_slow_attention_has_no_onset_and_the_shares_scale() -> None:
    instance = Instance.of(correlated_classes(0.05, 0, 3, 100), 1.0, 1e-6, 1e6)
    slow, slower = response(instance), response(replace(instance, eta_Z=1e-7))
    assert slow.onset == np.inf
    assert slow.lost == pytest.approx(10 * slower.lost, rel=1e-3)
    assert LITTLE_MEMORY.measure(instance) < 0.1


def test_too_many_classes_are_refused_before_the_start() -> None:
    instance = Instance.of(single_common_token(600, 2, 0.3), 1.0, 0.01, 1e5)
    with pytest.raises(Unaffordable, match=r"linear response .* 2e\+10 multiplications, .* 6\.5e\+11, "):
        response(instance)
