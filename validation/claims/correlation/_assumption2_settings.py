"""Assumption 2 on random classes: batches up to K = 20, and how many miss it."""

from __future__ import annotations

import numpy as np

from snapdyn.validation.dense_algebra import DENSE_ALGEBRA_ERROR, LINEAR_ALGEBRA, overlap, smallest_growth
from snapdyn.validation.evidence import Evidence
from snapdyn.validation.pictures import Map, Picture
from snapdyn.validation.sample_classes import random_attention


def on_random_classes(evidence: Evidence) -> dict[int, float]:
    """Batches up to K = 20: |lambda_1|/min|lambda|, xi_n without the lower bound, and the map; median V by K."""
    rng = np.random.default_rng(2)
    count = 20_000 if evidence.full else 300
    sizes = (2, 3, 4, 6, 10, 20)
    grid = np.geomspace(1e2, 1e10, 33)
    share = np.full((len(sizes), grid.size), np.nan)
    least = growth = np.inf
    half: dict[int, float] = {}
    for row, K in enumerate(sizes):
        for c in (1, 2, 4):
            if c >= K:
                continue
            E = overlap(random_attention(rng, K, c, 1, rng.uniform(0.1, 1, count) / K))
            E = E[np.all(np.any(E, axis=2), axis=1)]
            size = np.abs(np.linalg.eigvalsh(E))
            condition = size.max(axis=1) / np.maximum(size.min(axis=1), 1e-300)
            least = min(least, float((condition / max(1.0, (K - c) / c)).min()))
            if c == 1:
                V_needed = np.where(size.max(axis=1) < 1 / K, 36 / np.maximum(size.min(axis=1), 1e-300) ** 2, np.inf)
                half[K] = float(np.median(V_needed))
                share[row] = [(V_needed > V).mean() for V in grid]
            # xi_n of classes that miss the lower bound, V = 36/min|lambda|^2 / 100.
            V = np.maximum(K, 0.36 / np.maximum(size.min(axis=1), 1e-6) ** 2)
            growth = min(growth, smallest_growth(E, V))
    evidence.corrected(
        "K = 2..20: smallest |lambda_1|/min|lambda| over max(1, (K-c)/c)", LINEAR_ALGEBRA, least,
        at_least=1 - DENSE_ALGEBRA_ERROR,
    )  # fmt: skip
    evidence.corrected(
        "the lower bound is not needed: smallest xi_n/gamma over -q1 E'_nn where it is missed by a factor 10",
        LINEAR_ALGEBRA, growth, at_least=1.0 - 1e-3,
    )  # fmt: skip
    K_axis = np.array(sizes, dtype=float)
    evidence.maps = [
        Map(
            title="Random classes with one common token that miss Assumption 2",
            xlabel="V", ylabel="K", quantity="share that misses it",
            x=grid, y=K_axis, violation=share, threshold=0.5,
            boundaries=(
                Picture.line("V = 10 K^2", 10 * K_axis**2, K_axis, "printed"),
                Picture.line("V = 36 K^2 (K-1)^2", 36 * K_axis**2 * (K_axis - 1) ** 2, K_axis),
            ),
            scale="linear",
        )
    ]  # fmt: skip
    return half
