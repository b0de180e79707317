"""Maps of where a conditional claim holds: measured violation over two quantities, the printed condition on it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from snapdyn.dynamics import (
    MeanField,
    SequenceClasses,
    Trajectory,
    log_times,
    whole_run,
)
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.instances import correlated_classes
from snapdyn.validation.pictures import Line, Map

# A drop of this share of the largest logit is more than the solver's error at rtol 1e-8 (some hundred steps).
FALL = 1e-5
# "Much larger" is read as a factor of ten, as in Assumption 2.
MUCH_SMALLER = 0.1


def ratio_correlation_map(
    level: str,
    title: str,
    quantity: str,
    measure: Callable[[Trajectory], float],
    threshold: float,
    scale: str = "log",
) -> Map:
    """Map of a violation in the mean field over eta_Z/eta_Y and |lambda_1| K, mean over instances, t <= 1e4/eta_Y.

    `measure` takes the run of one instance. The printed conditions are eta_Z much below eta_Y, read as a factor ten,
    and |lambda_1| < 1/K.
    """
    full = level == "full"
    ratios = np.geomspace(1e-3, 100, 11 if full else 6)
    correlations = np.geomspace(0.03, 10, 11 if full else 5)
    times = log_times(1e-1, 1e4, 60)
    violation = np.empty((correlations.size, ratios.size))
    for i, correlation in enumerate(correlations):
        members = [correlated_classes(float(correlation), seed) for seed in range(8 if full else 2)]
        for j, ratio in enumerate(ratios):
            violation[i, j] = np.mean([measure(flow_at_ratio(classes, float(ratio), times)) for classes in members])
    return Map(
        title=title,
        xlabel="eta_Z/eta_Y",
        ylabel="|lambda_1(E)| K",
        quantity=quantity,
        x=ratios,
        y=correlations,
        violation=violation,
        threshold=threshold,
        boundaries=(
            boundary("printed: |lambda_1| < 1/K", ratios[[0, -1]], [1.0, 1.0]),
            boundary("printed: eta_Z << eta_Y, read as 1/10", [MUCH_SMALLER] * 2, correlations[[0, -1]]),
        ),
        scale="log" if scale == "log" else "linear",
    )


def flow_at_ratio(classes: SequenceClasses, ratio: float, times: Floats) -> Trajectory:
    # LSODA needs half of the evaluations of DOP853, but loses to BDF where fast attention has settled.
    settled = ratio > 0.1 and times[-1] > 1e6
    options = {"method": "BDF" if settled else "LSODA", "atol": 1e-13} if ratio <= 1 else {"atol": 1e-11}
    return whole_run(MeanField(classes, 1.0, ratio), times, rtol=1e-8, **options)


def boundary(label: str, x: object, y: object, kind: str = "printed") -> Line:
    return Line(label, np.asarray(x, dtype=float), np.asarray(y, dtype=float), kind)  # type: ignore[arg-type]
