"""F4: ratio of the common token's logit under the modified decoder to that in the mean field, its law, and maps."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from snapdyn import analytic
from snapdyn.dynamics import (
    SequenceClasses,
    single_common_token,
)
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.design import over_grid
from snapdyn.validation.maps.rates_and_correlation import boundary
from snapdyn.validation.pictures import Map
from snapdyn.validation.rungs.run import EXACT, MEAN_FIELD, run_on_rung


def classes_of_overlap(rho: float, num_classes: int, vocab_size: int) -> SequenceClasses:
    """`single_common_token` classes with five distinct tokens each and overlaps f_n.f_k = rho of attention vectors."""
    weights = np.linspace(0.1, 1.0, 5)
    # rho = s^2/(s^2 + (1-s)^2 |w|^2) for the share s of the common token and normalised weights w.
    odds = np.sqrt(rho / (1 - rho)) * np.linalg.norm(weights / weights.sum())
    return single_common_token(num_classes, 5, float(odds / (1 + odds)), vocab_size)


def common_logit_ratio(vocab_size: int, num_classes: int, rho: float) -> tuple[float, float, float]:
    """F4: ratio of the common logit under (10) to that in the mean field, the ratio by the law, the law's denominator.

    The ratio is taken at t = 2 K ln V/eta_Y with eta_Z/eta_Y = 1e-4. The law (derived here, no free parameter) is
    (1 + V E')/(2 (exp(X) - 1)/X - 1) with X = rho V h. Under the modified flow beta = E' + 1/V to leading order. Under
    the original flow the diagonal coefficient C_n[n] = u grows to V h, and C_k[n] = -(1/V) int exp(rho u) du, since
    overlap puts the outputs of other classes rho u ahead. So beta (V-1)/iota = (exp(x)-1)/x + exp(x) - 1 with
    x = rho u. The denominator is its mean with the weight gamma dt ~ u du.
    """
    V, K = vocab_size, num_classes
    t, eta_Z = 2 * K * np.log(V), 1e-4
    classes = classes_of_overlap(rho, K, V)
    runs = (
        run_on_rung(rung, classes, 1.0, eta_Z, [t], method="LSODA", rtol=1e-9, atol=1e-18)
        for rung in (EXACT, MEAN_FIELD)
    )
    modified, mean_field = (float(run.z[0, 0, 0]) for run in runs)
    X = rho * V * float(analytic.h(t / K, 1.0, V))
    denominator = 2 * float(np.expm1(X)) / X - 1
    return modified / mean_field, (1 + V * overlap_coefficient(rho, K)) / denominator, denominator


class CommonLogitLaw(NamedTuple):
    """Fit of F4's law: ln(R D - 1) = constant + a ln V + b ln E' for the ratio R and the law's denominator D.

    Attributes
    ----------
    coefficients : (3,) array
        Fitted constant, a and b; the law predicts 0, 1, 1.
    errors : (3,) array
        Standard errors of the coefficients.
    excess : float
        Largest |R/law - 1| relative to its bound.
    without_denominator : float
        The same for the law 1 + V E' without its denominator.
    instances : int
        Number of instances.
    """

    coefficients: Floats
    errors: Floats
    excess: float
    without_denominator: float
    instances: int


def common_logit_law(level: str) -> CommonLogitLaw:
    """Fit F4's law to the ratios over V, K and rho, with weak correlation and V >= 100 K."""
    points = 5 if level == "full" else 3
    rows, excess, without = [], 0.0, 0.0
    for K in (3, 5, 10, 20) if level == "full" else (3, 10):
        for V in np.geomspace(100 * K, 1e6, points).round():
            for rho in np.geomspace(1e-3, 0.9 / (K * (K - 1)), points):
                ratio, law, denominator = common_logit_ratio(int(V), K, float(rho))
                # The law neglects (K-1) E' against 1 in beta's 1/V and in the original flow, and K outputs against V.
                bound = K / V + (K - 1) * rho
                excess = max(excess, abs(ratio / law - 1) / bound)
                without = max(without, abs(ratio / (law * denominator) - 1) / bound)
                rows.append([1.0, np.log(V), np.log(overlap_coefficient(rho, K)), np.log(ratio * denominator - 1)])
    table = np.array(rows)
    X, y = table[:, :3], table[:, 3]
    coefficients, *_ = np.linalg.lstsq(X, y, rcond=None)
    variance = np.sum((y - X @ coefficients) ** 2) / (y.size - 3)
    errors = np.sqrt(variance * np.diag(np.linalg.inv(X.T @ X)))
    return CommonLogitLaw(coefficients, errors, excess, without, y.size)


def overlap_coefficient(rho: float, num_classes: int) -> float:
    """E'_nk of classes whose attention vectors all have the overlap rho."""
    return rho / ((1 - rho) * (1 + (num_classes - 1) * rho))


def common_logit_maps(level: str, points: int | None = None) -> tuple[Map, Map]:
    """F4: maps of |ratio - 1|, modified decoder to mean field, over (V, rho) at K = 10 and over (V, K)."""
    full = level == "full"
    V = np.geomspace(30, 1e7, points or (16 if full else 6)).round()
    rho = np.geomspace(1e-5, 0.3, points or (12 if full else 5))
    K = np.unique(np.geomspace(2, 16, points or (8 if full else 4)).round().astype(int))

    def measured(V: float, K: int, rho: float) -> float:
        return abs(common_logit_ratio(int(V), K, rho)[0] - 1) if V >= K else np.nan

    share = 0.05
    assumption = 6 / np.sqrt(V)
    shown = assumption < rho[-1]
    ends = np.clip(share / rho[[-1, 0]], V[0], V[-1])
    by_overlap = Map(
        title="Modified decoder against mean field, K = 10",
        xlabel="V",
        ylabel="rho = f_n.f_k",
        quantity="distance of the common logits' ratio from 1",
        x=V,
        y=rho,
        violation=over_grid(partial(measured, K=10), {"rho": rho, "V": V}),
        threshold=share,
        boundaries=(
            boundary("printed: rho < 1/(K(K-1))", V[[0, -1]], [1 / 90] * 2),
            boundary("printed: rho >= 6/sqrt(V)", V[shown], assumption[shown]),
            boundary(f"V rho = {share:g}", ends, share / ends, "theory"),
        ),
    )
    by_classes = Map(
        title="The same at rho = 0.001",
        xlabel="V",
        ylabel="K",
        quantity="distance of the common logits' ratio from 1",
        x=V,
        y=K.astype(float),
        violation=over_grid(partial(measured, rho=1e-3), {"K": K, "V": V}),
        threshold=share,
        boundaries=(
            boundary("printed: V >> K^2, read as 10 K^2", 10.0 * K**2, K),
            boundary(f"V rho = {share:g}", [share / 1e-3] * 2, K[[0, -1]], "theory"),
        ),
    )
    return by_overlap, by_classes
