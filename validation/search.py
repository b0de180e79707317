"""Search for counterexamples to statements about all instances: draw, push, shrink, store."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from snapdyn.dynamics import MeanField, ModifiedDecoder, SequenceClasses, Trajectory, log_times, whole_run
from snapdyn.dynamics.classes import Floats
from snapdyn.dynamics.storage import replacing
from snapdyn.dynamics.synthetic import token_table

Ints = NDArray[np.int64]
# Size of the first simplex of the directed search: a factor exp(0.5) in every number of the instance.
FIRST_STEP = 0.5
# Smallest share a token keeps in the directed search; below it the token is as good as dropped.
SMALLEST_SHARE = 1e-4


@dataclass(frozen=True, eq=False)
class Instance:
    """One case on which a statement can fail: classes, rates, and how long it runs.

    Attributes
    ----------
    P : (S, M) array
        Rows proportional to P(.|n), so that round numbers stay round; every class has its own next token 0..S-1.
    query : (S,) ints
    weights : (S,) array
        Proportional to the prior p_n.
    vocab_size : int
        V, at least S.
    eta_Y, eta_Z, t_end : float
        Learning rates per batch-size-1 step; last time in such steps.
    family, seed, number : str, int, int
        Where it was drawn: family, root seed, number of the draw.
    """

    P: Floats
    query: Ints
    weights: Floats
    vocab_size: int
    eta_Y: float
    eta_Z: float
    t_end: float
    family: str = ""
    seed: int = 0
    number: int = 0

    @cached_property
    def classes(self) -> SequenceClasses:
        """The sequence classes of the instance."""
        P = self.P / self.P.sum(axis=1, keepdims=True)
        return SequenceClasses(P, self.query, weights=self.weights, vocab_size=self.vocab_size)

    @cached_property
    def gram(self) -> Floats:
        """Gram matrix of f_n at z = 0, (S, S), by plain linear algebra, diagonal exactly 1."""
        f = self.P / np.linalg.norm(self.P, axis=1, keepdims=True)
        G = f @ f.T
        np.fill_diagonal(G, 1.0)
        return G

    @property
    def ratio(self) -> float:
        """eta_Z/eta_Y."""
        return self.eta_Z / self.eta_Y

    @property
    def correlation(self) -> float:
        """|lambda_1(E)| K at z = 0; weak correlation is below 1."""
        S = self.gram.shape[0]
        return float(np.abs(np.linalg.eigvalsh(self.gram - np.eye(S))).max() * S)

    @property
    def uniform(self) -> bool:
        """Whether all classes have one weight."""
        return bool(np.ptp(self.weights) == 0)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form; floats keep every bit."""
        entries = asdict(self)
        return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in entries.items()}

    @staticmethod
    def from_dict(entries: dict[str, Any]) -> Instance:
        """Instance from `to_dict`."""
        arrays = {
            "P": np.array(entries["P"], dtype=float),
            "query": np.array(entries["query"], dtype=np.int64),
            "weights": np.array(entries["weights"], dtype=float),
        }
        return Instance(**(entries | arrays))


@dataclass(frozen=True)
class Family:
    """Where instances are drawn: pairs are smallest and largest, the rates, V and t_end uniform in the logarithm.

    Every class has distinct tokens of its own and overlaps another one; each common token belongs to all classes
    (`shared_by_all`) or to a random set of at least two. Profiles are Dirichlet with a random concentration.
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
        """Whether the correlation at z = 0 is the family's."""
        return self.correlation == "any" or (instance.correlation < 1) == (self.correlation == "weak")

    def draw(self, seed: int, number: int) -> Instance:
        """Instance `number` of the sequence that starts from `seed`; each has its own SeedSequence child."""
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
            for lonely in np.flatnonzero(shared.sum(axis=1) == 0):  # a class that overlaps no other has xi_n = 0
                shared[lonely, rng.integers(common)] = 1.0
        shared *= np.exp(rng.uniform(math.log(0.02), math.log(5), size=(K, 1)))
        P = token_table(shared, [rng.dirichlet(np.full(size, concentration)) for size in distinct])
        # A share that underflows would be a token that does not occur.
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


