"""Sequence classes in blocks of one kind each, in any number: only blocks and counts are held in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.core.errors import ROW_SUM_TOLERANCE, InputError, list_of, positive, positive_array, shown, whole
from snapdyn.core.memory import fits, require_memory
from snapdyn.dynamics.classes.kinds import Kinds, Members, OwnTokens
from snapdyn.dynamics.classes.table import Floats, Ints, SequenceClasses, checked_vocab_size, require_comparable

LARGEST_NUMBER = 2**53  # of classes, tokens and outputs: whole numbers up to here are exact in float64
LARGEST_TABLE = 2**31 - 1  # of probabilities of all classes
LARGEST_LISTED = 10**6  # probabilities of all classes in files and datasets
# A stored probability: itself, its token and class, and copies while the classes are built and used.
BYTES_PER_ENTRY = 80
_ARRAYS = ("P", "query", "next_token", "prior", "queries", "query_index", "next_tokens", "next_index")


@dataclass(frozen=True, init=False)
class ClassKind:
    """A kind of classes: all have the same probabilities of the common tokens, and of distinct tokens of their own.

    Parameters
    ----------
    common : (C,) array_like
        Probabilities of the tokens that all classes of all kinds share, positive; C may be 0.
    distinct : (D,) array_like
        Probabilities of the tokens that no other class has, positive, D >= 1; all C + D probabilities sum to 1.
    classes_per_query : int
        Number of these classes in each query.
    weight : float
        Weight of each of these classes, positive; priors are proportional to it.

    Raises
    ------
    InputError
        Probabilities that are not positive or do not sum to 1; a number out of range.

    Examples
    --------
    >>> import snapdyn as sd
    >>> sd.ClassKind(common=[0.3], distinct=[0.2, 0.5], classes_per_query=10**9)
    ClassKind(common=(0.3,), distinct=(0.2, 0.5), classes_per_query=1000000000, weight=1.0)
    """

    common: tuple[float, ...]
    distinct: tuple[float, ...]
    classes_per_query: int
    weight: float

    def __init__(self, common: ArrayLike, distinct: ArrayLike, classes_per_query: int = 1, weight: float = 1.0) -> None:
        checked: dict[str, Any] = {}
        for name, given in (("common", common), ("distinct", distinct)):
            values = positive_array(name, given)
            shape = (values.size if name == "common" else "d",)  # there may be no common token
            checked[name] = tuple(positive_array(name, values, shape).tolist())
        total = sum(checked["common"]) + sum(checked["distinct"])
        if abs(total - 1) > ROW_SUM_TOLERANCE:
            raise InputError(
                f"expected common and distinct to sum to 1, received a sum of {total:.9g} over "
                f"{len(checked['common'])} and {len(checked['distinct'])}; divide both by this sum"
            )
        checked["classes_per_query"] = whole("classes_per_query", classes_per_query, 1, LARGEST_NUMBER)
        checked["weight"] = positive("weight", weight)
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def probabilities(self) -> tuple[float, ...]:
        """Probabilities of the common tokens, then those of the distinct tokens."""
        return self.common + self.distinct


class SymmetricClasses(SequenceClasses):
    """Sequence classes held as blocks of one kind each; arrays of all classes are built when they are first read.

    Build them with `symmetric_classes`, `syn_small`, `syn_medium` or `single_common_token`.

    Parameters
    ----------
    kinds : sequence of ClassKind, or of mappings with its fields
    num_queries : int
        Q.
    vocab_size : int, optional
        V; default max(M, number of classes).
    first_query : int
        Id of the first query; the others follow.
    first_next_token : int
        Next token of class 0; those of the others follow.

    Attributes
    ----------
    kinds : tuple of ClassKind
    num_queries : int
    classes_per_query : int
        Number of classes of all kinds in each query.

    Raises
    ------
    InputError
        A number is out of range or beyond 2^53, or kinds have different numbers of common tokens. The error is raised
        later if an array of all classes (P, query, next_token, prior, ...) is read and does not fit into memory.

    Notes
    -----
    Tokens are numbered with the common ones first, then the distinct ones of one class after the other. Classes are
    numbered query after query, and within a query kind after kind.

    Examples
    --------
    >>> import snapdyn as sd
    >>> classes = sd.symmetric_classes(sd.ClassKind([0.4], [0.6], classes_per_query=2), vocab_size=10)
    >>> classes.P.toarray()
    array([[0.4, 0.6, 0. ],
           [0.4, 0. , 0.6]])
    """

    def __init__(
        self,
        kinds: Iterable[ClassKind | Mapping[str, Any]],
        num_queries: int = 1,
        vocab_size: int | None = None,
        first_query: int = 0,
        first_next_token: int = 0,
    ) -> None:
        self.kinds: tuple[ClassKind, ...] = tuple(map(_kind, list_of("kinds", kinds, ClassKind, Mapping, at_least=1)))
        require_comparable(np.array([kind.weight for kind in self.kinds]))
        self.num_common = len(self.kinds[0].common)
        for number, kind in enumerate(self.kinds):
            if (found := len(kind.common)) != self.num_common:
                raise InputError(
                    f"expected equally many common tokens in every kind, received {self.num_common} in kind 0 and "
                    f"{found} in kind {number}; all classes share all common tokens"
                )
        self.num_queries = whole("num_queries", num_queries, 1, LARGEST_NUMBER)
        self.classes_per_query = sum(kind.classes_per_query for kind in self.kinds)
        for what, number in (("classes", self.num_classes), ("tokens", self.num_tokens)):
            whole(f"the number of {what} in all queries", number, 1, LARGEST_NUMBER, "give fewer classes or queries")
        V = checked_vocab_size(vocab_size, self.num_tokens, self.num_classes)
        self.vocab_size = whole("vocab_size", V, 2, LARGEST_NUMBER)
        self.first_query = whole("first_query", first_query, 0, self.vocab_size - self.num_queries)
        self.first_next_token = whole("first_next_token", first_next_token, 0, self.vocab_size - self.num_classes)
        self._frozen = True

    def _arguments(self) -> tuple[Any, ...]:
        return self.kinds, self.num_queries, self.vocab_size, self.first_query, self.first_next_token

    def __reduce__(self) -> tuple[Any, ...]:
        return SymmetricClasses, self._arguments()

    @property
    def num_classes(self) -> int:
        return self.num_queries * self.classes_per_query

    @property
    def num_tokens(self) -> int:
        of_query = sum(kind.classes_per_query * len(kind.distinct) for kind in self.kinds)
        return self.num_common + self.num_queries * of_query

    @property
    def num_next_tokens(self) -> int:
        return self.num_classes

    @property
    def num_entries(self) -> int:
        """Number of probabilities P(l|n) > 0."""
        return self.num_tokens + (self.num_classes - 1) * self.num_common

    @cached_property
    def exchangeable(self) -> Kinds:
        """The different kinds: equal given kinds are one; `kind_of_block` gives the index here of each given kind."""
        blocks = np.unique(self.kind_of_block, return_index=True)[1]
        shared, group, like = self._common
        own = []
        for b in blocks:
            values, numbers = np.unique(self._rows[b][1], return_counts=True)
            own.append(OwnTokens(values, np.zeros(values.size), numbers.astype(np.float64)))
        per_query = np.zeros(blocks.size, np.int64)
        np.add.at(per_query, self.kind_of_block, [kind.classes_per_query for kind in self.kinds])
        weights = [self.kinds[b].weight for b in blocks]
        number = [self.num_queries * K for K in per_query.tolist()]
        total = sum(count * weight / weights[0] for count, weight in zip(number, weights, strict=True))
        return Kinds(
            per_query=per_query,
            query_type=np.zeros(blocks.size, np.int64),
            num_queries=np.array([self.num_queries]),
            prior=np.array([weight / weights[0] / total for weight in weights]),
            shared=shared,
            like_shared=like.astype(np.float64),
            shared_start=np.zeros((1, like.size)),
            own=own,
            members=lambda: self._members(group),
        )

    @cached_property
    def mean_field_size(self) -> int:
        """Number of state values of the mean field of all classes, from equal logits."""
        return self.exchangeable.size(self.vocab_size)

    @property
    def _rows(self) -> list[tuple[tuple[float, ...], tuple[float, ...]]]:
        """Probabilities of shared and of own tokens of each given kind; all tokens of a single class are its own."""
        alone = self.num_classes == 1
        return [((), kind.probabilities) if alone else (kind.common, kind.distinct) for kind in self.kinds]

    @cached_property
    def kind_of_block(self) -> Ints:
        """(kinds,) index of each given kind among the different kinds: a kind given twice counts as one."""
        rows = zip(self._rows, self.kinds, strict=True)
        keys = [(shared, tuple(sorted(own)), kind.weight) for (shared, own), kind in rows]
        different = list(dict.fromkeys(keys))
        return np.array([different.index(key) for key in keys])

    @cached_property
    def _common(self) -> tuple[Floats, Ints, Ints]:
        """P of G different common tokens, (different kinds, G); index of each token among these; counts."""
        blocks = np.unique(self.kind_of_block, return_index=True)[1]
        table = np.array([self._rows[b][0] for b in blocks], dtype=np.float64).reshape(blocks.size, -1)
        if not table.size:
            return table, np.empty(0, np.int64), np.empty(0, np.int64)
        shared, group, like = np.unique(table, axis=1, return_inverse=True, return_counts=True)
        return shared, group.ravel(), like

    def _members(self, group: Ints) -> Members:
        self.require_all()
        counts = [kind.classes_per_query for kind in self.kinds]
        shared = np.full(self.num_tokens, -1)
        shared[: group.size] = group
        return Members(np.tile(np.repeat(self.kind_of_block, counts), self.num_queries), shared)

    def slots_of_kind(self, kind: int) -> Ints:
        """Indices of the logits of the tokens of a class of a given kind, common tokens first, (C + D,)."""
        c, found = self.kind_of_block[kind], self.exchangeable
        own = found.first_own[c] + np.searchsorted(found.own[c].probability, self._rows[kind][1])
        return np.concatenate([self._common[1], own])

    @property
    def is_large(self) -> bool:
        """Whether files and datasets hold one class of each kind in place of all classes."""
        return self.num_entries > LARGEST_LISTED

    def to_json(self) -> dict[str, Any]:
        """Blocks and counts as JSON values; `from_json` reads them."""
        names = ("num_queries", "vocab_size", "first_query", "first_next_token")
        return {"kinds": [vars(kind) for kind in self.kinds]} | {name: vars(self)[name] for name in names}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> SymmetricClasses:
        """Classes from the result of `to_json`."""
        return cls(**content)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SequenceClasses):
            return NotImplemented
        if isinstance(other, SymmetricClasses):
            same = self._arguments() == other._arguments()
            if same or self.is_large or other.is_large:
                return same
        # Blocks can be written in several ways, and classes held one by one are no more than fit into memory.
        sizes = [(each.num_classes, each.num_tokens, each.vocab_size) for each in (self, other)]
        return sizes[0] == sizes[1] and super().__eq__(other)

    __hash__ = None  # compared by content, so not hashable

    # -- all classes, one by one ---------------------------------------------------------------------------
    def __getattr__(self, name: str) -> Any:
        # Called for what is not there: the arrays of all classes before they are first read.
        if name not in _ARRAYS:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self.require_all()
        built = self._built()
        vars(self).update({array: vars(built)[array] for array in _ARRAYS})
        return vars(self)[name]

    @property
    def fits(self) -> bool:
        """Whether arrays of all classes fit into memory."""
        return self.num_entries <= LARGEST_TABLE and fits(float(BYTES_PER_ENTRY * self.num_entries))

    def require_all(self) -> None:
        """Check that arrays of all classes may be built.

        Raises
        ------
        InputError
            There are more probabilities than the free memory holds, or more than 2^31 - 1.
        """
        entries = self.num_entries
        remedy = (
            "integrate(MeanField(...)) and trajectory.of_class(kind), which keep one class of a kind, or fewer classes"
        )
        require_memory(f"{self.num_classes} classes, each by itself,", float(BYTES_PER_ENTRY * entries), remedy)
        if entries > LARGEST_TABLE:
            raise InputError(
                f"expected at most {LARGEST_TABLE} probabilities in a table with a row for each class, received "
                f"{entries}; use {remedy}"
            )

    def _built(self) -> SequenceClasses:
        from scipy import sparse

        C, Q, N = self.num_common, self.num_queries, self.num_classes
        counts = [kind.classes_per_query for kind in self.kinds]
        lengths = np.tile(np.repeat([len(kind.probabilities) for kind in self.kinds], counts), Q)
        starts = np.concatenate([[0], np.cumsum(lengths)])
        rows = [np.tile(kind.probabilities, count) for kind, count in zip(self.kinds, counts, strict=True)]
        position = np.arange(starts[-1]) - np.repeat(starts[:-1], lengths)
        tokens = np.where(position < C, position, C - 1 + np.cumsum(position >= C))
        P = sparse.csr_array((np.tile(np.concatenate(rows), Q), tokens, starts), shape=(N, self.num_tokens))
        weights = [kind.weight for kind in self.kinds]
        return SequenceClasses(
            P,
            self.first_query + np.arange(N) // self.classes_per_query,
            self.first_next_token + np.arange(N),
            None if len(set(weights)) == 1 else np.tile(np.repeat(weights, counts), Q),
            self.vocab_size,
        )

    # -- one class of a kind -------------------------------------------------------------------------------
    def check_kind(self, kind: int) -> int:
        """Return the index of a kind as an int.

        Raises
        ------
        InputError
            There is no such kind.
        """
        return whole("kind", kind, 0, len(self.kinds) - 1)

    def first_of_kind(self, kind: int) -> int:
        """Index of the first class of a kind."""
        return sum(each.classes_per_query for each in self.kinds[: self.check_kind(kind)])

    def tokens_of_kind(self, kind: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Tokens of the first class of a kind: the common ones, then its distinct tokens."""
        before = sum(each.classes_per_query * len(each.distinct) for each in self.kinds[:kind])
        first = self.num_common + before
        return np.concatenate([np.arange(self.num_common), first + np.arange(len(self.kinds[kind].distinct))])

    def one_of_kind(self, kind: int) -> SequenceClasses:
        """One class of a kind by itself: tokens 0, 1, ... are the common ones, then its distinct tokens."""
        row = np.array(self.kinds[self.check_kind(kind)].probabilities)
        one = SequenceClasses(row[None], [0], [0], vocab_size=self.vocab_size)
        omega = np.ones(row.size, dtype=np.int64)
        omega[: self.num_common] = self.num_classes
        vars(one)["omega_size"] = omega  # common tokens stay common, though the other classes are left out
        return one


