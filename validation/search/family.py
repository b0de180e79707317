"""Families of instances, from which a search draws: the domain of a statement."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from snapdyn import analytic
from snapdyn.core.errors import InputError, choice, flag, pair, positive, text, whole
from snapdyn.dynamics.classes.synthetic import token_table
from snapdyn.dynamics.classes.table import Floats, Ints
from snapdyn.validation.search.counterexamples import simpler_instances
from snapdyn.validation.search.instance import Instance
from snapdyn.validation.search.structure import restructured

# Smallest share of a token, and smallest prior over the largest.
SMALLEST_SHARE = 1e-6
SMALLEST_PRIOR = 1e-10
# Three of four draws exceed the smallest number of classes or tokens by at most this; the others are uniform in the
# logarithm.
FEW = 5
# More classes than this are copies of at most `FEW` + 1 kinds: a run of them costs as little as one of the kinds.
UNLIKE_CLASSES = 12
# Overlaps of classes: each common token belongs to two neighbours, to the first class and another, to a pair, to all,
# to all with nearly equal profiles, or to a random set.
OVERLAPS = ("chain", "star", "pairs", "clique", "near duplicates", "subsets", "subsets", "subsets")
# Spread of the first population of a directed search: a factor exp(0.5) in every number of the instance.
FIRST_STEP = 0.5
# Draws with a number from here on are corners.
FIRST_CORNER = 10**9
# Shares of the common tokens of a class in corners: with the last, classes of one common token differ by 1e-6.
COMMON_SHARES = (0.01, 0.5, 0.99, 1 - 1e-6)
# Last times of corners, in units of t0.
TIMES = (1.0, 2.0, 1e6)
# Most classes, and most tokens of a kind: an instance is a dense table.
MOST_TOKENS = 1000
LARGEST_VOCABULARY = 2**53


@dataclass(frozen=True)
class Family:
    """A family of random instances; a pair of numbers is a range (smallest, largest).

    Profiles are drawn from Dirichlet distributions with a random concentration.

    Attributes
    ----------
    name : str
        Name of the family.
    correlation : "weak", "strong" or "any"
        Correlation of the classes at z = 0.
    uniform : bool
        Whether all classes have the same prior.
    num_classes : (int, int)
        Range of the number of classes.
    num_common : (int, int)
        Range of the number of common tokens. With one class, or without common tokens, no class overlaps another.
    num_distinct : (int, int)
        Range of the number of distinct tokens of each class.
    num_queries : (int, int)
        Range of the number of queries.
    shared_by_all : bool
        Whether each common token belongs to all classes, or to a random set of at least two.
    vocab_size : (int, int)
        Range of V, uniform in the logarithm; V is at least the number of next tokens.
    ratio : (float, float)
        Range of eta_Z/eta_Y, uniform in the logarithm.
    horizon : (float, float)
        Range of eta_Y t at the end, uniform in the logarithm.
    eta_Y : (float, float)
        Range of eta_Y per batch-size-1 step, uniform in the logarithm.
    shared_next_tokens : bool
        Whether half of the instances have classes that share next tokens.
    seq_len : (int, int) or None
        Range of the number of contextual tokens T-1, uniform in the logarithm; None: infinite.
    equal_profiles : bool
        Whether all classes have the profile of the first one: the same probabilities of the common tokens, which all
        classes share, and of as many distinct tokens. With one query and equal priors all classes are equivalent.

    Raises
    ------
    InputError
        A range is not a pair of numbers or is decreasing, or the correlation is unknown.

    Examples
    --------
    >>> from snapdyn.validation import Family
    >>> print(Family("weak correlation", vocab_size=(10, 1000)))
    weak correlation: 2-6 classes, 1-3 common and 1-4 distinct tokens, 1-3 queries, equal priors, V 10 to 1000, \
