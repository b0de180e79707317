"""Families of instances: draws, corners, and what lies in them."""

from dataclasses import replace

import numpy as np
import pytest

from snapdyn import analytic
from snapdyn.validation.search.family import Family

FAMILIES = [
    Family("weak correlation, uniform"),
    Family("strong correlation", "strong", uniform=False),
    Family("any correlation", "any", num_classes=(3, 4), num_common=(2, 2), num_queries=(2, 2), ratio=(0.1, 10.0)),
    Family("one common token", "weak", num_common=(1, 1), shared_by_all=True, vocab_size=(100, 200)),
]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_draws_lie_in_their_family(family: Family) -> None:
    """Assert that every draw has the family's sizes, rates, priors and correlation, and that every class overlaps.

    A draw depends on seed and number only, and families of other ranges do not contain it.
    """
    for number in range(20):
        instance = family.draw(7, number)
        classes = instance.classes
        K = classes.num_classes
        assert family.num_classes[0] <= K <= family.num_classes[1]
        assert family.vocab_size[0] <= classes.vocab_size <= family.vocab_size[1]
        assert family.ratio[0] <= instance.ratio <= family.ratio[1] * (1 + 1e-12)
        assert instance.uniform == family.uniform
        # The correlation by the project's own eigenvalues.
        weak = abs(classes.eigenvalues()[0]) * K < 1
        assert family.correlation == "any" or weak == (family.correlation == "weak")
        assert (classes.E().max(axis=1) > 0).all()
        assert all(classes.distinct_tokens(n).size >= family.num_distinct[0] for n in range(K))
        assert family.contains(instance)
        assert not replace(family, vocab_size=(20_000, 30_000)).contains(instance)
    assert family.draw(7, 19).to_dict() == instance.to_dict() != family.draw(8, 19).to_dict()


def test_corners_are_extremes_crossed_at_random() -> None:
    """Assert ends of ranges, V = K and K + 1, times t0, rare classes, almost equal rows: all inside."""
    wide = Family(
        "wide", "any", uniform=False, num_classes=(1, 6), vocab_size=(2, 10**12), eta_Y=(1e-6, 1e6), horizon=(1e-2, 1e9)
    )
    corners = list(wide.corners(0, 400))
    assert len(corners) == 400
    assert all(wide.contains(corner) for corner in corners if corner.num_classes > 1)
    assert {corner.num_classes for corner in corners} == {1, 2, 6}
    assert {round(np.log10(corner.eta_Y)) for corner in corners} == {-6, 6}
    smallest = [corner.vocab_size - max(corner.num_classes, 2) for corner in corners]
    assert {0, 1, 10**12 - 6} <= set(smallest)
    t0 = [2 * analytic.u_plus(max(corner.vocab_size, 4)) / corner.prior.max() for corner in corners]
    times = np.array([corner.horizon / time for corner, time in zip(corners, t0, strict=True)])
    assert all(np.isclose(times, factor).any() for factor in (1.0, 2.0, 1e6))
    assert max(corner.gram[0, 1] for corner in corners if corner.num_classes > 1) > 1 - 1e-9
    assert wide.draw(0, corners[3].number).to_dict() == corners[3].to_dict()
