"""Helpers of the chapter: overlaps of an instance, wide batches of attention vectors, proofs for K = 2 and 3."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import sympy as sp

from snapdyn.dynamics import SequenceClasses, log_times, random_classes
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.assumptions import assumption_2
from snapdyn.validation.dense_algebra import EPS, LINEAR_ALGEBRA, dense_attention, overlap, spectral_norm
from snapdyn.validation.properties import Requirement
from snapdyn.validation.rungs.run import EXACT, MEAN_FIELD, run_on_rung
from snapdyn.validation.sample_classes import random_attention
from snapdyn.validation.search import Family, Instance

# Units of rounding that dense factorisations of Gram matrices may need.
UNITS = 16.0
# Attention vectors c~_n = P(.|n) exp(z) are those of an instance with z = 0 and P proportional to c~_n, so that a
# search over P at z = 0 covers every attention.
ANY_OVERLAP = Family(
    "any overlap, at any attention",
    "any",
    uniform=False,
    num_classes=(1, 8),
    num_common=(0, 5),
    num_distinct=(0, 4),
    num_queries=(1, 4),
    vocab_size=(2, 10**12),
    ratio=(1e-6, 1e6),
    horizon=(1e-2, 1e12),
    eta_Y=(1e-6, 1e6),
    shared_next_tokens=True,
)
OVERLAPPING_CLASSES = replace(
    ANY_OVERLAP, name="classes that overlap, at any attention", num_classes=(2, 8), num_common=(1, 5)
)
# Distance of |lambda_1| from 1 below which float64 cannot tell 1/(1-|lambda_1|).
NEAR_ONE = 1e-6


def largest_eigenvalue(E: Floats) -> float:
    """|lambda_1(E)| of one matrix."""
    return float(spectral_norm(E))


FINITE_BOUND = Requirement(
    "|lambda_1| below 1",
    f"|lambda_1(E)| <= 1 - {NEAR_ONE:g}",
    lambda instance: largest_eigenvalue(overlaps(instance)),
    at_most=1 - NEAR_ONE,
    defining=True,
)


def attention(instance: Instance) -> Floats:
    """Attention vectors f_n of an instance at its start, (K, M)."""
    weights = instance.P
    if instance.start is not None:
        weights = weights * np.exp(instance.start[instance.classes.query_index])
    return np.asarray(weights / np.linalg.norm(weights, axis=1, keepdims=True))


def overlaps(instance: Instance) -> Floats:
    """E of an instance at its start, (K, K), diagonal exactly 0."""
    return np.asarray(instance.gram - np.eye(instance.num_classes))


def inverse_rounding(E: Floats) -> Floats:
    """Rounding of the entries of a dense inverse of G = I+E, K eps |G| |G^{-1}|^2, (...)."""
    values = np.linalg.eigvalsh(E)
    return np.asarray(E.shape[-1] * EPS * (1 + values[..., -1]) / (1 + values[..., 0]) ** 2)


def ensembles(full: bool, seed: int, ceiling: float | None = None) -> list[tuple[str, Floats]]:
    """(rung, attention vectors): random ones for K = 2..50, and those along runs of both systems.

    |lambda_1| runs log-uniformly from 1e-3 to `ceiling` (None: K - 1, the largest there is).
    """
    rng = np.random.default_rng(seed)
    count = 2000 if full else 40
    found = []
    for K in (2, 3, 4, 5, 8, 15, 30, 50):
        for num_common in (1, 2, 6):
            top = (K - 1.0) if ceiling is None else ceiling
            largest = 10 ** rng.uniform(-3, np.log10(top), count if K < 20 else count // 4)
            found.append((LINEAR_ALGEBRA, random_attention(rng, K, num_common, min(K, 3), largest)))
    times = log_times(1e-1, 1e5, 12)
    for correlation in ("weak", "strong"):
        classes = random_classes(5, 3, 3, 2, 100, correlation, seed=seed)
        for rung, run in (
            ("modified decoder", run_on_rung(EXACT, classes, 1.0, 1.0, times)),
            ("mean field", run_on_rung(MEAN_FIELD, classes, 1.0, 1.0, times)),
        ):
            f = np.array([dense_attention(classes, z)[1] for z in run.z])
            found.append((rung, f if ceiling is None else f[spectral_norm(overlap(f)) < ceiling]))
    return [(rung, f) for rung, f in found if f.size]


def largest_by_rung(measure: Callable[[Floats], Floats], batches: list[tuple[str, Floats]]) -> dict[str, float]:
    """Largest `measure` ((B, K, M) -> (B,)) by rung."""
    worst: dict[str, float] = {}
    for rung, f in batches:
        worst[rung] = max(worst.get(rung, -np.inf), float(measure(f).max()))
    return worst


def number_of(batches: list[tuple[str, Floats]]) -> int:
    """Number of instances in `ensembles`."""
    return sum(len(f) for _, f in batches)


a, b, c, x = sp.symbols("a b c x", real=True)


def symbolic_overlap(K: int) -> sp.Matrix:
    """E of two or three classes in symbols a, b, c."""
    return sp.Matrix([[0, a], [a, 0]]) if K == 2 else sp.Matrix([[0, a, b], [a, 0, c], [b, c, 0]])


def left_over(expressions: Sequence[sp.Expr]) -> int:
    """Number of rational expressions that sympy does not bring to zero."""
    return sum(sp.cancel(sp.together(expression)) != 0 for expression in expressions)


def smallest_vocabulary(pattern: Callable[[float, int], SequenceClasses], num_classes: int, condition: float) -> int:
    """Smallest V at which `pattern(rho, V)` satisfies Assumption 2 for some rho, by bisection over whole V.

    The conditions are those of `SequenceClasses.assumptions`; |lambda_1| and min|lambda| are rho times the same
    numbers for every rho (their quotient is `condition`), so the middle of the interval for |lambda_1| decides.
    """
    unit = float(abs(pattern(0.01, 10).eigenvalues()[0])) / 0.01

    def satisfied(V: int) -> bool:
        middle = np.sqrt(6 * condition / np.sqrt(V) / num_classes)
        return all(c.satisfied for c in assumption_2(pattern(float(middle) / unit, V))[1:])

    low, high = num_classes, 10**12
    while high - low > 1:
        V = (low + high) // 2
        low, high = (low, V) if satisfied(V) else (V, high)
    return high


def pairs_overlap(num_classes: int, vocab_size: int, rho: float) -> SequenceClasses:
    """Classes of which 2i and 2i+1 overlap by rho and no others do, K even, one query."""
    K = num_classes
    P = np.zeros((K, K // 2 + K))
    P[np.arange(K), np.arange(K) // 2] = np.sqrt(rho)
    P[np.arange(K), K // 2 + np.arange(K)] = np.sqrt(1 - rho)
    return SequenceClasses(P / P.sum(axis=1, keepdims=True), np.zeros(K, dtype=int), vocab_size=max(vocab_size, K))