def symmetric_classes(
    kinds: ClassKind | Mapping[str, Any] | Iterable[ClassKind | Mapping[str, Any]],
    num_queries: int = 1,
    vocab_size: int | None = None,
) -> SymmetricClasses:
    """Any number of classes in blocks of one kind each; the memory needed does not grow with the number of classes.

    Every query has the same kinds of classes. Each class has a next token of its own, the common tokens, and distinct
    tokens that no other class has. `integrate` replaces all values of z and Y of a `MeanField` that stay equal by one
    value, so that an evaluation of the right-hand side costs as much for 10^9 classes as for two.
    `trajectory.of_class(kind)` reads the result.

    Parameters
    ----------
    kinds : ClassKind or mapping, or a list of them
        A mapping has the fields of ClassKind: {"common": [0.3], "distinct": [0.7], "classes_per_query": 5}.
    num_queries : int
        Q; queries have the ids 0..Q-1.
    vocab_size : int, optional
        V, at least 2 and at least the number N of all classes, whose next tokens are 0..N-1; default max(M, N).

    Returns
    -------
    SymmetricClasses

    Raises
    ------
    InputError
        Probabilities that are not positive or do not sum to 1; numbers out of range or beyond 2^53.

    Examples
    --------
    >>> import snapdyn as sd
    >>> kind = sd.ClassKind(common=[0.3], distinct=[0.2, 0.5], classes_per_query=10**9)
    >>> classes = sd.symmetric_classes(kind, vocab_size=10**12)
    >>> classes.num_classes, classes.num_tokens
    (1000000000, 2000000001)
    >>> run = sd.integrate(sd.MeanField(classes, eta_Y=1.0, eta_Z=1e-9), [1e10, 1e12])
    >>> run.stats["state_size"], run.of_class(0).attention.shape
    (11, (2, 1, 3))
    """
    return SymmetricClasses([kinds] if isinstance(kinds, ClassKind | Mapping) else kinds, num_queries, vocab_size)


def _kind(given: ClassKind | Mapping[str, Any]) -> ClassKind:
    if isinstance(given, ClassKind):
        return given
    names = [field.name for field in fields(ClassKind)]
    if not {"common", "distinct"} <= set(given) <= set(names):
        raise InputError(
            f"expected a ClassKind, or a table with common, distinct and optionally {names[2]} and {names[3]}, "
            f"received {shown(given)}"
        )
    return ClassKind(**given)
