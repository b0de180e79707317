"""Sequence classes: validation, immutability, roles of tokens, Gram matrix, assumptions, builders."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import sparse

from snapdyn.core.errors import InputError
from snapdyn.dynamics import (
    FiniteLengthMeanField,
    FrozenDecoder,
    MeanField,
    ModifiedDecoder,
    SequenceClasses,
    System,
    integrate,
    random_classes,
    syn_medium,
)
from tests.dynamics.helpers import ROUNDING, gram_by_hand, sentence
from tests.dynamics.systems.helpers import plain

GOOD = np.array([[0.5, 0.5, 0.0], [0.0, 0.25, 0.75]])


def table(**changes: Any) -> SequenceClasses:
    """Classes with one thing wrong."""
    return SequenceClasses(**{"P": GOOD, "query": [0, 0], **changes})


@pytest.mark.parametrize("deviation", [9e-7, -9e-7])
def test_row_sums_within_single_precision_are_taken(deviation: float) -> None:
    """Assert both sides of the row-sum threshold 1e-6: a float32 table passes, a wrong one does not."""
    table = GOOD.copy()
    table[0, 0] += deviation
    assert SequenceClasses(table, [0, 0]).num_classes == 2
    table[0, 0] += deviation
    with pytest.raises(InputError):
        SequenceClasses(table, [0, 0])


def test_vocab_size_threshold() -> None:
    """Assert that V equal to the number of next tokens is taken and one less is not; the default is max(M, K)."""
    ones = np.ones((3, 1))
    assert SequenceClasses(ones, [0, 0, 0]).vocab_size == SequenceClasses(ones, [0, 0, 0], vocab_size=3).vocab_size == 3
    with pytest.raises(InputError, match="vocab_size"):
        SequenceClasses(ones, [0, 0, 0], vocab_size=2)
    assert SequenceClasses(np.full((2, 5), 0.2), [0, 0]).vocab_size == 5


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e308])
def test_prior_is_positive_and_sums_to_one_at_every_scale(scale: float) -> None:
    """Assert that finite weights of any size give the prior 1/4, 3/4 (no silent overflow to zero)."""
    classes = SequenceClasses(GOOD, [0, 0], prior=np.array([0.5, 1.5]) * scale)
    np.testing.assert_allclose(classes.prior, [0.25, 0.75], rtol=1e-15)


def test_dense_and_sparse_give_equal_classes() -> None:
    """Assert that explicit zeros and duplicates, which are summed, equal the dense table."""
    dense = SequenceClasses(GOOD, [1, 1])
    duplicated = sparse.coo_array(
        ([0.25, 0.25, 0.5, 0.25, 0.75, 0.0], ([0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 2, 0])), shape=(2, 3)
    )
    stated = duplicated.copy()
    stated.has_canonical_format = True  # which is not true
    in_rows = sparse.csr_array(([0.25, 0.5, 0.25, 0.25, 0.75], [0, 1, 0, 1, 2], [0, 3, 5]), shape=(2, 3))
    for table in (duplicated, stated, in_rows):
        assert SequenceClasses(table, [1, 1]) == dense
    np.testing.assert_array_equal(SequenceClasses(duplicated, [1, 1]).support(1), [1, 2])


@pytest.mark.parametrize(
    "other",
    [
        table(P=GOOD[::-1]),
        table(query=[0, 2]),
        table(next_token=[1, 0]),
        table(prior=[1, 2]),
        table(vocab_size=4),
        table(P=np.hstack([GOOD, np.zeros((2, 1))]), vocab_size=3),
    ],
    ids=["P", "query", "next token", "weights", "V", "M"],
)
def test_equality_sees_every_field(other: SequenceClasses) -> None:
    """Assert that classes differing in one field are unequal, and equal content is equal."""
    assert table() != other
    assert table() == SequenceClasses(GOOD.tolist(), (0.0, 0.0), prior=[2, 2])
    assert table() != "classes"


def test_inputs_are_copied() -> None:
    """Assert that changing the caller's arrays afterwards changes nothing."""
    table, query, weights = GOOD.copy(), np.array([0, 1]), np.array([1.0, 3.0])
    sparse_table = sparse.csr_array(table)
    dense, from_sparse = (SequenceClasses(t, query, prior=weights) for t in (table, sparse_table))
    table[:], query[:], weights[:] = 0, 2, 9
    sparse_table.data[:] = 0
    for classes in (dense, from_sparse):
        assert classes == SequenceClasses(GOOD, [0, 1], prior=[1.0, 3.0])