Violation = Callable[[Instance], float]
OUTSIDE = -math.inf


@dataclass(frozen=True, eq=False)
class SearchResult:
    """What a search found: the worst instance and how many were tried.

    `tried` counts the instances that met the statement's conditions, drawn and directed; `worst` is the largest
    violation, positive when the statement failed on `instance`.
    """

    tried: int
    worst: float
    instance: Instance
    seed: int

    @property
    def failed(self) -> bool:
        """Whether a counterexample was found."""
        return self.worst > 0


def search(
    violation: Violation,
    family: Family,
    draws: int,
    starts: int = 2,
    steps: int = 100,
    seed: int = 0,
    until_found: bool = False,
) -> SearchResult:
    """Look for an instance of `family` with a positive violation.

    First `draws` random instances; then Nelder-Mead on the logarithms of every number of the `starts` worst of them
    (shares, priors, V, eta_Z/eta_Y, t_end, held inside the family), at most `steps` evaluations each, pushes the
    violation up.

    Parameters
    ----------
    violation : callable (Instance) -> float
        Positive where the statement fails; smooth below 0, so that it can be followed; OUTSIDE (minus infinity) where
        the statement's conditions are not met: such an instance is not counted.
    family : Family
    draws, starts, steps : int
        The budget; it is counted in evaluations, so that the same seed gives the same result anywhere.
    seed : int
        Root of the SeedSequence whose child i draws instance i.
    until_found : bool
        Stop at the first positive violation.

    Returns
    -------
    SearchResult
    """
    tried, best = 0, [(OUTSIDE, 0, family.draw(seed, 0))]

    def evaluate(instance: Instance) -> float:
        nonlocal tried
        value = violation(instance)
        if math.isnan(value):
            raise RuntimeError(f"expected a number as violation, received NaN on {instance.to_dict()}")
        tried += value > OUTSIDE
        return value

    for number in range(draws):
        instance = family.draw(seed, number)
        best.append((evaluate(instance), -number, instance))
        best = sorted(best, key=lambda entry: entry[:2], reverse=True)[: max(starts, 1)]
        if until_found and best[0][0] > 0:
            break
    worst, _, found = best[0]
    for value, _, start in best[:starts]:
        if value == OUTSIDE or (until_found and worst > 0):
            continue
        pushed, instance = _push(evaluate, family, start, steps, until_found)
        if pushed > worst:
            worst, found = pushed, instance
    return SearchResult(tried, worst, found, seed)


class _FoundError(Exception):
    """Ends the optimiser at the first counterexample."""


def _push(
    evaluate: Violation, family: Family, start: Instance, steps: int, until_found: bool
) -> tuple[float, Instance]:
    """Nelder-Mead from `start` on the logarithms of its numbers, inside the family."""
    from scipy.optimize import minimize

    worst, found = OUTSIDE, start

    def objective(logarithms: Floats) -> float:
        nonlocal worst, found
        instance = _with_logarithms(start, logarithms, family)
        value = evaluate(instance) if family.admits(instance) else OUTSIDE
        if value > worst:
            worst, found = value, instance
        if until_found and worst > 0:
            raise _FoundError
        return -value

    x = _logarithms(start)
    rng = np.random.default_rng(np.random.SeedSequence(start.seed, spawn_key=(start.number, 0)))
    signs = rng.choice([-1.0, 1.0], size=x.size)
    simplex = np.vstack([x, x + FIRST_STEP * np.diag(signs)])
    options = {"initial_simplex": simplex, "maxfev": steps, "adaptive": True, "xatol": 1e-3, "fatol": 0.0}
    try:
        # The simplex may have corners outside the conditions, at infinity.
        with np.errstate(invalid="ignore"):
            minimize(objective, x, method="Nelder-Mead", options=options)
    except _FoundError:
        pass
    return worst, found


