"""Observables of a rung against the trajectory and their equations."""

from __future__ import annotations

import numpy as np
import pytest

from snapdyn.dynamics import (
    MeanField,
    integrate,
    syn_medium,
)
from snapdyn.validation.rungs.observables import attention_observables
from snapdyn.validation.rungs.run import (
    MEAN_FIELD,
)
from tests.validation.rungs.helpers import K, whole


def test_observables_are_the_trajectorys() -> None:
    """Assert that relative gain and growth factor are Trajectory's, for the dominant token over the others."""
    run = whole()[MEAN_FIELD].runs[0]
    found = attention_observables(run)
    gains = [run.relative_gain(n, 4 * n + 4, l) for n in range(K) for l in range(4 * n + 1, 4 * n + 4)]
    assert found["relative_gain"] == pytest.approx(np.array(gains).T)
    assert found["growth_factor"][:, 2] == pytest.approx(run.growth_factor(0, 2))


def test_observables_are_what_their_equations_say() -> None:
    """Assert attention (5), entropy, relative gain (Theorem 3) and growth factor (11) against dense numpy, over time.

    On classes of two queries with shared tokens, so that logits, classes and tokens are laid out differently.
    """
    classes = syn_medium(2)
    run = integrate(MeanField(classes, 1.0, 1.0), [1.0, 30.0, 300.0])
    found, z, P = attention_observables(run), run.z, classes.P.toarray()
    c = P * np.exp(z[:, classes.query_index])
    c /= c.sum(axis=2, keepdims=True)
    rows, columns = P.nonzero()
    assert found["attention"] == pytest.approx(c[:, rows, columns], rel=1e-12)
    with np.errstate(divide="ignore", invalid="ignore"):
        assert found["entropy"] == pytest.approx(-np.nansum(c * np.log(c), axis=2), rel=1e-12)
    gains = []
    for n in range(classes.num_classes):
        own = [l for l in range(classes.num_tokens) if P[n, l] > 0 and (P[:, l] > 0).sum() == 1]
        dominant = max(own, key=lambda l, n=n: P[n, l])
        gains += [(c[:, n, dominant] / c[:, n, l]) ** 2 - 1 for l in own if l != dominant]
    assert found["relative_gain"] == pytest.approx(np.array(gains).T, rel=1e-10)
    moving = [(m, l) for m in range(2) for l in range(classes.num_tokens) if (P[classes.query_index == m, l] > 0).any()]
    assert found["z"] == pytest.approx(np.array([z[:, m, l] for m, l in moving]).T)
    assert found["growth_factor"] == pytest.approx(np.exp(2 * found["z"]))
    assert np.ptp(found["z"][-1]) > 0.1