def test_roles_of_tokens() -> None:
    """Assert distinct, common, absent tokens and trivial queries on a hand-made set."""
    P = np.array([[0.5, 0.5, 0, 0, 0], [0.5, 0, 0.5, 0, 0], [0, 0, 0.2, 0.8, 0]])
    classes = SequenceClasses(P, query=[7, 7, 3], vocab_size=10)
    np.testing.assert_array_equal(classes.omega_size, [2, 1, 2, 1, 0])
    np.testing.assert_array_equal(classes.distinct_tokens(), [1, 3])
    np.testing.assert_array_equal(classes.common_tokens(), [0, 2])
    np.testing.assert_array_equal(classes.distinct_tokens(1), [])
    np.testing.assert_array_equal(classes.common_tokens(1), [0, 2])
    np.testing.assert_array_equal(classes.trivial_queries, [3])
    np.testing.assert_array_equal(classes.queries, [3, 7])
    np.testing.assert_array_equal(classes.query_index, [1, 1, 0])


def test_a_token_of_two_classes_with_one_next_token_is_distinct() -> None:
    """Assert that Omega(l) counts next tokens: sharing within one next token does not make a token common."""
    P = np.array([[0.5, 0.5, 0], [0.5, 0, 0.5], [0, 0, 1.0]])
    shared = SequenceClasses(P, [0, 0, 0], next_token=[4, 4, 1], vocab_size=5)
    np.testing.assert_array_equal(shared.omega_size, [1, 1, 2])
    np.testing.assert_array_equal(shared.next_tokens, [1, 4])
    np.testing.assert_array_equal(shared.next_index, [1, 1, 0])
    different = SequenceClasses(P, [0, 0, 0])
    np.testing.assert_array_equal(different.omega_size, [2, 1, 2])


@given(seed=st.integers(0, 10**6), K=st.integers(2, 7), Q=st.integers(1, 2), spread=st.floats(0.0, 3.0))
@settings(derandomize=True, max_examples=20, deadline=None)
def test_overlaps_by_plain_numpy(seed: int, K: int, Q: int, spread: float) -> None:
    """Assert G, E, E' and the eigenvalues of E against plain dense numpy, at random logits."""
    classes = random_classes(K, num_queries=Q, seed=seed)
    z = spread * np.random.default_rng(seed).normal(size=(Q, classes.num_tokens))
    G = gram_by_hand(classes, z)
    np.testing.assert_allclose(classes.gram(z), G, rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(classes.E(z), G - np.eye(K), rtol=0, atol=ROUNDING)
    assert (np.diag(classes.E(z)) == 0).all()
    # An inverse is accurate to rounding times the square of its norm (G has norm at most K).
    bound = ROUNDING * K * float(np.linalg.norm(np.linalg.inv(G), 2)) ** 2
    np.testing.assert_allclose(classes.E_prime(z), np.eye(K) - np.linalg.inv(G), rtol=0, atol=bound)
    values = np.linalg.eigvalsh(G - np.eye(K))
    np.testing.assert_allclose(np.sort(classes.eigenvalues(z)), values, rtol=0, atol=K * ROUNDING)
    assert (np.diff(np.abs(classes.eigenvalues(z))) <= 0).all()


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"P": np.array([0.5, 0.5])}, "shape"),
    ({"P": GOOD - [[0, 1, 0], [0, 0, 0]]}, r"-0\.5 at class 0, token 1"),
    ({"P": np.where(GOOD == 0.75, np.nan, GOOD)}, "nan"),
    ({"P": [[0.5, 0.5, 0.0], [0.0, 0.25, 0.7501]]}, r"received 1\.0001 in row 1"),
    ({"P": sparse.csr_array(GOOD * [[1], [0]])}, "row 1"),
    ({"query": [0]}, "query"),
    ({"query": [0, 3]}, "query"),
    ({"next_token": [0, 10**8]}, "next_token"),
    ({"prior": [1.0, 0.0]}, "prior|weights"),
]