def _logarithms(instance: Instance) -> Floats:
    """Every number of an instance that the directed search may change."""
    return np.concatenate(
        [
            np.log(instance.P[instance.P > 0]),
            [] if instance.uniform else np.log(instance.weights),
            np.log([instance.vocab_size, instance.ratio, instance.t_end]),
        ]
    )


def _with_logarithms(instance: Instance, logarithms: Floats, family: Family) -> Instance:
    """Instance with the structure of `instance` and new numbers, V, ratio and time held inside the family."""
    K, entries = instance.P.shape[0], instance.P > 0
    P = np.zeros(instance.P.shape)
    P[entries] = np.exp(logarithms[: entries.sum()])
    P /= P.sum(axis=1, keepdims=True)
    P[entries] = np.maximum(P[entries], SMALLEST_SHARE)
    V, ratio, t_end = (
        math.exp(np.clip(value, *np.log(bounds)))
        for value, bounds in zip(logarithms[-3:], (family.vocab_size, family.ratio, family.t_end), strict=True)
    )
    weights = instance.weights
    if not instance.uniform:
        weights = np.exp(logarithms[entries.sum() : -3])
        weights = np.maximum(weights / weights.sum(), SMALLEST_SHARE)
    return replace(
        instance, P=P, weights=weights, vocab_size=max(K, round(V)), eta_Z=ratio * instance.eta_Y, t_end=t_end
    )


def shrink(instance: Instance, violates: Callable[[Instance], bool]) -> Instance:
    """Smallest instance near a counterexample: fewer classes and tokens, rounder numbers, smaller V, simpler rates.

    Simplifications are tried one by one, the coarsest first, and kept where `violates` still says yes, until none is.

    Raises
    ------
    ValueError
        When `instance` is no counterexample to begin with.
    """
    if not violates(instance):
        raise ValueError("expected a counterexample to shrink, received an instance on which the statement holds")
    while True:
        for simpler in _simpler(instance):
            if violates(simpler):
                instance = simpler
                break
        else:
            return instance


def _simpler(instance: Instance) -> Iterator[Instance]:
    """Instances that are strictly simpler, the coarsest simplification first."""
    K, M = instance.P.shape
    if instance.eta_Y != 1.0:  # the flows depend on eta_Y t and the ratio only
        yield replace(instance, eta_Y=1.0, eta_Z=instance.ratio, t_end=instance.t_end * instance.eta_Y)
    if K > 2:
        for n in range(K):
            kept = np.delete(np.arange(K), n)
            yield _of_classes(instance, kept)
    for token in range(M):
        P = np.delete(instance.P, token, axis=1)
        if (P.sum(axis=1) > 0).all():
            yield replace(instance, P=P)
    if np.ptp(instance.query) > 0:
        yield replace(instance, query=np.zeros(K, dtype=np.int64))
    if not instance.uniform:
        yield replace(instance, weights=np.ones(K))
    for V in (K, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000):
        if K <= V < instance.vocab_size:
            yield replace(instance, vocab_size=V)
    for name in ("eta_Z", "t_end"):
        value = getattr(instance, name)
        for digits in (0, 1, 2):
            rounder = _rounded(value, digits)
            if rounder == value:
                break
            changed: dict[str, Any] = {name: rounder}
            yield replace(instance, **changed)
    for name in ("P", "weights"):
        for table in _rounder_tables(getattr(instance, name)):
            changed = {name: table}
            yield replace(instance, **changed)


