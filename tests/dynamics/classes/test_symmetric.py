"""Blocks of like classes: the classes that they stand for, and what they refuse."""

import copy
import pickle
from collections.abc import Callable

import numpy as np
import pytest

import snapdyn as sd
from snapdyn.core.errors import InputError
from snapdyn.dynamics import SequenceClasses
from snapdyn.dynamics.classes.synthetic import token_table
from tests.dynamics.systems.helpers import plain

ARRAYS = ("query", "next_token", "prior", "queries", "query_index", "next_tokens", "next_index")


def synthetic(num_queries: int, classes_per_query: int) -> SequenceClasses:
    """Syn-Small and Syn-Medium class by class."""
    K = num_queries * classes_per_query
    P = token_table(np.ones((K, 10)), [np.linspace(0.1, 1.0, 10)] * K)
    P /= P[0].sum()
    first = P.shape[1]
    query, next_token = first + np.arange(K) // classes_per_query, first + num_queries + np.arange(K)
    return SequenceClasses(P, query, next_token, vocab_size=first + num_queries + K)


def one_common(K: int, d: int, share: float, vocab_size: int | None) -> SequenceClasses:
    """Classes with one common token, class by class."""
    weights = np.linspace(0.1, 1.0, d)
    P = token_table(np.full((K, 1), share), [(1.0 - share) * weights / weights.sum()] * K)
    return SequenceClasses(P, np.zeros(K, dtype=int), vocab_size=vocab_size)


BUILT: dict[str, Callable[[], tuple[SequenceClasses, SequenceClasses]]] = {
    "Syn-Small": lambda: (sd.syn_small(), synthetic(2, 1)),
    "Syn-Small of 1": lambda: (sd.syn_small(1), synthetic(1, 1)),
    **{f"Syn-Medium, Q = {Q}": lambda Q=Q: (sd.syn_medium(Q), synthetic(Q, 2)) for Q in (1, 10)},
    **{
        f"K = {K}, d = {d}": lambda K=K, d=d, V=V: (sd.single_common_token(K, d, 0.3, V), one_common(K, d, 0.3, V))
        for K, d, V in ((1, 1, None), (2, 3, 100), (7, 20, 7))
    },
}


@pytest.mark.parametrize("name", BUILT)
def test_builders_give_the_bits_of_classes_one_by_one(name: str) -> None:
    """Assert equal bytes of all arrays, sizes, roles of tokens, text and comparison, also after pickle and copy."""
    ours, expected = BUILT[name]()
    assert repr(ours) == repr(expected)
    assert ours.num_entries == expected.P.nnz  # type: ignore[attr-defined]
    for array in ("data", "indices", "indptr"):
        assert getattr(ours.P, array).tobytes() == getattr(expected.P, array).tobytes()
    for array in ARRAYS:
        assert getattr(ours, array).dtype == getattr(expected, array).dtype
        assert getattr(ours, array).tobytes() == getattr(expected, array).tobytes()
        assert not getattr(ours, array).flags.writeable
    assert np.array_equal(ours.common_tokens(), expected.common_tokens())
    assert ours == expected
    assert expected == ours
    for same in (pickle.loads(pickle.dumps(ours)), copy.deepcopy(ours), copy.copy(ours)):
        assert same == ours
        assert type(same) is sd.SymmetricClasses
    with pytest.raises(AttributeError, match="immutable"):
        ours.vocab_size = 3


def test_comparison_is_that_of_the_classes_one_by_one() -> None:
    """Assert ==, however the blocks are written, and where one number differs; a table stands for a kind."""
    a, b = sd.ClassKind([0.3], [0.7], 2), sd.ClassKind([0.3], [0.2, 0.5], 1)
    single = {"common": [0.3], "distinct": [0.7], "classes_per_query": 1, "weight": 1.0}
    classes = sd.symmetric_classes([a, b], 3, 50)
    others = [
        sd.symmetric_classes(kinds, queries, size)
        for kinds, queries, size in (
            ([single, single, b], 3, 50),
            ([b, a], 3, 50),
            ([a, b], 3, 51),
            ([a, b], 2, 50),
            ([a, sd.ClassKind([0.3], [0.5, 0.2])], 3, 50),
            ([a, sd.ClassKind([0.3], [0.2, 0.5], 1, weight=2.0)], 3, 50),
        )
    ]
    assert [classes == each for each in others] == [plain(classes) == plain(each) for each in others]
    assert classes == others[0] == sd.SymmetricClasses.from_json(classes.to_json())
    large = sd.single_common_token(10**9, 2, 0.3)
    assert large == sd.single_common_token(10**9, 2, 0.3)
    assert large not in (sd.single_common_token(10**9, 2, 0.4), plain(classes), 3)


def test_what_needs_all_classes_says_so() -> None:
    """Assert one sentence, before anything is allocated, for every way to ask 10^15 classes for all of them."""
    classes = sd.single_common_token(10**15, 2, 0.3)
    each = r"1000000000000000 classes, each by itself, to fit.* use integrate\(MeanField\(...\)\) and trajectory.of_cl"
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: classes.P, each),
        (lambda: sd.FrozenDecoder(classes, 1.0), each),
        (lambda: sd.MeanField(classes, 1.0, 1.0, residual=True), each),
        (lambda: sd.ladder(classes, 1.0, 1.0, [1.0]), each),
        (
            lambda: sd.integrate(sd.MeanField(classes, 1.0, 1.0), [1.0], reduce=False),
            "reduce='auto' or True for 1000000",
        ),
        (lambda: classes.gram(), "the overlaps of 1000000000000000 classes to fit"),
        (lambda: sd.check(classes, 1.0, 1.0), r"dense table and overlaps fit .* at most about \d+ of these classes"),
    ]
    for call, words in calls:
        with pytest.raises(InputError, match=words):
            call()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: sd.ClassKind([0.3], [0.2]), "to sum to 1, received a sum of 0.5"),
        (lambda: sd.ClassKind([0.3], [0.7], 2**54), "classes_per_query"),
        (lambda: sd.symmetric_classes([sd.ClassKind([0.3], [0.7], 1, w) for w in (1e-308, 1e308)]), "within a factor"),
        (lambda: sd.symmetric_classes([sd.ClassKind([0.3], [0.7]), sd.ClassKind([], [1.0])]), "equally many common"),
        (lambda: sd.symmetric_classes(sd.ClassKind([0.3], [0.7], 101), vocab_size=100), "vocab_size"),
        (lambda: sd.symmetric_classes(sd.ClassKind([0.3], [0.7], 2**52), num_queries=4), "in all queries"),
    ],
)
def test_refusals(call: Callable[[], object], words: str) -> None:
    """Assert one sentence for each check."""
    with pytest.raises(InputError, match=words):
        call()