@pytest.mark.parametrize(("changes", "words"), REFUSED)
def test_bad_classes_are_refused(changes: dict[str, Any], words: str) -> None:
    """Assert one sentence for each check of P, ids, V and weights, which says where."""
    with pytest.raises(InputError, match=words) as error:
        table(**changes)
    sentence(error)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: table().support(2), "class"),
        (lambda: table().gram(np.zeros((2, 3))), "shape"),
        (lambda: SequenceClasses([[0.5, 0.5], [0.5, 0.5]], [0, 0]).E_prime(), "Gram"),
    ],
)
def test_bad_arguments_are_refused(call: Callable[[], Any], words: str) -> None:
    """Assert one sentence for classes that do not exist, logits of a wrong shape or value, and singular overlaps."""
    with pytest.raises(InputError, match=words) as error:
        call()
    sentence(error)


def test_nothing_can_be_changed() -> None:
    """Assert that attributes, arrays, the computed ones included, and supports are read-only; copies are equal."""
    classes = SequenceClasses(GOOD, [0, 1])
    with pytest.raises(AttributeError):
        classes.prior = np.ones(2)
    with pytest.raises(AttributeError):
        del classes.prior
    names = ["query", "next_token", "next_tokens", "queries", "prior", "omega_size", "class_of_entry", "z_of_entry"]
    arrays = [getattr(classes, name) for name in names]
    for array in (*arrays, classes.support(0), *classes.z_coordinates, classes.P.data):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(TypeError):
        hash(classes)
    assert copy.deepcopy(classes) == pickle.loads(pickle.dumps(classes)) == classes


BUILDERS: dict[str, Callable[..., System]] = {
    "MeanField": lambda classes, rate, start: MeanField(classes, 1.0, rate, start),
    "MeanField, residual": lambda classes, rate, start: MeanField(classes, 1.0, rate, start, residual=True),
    "FrozenDecoder": lambda classes, rate, start: FrozenDecoder(classes, rate, z_initial=start),
    "ModifiedDecoder": lambda classes, rate, start: ModifiedDecoder(classes, 1.0, rate, z_initial=start),
    "FiniteLengthMeanField": lambda classes, rate, start: FiniteLengthMeanField(classes, 1.0, rate, 1000, start),
}


@pytest.mark.parametrize("name", BUILDERS)
def test_systems_of_the_same_classes_do_not_disturb_each_other(name: str) -> None:
    """Assert that runs whose layouts and symmetries the classes keep are those of classes of their own."""
    shared, one, other = plain(syn_medium(3)), np.zeros((3, 70)), np.zeros((3, 70))
    one[:, 0] = other[0, 0] = 0.25
    for start in (None, one, 2.0 * one, other):
        for rate in (0.5, 1.0):
            run, alone = (
                integrate(BUILDERS[name](classes, rate, start), [1.0, 30.0], reduce=True)
                for classes in (shared, plain(syn_medium(3)))
            )
            assert run.stats["state_size"] < run.stats["full_state_size"] or name == "FrozenDecoder"
            assert np.array_equal(run.z, alone.z)
            assert np.array_equal(run.loss, alone.loss)


def test_the_residual_connection_adds_the_rows_of_the_queries() -> None:
    """Assert the shape of the inputs, up to the largest query, and the query beside the tokens in a unit vector."""
    classes = SequenceClasses([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]], query=[4, 6], vocab_size=9)
    inputs = classes.decoder_inputs(residual=True).toarray()
    assert inputs.shape == (2, 7)
    f = classes.decoder_inputs().toarray()
    expected = np.pad(f, ((0, 0), (0, 4)))
    expected[[0, 1], [4, 6]] += 1.0
    np.testing.assert_allclose(inputs, expected / np.sqrt(2.0), rtol=1e-15)
