"""Kinds of exchangeable classes: those of a table, against what builders declare and against permutations."""

import numpy as np
import pytest

from snapdyn.dynamics import MeanField, SequenceClasses, integrate, random_classes, syn_medium
from snapdyn.dynamics.classes.kinds import Kinds, recognised
from snapdyn.dynamics.classes.table import Floats
from snapdyn.dynamics.systems.reduction import reduced
from tests.dynamics.systems.helpers import plain, random_symmetric_classes


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


@pytest.mark.parametrize("seed", range(25))
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


CORNERS = {
    "no token of one class": SequenceClasses([[0.4, 0.6]] * 4, [5, 5, 6, 6], vocab_size=9),
    "V = K": SequenceClasses([[0.4, 0.6, 0], [0.4, 0, 0.6]], [0, 0], vocab_size=3),
    "equal weights": SequenceClasses([[0.4, 0.3, 0.3, 0, 0], [0.4, 0, 0, 0.3, 0.3]], [0, 0], vocab_size=7),
    "next tokens among the tokens": SequenceClasses(
        [[0.4, 0.6, 0], [0.4, 0, 0.6]], [0, 1], next_token=[2, 0], vocab_size=5
    ),
    "queries of unequal numbers": SequenceClasses(
        [[0.4, 0.6, 0, 0], [0.4, 0, 0.6, 0], [0.4, 0, 0, 0.6]], [5, 5, 6], vocab_size=9
    ),
}


@pytest.mark.parametrize("name", CORNERS)
def test_corners_are_those_of_the_full_run(name: str) -> None:
    system, times = MeanField(CORNERS[name], 1.0, 0.7), [1.0, 10.0, 50.0]
    small, full = (integrate(system, times, reduce=on, save_decoder=True) for on in (True, False))
    assert small.stats["state_size"] < full.stats["state_size"]
    np.testing.assert_allclose(small.z, full.z, rtol=0, atol=1e-12)
    np.testing.assert_allclose(small.Y, full.Y, rtol=0, atol=1e-12)


def test_one_start_of_its_own_leaves_a_query_to_itself() -> None:
    """Assert two kinds of three like queries, of which one has another start."""
    z = np.zeros((3, 70))
    z[0, 0] = 0.25
    found = found_in(plain(syn_medium(3)), z)
    assert found is not None
    assert sorted(found.number.tolist()) == [2, 4]
