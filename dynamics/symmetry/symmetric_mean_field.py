"""The mean field of any number of equivalent classes, without P, Y or anything of the size of their number."""

from __future__ import annotations

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike

from snapdyn.dynamics.classes import Floats, SequenceClasses
from snapdyn.dynamics.symmetry.quotient import Quotient
from snapdyn.dynamics.symmetry.quotient_system import QuotientSystem, RowSums
from snapdyn.errors import InputError, positive, positive_array, whole

LARGEST_NUMBER = 2**53  # of classes and outputs: whole numbers up to here are exact in float64


class SymmetricMeanField(QuotientSystem):
    """The mean field of equivalent classes: common tokens of all classes, distinct tokens of their own, zero start.

    Each of `num_queries` queries has `num_classes` classes with next tokens of their own and equal priors. Every class
    has the same probabilities on the common tokens, and the same on distinct tokens that no other class has:
    `single_common_token`, `syn_small` and `syn_medium` with any numbers. The system holds one value for all values of z
    and Y that stay equal, so that an evaluation for 10^9 classes costs what one for two costs. Their number grows like
    K at a fixed ratio of the rates, since attention then is K times as fast as the decoder of one class; it does not if
    eta_Z/eta_Y falls as 1/K. `trajectory.z` and `trajectory.attention` are those of one class, first the common tokens,
    then its distinct tokens; `trajectory.loss` is the loss of all.

    Parameters
    ----------
    common : (C,) array
        Probabilities of the common tokens, positive; C may be 0.
    distinct : (D,) array
        Probabilities of the distinct tokens, positive; all C + D sum to 1.
    num_classes : int
        Classes per query.
    vocab_size : int
        V, at least 2 and at least the number of all classes, which have a next token each.
    eta_Y : float
        Learning rate of the decoder per batch-size-1 step.
    eta_Z : float
        Learning rate of the attention logits per batch-size-1 step.
    num_queries : int
        Q, default 1.

    Raises
    ------
    InputError
        Probabilities that are not positive or do not sum to 1; numbers out of range or beyond 2^53.

    Examples
    --------
    >>> import snapdyn as sd
    >>> system = sd.SymmetricMeanField([0.3], [0.2, 0.5], num_classes=10**9, vocab_size=10**12, eta_Y=1.0, eta_Z=1e-9)
    >>> run = sd.integrate(system, [1e10, 1e12])
    >>> run.stats["state_size"], run.attention.shape
    (11, (2, 1, 3))
    """

    def __init__(
        self,
        common: ArrayLike,
        distinct: ArrayLike,
        num_classes: int,
        vocab_size: int,
        eta_Y: float,
        eta_Z: float,
        num_queries: int = 1,
    ) -> None:
        p_common, p_distinct = positive_array("common", common), positive_array("distinct", distinct)
        for name, values in (("common", p_common), ("distinct", p_distinct)):
            if values.ndim != 1:
                raise InputError(f"expected {name} as a list of probabilities, received shape {values.shape}")
        total = float(p_common.sum() + p_distinct.sum())
        if not p_distinct.size or abs(total - 1) > 1e-9:
            raise InputError(
                f"expected common and distinct (at least one) to sum to 1, received a sum of {total:.9g} over "
                f"{p_common.size} and {p_distinct.size}; divide both by it"
            )
        K = whole("num_classes", num_classes, 1, LARGEST_NUMBER)
        Q = whole("num_queries", num_queries, 1, LARGEST_NUMBER)
        if K * Q > LARGEST_NUMBER:
            raise InputError(
                f"expected at most {LARGEST_NUMBER} classes of all queries, received {K} times {Q}; give fewer"
            )
        V = whole("vocab_size", vocab_size, max(2, K * Q), LARGEST_NUMBER)
        tokens = p_common.size + p_distinct.size
        # One class stands for all.
        self.classes = SequenceClasses(
            np.concatenate([p_common, p_distinct])[None], [tokens], next_token=[0], vocab_size=max(V, tokens + 1)
        )
        self.z_initial = np.zeros((1, tokens))
        self.parameters = {
            "num_classes": K, "num_queries": Q, "vocab_size": V, "eta_Y": positive("eta_Y", eta_Y),
            "eta_Z": positive("eta_Z", eta_Z), "common": p_common.tolist(), "distinct": p_distinct.tolist(),
        }  # fmt: skip
        # Tokens of equal probability stay equal: one value stands for them.
        common_kinds, common_kind, like_common = np.unique(p_common, return_inverse=True, return_counts=True)
        distinct_kinds, distinct_kind, like_distinct = np.unique(p_distinct, return_inverse=True, return_counts=True)
        self._slot_of_token = np.concatenate([common_kind, common_kinds.size + distinct_kind])
        lists, sums = _lists(
            common_kinds,
            like_common.astype(float),
            distinct_kinds,
            like_distinct.astype(float),
            float(K),
            float(Q),
            float(V),
        )
        self.value_names = _names(common_kinds, distinct_kinds, K * Q, V)
        super().__init__(lists, sums, self.parameters["eta_Y"], self.parameters["eta_Z"])

    def z_support(self, state: Floats) -> Floats:
        return state.take(self._slot_of_token, axis=-1)


