"""F4: ratio of the common token's logit under the modified decoder to that in the mean field, and its maps."""

from __future__ import annotations

import numpy as np

from snapdyn.dynamics import SequenceClasses, single_common_token
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.design import over_grid
from snapdyn.validation.maps.rates_and_correlation import boundary
from snapdyn.validation.pictures import Line, Map
from snapdyn.validation.rungs.run import EXACT, MEAN_FIELD, run_on_rung

SHARE = 0.05  # distance of the ratio from 1 above which the modified decoder is no good approximation


def classes_of_overlap(rho: float, num_classes: int, vocab_size: int) -> SequenceClasses:
    """`single_common_token` classes with five distinct tokens each and overlaps f_n.f_k = rho of attention vectors."""
    weights = np.linspace(0.1, 1.0, 5)
    # rho = s^2/(s^2 + (1-s)^2 |w|^2) for the share s of the common token and normalised weights w.
    odds = np.sqrt(rho / (1 - rho)) * np.linalg.norm(weights / weights.sum())
    return single_common_token(num_classes, 5, float(odds / (1 + odds)), vocab_size)


def common_logit_ratio(classes: SequenceClasses, t: float, eta_Z: float = 1e-4) -> float:
    """F4: ratio of the common logit under (10) to that in the mean field at t, eta_Y = 1."""
    modified, mean_field = (
        run_on_rung(rung, classes, 1.0, eta_Z, [t], method="LSODA", rtol=1e-9, atol=1e-18).z[0, 0, 0]
        for rung in (EXACT, MEAN_FIELD)
    )
    return float(modified / mean_field)


def _distance(V: float, K: int = 10, rho: float = 1e-3) -> float:
    return abs(common_logit_ratio(classes_of_overlap(rho, K, int(V)), 2 * K * np.log(V)) - 1)


def _map(title: str, ylabel: str, V: Floats, y: dict[str, Floats], *boundaries: Line) -> Map:
    (values,) = y.values()
    return Map(
        title=title,
        xlabel="V",
        ylabel=ylabel,
        quantity="distance of the common logits' ratio from 1",
        x=V,
        y=values,
        violation=over_grid(_distance, y | {"V": V}),
        threshold=SHARE,
        boundaries=boundaries,
    )


def common_logit_maps(level: str, points: int | None = None) -> tuple[Map, Map]:
    """F4: maps of |ratio - 1|, modified decoder to mean field, over (V, rho) at K = 10 and over (V, K)."""
    full = level == "full"
    V = np.geomspace(30, 1e7, points or (16 if full else 6)).round()
    rho = np.geomspace(1e-5, 0.3, points or (12 if full else 5))
    K = np.unique(np.geomspace(2, 16, points or (8 if full else 4)).round().astype(int))
    assumption = 6 / np.sqrt(V)
    shown = assumption < rho[-1]
    ends = np.clip(SHARE / rho[[-1, 0]], V[0], V[-1])
    by_overlap = _map(
        "Modified decoder against mean field, K = 10",
        "rho = f_n.f_k",
        V,
        {"rho": rho},
        boundary("printed: rho < 1/(K(K-1))", V[[0, -1]], [1 / 90] * 2),
        boundary("printed: rho >= 6/sqrt(V)", V[shown], assumption[shown]),
        boundary(f"V rho = {SHARE:g}", ends, SHARE / ends, "theory"),
    )
    by_classes = _map(
        "The same at rho = 0.001",
        "K",
        V,
        {"K": K},
        boundary("printed: V >> K^2, read as 10 K^2", 10.0 * K**2, K),
        boundary(f"V rho = {SHARE:g}", [SHARE / 1e-3] * 2, K[[0, -1]], "theory"),
    )
    return by_overlap, by_classes
