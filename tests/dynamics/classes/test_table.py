"""Sequence classes: validation, immutability, roles of tokens, Gram matrix, assumptions, builders."""

from __future__ import annotations

import copy
import math
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from snapdyn.dynamics import SequenceClasses, random_classes
from snapdyn.errors import InputError
from tests.dynamics.helpers import ROUNDING, gram_by_hand, sentence

GOOD = np.array([[0.5, 0.5, 0.0], [0.0, 0.25, 0.75]])
BAD_TABLES: dict[str, Any] = {
    "one-dimensional": np.array([0.5, 0.5]),
    "three-dimensional": np.full((1, 1, 2), 0.5),
    "no classes": np.empty((0, 3)),
    "no tokens": np.empty((2, 0)),
    "negative": np.array([[1.5, -0.5, 0.0], [0.0, 0.25, 0.75]]),
    "NaN": np.array([[0.5, np.nan, 0.5], [0.0, 0.25, 0.75]]),
    "infinite": np.array([[0.5, np.inf, 0.5], [0.0, 0.25, 0.75]]),
    "zero row": np.array([[0.5, 0.5, 0.0], [0.0, 0.0, 0.0]]),
    "row above 1": np.array([[0.5, 0.5, 0.0], [0.0, 0.25, 0.7501]]),
    "row below 1": np.array([[0.5, 0.4999, 0.0], [0.0, 0.25, 0.75]]),
}


@pytest.mark.parametrize("name", BAD_TABLES)
def test_bad_dense_table_is_refused(name: str) -> None:
    """Assert that every malformed dense P raises one sentence."""
    with pytest.raises(InputError) as error:
        SequenceClasses(BAD_TABLES[name], [0, 0])
    sentence(error)


@pytest.mark.parametrize("name", ["no classes", "no tokens", "negative", "NaN", "infinite", "zero row", "row above 1"])
@pytest.mark.parametrize("form", [sparse.csr_array, sparse.coo_array, sparse.csc_matrix])
def test_bad_sparse_table_is_refused(name: str, form: Callable[[Any], Any]) -> None:
    """Assert that every malformed sparse P raises one sentence."""
    with pytest.raises(InputError) as error:
        SequenceClasses(form(BAD_TABLES[name]), [0, 0])
    sentence(error)


def test_one_dimensional_sparse_table_is_refused() -> None:
    """Assert that a sparse vector is refused like a dense one."""
    with pytest.raises(InputError) as error:
        SequenceClasses(sparse.coo_array(np.array([0.5, 0.5])), [0])
    assert "shape" in sentence(error)


@pytest.mark.parametrize("table", ["words", [["a", "b"]], [[0.5, 0.5], [1.0]], None, [[0.5 + 0j, 0.5]]])
def test_table_that_is_not_numbers_is_refused(table: Any) -> None:
    """Assert that text, ragged lists and None raise one sentence, not a numpy error."""
    with pytest.raises(InputError) as error:
        SequenceClasses(table, [0])
    sentence(error)


def test_message_names_the_entry() -> None:
    """Assert that the message of a negative or off-sum entry says where it is and what it was."""
    with pytest.raises(InputError, match=r"-0\.5 at class 0, token 1"):
        SequenceClasses(BAD_TABLES["negative"], [0, 0])
    with pytest.raises(InputError, match=r"received 1\.0001 in row 1"):
        SequenceClasses(BAD_TABLES["row above 1"], [0, 0])


@pytest.mark.parametrize("deviation", [9e-7, -9e-7])
def test_row_sums_within_single_precision_are_taken(deviation: float) -> None:
    """Assert both sides of the row-sum threshold 1e-6: a float32 table passes, a wrong one does not."""
    table = GOOD.copy()
    table[0, 0] += deviation
    assert SequenceClasses(table, [0, 0]).num_classes == 2
    table[0, 0] += deviation
    with pytest.raises(InputError):
        SequenceClasses(table, [0, 0])


