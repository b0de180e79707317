"""Kinds of exchangeable classes: those of a table, against what builders declare and against permutations."""

from itertools import pairwise

import numpy as np
import pytest

from snapdyn.dynamics import MeanField, SequenceClasses, integrate, random_classes, syn_medium, syn_small
from snapdyn.dynamics.classes.kinds import Kinds, recognised
from snapdyn.dynamics.classes.table import Floats
from snapdyn.dynamics.symmetry.reduction import reduced
from tests.dynamics.symmetry.helpers import plain, random_symmetric_classes, random_system


def found_in(classes: SequenceClasses, z: Floats | None = None) -> Kinds | None:
    return recognised(classes, classes.check_z(z), classes.num_classes)


def content(kinds: Kinds) -> list[object]:
    """What defines kinds, in any order of kinds and of shared tokens."""
    return sorted(
        (
            kinds.per_query[c],
            kinds.num_queries[kinds.query_type[c]],
            round(float(kinds.prior[c]), 12),
            sorted(zip(kinds.shared[c].tolist(), kinds.like_shared.tolist(), strict=True)),
            sorted(zip(kinds.own[c].probability.tolist(), kinds.own[c].like.tolist(), strict=True)),
        )
        for c in range(kinds.number.size)
    )


@pytest.mark.parametrize("seed", range(100))
def test_a_table_shows_what_its_builder_declares(seed: int) -> None:
    """Assert equal kinds, from the table of all classes in a random order with other names of tokens and queries."""
    declared, rng = random_symmetric_classes(seed), np.random.default_rng(seed)
    order, names = rng.permutation(declared.num_classes), rng.permutation(declared.num_tokens)
    table = declared.P.toarray()[order][:, names]
    queries = rng.permutation(declared.num_queries)[declared.query_index][order]
    size = declared.vocab_size + declared.num_tokens
    classes = SequenceClasses(table, queries, prior=declared.prior[order], vocab_size=size)
    found = found_in(classes)
    assert found is not None
    assert content(found) == content(declared.exchangeable)
    members = found.members()
    assert np.array_equal(np.bincount(members.kind), found.number)
    assert found.copies.sum() == MeanField(classes, 1.0, 1.0).layout.num_slots
    assert found.size(size) == MeanField(classes, 1.0, 1.0).size


@pytest.mark.parametrize("seed", range(40))
def test_exchanges_keep_the_system(seed: int) -> None:
    """Assert that an exchange of two classes of a kind, with their own tokens, leaves the table, prior and start.

    Two classes of one query are exchanged alone, those of two queries with all classes of these queries.
    """
    system, _ = random_system(seed)
    classes, z = system.classes, system.z_initial
    found = recognised(classes, z, classes.num_classes)
    if found is None:
        return
    kind, P = found.members().kind, classes.P.toarray()
    like = [np.flatnonzero(kind == c) for c in range(found.number.size)]
    in_one = (pair for members in like for pair in pairwise(members) if np.ptp(classes.query_index[list(pair)]) == 0)
    moves = [dict([pair, pair[::-1]]) for pair in in_one]
    for a, b in pairwise(range(classes.num_queries)):
        ours, theirs = np.flatnonzero(classes.query_index == a), np.flatnonzero(classes.query_index == b)
        ours, theirs = ours[np.argsort(kind[ours], kind="stable")], theirs[np.argsort(kind[theirs], kind="stable")]
        if np.array_equal(kind[ours], kind[theirs]):
            moves.append({**dict(zip(ours, theirs, strict=True)), **dict(zip(theirs, ours, strict=True))})
    assert moves or found.number.max() == 1
    for move in moves:
        order = np.array([move.get(n, n) for n in range(classes.num_classes)])
        tokens = np.arange(classes.num_tokens)
        for n, other in move.items():
            own, its = ([m for m in np.flatnonzero(P[k]) if (P[:, m] > 0).sum() == 1] for k in (n, other))
            weights = [[(P[k, m], z[classes.query_index[k], m]) for m in of] for k, of in ((n, own), (other, its))]
            tokens[np.array(own, int)[sort(weights[0])]] = np.array(its, int)[sort(weights[1])]
        assert np.array_equal(P[order][:, tokens], P)
        assert np.array_equal(classes.prior[order], classes.prior)
        start = z[classes.query_index]
        assert np.array_equal(np.where(P > 0, start[order][:, tokens], 0.0), np.where(P > 0, start, 0.0))


