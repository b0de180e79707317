"""Data sets: sequences drawn once from sequence classes and reused, each a class of its own (Sec. 9)."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.core.errors import InputError, instance, shown, whole, whole_array
from snapdyn.core.memory import require_memory
from snapdyn.dynamics.classes.kinds import numbers_by_content, ranks
from snapdyn.dynamics.classes.table import Ints, SequenceClasses

LARGEST_SEQ_LEN = 2**31 - 1
FRESH_SEQUENCES = 2000  # the sampling error of the mean loss is then some 2 %


class DataSet(SequenceClasses):
    """Stored sequences as classes; built by `data_set`.

    P(.|s) has the relative frequencies of the tokens in sequence s. Equal sequences are one class, whose prior is in
    proportion to their number.

    Parameters
    ----------
    source : SequenceClasses
        Classes from which the sequences are drawn.
    sequences : (S,) array of int
        Number of sequences of each class of `source`.
    seq_len : int
        T-1, contextual tokens of a sequence.
    seed : int
    stream : int
        Streams of random numbers of this seed: 0 for the stored sequences, 1 for the fresh ones.

    Attributes
    ----------
    source : SequenceClasses
    sequences : (S,) array of int
    seq_len : int
    seed : int
    counts : (stored,) array of int
        Number of equal sequences that each class of the data set stands for.
    spurious : (pairs, 2) array of int
        Next token and token of each spurious pair: the token occurs with no other next token in the data set, but
        occurs with another one in a class of `source`.
    fresh : DataSet
        Other sequences of the same classes in the same proportions, at least 2000.

    See Also
    --------
    SequenceClasses : The attributes that all sequence classes have.
    """

    def __init__(self, source: SequenceClasses, sequences: ArrayLike, seq_len: int, seed: int, stream: int = 0) -> None:
        self.source = instance("classes", source, SequenceClasses, "build them with sd.SequenceClasses(P, query)")
        S = source.num_classes
        numbers = whole_array("sequences", sequences, at_least=0)
        if numbers.ndim:
            numbers = whole_array("sequences", numbers, (S,), advice="give one number per class")
        if not numbers.any():
            raise InputError(f"expected at least one sequence in sequences, received {shown(sequences)}; give some")
        require_memory("the sequences", 80.0 * float(np.broadcast_to(numbers, (S,)).sum()), "fewer sequences")
        self.sequences = sequences = np.broadcast_to(numbers, (S,)).copy()
        self.sequences.setflags(write=False)
        self.seq_len = seq_len = whole("seq_len", seq_len, 1, LARGEST_SEQ_LEN)
        self.seed = seed = whole("seed", seed, 0)
        stream = whole("stream", stream, 0)
        classes = np.flatnonzero(sequences)
        # A stream per class: with more sequences of a class, the first ones stay the same.
        drawn = [self._draw(n, np.random.SeedSequence(seed, spawn_key=(stream, n))) for n in classes.tolist()]
        lengths, tokens, numbers = (np.concatenate(part) for part in zip(*drawn, strict=True))
        starts = np.concatenate([[0], np.cumsum(lengths)])
        of = np.repeat(classes, sequences[classes])
        query, next_token = source.query[of], source.next_token[of]
        owner = np.repeat(np.arange(of.size), lengths)
        number = numbers_by_content(owner, ranks(tokens, numbers), ranks(query, next_token))
        first, self.counts = np.unique(number, return_index=True, return_counts=True)[1:]
        self.counts.setflags(write=False)
        from scipy import sparse

        P = sparse.csr_array((numbers / seq_len, tokens, starts), shape=(of.size, source.num_tokens))[first]
        super().__init__(P, query[first], next_token[first], self.counts, source.vocab_size)

    def _draw(self, n: int, seed: np.random.SeedSequence) -> tuple[Ints, Ints, Ints]:
        """Sequences of a class: the number of different tokens in each; these tokens, and how often each occurs."""
        tokens, N = self.source.support(n), int(self.sequences[n])
        require_memory(f"{N} sequences over {tokens.size} tokens", 16.0 * N * tokens.size, "fewer sequences")
        row = self.source.P.data[self.source.P.indptr[n] : self.source.P.indptr[n + 1]]
        table = np.random.default_rng(seed).multinomial(self.seq_len, row / row.sum(), size=N)
        return np.count_nonzero(table, axis=1), np.broadcast_to(tokens, table.shape)[table > 0], table[table > 0]

    @cached_property
    def spurious(self) -> Ints:
        tokens = np.flatnonzero((self.omega_size == 1) & (self.source.omega_size > 1))
        next_token = np.empty(self.num_tokens, np.int64)
        next_token[self.P.indices] = self.next_token[self.class_of_entry]
        pairs = np.stack([next_token[tokens], tokens], axis=1)
        pairs.setflags(write=False)
        return pairs

    @cached_property
    def fresh(self) -> DataSet:
        copies = -(-FRESH_SEQUENCES // int(self.sequences.sum()))
        return DataSet(self.source, self.sequences * copies, self.seq_len, self.seed, stream=1)


def data_set(classes: SequenceClasses, sequences: int | ArrayLike, seq_len: int, seed: int = 0) -> DataSet:
    """Draw sequences once, as a data set that training reuses for ever: every stored sequence is a class of its own.

    `MeanField` of the result is the mean field of training on the stored sequences, and `sgd` with seq_len=None trains
    on them. `sgd(classes, ..., seq_len=seq_len)` draws fresh sequences at each step instead.

    Parameters
    ----------
    classes : SequenceClasses
        Classes from which the sequences are drawn.
    sequences : int or (S,) array_like of int
        Number of sequences of each class, at least 0 and not all 0. Every sequence has the same weight, so give numbers
        in proportion to the priors of `classes` to keep these.
    seq_len : int
        T-1, contextual tokens of a sequence, 1 to 2^31 - 1.
    seed : int
        With the same seed, more sequences of a class begin with the same ones.

    Returns
    -------
    DataSet
        Sequence classes in the order in which they were drawn; equal sequences are one class, whose prior is in
        proportion to their number. `data.spurious`, (pairs, 2), has the (next token, token) pairs of the tokens that
        look distinct in the data set and are common in `classes`.

    Raises
    ------
    InputError
        A number is out of its range, or the sequences do not fit into memory.

    Examples
    --------
    >>> import snapdyn as sd
    >>> classes = sd.single_common_token(2, 1, common_probability=0.3, vocab_size=10)
    >>> data = sd.data_set(classes, sequences=2, seq_len=2, seed=3)
    >>> data.P.toarray()
    array([[0., 1., 0.],
           [0., 0., 1.],
           [1., 0., 0.]])
    >>> data.counts, data.spurious
    (array([2, 1, 1]), array([[1, 0]]))
    """
    return DataSet(classes, sequences, seq_len, seed)