eta_Y 1, eta_Z/eta_Y 0.001 to 1000, eta_Y t 100 to 100000
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
    horizon: tuple[float, float] = (1e2, 1e5)
    eta_Y: tuple[float, float] = (1.0, 1.0)
    shared_next_tokens: bool = False
    seq_len: tuple[int, int] | None = None
    equal_profiles: bool = False

    def __post_init__(self) -> None:
        text("the name of a family", self.name)
        choice("correlation", self.correlation, ("weak", "strong", "any"))
        for name in ("uniform", "shared_by_all", "shared_next_tokens", "equal_profiles"):
            flag(name, getattr(self, name))
        least = {"num_classes": 1, "num_common": 0, "num_distinct": 0, "num_queries": 1, "vocab_size": 2, "seq_len": 1}
        for name, at_least in least.items():
            if name != "seq_len" or self.seq_len is not None:
                first, last = pair(name, getattr(self, name))
                most = LARGEST_VOCABULARY if name in ("vocab_size", "seq_len") else MOST_TOKENS
                self._store_range(name, whole(name, first, at_least, most), whole(name, last, at_least, most))
        for name in ("ratio", "horizon", "eta_Y"):
            first, last = pair(name, getattr(self, name))
            self._store_range(name, positive(name, first), positive(name, last))

    def _store_range(self, name: str, first: float, last: float) -> None:
        if first > last:
            raise InputError(f"expected {name} as (smallest, largest), received {(first, last)}; exchange them")
        object.__setattr__(self, name, (first, last))

    def __str__(self) -> str:
        def real(bounds: tuple[float, float], to: str = " to ") -> str:
            return f"{bounds[0]:g}" if bounds[0] == bounds[1] else f"{bounds[0]:g}{to}{bounds[1]:g}"

        classes, common, distinct, queries = (
            real(bounds, "-") for bounds in (self.num_classes, self.num_common, self.num_distinct, self.num_queries)
        )
        parts = [
            f"{classes} classes",
            f"{common} common and {distinct} distinct tokens",
            f"{queries} queries",
            "equal priors" if self.uniform else "any priors",
            *(["also shared next tokens"] if self.shared_next_tokens else []),
            *(["equal profiles"] if self.equal_profiles else []),
            f"V {real(self.vocab_size)}",
            f"eta_Y {real(self.eta_Y)}",
            f"eta_Z/eta_Y {real(self.ratio)}",
            f"eta_Y t {real(self.horizon)}",
            *([f"T-1 {real(self.seq_len)}"] if self.seq_len else []),
        ]
        return f"{self.name}: {', '.join(parts)}"

    def admits(self, instance: Instance) -> bool:
        """Whether the instance's correlation at z = 0 is that of the family."""
        return self.correlation == "any" or (instance.correlation < 1) == (self.correlation == "weak")

    def contains(self, instance: Any) -> bool:
        """Whether an instance, also a stored one, lies in the family: its counts, ranges, priors and correlation."""
        if not self.speaks_of(instance):
            return False
        members = np.count_nonzero(instance.P, axis=0)
        common = members > 1
        distinct = np.count_nonzero(instance.P[:, members == 1], axis=1)

        def inside(bounds: tuple[float, float], *values: float) -> bool:
            return all(bounds[0] * (1 - 1e-9) <= value <= bounds[1] * (1 + 1e-9) for value in values)

        return (
            inside(self.num_classes, instance.num_classes)
            and inside(self.num_common, int(np.count_nonzero(common)))
            and inside(self.num_distinct, *distinct)
            and inside(self.num_queries, np.unique(instance.query).size)
            and (not self.shared_by_all or bool((members[common] == instance.num_classes).all()))
            and inside(self.vocab_size, instance.vocab_size)
            and inside(self.eta_Y, instance.eta_Y)
            and inside(self.ratio, instance.ratio)
            and inside(self.horizon, instance.horizon)
            and (instance.uniform or not self.uniform)
            and (instance.own_next_tokens or self.shared_next_tokens)
            and (instance.seq_len is None if self.seq_len is None else inside(self.seq_len, instance.seq_len or 0))
            and instance.momentum == 0
            and (not self.equal_profiles or _equal_profiles(instance.P))
            and self.admits(instance)
        )

    def speaks_of(self, instance: Any) -> bool:
        """Whether `instance` is one of sequence classes."""
        return isinstance(instance, Instance)

    def coordinates(self, start: Instance) -> tuple[Floats, Floats, float]:
        """Logarithms (n,) of the numbers of `start`, their bounds (n, 2), and the spread of a first population."""
        entries, kind = _free_numbers(start)
        shares, weights = np.zeros(entries.max() + 1), np.zeros(0 if start.uniform else kind.max() + 1)
        shares[entries] = np.log(start.P[start.P > 0] / start.P.max())
        if not start.uniform:
            weights[kind] = np.log(start.weights / start.weights.max())
        ranges = np.log([self.vocab_size, self.eta_Y, self.ratio, self.horizon])
        x = np.concatenate([shares, weights, np.log([start.vocab_size, start.eta_Y, start.ratio, start.horizon])])
        smallest = np.repeat(np.log([SMALLEST_SHARE, SMALLEST_PRIOR]), [shares.size, weights.size])
        bounds = np.vstack([np.column_stack([smallest, np.zeros(smallest.size)]), ranges])
        return np.clip(x, *bounds.T), bounds, FIRST_STEP

    def moved(self, start: Instance, x: Floats) -> Instance | None:
        """Instance with the structure of `start` and the logarithms `x`, its ranges kept; None outside the family."""
        entries, kind = _free_numbers(start)
        P = np.zeros(start.P.shape)
        P[start.P > 0] = np.exp(x[entries])
        P /= P.sum(axis=1, keepdims=True)
        P[start.P > 0] = np.maximum(P[start.P > 0], SMALLEST_SHARE)
        ranges = (self.vocab_size, self.eta_Y, self.ratio, self.horizon)
        V, eta_Y, ratio, horizon = (
            math.exp(np.clip(value, *np.log(bounds))) for value, bounds in zip(x[-4:], ranges, strict=True)
        )
        weights = start.weights
        if not start.uniform:
            weights = np.exp(x[entries.max() + 1 : -4])[kind]
        outputs = len(start.P) if start.next_token is None else int(start.next_token.max()) + 1
        instance = self.fitted(
            replace(
                start,
                P=P,
                weights=weights,
                vocab_size=max(outputs, int(start.query.max()) + 1, 2, round(V)),
                eta_Y=eta_Y,
                eta_Z=ratio * eta_Y,
                t_end=horizon / eta_Y,
            )
        )
        return instance if self.admits(instance) else None

    def restructured(self, instance: Instance, rng: np.random.Generator) -> Instance | None:
        """Instance of the family with one random change of its structure; None where the change leaves the family."""
        changed = restructured(instance, rng)
        return changed if changed is not None and self.contains(changed) else None

    def fitted(self, instance: Instance) -> Instance:
        """Instance whose numbers were changed, with equal profiles again if the family has them."""
        if not self.equal_profiles:
            return instance
        P = instance.P.copy()
        P[P > 0] = np.tile(P[0][P[0] > 0], len(P))
        return replace(instance, P=P)

    def simpler(self, instance: Instance) -> Iterator[Instance]:
        """Instances that are strictly simpler, the coarsest simplification first."""
        return simpler_instances(instance)

    def described(self, instance: Instance) -> str:
        """Instance in a few words."""
        return (
            f"{instance.num_classes} classes, V = {instance.vocab_size:g}, eta_Y = {instance.eta_Y:.3g}, eta_Z/eta_Y = "
            f"{instance.ratio:.3g}, t = {instance.t_end:.3g}"
        )

    def draw(self, seed: int, number: int) -> Instance:
        """Instance `number` of the sequence of draws with root `seed`; a SeedSequence child per instance."""
        seed, number = whole("seed", seed, 0), whole("number", number, 0)
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number,)))
        make = self._corner if number >= FIRST_CORNER else self._draw
        for _ in range(100):
            instance = make(rng, seed, number)
            if instance is not None:
                return instance
        raise RuntimeError(f"expected family {self.name!r} to hold instances, received none in 100 draws; widen it")

    def corners(self, seed: int, most: int) -> Iterator[Instance]:
        """Draw `most` instances at extremes, crossed at random."""
        for i in range(most):
            yield self.draw(seed, FIRST_CORNER + i)

    def _corner(self, rng: np.random.Generator, seed: int, number: int) -> Instance | None:
        """Draw an instance at extreme values, with extreme P and p_n.

        These are the ends of the ranges, V = K or K + 1, 2 classes, eta_Y = 1, equal rates, or a duration of 1, 2 or
        1e6 t0. Each number is extreme in half of the corners, so that all faces of the domain are tried. The values
        stay inside the ranges, and the supports of the classes are kept.
        """

        def one_of(bounds: tuple[Any, Any], *others: Any) -> Any:
            inside = [value for value in others if bounds[0] <= value <= bounds[1]]
            return [*bounds, *inside][rng.integers(2 + len(inside))]

        ranges = {
            "num_classes": one_of(self.num_classes, 2),
            "num_queries": one_of(self.num_queries),
            "eta_Y": one_of(self.eta_Y, 1.0),
            "ratio": one_of(self.ratio, 1.0),
        }
        chosen: dict[str, Any] = {name: (value, value) for name, value in ranges.items() if rng.random() < 0.5}
        instance = replace(self, **chosen)._draw(rng, seed, number)
        if instance is None:
            return None
        K, P, weights = instance.num_classes, instance.P.copy(), instance.weights
        common = np.count_nonzero(P, axis=0) > 1
        share = rng.choice([*COMMON_SHARES, np.nan])
        if rng.random() < 0.25:  # almost one token per class
            P = np.where(P.max(axis=1, keepdims=True) == P, 1.0, np.where(P > 0, SMALLEST_SHARE, 0.0))
        elif share > 0:
            own, shared = (np.where(kind, P, 0.0).sum(axis=1, keepdims=True) for kind in (~common, common))
            both = (own > 0) & (shared > 0)
            P = np.where(
                both, P * np.where(common, share / np.where(both, shared, 1), (1 - share) / np.where(both, own, 1)), P
            )
        if not self.uniform:
            rare = np.where(np.arange(K) == rng.integers(K), rng.choice([SMALLEST_SHARE, SMALLEST_PRIOR]), 1.0)
            weights = [np.ones(K), rare, 1 / rare, weights][rng.integers(4)]
        outputs = K if instance.next_token is None else int(instance.next_token.max()) + 1
        V = one_of(self.vocab_size, outputs, outputs + 1) if rng.random() < 0.5 else instance.vocab_size
        V = max(V, outputs, int(instance.query.max()) + 1, 2)
        t0 = 2 * float(analytic.u_plus(max(V, 4))) * weights.sum() / rng.choice([weights.max(), weights.min()])
        extreme = one_of(self.horizon, *(t0 * factor for factor in TIMES))
        horizon = extreme if rng.random() < 0.5 else instance.horizon
        changes: dict[str, Any] = {"P": P, "weights": weights, "vocab_size": V, "t_end": horizon / instance.eta_Y}
        instance = self.fitted(replace(instance, **changes))
        return instance if self.admits(instance) else None

    def _draw(self, rng: np.random.Generator, seed: int, number: int) -> Instance | None:
        number_of_classes = K = _count(rng, self.num_classes)
        if K > UNLIKE_CLASSES or (K > 2 and rng.random() < 0.1):
            K = int(rng.integers(min(2, K), min(K, FEW + 1) + 1))  # kinds, of which the classes are copies
        common = self.num_common[0] if number_of_classes == 1 else _count(rng, self.num_common)
        distinct = [max(_count(rng, self.num_distinct), 1 - common) for _ in range(K)]
        Q = min(_between(rng, self.num_queries), K)
        concentration = math.exp(rng.uniform(math.log(0.3), math.log(5)))
        shared = rng.dirichlet(np.full(common, concentration), size=K) if common else np.zeros((K, 0))
        if self.equal_profiles:
            distinct, shared = [distinct[0]] * K, np.tile(shared[0], (K, 1))
        elif not self.shared_by_all and K > 1 and common:
            shared = _overlapping(rng, shared)
        shared *= np.exp(rng.uniform(math.log(0.02), math.log(5), size=(K, 1)))
        own = [rng.dirichlet(np.full(size, concentration)) if size else np.zeros(0) for size in distinct]
        weights = np.ones(K) if self.uniform else _priors(rng, K, concentration)
        query = rng.permutation(np.arange(K) % Q)
        kind = None
        if number_of_classes > K:
            K, kind = number_of_classes, np.sort(np.append(np.arange(K), rng.integers(K, size=number_of_classes - K)))
            shared, own, weights, query = shared[kind], [own[k] for k in kind], weights[kind], query[kind]
        P = token_table(shared, own)
        # A token whose share underflows would not occur.
        P = np.where(P > 0, np.maximum(P, SMALLEST_SHARE), 0.0)
        next_token = None
        if self.shared_next_tokens and rng.random() < 0.5:
            next_token = rng.integers(K, size=K) if kind is None else rng.integers(kind[-1] + 1, size=K)[kind]
        outputs = K if next_token is None else int(next_token.max()) + 1
        eta_Y = _log_between(rng, self.eta_Y)
        instance = Instance(
            P=P,
            query=query,
            weights=weights,
            vocab_size=max(outputs, Q, 2, round(_log_between(rng, self.vocab_size))),
            eta_Y=eta_Y,
            eta_Z=_log_between(rng, self.ratio) * eta_Y,
            t_end=_log_between(rng, self.horizon) / eta_Y,
            family=self.name,
            seed=seed,
            number=number,
            next_token=next_token,
            seq_len=round(_log_between(rng, self.seq_len)) if self.seq_len else None,
        )
        instance = self.fitted(instance)
        for _ in range(40):
            if self.admits(instance):
                return instance
            P = instance.P.copy()
            P[:, :common] *= 0.7 if self.correlation == "weak" else 1.4
            instance = replace(instance, P=P)
        return None