BAD_IDS: dict[str, Any] = {
    "too few": [0],
    "too many": [0, 1, 2],
    "scalar": 0,
    "two-dimensional": [[0, 1]],
    "negative": [0, -1],
    "fraction": [0.5, 1],
    "NaN": [math.nan, 1],
    "infinite": [math.inf, 1],
    "boolean": [True, False],
    "text": ["a", "b"],
    "numeric text": ["0", "1"],
    "none inside": [None, 1],
    "beyond 64 bits": [2**70, 0],
    "ragged": [[1], [1, 2]],
    "out of range": [0, 3],
    "complex": [0 + 1j, 0],
}


@pytest.mark.parametrize("which", ["query", "next_token"])
@pytest.mark.parametrize("name", BAD_IDS)
def test_bad_ids_are_refused(which: str, name: str) -> None:
    """Assert that malformed or out-of-range query and next-token ids raise one sentence naming which."""
    ids = {"query": [0, 0], "next_token": [0, 1]} | {which: BAD_IDS[name]}
    with pytest.raises(InputError) as error:
        SequenceClasses(GOOD, **ids)
    assert which in sentence(error)


@pytest.mark.parametrize("value", [1, 0, -3, 2.5, math.nan, math.inf, "10", True, [3]])
def test_bad_vocab_size_is_refused(value: Any) -> None:
    """Assert that V below the number of next tokens, fractional or not a number raises one sentence."""
    with pytest.raises(InputError) as error:
        SequenceClasses(GOOD, [0, 0], vocab_size=value)
    assert "vocab_size" in sentence(error)


def test_vocab_size_threshold() -> None:
    """Assert that V equal to the number of next tokens is taken and one less is not; the default is max(M, K)."""
    table = np.array([[1.0], [1.0], [1.0]])
    assert SequenceClasses(table, [0, 0, 0], vocab_size=3).vocab_size == 3
    with pytest.raises(InputError):
        SequenceClasses(table, [0, 0, 0], vocab_size=2)
    assert SequenceClasses(table, [0, 0, 0]).vocab_size == 3
    assert SequenceClasses(np.full((2, 5), 0.2), [0, 0]).vocab_size == 5


@pytest.mark.parametrize(
    "weights",
    [[1.0], [1.0, 0.0], [1.0, -1.0], [1.0, math.nan], [1.0, math.inf], 1.0, [[1.0, 1.0]], ["a", "b"], [1j, 1]],
)
def test_bad_weights_are_refused(weights: Any) -> None:
    """Assert that weights that are not one positive finite number per class raise one sentence."""
    with pytest.raises(InputError) as error:
        SequenceClasses(GOOD, [0, 0], prior=weights)
    assert re.search("prior|weights", sentence(error))


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e308])
def test_prior_is_positive_and_sums_to_one_at_every_scale(scale: float) -> None:
    """Assert that finite weights of any size give the prior 1/4, 3/4 (no silent overflow to zero)."""
    classes = SequenceClasses(GOOD, [0, 0], prior=np.array([0.5, 1.5]) * scale)
    np.testing.assert_allclose(classes.prior, [0.25, 0.75], rtol=1e-15)