def _rounder_tables(table: Floats) -> Iterator[Floats]:
    """Tables whose rows have 1 as largest entry and fewer decimals: all rows at once, then row by row."""
    scaled = table / table.max(axis=-1, keepdims=True)

    def rounded(rows: Floats, decimals: int) -> Floats:
        # What occurs does not vanish.
        return np.where(rows > 0, np.maximum(rows.round(decimals), 10.0**-decimals), 0.0)

    for decimals in range(4):
        if np.array_equal(rounded(scaled, decimals), table):
            break
        yield rounded(scaled, decimals)
    for n in range(len(table) if table.ndim == 2 else 0):
        for decimals in range(3):
            row = rounded(scaled[n], decimals)
            if np.array_equal(row, table[n]):
                break
            rounder = table.copy()
            rounder[n] = row
            yield rounder


def _of_classes(instance: Instance, kept: Ints) -> Instance:
    """Instance of the classes `kept` and the tokens that occur in them."""
    P = instance.P[kept]
    _, query = np.unique(instance.query[kept], return_inverse=True)
    return replace(instance, P=P[:, P.sum(axis=0) > 0], query=query.astype(np.int64), weights=instance.weights[kept])


def _rounded(value: float, digits: int) -> float:
    """Nearest power of ten (digits 0), or the value to that many significant digits."""
    if digits == 0:
        return float(10.0 ** round(math.log10(value)))
    return float(f"{value:.{digits - 1}e}")


def flow(
    instance: Instance, kind: type[MeanField] | type[ModifiedDecoder], saves: int = 60, **options: Any
) -> Trajectory | None:
    """Run an instance to t_end, saved evenly in ln t; None where the solver cannot (such an instance is not counted).

    `options` go to the integration.
    """
    times = log_times(1e-3 * min(100.0, instance.t_end), instance.t_end, saves)
    # A dense Jacobian pays from about ratio 1, unless the decoder is slaved. Logits may be as small as eta_Z times
    # overlap over V: an absolute tolerance far below that leaves them a relative one.
    stiff = kind is MeanField and instance.ratio > 1
    chosen = {"method": "BDF", "atol": 1e-13} if stiff else {"method": "LSODA", "atol": 1e-20}
    system = kind(instance.classes, instance.eta_Y, instance.eta_Z)
    try:
        return whole_run(system, times, **({"rtol": 1e-8} | chosen | options))
    except RuntimeError:
        return None


def turned_back(paths: Floats, scale: float) -> float:
    """How far paths (N, L) that should rise from 0 fall: a violation, over `scale`.

    Positive: the largest drop below a running maximum. Otherwise minus the smallest gain after a path's steepest
    stretch, over the path's largest value, so that a search sees how close it came.
    """
    with_start = np.vstack([np.zeros(paths.shape[1]), paths])
    drop = float((np.maximum.accumulate(with_start, axis=0) - with_start).max())
    if drop > 0:
        return drop / scale
    gains = np.diff(with_start, axis=0)
    late = np.arange(gains.shape[0])[:, None] >= gains.argmax(axis=0)
    return -float((np.where(late, gains, np.inf).min(axis=0) / paths.max(axis=0)).min())


@dataclass(frozen=True, eq=False)
class Counterexample:
    """A stored counterexample: which statement fails on which rung, by how much, and what the search took.

    `violation` is what was measured when it was stored; the claim that names it measures it again.
    """

    name: str
    statement: str
    rung: str
    violation: float
    tried: int
    instance: Instance


def store(counterexample: Counterexample, folder: str | Path) -> Path:
    """Write `folder`/NAME.json; floats keep every bit."""
    path = Path(folder) / f"{counterexample.name}.json"
    entries = {field: getattr(counterexample, field) for field in ("name", "statement", "rung", "violation", "tried")}
    text = json.dumps(entries | {"instance": counterexample.instance.to_dict()}, indent=1)
    with replacing(path) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")
    return path


def load(name: str, folder: str | Path | None = None) -> Counterexample:
    """Counterexample NAME of `folder`, default the package's own."""
    place = resources.files("snapdyn.validation") / "counterexamples" if folder is None else Path(folder)
    entries = json.loads((place / f"{name}.json").read_text(encoding="utf-8"))
    return Counterexample(**(entries | {"instance": Instance.from_dict(entries["instance"])}))
