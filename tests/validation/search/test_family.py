"""Families of instances: draws, corners, and what lies in them."""

from dataclasses import replace

import numpy as np
import pytest

from snapdyn import analytic
from snapdyn.validation.search.family import UNLIKE_CLASSES, Family
from snapdyn.validation.search.instance import Instance

LARGE = Family(
    "many classes",
    "any",
    uniform=False,
    num_classes=(1, 200),
    num_common=(0, 8),
    num_distinct=(0, 12),
    shared_next_tokens=True,
)
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
    """Assert ends of ranges, V = K and K + 1, times t0, rare classes, almost equal rows: all inside.

    Half of the numbers are extreme, so that the faces of the domain are tried as well as its corners.
    """
    wide = Family(
        "wide", "any", uniform=False, num_classes=(1, 6), vocab_size=(2, 10**12), eta_Y=(1e-6, 1e6), horizon=(1e-2, 1e9)
    )
    corners = list(wide.corners(0, 400))
    assert len(corners) == 400
    assert all(wide.contains(corner) for corner in corners if corner.num_classes > 1)
    extreme = [corner.num_classes in (1, 2, 6) for corner in corners]
    assert len(corners) / 2 < sum(extreme) < len(corners)
    ends = [corner.eta_Y in (1e-6, 1.0, 1e6) for corner in corners]
    assert 0.4 < np.mean(ends) < 0.6
    assert {1e-6, 1.0, 1e6} <= {corner.eta_Y for corner in corners}
    smallest = [corner.vocab_size - max(corner.num_classes, 2) for corner in corners]
    assert {0, 1, 10**12 - 6} <= set(smallest)
    t0 = [2 * analytic.u_plus(max(corner.vocab_size, 4)) / corner.prior.max() for corner in corners]
    times = np.array([corner.horizon / time for corner, time in zip(corners, t0, strict=True)])
    assert all(np.isclose(times, factor).any() for factor in (1.0, 2.0, 1e6))
    assert max(corner.gram[0, 1] for corner in corners if corner.num_classes > 1) > 1 - 1e-9
    assert wide.draw(0, corners[3].number).to_dict() == corners[3].to_dict()


def overlaps(instance: Instance) -> np.ndarray:
    """Which classes share a token, (S, S)."""
    return (instance.gram > 0) & ~np.eye(instance.num_classes, dtype=bool)


def test_draws_of_many_classes_have_few_kinds_and_all_shapes_of_overlaps() -> None:
    """Assert classes up to the largest number, copies of few kinds, rare priors, and chains, stars, pairs, cliques."""
    drawn = [LARGE.draw(2, number) for number in range(400)]
    assert all(map(LARGE.contains, drawn))
    many = [each for each in drawn if each.num_classes > UNLIKE_CLASSES]
    assert 50 < len(many) < 200
    assert max(each.num_classes for each in many) > 150
    for each in many:
        profiles = [
            (weight, query, *np.sort(row[row > 0]))
            for row, query, weight in zip(each.P, each.query, each.weights, strict=True)
        ]
        assert len(set(profiles)) <= 6
    assert min(each.prior.min() / each.prior.max() for each in drawn) < 1e-9
    few = [each for each in drawn if 4 <= each.num_classes <= UNLIKE_CLASSES]
    degrees = [np.sort(overlaps(each).sum(axis=0)) for each in few]
    assert any((degree[:-1] == 1).all() and degree[-1] == degree.size - 1 for degree in degrees), "a star"
    assert any((degree == degree.size - 1).all() for degree in degrees), "a clique"
    assert any((degree == 1).all() for degree in degrees), "pairs"
    assert any((degree[:2] == 1).all() and (degree[2:] == 2).all() for degree in degrees), "a chain"
    assert max(np.where(overlaps(each), each.gram, 0).max() for each in few) > 1 - 1e-6


def test_a_directed_search_keeps_equal_classes_equal() -> None:
    """Assert that the coordinates of many classes are those of their kinds, and give the instance back."""
    instance = next(each for each in map(LARGE.draw, [2] * 400, range(400)) if each.num_classes > 50)
    x, bounds, _ = LARGE.coordinates(instance)
    assert x.size == len(bounds) < instance.P.shape[1] / 2
    back = LARGE.moved(instance, x)
    assert np.allclose(back.P, instance.P / instance.P.sum(axis=1, keepdims=True), rtol=1e-9, atol=1e-6)
    assert np.allclose(back.prior, instance.prior)
    moved = LARGE.moved(instance, x + np.random.default_rng(1).normal(size=x.size) / 10)
    kinds = {tuple(np.sort(row[row > 0])) for row in moved.P}
    assert len(kinds) <= 6


def test_random_changes_of_structure_stay_in_the_family() -> None:
    """Assert that classes, tokens and queries change one way and the other, and that the start of a run forbids it."""
    rng = np.random.default_rng(3)
    start = LARGE.draw(2, 3)
    changed = [each for each in (LARGE.restructured(start, rng) for _ in range(200)) if each is not None]
    assert len(changed) > 100
    assert all(map(LARGE.contains, changed))
    K, M, Q = start.num_classes, start.P.shape[1], np.unique(start.query).size
    assert {np.sign(each.num_classes - K) for each in changed} == {-1, 0, 1}
    assert {np.sign(each.P.shape[1] - M) for each in changed} == {-1, 0, 1}
    assert any(np.unique(each.query).size != Q for each in changed)
    assert all(each.P.any(axis=0).all() and each.vocab_size >= each.num_classes for each in changed)
    logits = np.zeros((Q, M))
    assert LARGE.restructured(replace(start, start=logits), rng) is None


def test_equal_profiles_have_equally_many_tokens() -> None:
    """Assert that a token below rounding, which one class has alone, leaves a family of equal profiles.

    A directed search that changes the numbers of such an instance could not make its profiles equal again.
    """
    family = Family("equal profiles", equal_profiles=True, shared_by_all=True, num_queries=(1, 1))
    instance = family.draw(0, 0)
    assert family.contains(instance)
    extra = np.zeros((instance.num_classes, 1))
    extra[0] = 1e-12
    assert not family.contains(replace(instance, P=np.hstack([instance.P, extra])))