def _between(rng: np.random.Generator, bounds: tuple[int, int]) -> int:
    return int(rng.integers(bounds[0], bounds[1] + 1))


def _equal_profiles(P: Floats) -> bool:
    """Whether all rows have the same numbers up to rounding, and equally many: a token below rounding is one, too."""
    return not np.ptp(np.count_nonzero(P, axis=1)) and bool(np.ptp(np.sort(P, axis=1), axis=0).max() <= 1e-9)


def _free_numbers(instance: Instance) -> tuple[Ints, Ints]:
    """Places of the entries of P, and of the weights (S,), among the numbers that a directed search changes.

    Of more than `UNLIKE_CLASSES` classes, those that are equal up to the names of their distinct tokens stay equal.
    """
    P, S = instance.P, instance.num_classes
    kinds = kind = np.arange(S)
    if S > UNLIKE_CLASSES:
        common = np.count_nonzero(P, axis=0) > 1
        own = (row[(row > 0) & ~common] for row in P)
        facts = zip(P[:, common], own, instance.weights, instance.query, strict=True)
        known: dict[bytes, int] = {}
        first = [known.setdefault(np.hstack(each).tobytes(), n) for n, each in enumerate(facts)]
        kinds, kind = np.unique(first, return_inverse=True)
    counts = np.count_nonzero(P, axis=1)
    places = np.cumsum(counts[kinds]) - counts[kinds]
    return np.concatenate([places[k] + np.arange(counts[kinds[k]]) for k in kind]), kind


