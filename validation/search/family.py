"""Families of instances, from which a search draws."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from snapdyn.dynamics.synthetic import token_table
from snapdyn.validation.search.instance import Instance

# Smallest share of a token; the effect of a token with a smaller share is negligible.
SMALLEST_SHARE = 1e-4


@dataclass(frozen=True)
class Family:
    """A family of random instances; a pair of numbers is a range (smallest, largest).

    Every class has distinct tokens and overlaps with another class. Profiles are drawn from Dirichlet distributions
    with a random concentration.

    Attributes
    ----------
    name : str
        Name of the family.
    correlation : "weak", "strong" or "any"
        Correlation of the classes at z = 0.
    uniform : bool
        Whether all classes have the same prior.
    num_classes : (int, int)
        Range of K.
    num_common : (int, int)
        Range of the number of common tokens.
    num_distinct : (int, int)
        Range of the number of distinct tokens of each class.
    num_queries : (int, int)
        Range of the number of queries.
    shared_by_all : bool
        Whether each common token belongs to all classes, or to a random set of at least two.
    vocab_size : (int, int)
        Range of V, uniform in the logarithm.
    ratio : (float, float)
        Range of eta_Z/eta_Y, uniform in the logarithm.
    t_end : (float, float)
        Range of the last time, batch-size-1 steps, uniform in the logarithm.
    """

    name: str
    correlation: Literal["weak", "strong", "any"] = "weak"
    uniform: bool = True
    num_classes: tuple[int, int] = (2, 6)
    num_common: tuple[int, int] = (1, 3)
    num_distinct: tuple[int, int] = (1, 4)
    num_queries: tuple[int, int] = (1, 3)
    shared_by_all: bool = False
    vocab_size: tuple[int, int] = (10, 10_000)
    ratio: tuple[float, float] = (1e-3, 1e3)
    t_end: tuple[float, float] = (1e2, 1e5)

    def admits(self, instance: Instance) -> bool:
        """Whether the instance's correlation at z = 0 is that of the family."""
        return self.correlation == "any" or (instance.correlation < 1) == (self.correlation == "weak")

    def draw(self, seed: int, number: int) -> Instance:
        """Instance `number` of the sequence of draws with root `seed`; a SeedSequence child per instance."""
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number,)))
        for _ in range(100):
            instance = self._draw(rng, seed, number)
            if instance is not None:
                return instance
        raise RuntimeError(f"expected family {self.name!r} to hold instances, received none in 100 draws; widen it")

    def _draw(self, rng: np.random.Generator, seed: int, number: int) -> Instance | None:
        K = _between(rng, self.num_classes)
        common = _between(rng, self.num_common)
        distinct = [_between(rng, self.num_distinct) for _ in range(K)]
        Q = min(_between(rng, self.num_queries), K)
        concentration = math.exp(rng.uniform(math.log(0.3), math.log(5)))
        shared = rng.dirichlet(np.full(common, concentration), size=K)
        if not self.shared_by_all:
            for token in range(common):
                members = rng.permutation(K)[: rng.integers(2, K + 1)]
                shared[np.setdiff1d(np.arange(K), members), token] = 0.0
            for n in np.flatnonzero(shared.sum(axis=1) == 0):  # a class without overlap has xi_n = 0
                shared[n, rng.integers(common)] = 1.0
        shared *= np.exp(rng.uniform(math.log(0.02), math.log(5), size=(K, 1)))
        P = token_table(shared, [rng.dirichlet(np.full(size, concentration)) for size in distinct])
        # A token whose share underflows would not occur.
        P = np.where(P > 0, np.maximum(P, SMALLEST_SHARE), 0.0)
        instance = Instance(
            P=P,
            query=rng.permutation(np.arange(K) % Q),
            weights=np.ones(K) if self.uniform else rng.dirichlet(np.full(K, concentration)) + SMALLEST_SHARE,
            vocab_size=max(K, round(_log_between(rng, self.vocab_size))),
            eta_Y=1.0,
            eta_Z=_log_between(rng, self.ratio),
            t_end=_log_between(rng, self.t_end),
            family=self.name,
            seed=seed,
            number=number,
        )
        for _ in range(40):
            if self.admits(instance):
                return instance
            P = instance.P.copy()
            P[:, :common] *= 0.7 if self.correlation == "weak" else 1.4
            instance = replace(instance, P=P)
        return None


def _between(rng: np.random.Generator, bounds: tuple[int, int]) -> int:
    return int(rng.integers(bounds[0], bounds[1] + 1))


def _log_between(rng: np.random.Generator, bounds: tuple[float, float]) -> float:
    return float(np.exp(rng.uniform(*np.log(bounds))))