WRONG_INDICES = """
import numpy as np
from scipy import sparse
import snapdyn as sd

def half_and_half(form, indices, indptr):
    return form((np.full(4, 0.5), indices, indptr), shape=(2, 3))

def changed(form, **arrays):
    table = form(np.array([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]]))
    for name, array in arrays.items():
        setattr(table, name, array)
    return table

far, negative = np.array([0, 10**8, 1, 2]), np.array([0, -10**8, 1, 2])
ends, falls, hole = np.array([0, 2, 4]), np.array([0, 10**6, 4]), np.array([0, 10**6, 0])
overflows = np.array([0, 4, -(2**31)], dtype=np.int32)
lists = np.empty(2, object)
lists[:] = [[0, 10**8], [1, 2]]
long = np.empty(2, object)
long[:] = [[0.5] * 10**6, [0.5] * 10**6]
tables = {
    "csr, index too large": half_and_half(sparse.csr_array, far, ends),
    "csr, index negative": half_and_half(sparse.csr_matrix, negative, ends),
    "csr, indptr falls": half_and_half(sparse.csr_array, [0, 1, 1, 2], falls),
    "csr, indptr falls so far that differences overflow": changed(sparse.csr_array, indptr=overflows),
    "csr, indptr ends at 0": changed(sparse.csr_array, indptr=hole),
    "csr, indptr too short": changed(sparse.csr_array, indptr=np.array([0, 4])),
    "csr, indptr of floats": changed(sparse.csr_array, indptr=np.array([0.0, 2.0, 4.0])),
    "csc, index too large": half_and_half(sparse.csc_array, far, [0, 1, 3, 4]),
    "csc, indptr falls": half_and_half(sparse.csc_array, [0, 1, 1, 0], [0, 10**6, 2, 4]),
    "bsr, index too large": sparse.bsr_array((np.full((4, 1, 1), 0.5), far, ends), shape=(2, 3)),
    "bsr, blocks of another shape": changed(sparse.bsr_array, data=np.full((4, 3, 1), 0.5)),
    "coo, index too large": changed(sparse.coo_array, row=np.array([0, 0, 1, 10**8])),
    "coo, too few indices": changed(sparse.coo_array, row=np.array([0, 0])),
    "dia, too few offsets": changed(sparse.dia_array, offsets=np.array([0])),
    "lil, index too large": changed(sparse.lil_array, rows=lists),
    "lil, more values than indices": changed(sparse.lil_array, data=np.array([[0.5] * 10**6, [0.5] * 10**6], object)),
    "lil, more values in a row": changed(sparse.lil_array, data=long),
    "dok, index too large": changed(sparse.dok_array, _dict={(0, 10**8): 1.0, (1, 0): 1.0}),
}
for name, table in tables.items():
    try:
        sd.integrate(sd.MeanField(sd.SequenceClasses(table, [3, 3], vocab_size=20), 1.0, 1.0), [1.0])
    except sd.InputError as error:
        print(name, "|", error)
    else:
        print(name, "| accepted")
"""


def test_sparse_indices_that_lead_out_of_the_arrays_are_refused() -> None:
    """Assert one sentence for wrong indices in every sparse form, in a process that a crash would end alone."""
    run = subprocess.run([sys.executable, "-c", WRONG_INDICES], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    answers = run.stdout.splitlines()
    assert len(answers) == 18
    assert all("| expected indices of sparse P that fit its shape (2, 3), received: " in each for each in answers), (
        answers
    )


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr", "dia", "lil", "dok"])
def test_every_sparse_form_equals_the_dense_table(form: str) -> None:
    """Assert that arrays and matrices of every form that scipy has give the classes of the dense table."""
    for table in (sparse.csr_array(GOOD), sparse.csr_matrix(GOOD)):
        assert SequenceClasses(table.asformat(form), [1, 1]) == SequenceClasses(GOOD, [1, 1])


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
        SequenceClasses(GOOD[::-1], [0, 1]),
        SequenceClasses(GOOD, [0, 2]),
        SequenceClasses(GOOD, [0, 1], next_token=[1, 0]),
        SequenceClasses(GOOD, [0, 1], prior=[1, 2]),
        SequenceClasses(GOOD, [0, 1], vocab_size=4),
        SequenceClasses(np.hstack([GOOD, np.zeros((2, 1))]), [0, 1], vocab_size=3),
    ],
    ids=["P", "query", "next token", "weights", "V", "M"],
)
def test_equality_sees_every_field(other: SequenceClasses) -> None:
    """Assert that classes differing in one field are unequal, and equal content is equal."""
    base = SequenceClasses(GOOD, [0, 1])
    assert base != other
    assert base == SequenceClasses(GOOD.tolist(), (0.0, 1.0), prior=[2, 2])
    assert base != "classes"


