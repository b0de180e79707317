"""Growth of a difference between equal classes, against full runs, in which rounding makes them differ."""

import numpy as np
import pytest

from snapdyn.core.errors import InputError
from snapdyn.dynamics import (
    ClassKind,
    FrozenDecoder,
    MeanField,
    SequenceClasses,
    growth_of_differences,
    integrate,
    symmetric_classes,
    syn_medium,
    syn_small,
)

OWN = 1 - 0.38422 - 0.19078 - 0.41163
UNSTABLE = SequenceClasses(
    [[0.38422, 0.19078, 0.41163, OWN, 0], [0.38422, 0.19078, 0.41163, 0, OWN]], [0, 1], vocab_size=5
)
EPS = np.finfo(float).eps


@pytest.mark.parametrize("t", [30.0, 50.0])
def test_growth_times_rounding_is_the_difference_of_a_full_run(t: float) -> None:
    """Assert that two runs differ by the growth times how far they are apart at the start, within a factor 100.

    One is of one value for both queries. In the others the queries differ, by 1e-16 at some step, which may be a late
    one, or by EPS in one logit at the start.
    """
    system, start = MeanField(UNSTABLE, 1.0, 5.3594), np.zeros((2, 5))
    start[0, 0] = EPS
    full = (integrate(MeanField(UNSTABLE, 1.0, 5.3594, z), [t], reduce=False).z for z in (None, start))
    reduced = integrate(system, [t], reduce=True).z
    by_rounding, by_start = (np.abs(z - reduced).max() / (EPS * growth_of_differences(system, t)) for z in full)
    assert by_rounding < 100
    assert 0.01 < by_start < 100


def test_equal_queries_part_where_the_path_is_unstable_only() -> None:
    """Assert 1e17 at late times, less than 100 at early ones with slow attention, and two runs that agree there."""
    assert growth_of_differences(MeanField(UNSTABLE, 1.0, 5.3594), 633.0) > 1e16
    slow = MeanField(UNSTABLE, 1.0, 0.005)
    assert growth_of_differences(slow, 100.0) < 100
    runs = [integrate(slow, [100.0], reduce=on) for on in (True, False)]
    np.testing.assert_allclose(runs[0].z, runs[1].z, rtol=1e-9)


def test_stable_paths() -> None:
    """Assert small growth on the paper's data and for 10^9 classes, and 1 where nothing can be exchanged."""
    for system, t in ((MeanField(syn_small(), 1.0, 1.0), 1e4), (MeanField(syn_medium(10), 1.0, 1.0), 1e5)):
        assert growth_of_differences(system, t) < 10
    many = symmetric_classes(ClassKind([0.3], [0.2, 0.5], 10**9), vocab_size=10**12)
    assert growth_of_differences(MeanField(many, 1.0, 1e-9), 1e12) < 10
    alone = SequenceClasses([[0.4, 0.6, 0], [0.3, 0, 0.7]], [5, 5], vocab_size=9)
    assert growth_of_differences(MeanField(alone, 1.0, 1.0), 10.0) == 1.0


def test_refusals() -> None:
    """Assert one sentence for a system that is no mean field."""
    with pytest.raises(InputError, match="a MeanField, received FrozenDecoder"):
        growth_of_differences(FrozenDecoder(syn_small(), 1.0), 1.0)  # type: ignore[arg-type]
