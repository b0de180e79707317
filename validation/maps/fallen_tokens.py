"""Maps of Theorem 2(a): where distinct tokens fall."""

from __future__ import annotations

import numpy as np

from snapdyn import analytic
from snapdyn.dynamics import SequenceClasses, Trajectory, log_times
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.maps.rates_and_correlation import boundary, flow_at_ratio, printed_ratio
from snapdyn.validation.observables import FALL, drop_below_maximum
from snapdyn.validation.pictures import Map
from snapdyn.validation.sample_classes import correlated_classes


def fallen(run: Trajectory) -> Floats:
    """Whether the logit has fallen by more than FALL of the run's largest |z|, (N, distinct tokens), for one query."""
    z = np.vstack([run.z_initial[0], run.z[:, 0]])[:, run.require_classes().distinct_tokens()]
    largest_drop = np.maximum.accumulate(drop_below_maximum(z), axis=0)
    return np.asarray(largest_drop[1:] > FALL * np.abs(run.z).max())


def distinct_fall_map(level: str, points: int | None = None, instances: int | None = None) -> Map:
    """Theorem 2(a): share of distinct tokens that fall in the mean field, over eta_Z/eta_Y and |lambda_1| K.

    Each cell is a mean over instances up to t = 1e4/eta_Y. `points` is their number along each axis.
    """
    full = level == "full"
    points, seeds = points or (11 if full else 6), range(instances or (8 if full else 2))
    ratios, correlations = np.geomspace(1e-3, 100, points), np.geomspace(0.03, 10, points)
    times = log_times(1e-1, 1e4, 60)
    rows = []
    for correlation in correlations:
        members = [correlated_classes(correlation, seed) for seed in seeds]
        rows.append([np.mean([fallen(flow_at_ratio(c, r, times))[-1].mean() for c in members]) for r in ratios])
    return Map(
        title="Distinct tokens that fall, t <= 1e4/eta_Y",
        xlabel="eta_Z/eta_Y",
        ylabel="|lambda_1(E)| K",
        quantity="share of distinct tokens that fall",
        x=ratios,
        y=correlations,
        violation=np.array(rows),
        threshold=0.05,
        boundaries=(
            boundary("printed: |lambda_1| < 1/K", ratios[[0, -1]], [1.0, 1.0]),
            printed_ratio(correlations),
        ),
        scale="linear",
    )


def fall_onset(classes: SequenceClasses, ratio: float, times: Floats) -> tuple[float, float]:
    """First of `times` (eta_Y = 1) at which a distinct token has fallen, and (eta_Z/eta_Y) (V h)^2 at that time.

    Both are NaN if no distinct token falls. V h is taken at t/K. Derived here: at late times Y is an integral over
    ln t of f_n(t') (e_n - alpha_n(t')) t', so all decades have the same weight, while attention changes by the order of
    eta_Z int gamma dt = (eta_Z/eta_Y) (V h)^2/2 (128).
    """
    down = np.flatnonzero(fallen(flow_at_ratio(classes, ratio, times)).any(axis=1))
    if not down.size:
        return np.nan, np.nan
    t, V = float(times[down[0]]), classes.vocab_size
    return t, ratio * (V * float(analytic.h(t / classes.num_classes, 1.0, V))) ** 2


def slow_attention_map(level: str, points: int | None = None, instances: int | None = None) -> Map:
    """Share of instances with a fallen distinct token, over eta_Z/eta_Y and time: shows how slow attention must be.

    Mean field with weak correlation, |lambda_1| K = 0.5, of one family: K = 3, V = 100, one common token and four
    distinct ones per class. The fitted line is the median of its onsets. It belongs to this family: in others tokens
    fall at other values, 0.2 and less; `snapdyn.validation.linear_response` tells for any classes.
    """
    full = level == "full"
    K, V = 3, 100
    ratios = np.geomspace(1e-3, 1, points or (13 if full else 7))
    last = np.geomspace(10, 1e30, 2 * points + 1 if points else 30 if full else 11)
    times = np.geomspace(1, last[-1], 600 if full or points else 150)
    members = [correlated_classes(0.5, seed, K, V) for seed in range(instances or (24 if full else 4))]
    onsets = np.array([[fall_onset(classes, float(ratio), times) for classes in members] for ratio in ratios])
    violation = np.array([(onsets[:, :, 0] <= t).mean(axis=1) for t in last])
    constant = float(np.nanmedian(onsets[:, :, 1]))
    u = np.sqrt(constant / ratios)
    t_line = K * (np.expm1(u) + (V - 1) * u) / V  # (45)
    shown = t_line <= last[-1]
    return Map(
        title=f"How slow attention must be, and for how long: one family, K = {K}, V = {V}",
        xlabel="eta_Z/eta_Y",
        ylabel="t eta_Y (batch-size-1 steps)",
        quantity="share of instances where a distinct token has fallen",
        x=ratios,
        y=last,
        violation=violation,
        threshold=0.5,
        boundaries=(
            printed_ratio(last),
            boundary(
                f"fitted to this family: (eta_Z/eta_Y) (V h)^2 = {constant:.2g}",
                ratios[shown],
                t_line[shown],
                "theory",
            ),
        ),
        scale="linear",
    )
