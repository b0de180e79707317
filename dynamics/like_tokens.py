"""Tokens of symmetric classes that stay alike: which values of z there are, in blocks and counts."""

from __future__ import annotations

import numpy as np

from snapdyn.dynamics.class_kinds import SymmetricClasses
from snapdyn.dynamics.classes import Floats, Ints


def kept_like_tokens(classes: SymmetricClasses) -> LikeTokens:
    """The like tokens of the classes; kept with them."""
    return classes.kept.take("like tokens", b"", lambda: LikeTokens(classes))


class LikeTokens:
    """Kinds of tokens: which of them have one value of z; kinds that were given twice count as one.

    Attributes
    ----------
    kind_of_block : (blocks,) array of int
        Number of each given kind among the different ones.
    slots : list of arrays of int
        Of each given kind: number of the value of z of each token, the common ones first.
    per_query, number, prior : lists
        K_c, N_c and p_c of the different kinds; priors are those of one class.
    common : (kinds, C) array
        Different common tokens: their probabilities in each kind.
    like_common : (C,) array
        Number of tokens that each of them stands for.
    distinct, like_distinct : lists of arrays
        The same for distinct tokens, by kind.
    has_other_outputs : bool
        Whether there are outputs that are no next token.
    """

    def __init__(self, classes: SymmetricClasses) -> None:
        self.has_other_outputs = classes.vocab_size > classes.num_classes
        alone = classes.num_classes == 1  # no token is shared with another class
        blocks = [((), kind.probabilities) if alone else (kind.common, kind.distinct) for kind in classes.kinds]
        keys = [
            (common, tuple(sorted(distinct)), kind.weight)
            for (common, distinct), kind in zip(blocks, classes.kinds, strict=True)
        ]
        different = list(dict.fromkeys(keys))
        self.kind_of_block: Ints = np.array([different.index(key) for key in keys])
        self.per_query = [0] * len(different)
        for c, kind in zip(self.kind_of_block, classes.kinds, strict=True):
            self.per_query[c] += kind.classes_per_query
        self.number = [classes.num_queries * count for count in self.per_query]
        weights = [weight for *_, weight in different]
        total = sum(count * weight / weights[0] for count, weight in zip(self.number, weights, strict=True))
        self.prior = [weight / weights[0] / total for weight in weights]

        table = np.array([common for common, *_ in different], dtype=np.float64)
        if table.size:
            self.common, common_slot, like = np.unique(table, axis=1, return_inverse=True, return_counts=True)
            common_slot, self.like_common = common_slot.ravel(), like.astype(np.float64)
        else:
            self.common, common_slot, self.like_common = table, np.empty(0, np.int64), np.empty(0)
        self.distinct: list[Floats] = []
        self.like_distinct: list[Floats] = []
        self.first_slot: list[int] = []  # of the distinct tokens of a kind
        self.num_slots = self.common.shape[1]
        for _, probabilities, _ in different:
            values, like = np.unique(probabilities, return_counts=True)
            self.distinct.append(values)
            self.like_distinct.append(like.astype(np.float64))
            self.first_slot.append(self.num_slots)
            self.num_slots += values.size
        self.slots = [
            np.concatenate([common_slot, self.first_slot[c] + np.searchsorted(self.distinct[c], distinct)])
            for c, (_, distinct) in zip(self.kind_of_block, blocks, strict=True)
        ]

    def entries(self, kind: int) -> tuple[Ints, Floats]:
        """Values of z of a class, and the number of tokens of each."""
        first, common = self.first_slot[kind], np.arange(self.like_common.size)
        slots = np.concatenate([common, first + np.arange(self.distinct[kind].size)])
        return slots, np.concatenate([self.like_common, self.like_distinct[kind]])

    @property
    def full_size(self) -> int:
        """Number of state values of the mean field of all classes, each by itself (`systems.layout`)."""
        num_queries, N = self.number[0] // self.per_query[0], sum(self.number)
        distinct = sum(number * values.size for number, values in zip(self.number, self.distinct, strict=True))
        common = self.like_common.size
        return num_queries * common + distinct + (common + distinct) * (N + self.has_other_outputs)
