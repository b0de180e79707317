"""The search for the least weighted squares: a grid of rates first, then least squares from its best point."""

from __future__ import annotations

import numpy as np
from scipy.optimize import least_squares

from snapdyn.dynamics.classes import Floats
from snapdyn.validation.fitting.model import FitModel
from snapdyn.validation.fitting.residuals import Weights

# Start of free rates: eta_Y t_end and eta_Z/eta_Y over these grids.
SPANS, RATIOS = np.geomspace(1.0, 3000.0, 9), np.geomspace(0.01, 30.0, 8)


def grid_start(model: FitModel, data: Floats, start: dict[str, float]) -> Floats:
    """Coordinates of the best of a grid of rates; those that are given are kept."""
    given = {**model.fixed, **start}
    t_end = float(model.t[-1])
    spans = [given["eta_Y"] * t_end] if "eta_Y" in given else SPANS
    best, least = None, np.inf
    for span in spans:
        rate = span / t_end
        for ratio in [given["eta_Z"] / rate] if "eta_Z" in given else RATIOS:
            trial = model.coordinates({**given, "eta_Y": rate, "eta_Z": ratio * rate})
            try:
                distance = float(((model.evaluate(trial)[0] - data) ** 2).sum())
            except RuntimeError:
                continue
            if distance < least:
                best, least = trial, distance
    if best is None:
        raise RuntimeError("the theory cannot be integrated at any rates of the start; give eta_Y and eta_Z")
    return best


def least_weighted_squares(
    model: FitModel, data: Floats, weights: Weights | None, start: Floats, centre: Floats, reach: float
) -> Floats:
    """Coordinates at the least weighted sum of squares within a factor `reach` of `centre`."""
    kept: dict[bytes, tuple[Floats, Floats]] = {}

    def evaluated(x: Floats) -> tuple[Floats, Floats]:
        key = x.tobytes()
        if key not in kept:
            kept.clear()
            values, J = model.evaluate(x)
            residual, matrix = (values - data).ravel(), J.reshape(x.size, -1).T
            kept[key] = (residual, matrix) if weights is None else (weights.whiten(residual), weights.whiten(matrix))
        return kept[key]

    lower, upper = centre - np.log(reach), centre + np.log(reach)
    solution = least_squares(
        lambda x: evaluated(x)[0], np.clip(start, lower + 1e-6, upper - 1e-6), lambda x: evaluated(x)[1],
        (lower, upper), "trf", xtol=1e-8, ftol=1e-10,
    )  # fmt: skip
    return np.asarray(solution.x)
