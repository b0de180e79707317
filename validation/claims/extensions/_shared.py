"""What the claims of this chapter share: families with start logits or with query tokens of their own."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from snapdyn.dynamics import SequenceClasses
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.search import Family, Instance


@dataclass(frozen=True)
class StartedFamily(Family):
    """A family whose instances start from normal logits z(0).

    Attributes
    ----------
    start : (float, float)
        Range of the standard deviation of z(0), uniform in the logarithm.
    """

    start: tuple[float, float] = (0.01, 3.0)

    def __str__(self) -> str:
        return f"{super().__str__()}, z(0) normal with standard deviation {self.start[0]:g} to {self.start[1]:g}"

    def draw(self, seed: int, number: int) -> Instance:
        """Instance `number` of the sequence of draws with root `seed`."""
        instance = super().draw(seed, number)
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number, 1)))
        size = np.exp(rng.uniform(*np.log(self.start)))
        shape = np.unique(instance.query).size, instance.P.shape[1]
        return replace(instance, start=size * rng.normal(size=shape))


@dataclass(frozen=True)
class SeparateQueriesFamily(Family):
    """A family whose query tokens are not among the contextual tokens."""

    def __str__(self) -> str:
        return f"{super().__str__()}, query tokens outside the context"

    def draw(self, seed: int, number: int) -> Instance:
        """Instance `number` of the sequence of draws with root `seed`."""
        instance = super().draw(seed, number)
        return replace(instance, query=instance.query + instance.P.shape[1])


def reweighted(classes: SequenceClasses, z0: Floats) -> SequenceClasses:
    """The classes with P(l|n) exp(z0[psi(n), l]), normalised, in place of P(l|n)."""
    P = classes.P.toarray() * np.exp(z0[classes.query_index])
    return SequenceClasses(
        P / P.sum(axis=1, keepdims=True), classes.query, classes.next_token, classes.prior, classes.vocab_size
    )