def sort(weights: list[tuple[float, float]]) -> list[int]:
    return sorted(range(len(weights)), key=weights.__getitem__)


COUNTEREXAMPLES = {
    "two classes with one next token": SequenceClasses([[0.4, 0.6]] * 3, [5] * 3, next_token=[0, 0, 1], vocab_size=9),
    "unequal weights": random_classes(6, 2, 5),
    "unequal priors": SequenceClasses([[0.4, 0.6, 0], [0.4, 0, 0.6]], [5, 5], prior=[1, 2], vocab_size=9),
    "a query in a row": SequenceClasses([[0.4, 0.6, 0], [0.4, 0, 0.6]], [0, 0], vocab_size=9),
}


@pytest.mark.parametrize("name", COUNTEREXAMPLES)
def test_what_is_not_exchangeable_runs_in_full(name: str) -> None:
    system = MeanField(COUNTEREXAMPLES[name], 1.0, 1.0, residual=name == "a query in a row")
    assert reduced(system) is None
    assert integrate(system, [1.0], reduce=True).stats["state_size"] == system.size


def test_classes_of_unequal_queries_are_of_two_kinds() -> None:
    """Assert two kinds for two classes in one query and one in another: attention of the third moves otherwise."""
    table = [[0.4, 0.6, 0, 0], [0.4, 0, 0.6, 0], [0.4, 0, 0, 0.6]]
    classes = SequenceClasses(table, [5, 5, 6], vocab_size=9)
    found = found_in(classes)
    assert found is not None
    assert sorted(found.number.tolist()) == [1, 2]
    run = integrate(MeanField(classes, 1.0, 1.0), [50.0], reduce=False)
    assert abs(run.z[0, 0, 0] - run.z[0, 1, 0]) > 0.01
    np.testing.assert_allclose(integrate(MeanField(classes, 1.0, 1.0), [50.0], reduce=True).z, run.z, rtol=1e-9)


def test_known_numbers() -> None:
    """Assert one kind of Syn-Small and Syn-Medium, and that one start of its own leaves a query to itself."""
    for classes in (syn_small(), plain(syn_small()), syn_medium(10), plain(syn_medium(10))):
        small = reduced(MeanField(classes, 1.0, 1.0))
        assert small is not None
        assert small.size == 43
    z = np.zeros((3, 70))
    z[0, 0] = 0.25
    found = found_in(plain(syn_medium(3)), z)
    assert found is not None
    assert sorted(found.number.tolist()) == [2, 4]


CORNERS = {
    "no token of one class": SequenceClasses([[0.4, 0.6]] * 4, [5, 5, 6, 6], vocab_size=9),
    "V = K": SequenceClasses([[0.4, 0.6, 0], [0.4, 0, 0.6]], [0, 0], vocab_size=3),
    "equal weights": SequenceClasses([[0.4, 0.3, 0.3, 0, 0], [0.4, 0, 0, 0.3, 0.3]], [0, 0], vocab_size=7),
    "next tokens among the tokens": SequenceClasses(
        [[0.4, 0.6, 0], [0.4, 0, 0.6]], [0, 1], next_token=[2, 0], vocab_size=5
    ),
}


@pytest.mark.parametrize("name", CORNERS)
def test_corners_are_those_of_the_full_run(name: str) -> None:
    system, times = MeanField(CORNERS[name], 1.0, 0.7), [1.0, 10.0, 50.0]
    small, full = (integrate(system, times, reduce=on, save_decoder=True) for on in (True, False))
    assert small.stats["state_size"] < full.stats["state_size"]
    np.testing.assert_allclose(small.z, full.z, rtol=0, atol=1e-12)
    np.testing.assert_allclose(small.Y, full.Y, rtol=0, atol=1e-12)
