"""Assumption 2: how large a vocabulary weak correlation needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from snapdyn.dynamics import SequenceClasses, single_common_token, syn_medium, syn_small
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.assumptions import MUCH_LARGER, assumption_2
from snapdyn.validation.checks import Check
from snapdyn.validation.dense_algebra import DENSE_ALGEBRA_ERROR, LINEAR_ALGEBRA, overlap, smallest_growth
from snapdyn.validation.instances import equal_overlap, random_attention
from snapdyn.validation.pictures import Map, Picture
from snapdyn.validation.register import Evidence, claim


def best_slack(eigenvalues: Floats, num_classes: int, vocab_size: float) -> float:
    """Largest factor by which some multiple of E can satisfy both bounds on |lambda| in Assumption 2; below 1: none.

    |lambda_1| < 1/K and min|lambda| >= 6/sqrt(V) are met by the factors s and sqrt(V) min|lambda|/6; scaling E trades
    one for the other, so the best is their geometric mean.
    """
    size = np.abs(eigenvalues)
    return float(np.sqrt(np.sqrt(vocab_size) * size.min() / (6 * num_classes * size.max())))


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


@claim(
    "assumption2",
    source="Assumption 2, Eq. (93)",
    title="Weak correlation can be met only by a very large vocabulary",
    statement="V >> K^2 (taken as V = 10 K^2), |lambda_1(E)| < 1/K and |lambda_i(E)| >= 6/sqrt(V) can hold together. "
    "Corrected: they need V > 36 K^2 (|lambda_1|/min|lambda|)^2, which is at least 36 K^2 for any classes, "
    "36 K^2 ((K-c)/c)^2 with c < K/2 common tokens, and 36 K^2 (K-1)^2 for equal overlaps or a single common token. "
    "The lower bound is not needed for Theorem 1(a). (Its purpose, the last step of (93), needs sqrt(6/V) only; then "
    "36 becomes 6.)",
    latex=r"V\gg K^2\ \to\ V>36K^2\left(\frac{|\lambda_1|}{\min_i|\lambda_i|}\right)^2"
    r"\ge 36K^2\left(\frac{K-c}{c}\right)^2",
    expected="corrected",
    findings=("F6",),
)
def assumption2(level: str) -> Evidence:
    sizes = (2, 3, 5, 10, 20, 50)
    at_printed = {K: best_slack(equal_overlap(K, K, 0.3).eigenvalues(), K, MUCH_LARGER * K**2) for K in sizes}
    needed = {K: 36 * K**2 * (K - 1) ** 2 for K in sizes}
    found = {
        K: smallest_vocabulary(lambda rho, V, K=K: equal_overlap(K, max(V, K), rho), K, K - 1.0)  # type: ignore[misc]
        for K in sizes
    }
    found_pairs = {
        K: smallest_vocabulary(lambda rho, V, K=K: pairs_overlap(K, V, rho), K, 1.0)  # type: ignore[misc]
        for K in (2, 4, 10)
    }
    rng = np.random.default_rng(2)
    count = 300 if level == "quick" else 20_000
    least, half, grid, tried = np.inf, {}, np.geomspace(1e2, 1e10, 33), 0
    share = np.full((6, grid.size), np.nan)
    growth = np.inf
    for row, K in enumerate((2, 3, 4, 6, 10, 20)):
        for c in (1, 2, 4):
            if c >= K:
                continue
            E = overlap(random_attention(rng, K, c, 1, rng.uniform(0.1, 1, count) / K))
            E = E[np.all(np.any(E, axis=2), axis=1)]
            size = np.abs(np.linalg.eigvalsh(E))
            condition = size.max(axis=1) / np.maximum(size.min(axis=1), 1e-300)
            tried += condition.size
            least = min(least, float((condition / max(1.0, (K - c) / c)).min()))
            if c == 1:
                V_needed = np.where(size.max(axis=1) < 1 / K, 36 / np.maximum(size.min(axis=1), 1e-300) ** 2, np.inf)
                half[K] = float(np.median(V_needed))
                share[row] = [(V_needed > V).mean() for V in grid]
            # xi_n of classes that miss the lower bound, V = 36/min|lambda|^2 / 100.
            V = np.maximum(K, 0.36 / np.maximum(size.min(axis=1), 1e-6) ** 2)
            growth = min(growth, smallest_growth(E, V))
    data = {
        "syn_small()": syn_small(),
        "syn_medium(1)": syn_medium(1),
        "syn_medium(10)": syn_medium(10),
        "single_common_token(10, 5, 0.04, 1000)": single_common_token(10, 5, 0.04, 1000),
    }
    conditions = [
        replace(condition, name=f"{name}: {condition.name}")
        for name, classes in data.items()
        for condition in assumption_2(classes)
    ]
    met = [all(c.satisfied for c in assumption_2(classes)) for classes in data.values()]
    K_axis = np.array(sizes, dtype=float)
    return Evidence(
        checks=[
            Check(
                "equal overlaps at V = 10 K^2: smallest over K = 2..50 of the best slack over rho (1: satisfiable)",
                LINEAR_ALGEBRA, min(at_printed.values()), 1.0, ">=",
            ),
            Check(
                "equal overlaps: smallest whole V that satisfies it, by bisection, against 36 K^2 (K-1)^2 + 1",
                LINEAR_ALGEBRA, max(abs(found[K] - needed[K] - 1) for K in sizes), 0, role="corrected",
            ),
            Check(
                "classes that overlap in pairs: the same against 36 K^2 + 1, the least of all classes",
                LINEAR_ALGEBRA, max(abs(found_pairs[K] - 36 * K**2 - 1) for K in found_pairs), 0, role="corrected",
            ),
            Check(
                "random classes with c common tokens: smallest |lambda_1|/min|lambda| over max(1, (K-c)/c)",
                LINEAR_ALGEBRA, least, 1 - DENSE_ALGEBRA_ERROR, ">=", role="corrected",
            ),
            Check(
                "the lower bound is not needed: smallest xi_n/gamma over -q1 E'_nn where it is missed by a factor 10",
                LINEAR_ALGEBRA, growth, 1.0 - 1e-3, ">=", role="corrected",
            ),
            Check(
                "wrong theory: V > 6 K^2 (K-1)^2, from sqrt(6/V), suffices for 6/sqrt(V), best slack at K = 10",
                LINEAR_ALGEBRA,
                best_slack(equal_overlap(10, 10, 0.3).eigenvalues(), 10, 6.0 * 100 * 81), 1.0, ">=", role="control",
            ),
            Check(
                "wrong theory: V > K^2 (K-1)^2, without the constant, the same",
                LINEAR_ALGEBRA,
                best_slack(equal_overlap(10, 10, 0.3).eigenvalues(), 10, 1.0 * 100 * 81), 1.0, ">=", role="control",
            ),
            Check(
                "wrong theory: the default data sets satisfy it, number that do",
                "data sets", sum(met), len(met), ">=", role="control",
            ),
        ],
        conclusion="With equal overlaps no V below 36 K^2 (K-1)^2 will do: "
        + ", ".join(f"{needed[K]:,} at K = {K}" for K in (2, 3, 10))
        + f" (with sqrt(6/V): {6 * 100 * 81:,} at K = 10); V = 10 K^2 misses it by a factor "
        f"{3.6 * 81:.0f} at K = 10, and by 3.6 for any classes at all. Random classes with one common token: half "
        "satisfy it at V = " + ", ".join(f"{V:.1e} (K = {K})" for K, V in half.items())
        + f". {sum(met)} of {len(met)} default data sets do.",
        picture=Picture(
            "K", "smallest V",
            (
                Picture.line("equal overlaps, by bisection", K_axis, [found[K] for K in sizes], "simulation"),
                Picture.line("36 K^2 (K-1)^2", K_axis, 36 * K_axis**2 * (K_axis - 1) ** 2),
                Picture.line("36 K^2, any classes", K_axis, 36 * K_axis**2, "bound"),
                Picture.line("V >> K^2 as V = 10 K^2", K_axis, 10 * K_axis**2, "printed"),
            ),
            yscale="log",
        ),
        conditions=conditions,
        maps=(
            Map(
                title="Random classes with one common token that miss Assumption 2",
                xlabel="V", ylabel="K", quantity="share that misses it",
                x=grid, y=np.array([2.0, 3, 4, 6, 10, 20]), violation=share, threshold=0.5,
                boundaries=(
                    Picture.line("V = 10 K^2", 10 * np.array([2.0, 3, 4, 6, 10, 20]) ** 2, [2, 3, 4, 6, 10, 20],
                                 "printed"),
                    Picture.line("V = 36 K^2 (K-1)^2", [36 * K**2 * (K - 1) ** 2 for K in (2, 3, 4, 6, 10, 20)],
                                 [2, 3, 4, 6, 10, 20]),
                ),
                scale="linear",
            ),
        ),
        seeds=(2,),
        tried=tried,
    )  # fmt: skip
