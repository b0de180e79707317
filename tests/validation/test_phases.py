"""Observables of runs against their equations."""

import numpy as np

from snapdyn.dynamics import (
    MeanField,
    ModifiedDecoder,
    integrate,
)
from snapdyn.validation.phases import fallen
from snapdyn.validation.search.counterexamples import load


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
