"""Sequence classes: the data model of Sec. 3.2 (theory of conditional token probabilities)."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from snapdyn.core.errors import (
    InputError,
    checked_probabilities,
    finite_array,
    flag,
    positive_array,
    whole,
    whole_array,
)
from snapdyn.core.memory import require_memory
from snapdyn.core.prose import html_table

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Made = TypeVar("Made")


def checked_ids(name: str, ids: ArrayLike, S: int) -> NDArray[np.int64]:
    """Ids (S,), one per class, at least 0."""
    return whole_array(name, ids, (S,), at_least=0, advice="give one id per class, from 0 on")


def checked_vocab_size(vocab_size: int | None, M: int, next_tokens: int) -> int:
    """Return V (for None the default) after checking that it is not below the number of next tokens."""
    if vocab_size is None:
        return max(M, next_tokens, 2)
    return whole("vocab_size, which counts every next token,", vocab_size, max(2, next_tokens))


def require_comparable(weights: NDArray[np.float64]) -> None:
    """Raise when positive weights differ so much that their quotients leave the range of float64."""
    least, most = weights.min(), weights.max()
    if least / most < np.finfo(np.float64).tiny:
        raise InputError(f"expected weights within a factor of 1e307, received {least} to {most}; rescale them")


def checked_prior(prior: ArrayLike | None, S: int) -> NDArray[np.float64]:
    """Prior (S,), uniform by default, that sums to 1."""
    if prior is None:
        return np.full(S, 1.0 / S)
    array = positive_array("prior", prior, (S,), advice="give one positive number per class")
    require_comparable(array)
    scaled = array / array.max()  # the sum of huge weights would overflow
    normalised: NDArray[np.float64] = scaled / scaled.sum()
    # A prior that has been normalised before keeps its bits.
    return array if np.allclose(array, normalised, rtol=4 * S * np.finfo(np.float64).eps, atol=0) else normalised


class Kept:
    """Objects that systems of the same classes share: the last one of each kind, with the start that it was made from.

    The objects are not copied with the classes: a pickle or a deep copy of a `Kept` is empty.

    Examples
    --------
    >>> kept = Kept()
    >>> kept.get_or_make("square", b"start", lambda: 3**2)
    9
    >>> kept.get_or_make("square", b"start", lambda: 4**2), kept.get_or_make("square", b"other start", lambda: 4**2)
    (9, 16)
    """

    def __init__(self) -> None:
        self._last: dict[Hashable, tuple[bytes, object]] = {}

    def __reduce__(self) -> tuple[type[Kept], tuple[()]]:
        return Kept, ()

    def clear(self) -> None:
        """Forget everything."""
        self._last.clear()

    def get_or_make(self, kind: Hashable, start: bytes, make: Callable[[], Made]) -> Made:
        """Return the object of this kind that was made from this start; if there is none, make and keep it.

        Two threads that ask at the same time may both call `make`; their objects must be equal.
        """
        known = self._last.get(kind)
        if known is None or known[0] != start:
            known = self._last[kind] = (start, make())
        return known[1]  # type: ignore[return-value]  # of this kind


class SequenceClasses:
    """Immutable set of sequence classes n = (P(.|n), psi(n), next token of n), Sec. 3.2.

    A sequence of class n has contextual tokens drawn independently from P(.|n), the query (last) token psi(n) and the
    next token to be predicted. Several classes may share a query and a next token. Quantities that depend on attention
    logits or on a class (`gram`, `E`, `distinct_tokens`) are methods; all others (`prior`, `omega_size`) are
    attributes.

    Parameters
    ----------
    P : (S, M) array or scipy sparse
        P[n, l] = P(l|n), probability of contextual token l in class n; rows sum to 1.
    query : (S,) array_like of int
        Query token psi(n), ids in 0..V-1.
    next_token : (S,) array_like of int, optional
        Next token of each class, ids in 0..V-1; default 0, 1, ..., S-1.
    prior : (S,) array_like, optional
        Prior p_n of each class, or positive numbers in proportion to it; default uniform.
    vocab_size : int, optional
        V, number of outputs of the decoder; default max(M, number of next tokens).

    Attributes
    ----------
    P : (S, M) scipy.sparse.csr_array
        P[n, l] = P(l|n), without explicit zeros, token ids increasing in each row.
    query : (S,) array of int
        Query token psi(n) of each class.
    next_token : (S,) array of int
        Next token of each class.
    prior : (S,) array
        Class probabilities p_n; they sum to 1.
    vocab_size : int
        V.
    queries : (Q,) array of int
        The different query tokens, increasing.
    query_index : (S,) array of int
        Position of each class's query in `queries`: its row of z.
    next_tokens : array of int
        The different next tokens, increasing.
    next_index : (S,) array of int
        Position of each class's next token in `next_tokens`.

    Raises
    ------
    InputError
        One sentence that says what was expected, what was received and what to do.

    Notes
    -----
    Omega(l) is the set of *next tokens* whose classes contain l. A token that occurs only in classes with the
    same next token identifies that next token, and is distinct. All arrays are read-only.

    Examples
    --------
    Two classes of query 5 share token 0; tokens 1 and 2 are distinct:

    >>> import snapdyn as sd
    >>> classes = sd.SequenceClasses([[0.4, 0.6, 0], [0.5, 0, 0.5]], query=[5, 5], vocab_size=10)
    >>> classes
    SequenceClasses(2 classes, 3 contextual tokens, 1 queries, 2 next tokens, V = 10)
    >>> classes.common_tokens(), classes.distinct_tokens(1)
    (array([0]), array([2]))
    """

    def __init__(
        self,
        P: Any,
        query: ArrayLike,
        next_token: ArrayLike | None = None,
        prior: ArrayLike | None = None,
        vocab_size: int | None = None,
    ) -> None:
        # What is made of P holds arrays of its classes and tokens, which a sparse table may have in any number.
        require_memory("P", 48.0 * max(getattr(P, "shape", ()), default=0), "fewer classes or tokens")
        self.P = checked_probabilities(P)
        S, M = self.P.shape
        self.query = checked_ids("query", query, S)
        self.next_token = (
            np.arange(S, dtype=np.int64) if next_token is None else checked_ids("next_token", next_token, S)
        )
        self.next_tokens: Ints
        self.next_index: Ints
        self.next_tokens, self.next_index = np.unique(self.next_token, return_inverse=True)
        self.queries: Ints
        self.query_index: Ints
        self.queries, self.query_index = np.unique(self.query, return_inverse=True)
        self.vocab_size = checked_vocab_size(vocab_size, M, self.next_tokens.size)
        for name, ids in (("query", self.query), ("next_token", self.next_token)):
            if ids.max() >= self.vocab_size:
                raise InputError(
                    f"expected {name} ids below vocab_size = {self.vocab_size}, received {ids.max()} for class "
                    f"{int(ids.argmax())}; give a larger vocab_size or other ids"
                )
        self.prior = checked_prior(prior, S)
        for array in (*self._given(), self.next_tokens, self.next_index, self.queries, self.query_index):
            _read_only(array)
        self._frozen = True

    def __setattr__(self, name: str, value: Any) -> None:
        # cached_property writes to __dict__ directly, so it still works on a frozen instance.
        if getattr(self, "_frozen", False):
            raise AttributeError(f"SequenceClasses is immutable; build a new one to change {name!r}")
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"SequenceClasses is immutable; {name!r} cannot be deleted")

    def __repr__(self) -> str:
        return (
            f"SequenceClasses({self.num_classes} classes, {self.num_tokens} contextual tokens, "
            f"{self.num_queries} queries, {self.num_next_tokens} next tokens, V = {self.vocab_size})"
        )

    def _repr_html_(self) -> str:
        """Table of the sizes, for notebooks."""
        return html_table(
            type(self).__name__,
            {
                "classes": self.num_classes,
                "contextual tokens": self.num_tokens,
                "queries": self.num_queries,
                "next tokens": self.num_next_tokens,
                "outputs V": self.vocab_size,
            },
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SequenceClasses):
            return NotImplemented
        return (
            self.vocab_size == other.vocab_size
            and self.P.shape == other.P.shape
            and all(map(np.array_equal, self._given(), other._given()))
        )

    def _given(self) -> tuple[Any, ...]:
        """Arrays that define the classes."""
        return self.P.indptr, self.P.indices, self.P.data, self.query, self.next_token, self.prior

    __hash__ = None  # type: ignore[assignment]  # compared by content, so not hashable

    # -- sizes ---------------------------------------------------------------------------------------------
    @property
    def num_classes(self) -> int:
        """S, number of sequence classes (K in the paper, where each has its own next token)."""
        return int(self.P.shape[0])

    @property
    def num_tokens(self) -> int:
        """M, number of contextual token ids (columns of P)."""
        return int(self.P.shape[1])

    @cached_property
    def num_queries(self) -> int:
        """Q, number of query tokens."""
        return int(self.queries.size)

    @property
    def num_next_tokens(self) -> int:
        """Number of different next tokens."""
        return int(self.next_tokens.size)

    # -- supports ------------------------------------------------------------------------------------------
    def support(self, n: int) -> Ints:
        """Tokens of a class.

        Parameters
        ----------
        n : int
            Class, 0..S-1.

        Returns
        -------
        array of int
            Token ids with P(l|n) > 0, increasing.

        Raises
        ------
        InputError
            `n` is not a class.
        """
        n = self.check_class(n)
        return self.P.indices[self.P.indptr[n] : self.P.indptr[n + 1]]

    def check_class(self, n: int) -> int:
        """Return the index `n` of a class as an int.

        Parameters
        ----------
        n : int

        Returns
        -------
        int

        Raises
        ------
        InputError
            `n` is not in 0..S-1.
        """
        return whole("the class", n, 0, self.num_classes - 1)

    @cached_property
    def kept(self) -> Kept:
        """Objects that systems of these classes share, such as the layout of their state and the kinds of classes."""
        return Kept()

    @cached_property
    def class_of_entry(self) -> Ints:
        """(nnz,) class of each stored entry of P (row-major)."""
        return _read_only(np.repeat(np.arange(self.num_classes), np.diff(self.P.indptr)))

    @cached_property
    def _z_keys(self) -> tuple[Ints, Ints]:
        keys = self.query_index[self.class_of_entry] * self.num_tokens + self.P.indices
        unique, position = np.unique(keys, return_inverse=True)
        return _read_only(unique), _read_only(position)

    @cached_property
    def z_coordinates(self) -> tuple[Ints, Ints]:
        """(query row, token) of every attention logit that can move: for each query, the tokens of its classes."""
        keys, _ = self._z_keys
        return _read_only(keys // self.num_tokens), _read_only(keys % self.num_tokens)

    @cached_property
    def z_of_entry(self) -> Ints:
        """(nnz,) position in `z_coordinates` of the logit that acts on each stored entry of P."""
        return self._z_keys[1]

    # -- roles of tokens -----------------------------------------------------------------------------------
    @cached_property
    def omega_size(self) -> Ints:
        """(M,) |Omega(l)|: number of next tokens whose classes contain token l (0: never occurs)."""
        pairs = np.unique(self.P.indices * np.int64(self.next_tokens.size) + self.next_index[self.class_of_entry])
        return _read_only(np.bincount(pairs // self.next_tokens.size, minlength=self.num_tokens))

    def distinct_tokens(self, n: int | None = None) -> Ints:
        """Tokens with |Omega(l)| = 1: they occur with one next token only.

        Parameters
        ----------
        n : int, optional
            Class whose tokens are returned; default those of all classes.

        Returns
        -------
        array of int
            Token ids, increasing.
        """
        omega_size = self.omega_size
        tokens = np.arange(self.num_tokens) if n is None else self.support(n)
        return tokens[omega_size[tokens] == 1]

    def common_tokens(self, n: int | None = None) -> Ints:
        """Tokens with |Omega(l)| > 1: they occur with several next tokens.

        Parameters
        ----------
        n : int, optional
            Class whose tokens are returned; default those of all classes.

        Returns
        -------
        array of int
            Token ids, increasing.
        """
        omega_size = self.omega_size
        tokens = np.arange(self.num_tokens) if n is None else self.support(n)
        return tokens[omega_size[tokens] > 1]

    @property
    def trivial_queries(self) -> Ints:
        """Query tokens with a single class, |psi^{-1}(m)| = 1."""
        return self.queries[np.bincount(self.query_index) == 1]

    # -- attention and its Gram matrix ---------------------------------------------------------------------
    def check_z(self, z: ArrayLike | None) -> Floats:
        """Return attention logits as an array after checking shape and finiteness.

        Parameters
        ----------
        z : (Q, M) array_like or None
            One row per query, in increasing query id; None stands for zeros.

        Returns
        -------
        (Q, M) array

        Raises
        ------
        InputError
            Another shape, or values that are not finite numbers.
        """
        shape = (self.queries.size, self.num_tokens)
        require_memory(f"attention logits of shape {shape}", 8.0 * shape[0] * shape[1], "fewer queries or tokens")
        if z is None:
            return np.zeros(shape)
        advice = "give one row per query, (Q, M), in increasing query id"
        return np.ascontiguousarray(finite_array("attention logits", z, shape, advice=advice))

    def attention_entries(self, z: ArrayLike | None = None) -> Floats:
        """Attention c_n[l] of Eq. (5) on the stored entries of P, for infinite sequences.

        Parameters
        ----------
        z : (Q, M) array_like, optional
            Attention logits; default 0.

        Returns
        -------
        (nnz,) array
            In the order of `P.data`.
        """
        query, token = self.z_coordinates
        return self.attention_from_support(self.check_z(z)[query, token])

    def attention_from_support(self, z_support: Floats) -> Floats:
        """Attention c_n[l] of Eq. (5) on the stored entries of P, from the logits that can move.

        Parameters
        ----------
        z_support : (..., nz) array
            Logits on `z_coordinates`.

        Returns
        -------
        (..., nnz) array
            In the order of `P.data`.
        """
        logits = np.log(self.P.data) + z_support[..., self.z_of_entry]
        starts = self.P.indptr[:-1]
        lengths = np.diff(self.P.indptr)
        logits -= np.repeat(np.maximum.reduceat(logits, starts, axis=-1), lengths, axis=-1)
        np.exp(logits, out=logits)
        logits /= np.repeat(np.add.reduceat(logits, starts, axis=-1), lengths, axis=-1)
        return logits

    def decoder_inputs(self, z: ArrayLike | None = None, residual: bool = False) -> Any:
        """Decoder inputs f_n = c_n/|c_n|, or LN(f_n + e_psi(n)) with the residual connection (Sec. 7).

        Parameters
        ----------
        z : (Q, M) array_like, optional
            Attention logits; default 0.
        residual : bool
            Whether the embedding e_psi(n) of the query is added.

        Returns
        -------
        (S, R) scipy.sparse.csr_array
            One row per class. R = M without the residual connection. With it R = max(M, largest query id + 1), because
            Y then has a row for each query as well.
        """
        from scipy import sparse

        attention = self.attention_entries(z)
        norms = np.sqrt(np.add.reduceat(attention**2, self.P.indptr[:-1]))
        f = attention / np.repeat(norms, np.diff(self.P.indptr))
        inputs = sparse.csr_array((f, self.P.indices, self.P.indptr), shape=self.P.shape)
        if not flag("residual", residual):
            return inputs
        rows = max(self.num_tokens, int(self.query.max()) + 1)
        require_memory("a row for each query", 48.0 * rows, "smaller ids of queries")
        inputs.resize((self.num_classes, rows))
        S = self.num_classes
        inputs = inputs + sparse.csr_array((np.ones(S), (np.arange(S), self.query)), shape=(S, rows))
        scale = 1.0 / np.sqrt(np.asarray(inputs.multiply(inputs).sum(axis=1)).ravel())
        return sparse.csr_array(sparse.diags_array(scale) @ inputs)

    def gram(self, z: ArrayLike | None = None, residual: bool = False) -> Floats:
        """Gram matrix G = F^T F of the decoder inputs, which are the columns of F (Appendix D.1).

        Parameters
        ----------
        z : (Q, M) array_like, optional
            Attention logits; default 0.
        residual : bool
            As in `decoder_inputs`.

        Returns
        -------
        (S, S) array
            The diagonal is exactly 1.
        """
        S = self.num_classes
        require_memory(f"the overlaps of {S} classes", 24.0 * S * S, "fewer classes")
        inputs = self.decoder_inputs(z, residual)
        G = np.asarray((inputs @ inputs.T).toarray())
        np.fill_diagonal(G, 1.0)
        return G

    def E(self, z: ArrayLike | None = None) -> Floats:
        """Overlap matrix E = G - I.

        Parameters
        ----------
        z : (Q, M) array_like, optional
            Attention logits; default 0.

        Returns
        -------
        (S, S) array
        """
        return self.gram(z) - np.eye(self.num_classes)

    def E_prime(self, z: ArrayLike | None = None) -> Floats:
        """Matrix E' = I - (I + E)^{-1}.

        Parameters
        ----------
        z : (Q, M) array_like, optional
            Attention logits; default 0.

        Returns
        -------
        (S, S) array

        Raises
        ------
        InputError
            G = I + E is singular, as it is when two classes have the same decoder input.
        """
        G = self.gram(z)
        require_independent(G)
        return np.eye(self.num_classes) - np.linalg.inv(G)

    def eigenvalues(self, z: ArrayLike | None = None) -> Floats:
        """Eigenvalues of E.

        Parameters
        ----------
        z : (Q, M) array_like, optional
            Attention logits; default 0.

        Returns
        -------
        (S,) array
            By decreasing absolute value: lambda_1 first.
        """
        values = np.linalg.eigvalsh(self.E(z)).astype(np.float64)
        return values[np.argsort(-np.abs(values), kind="stable")]


def dense_logits(start: Floats, classes: SequenceClasses | None, z_support: Floats) -> Floats:
    """Attention logits (..., Q, M): `z_support` (..., nz) on the `z_coordinates` of the classes, `start` elsewhere.

    Without classes, `z_support` has the logit of the only query and token.
    """
    z = np.broadcast_to(start, (*z_support.shape[:-1], *start.shape)).copy()
    query, token = classes.z_coordinates if classes else (np.zeros(1, int), np.zeros(1, int))
    z[..., query, token] = z_support
    return z


def _read_only(array: Any) -> Any:
    array.setflags(write=False)
    return array


def require_independent(gram: Floats) -> None:
    """Check that decoder inputs are linearly independent.

    Parameters
    ----------
    gram : (S, S) array
        Gram matrix of the decoder inputs.

    Raises
    ------
    InputError
        The smallest eigenvalue is below 1e-12.
    """
    smallest = float(np.linalg.eigvalsh(gram)[0])
    if smallest < 1e-12:
        raise InputError(
            f"expected linearly independent attention vectors, received a Gram matrix whose smallest eigenvalue "
            f"is {smallest:.1e}; merge classes with proportional P(.|n)"
        )