def _count(rng: np.random.Generator, bounds: tuple[int, int]) -> int:
    """Number of classes or tokens in a range, mostly near its smallest; see `FEW`."""
    low, high = bounds
    if high - low <= FEW or rng.random() < 0.75:
        return int(rng.integers(low, min(high, low + FEW) + 1))
    return low + round(_log_between(rng, (FEW, high - low)))


def _priors(rng: np.random.Generator, K: int, concentration: float) -> Floats:
    """Weights (K,) of a Dirichlet distribution, or uniform in the logarithm over all sizes."""
    if rng.random() < 0.25:
        return np.exp(rng.uniform(math.log(SMALLEST_PRIOR), 0.0, size=K))
    return rng.dirichlet(np.full(K, concentration)) + SMALLEST_SHARE


def _overlapping(rng: np.random.Generator, shared: Floats) -> Floats:
    """Shares (K, C) of common tokens in classes, in a random one of `OVERLAPS`; 0 where a token does not occur."""
    K, C = shared.shape
    overlaps = str(rng.choice(OVERLAPS))
    token, n = np.arange(C), np.arange(K)[:, None]
    if overlaps == "chain":
        occurs = (n == token % K) | (n == (token + 1) % K)
    elif overlaps == "star":
        occurs = (n == 0) | (n == 1 + token % (K - 1))
    elif overlaps == "pairs":
        occurs = n // 2 == token % (K // 2)
    elif overlaps == "subsets":
        occurs = rng.permuted(np.tile(n, (1, C)), axis=0) < rng.integers(2, K + 1, size=C)
    else:
        occurs = np.ones((K, C), dtype=bool)
    if overlaps == "near duplicates":
        size = math.exp(rng.uniform(math.log(SMALLEST_SHARE), math.log(0.1)))
        shared = shared[0] * np.exp(size * rng.standard_normal((K, C)))
    shared = np.where(occurs, shared, 0.0)
    for alone in np.flatnonzero(shared.sum(axis=1) == 0):  # every class overlaps another
        shared[alone, rng.integers(C)] = 1.0
    return shared


def _log_between(rng: np.random.Generator, bounds: tuple[float, float]) -> float:
    return bounds[0] if bounds[0] == bounds[1] else float(np.exp(rng.uniform(*np.log(bounds))))