def _names(common: Floats, distinct: Floats, num_classes: int, vocab_size: int) -> list[str]:
    """Names of the state values, for messages, in the order of `_lists`."""
    tokens = [f"common token of P = {p:g}" for p in common] + [f"distinct token of P = {p:g}" for p in distinct]
    exists = (True, num_classes > 1, vocab_size > num_classes)
    of_distinct = ("own next token", "next token of another class", "other output")
    names = [f"z[{token}]" for token in tokens]
    for k, token in enumerate(tokens):
        outputs = ("next token", "", "other output") if k < common.size else of_distinct
        names += [f"Y[{token}, {output}]" for output, has in zip(outputs, exists, strict=True) if output and has]
    return names


def _lists(
    common: Floats, like_common: Floats, distinct: Floats, like_distinct: Floats, K: float, Q: float, V: float
) -> tuple[Quotient, RowSums]:
    """Quotient and row sums, from the different probabilities and the numbers of tokens that have them.

    Outputs of a class: its own next token, the N - 1 next tokens of others, and V - N outputs that are nobody's
    (N = K Q). Y of a common token has one value on all next tokens and one on the rest; of a distinct token one for
    each kind.
    """
    N, num_common, num_distinct = K * Q, common.size, distinct.size
    num_slots = num_common + num_distinct
    kinds = np.flatnonzero([1.0, N - 1, V - N])
    outputs = np.array([1.0, N - 1, V - N])[kinds]
    # For a common and a distinct token: which of its values each kind of output has, how many there are of each value,
    # and how many classes (for a class: outputs) drive one value, times p_n = 1/N.
    value_of = (np.array([0, 0, 1])[kinds], np.arange(kinds.size))
    number_of = (np.array([N, 1.0])[: value_of[0].max() + 1], np.array([N, N * (N - 1), N])[kinds])
    driven = (np.array([1 / N, (N - 1) / N, 1.0])[kinds], np.full(kinds.size, 1 / N))
    tokens = np.concatenate([like_common, like_distinct])
    number, index, terms, rows = [], [], [], []
    size = num_slots
    for k in range(num_slots):
        kind = int(k >= num_common)
        index.append(np.stack([np.full(kinds.size, k), np.arange(kinds.size), size + value_of[kind]]))
        terms.append(np.stack([np.full(kinds.size, tokens[k]), outputs, driven[kind]]))
        rows.append((np.full(kinds.size, k), size + value_of[kind]))
        number.append(number_of[kind])
        size += number_of[kind].size
    y = scipy.sparse.coo_array((np.tile(outputs, num_slots), np.concatenate(rows, axis=1)), shape=(num_slots, size))
    of_query = np.concatenate([like_common, K * like_distinct, np.zeros(size - num_slots)])
    z = scipy.sparse.csr_array(of_query[None])
    drive = np.concatenate([np.full(num_common, 1 / Q), np.full(num_distinct, 1 / N)])
    slot_number = np.concatenate([np.full(num_common, Q), np.full(num_distinct, N)])
    lists = Quotient(
        ranges=np.array([[0, num_slots, 0, kinds.size, 0, num_slots * kinds.size]]),
        classes=np.array([[0, -1, -1]]),
        share=np.ones(1),
        entry_slot=np.arange(num_slots),
        entries=np.stack([np.log(np.concatenate([common, distinct])), tokens, drive]),
        output_number=outputs,
        term_index=np.concatenate(index, axis=1).astype(np.int64),
        terms=np.concatenate(terms, axis=1),
        start=np.zeros(size),
        number=np.concatenate([slot_number, *number]),
        num_slots=num_slots,
    )
    return lists, RowSums(z, y.tocsr(), np.concatenate([like_common, N * like_distinct]))
