"""Observables of runs against their equations."""

from __future__ import annotations

import numpy as np
import pytest

from snapdyn.dynamics import (
    MeanField,
    ModifiedDecoder,
    integrate,
    syn_medium,
)
from snapdyn.validation.observables import attention_observables, fallen
from snapdyn.validation.search.counterexamples import load


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


def test_fallen_sees_a_fall_and_nothing_else() -> None:
    """Assert which tokens count as fallen on the F10 counterexample of two classes, and none under Eq. (10)."""
    instance = load("theorem2a-memory").instance
    times = np.geomspace(1, 1e5, 100)
    run = integrate(MeanField(instance.classes, 1.0, instance.eta_Z), times, rtol=1e-9, atol=1e-13)
    seen = fallen(run)
    z = run.z[:, 0, instance.classes.distinct_tokens()]
    assert seen[-1].tolist() == [bool(z[-1, i] < z[:, i].max() - 1e-5 * np.abs(run.z).max()) for i in range(2)]
    assert seen.any()
    assert (np.diff(seen.astype(int), axis=0) >= 0).all()
    frozen = integrate(ModifiedDecoder(instance.classes, 1.0, instance.eta_Z), times)
    assert not fallen(frozen).any()
