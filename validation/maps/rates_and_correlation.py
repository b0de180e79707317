"""Validity maps over the ratio of the rates and the correlation of the classes, on the mean field."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from snapdyn.dynamics import (
    SequenceClasses,
    Trajectory,
    log_times,
)
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.design import over_grid
from snapdyn.validation.pictures import Line, Map
from snapdyn.validation.rungs.run import MEAN_FIELD, run_on_rung
from snapdyn.validation.sample_classes import correlated_classes

# "Much larger" is read as a factor of ten, as in Assumption 2.
MUCH_SMALLER = 0.1


def ratio_correlation_map(
    level: str,
    title: str,
    quantity: str,
    measure: Callable[[Trajectory], float],
    threshold: float,
    scale: str = "log",
    points: int | None = None,
    instances: int | None = None,
) -> Map:
    """Map of a violation in the mean field over eta_Z/eta_Y and |lambda_1| K, mean over instances, t <= 1e4/eta_Y.

    The printed conditions are eta_Z much smaller than eta_Y, read as a factor of ten, and |lambda_1| < 1/K.

    Parameters
    ----------
    level : "quick" or "full"
        "full" uses more points and more instances.
    title : str
        Title of the map.
    quantity : str
        What the violation is, with its unit.
    measure : callable
        ``measure(run)`` returns the violation in the run of one instance.
    threshold : float
        The statement counts as failed where the violation is larger.
    scale : "log" or "linear"
        Scale of the colours.
    points : int, optional
        Points along each axis.
    instances : int, optional
        Instances of each cell.

    Returns
    -------
    Map
        The violation on the grid.
    """
    full = level == "full"
    ratios = np.geomspace(1e-3, 100, points or (11 if full else 6))
    correlations = np.geomspace(0.03, 10, points or (11 if full else 5))
    times = log_times(1e-1, 1e4, 60)

    @cache
    def members(correlation: float) -> list[SequenceClasses]:
        return [correlated_classes(correlation, seed) for seed in range(instances or (8 if full else 2))]

    def violation(correlation: float, ratio: float) -> float:
        return float(np.mean([measure(flow_at_ratio(classes, ratio, times)) for classes in members(correlation)]))

    return Map(
        title=title,
        xlabel="eta_Z/eta_Y",
        ylabel="|lambda_1(E)| K",
        quantity=quantity,
        x=ratios,
        y=correlations,
        violation=over_grid(violation, {"correlation": correlations, "ratio": ratios}),
        threshold=threshold,
        boundaries=(
            boundary("printed: |lambda_1| < 1/K", ratios[[0, -1]], [1.0, 1.0]),
            boundary("printed: eta_Z << eta_Y, read as 1/10", [MUCH_SMALLER] * 2, correlations[[0, -1]]),
        ),
        scale="log" if scale == "log" else "linear",
    )


def flow_at_ratio(classes: SequenceClasses, ratio: float, times: Floats) -> Trajectory:
    """Run the mean field with eta_Y = 1 and eta_Z = `ratio`, saved at `times` (batch-size-1 steps)."""
    # LSODA needs half of the evaluations of DOP853. BDF is faster than LSODA after fast attention has settled.
    settled = ratio > 0.1 and times[-1] > 1e6
    options = {"method": "BDF" if settled else "LSODA", "atol": 1e-13} if ratio <= 1 else {"atol": 1e-11}
    return run_on_rung(MEAN_FIELD, classes, 1.0, ratio, times, rtol=1e-8, **options)


def boundary(label: str, x: object, y: object, kind: str = "printed") -> Line:
    """Line of a printed condition, or of a fitted one (kind "theory")."""
    return Line(label, np.asarray(x, dtype=float), np.asarray(y, dtype=float), kind)  # type: ignore[arg-type]