def test_inputs_are_copied() -> None:
    """Assert that changing the caller's arrays afterwards changes nothing."""
    table, query, weights = GOOD.copy(), np.array([0, 1]), np.array([1.0, 3.0])
    sparse_table = sparse.csr_array(table)
    dense, from_sparse = (SequenceClasses(t, query, prior=weights) for t in (table, sparse_table))
    table[:], query[:], weights[:] = 0, 2, 9
    sparse_table.data[:] = 0
    for classes in (dense, from_sparse):
        assert classes == SequenceClasses(GOOD, [0, 1], prior=[1.0, 3.0])


def test_attributes_cannot_be_replaced_or_deleted() -> None:
    """Assert that setting or deleting an attribute raises AttributeError."""
    classes = SequenceClasses(GOOD, [0, 1])
    with pytest.raises(AttributeError):
        classes.prior = np.ones(2)
    with pytest.raises(AttributeError):
        del classes.prior


@pytest.mark.parametrize(
    "name", ["query", "next_token", "next_tokens", "queries", "prior", "omega_size", "class_of_entry", "z_of_entry"]
)
def test_arrays_are_read_only(name: str) -> None:
    """Assert that writing into an array raises, computed ones included: they are cached and shared."""
    array = getattr(SequenceClasses(GOOD, [0, 1]), name)
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1


def test_support_and_coordinates_are_read_only() -> None:
    """Assert that writing into supports, coordinates or P raises."""
    classes = SequenceClasses(GOOD, [0, 1])
    for array in (classes.support(0), *classes.z_coordinates, classes.P.data):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(TypeError):
        hash(classes)


def test_copies_and_pickles_are_equal() -> None:
    """Assert that deep copies and pickles survive and compare equal."""
    classes = random_classes(3, uniform_prior=False, seed=1)
    assert copy.deepcopy(classes) == classes
    assert pickle.loads(pickle.dumps(classes)) == classes


@pytest.mark.parametrize("n", [-1, 2, 99])
def test_class_number_out_of_range_is_refused(n: int) -> None:
    """Assert that a class that does not exist raises one sentence instead of wrapping around."""
    with pytest.raises(InputError) as error:
        SequenceClasses(GOOD, [0, 1]).support(n)
    sentence(error)


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
@settings(derandomize=True, max_examples=40, deadline=None)
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
    values = np.linalg.eigvals(G - np.eye(K)).real
    np.testing.assert_allclose(np.sort(classes.eigenvalues(z)), np.sort(values), rtol=0, atol=K * ROUNDING)
    sizes = np.abs(classes.eigenvalues(z))
    assert (np.diff(sizes) <= 0).all()


def test_singular_overlaps_are_refused() -> None:
    """Assert that two classes with one profile raise in E_prime, while G and E are still given."""
    classes = SequenceClasses(np.array([[0.5, 0.5], [0.5, 0.5]]), [0, 0])
    np.testing.assert_allclose(classes.E(), [[0, 1], [1, 0]], atol=ROUNDING)
    with pytest.raises(InputError) as error:
        classes.E_prime()
    assert "Gram" in sentence(error)


@pytest.mark.parametrize(
    "z",
    [np.zeros((2, 3)), np.zeros(3), np.full((1, 3), np.nan), np.full((1, 3), np.inf), "text", [[1.0], [1.0, 2.0]]],
    ids=["too many rows", "one-dimensional", "NaN", "infinite", "text", "ragged"],
)
def test_bad_logits_are_refused(z: Any) -> None:
    """Assert that logits of a wrong shape or value raise one sentence."""
    with pytest.raises(InputError) as error:
        SequenceClasses(GOOD, [0, 0]).gram(z)
    sentence(error)


def test_initial_logits_in_any_memory_order() -> None:
    """Assert that logits in Fortran order give the layout of the same logits in C order."""
    from snapdyn.dynamics import MeanField, integrate

    classes = SequenceClasses(np.full((2, 3), 1 / 3), [0, 1], vocab_size=5)
    z = np.arange(6.0).reshape(3, 2).T
    runs = [integrate(MeanField(classes, 1.0, 0.1, z_initial=each), [1.0]).z for each in (z, z.copy(order="C"))]
    np.testing.assert_array_equal(*runs)
