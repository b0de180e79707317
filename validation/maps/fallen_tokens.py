"""Maps of Theorem 2: where distinct tokens fall and common tokens rise."""

from __future__ import annotations

import numpy as np

from snapdyn import analytic
from snapdyn.dynamics import (
    SequenceClasses,
    Trajectory,
    log_times,
)
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.design import over_grid
from snapdyn.validation.maps.rates_and_correlation import MUCH_SMALLER, boundary, flow_at_ratio, ratio_correlation_map
from snapdyn.validation.observables import FALL, drop_below_maximum
from snapdyn.validation.pictures import Map
from snapdyn.validation.sample_classes import correlated_classes


def fallen(run: Trajectory) -> Floats:
    """Whether the logit has fallen by more than FALL of the run's largest |z|, (N, distinct tokens), for one query."""
    z = np.vstack([run.z_initial[0], run.z[:, 0]])[:, run.require_classes().distinct_tokens()]
    largest_drop = np.maximum.accumulate(drop_below_maximum(z), axis=0)
    return np.asarray(largest_drop[1:] > FALL * np.abs(run.z).max())


def distinct_fall_map(level: str, points: int | None = None, instances: int | None = None) -> Map:
    """Theorem 2(a): share of distinct tokens that fall in the mean field, over eta_Z/eta_Y and |lambda_1| K."""
    return ratio_correlation_map(
        level,
        "Distinct tokens that fall, t <= 1e4/eta_Y",
        "share of distinct tokens that fall",
        lambda run: float(fallen(run)[-1].mean()),
        threshold=0.05,
        scale="linear",
        points=points,
        instances=instances,
    )


def common_rise_map(level: str) -> Map:
    """Theorem 2(b): rise of the only common token in the mean field, over eta_Z/eta_Y and V, t <= 1e4/eta_Y.

    Two classes with different queries and the weights of the counterexample theorem2b-fast: common 1, distinct 0.4 and
    0.1.
    """
    full = level == "full"
    ratios = np.geomspace(0.1, 100, 13 if full else 7)
    sizes = np.geomspace(5, 5e4, 13 if full else 5).round()
    P = np.array([[1.0, 0.4, 0.0], [1.0, 0.0, 0.1]])
    P /= P.sum(axis=1, keepdims=True)
    times = log_times(1e-1, 1e4, 60)

    def rise(V: float, ratio: float) -> float:
        z = flow_at_ratio(SequenceClasses(P, query=[1, 0], vocab_size=int(V)), ratio, times).z
        common = np.vstack([np.zeros(2), z[:, :, 0]])
        # A rise of the logit is a fall of its negative.
        return float(drop_below_maximum(-common).max() / np.abs(z).max())

    return Map(
        title="Rise of the only common token, t <= 1e4/eta_Y",
        xlabel="eta_Z/eta_Y",
        ylabel="V",
        quantity="rise over the largest logit",
        x=ratios,
        y=sizes,
        violation=over_grid(rise, {"V": sizes, "ratio": ratios}),
        threshold=FALL,
        boundaries=(
            boundary("printed: eta_Z << eta_Y, read as 1/10", [MUCH_SMALLER] * 2, sizes[[0, -1]]),
            boundary("printed: V >> K^2, read as 10 K^2", ratios[[0, -1]], [40.0, 40.0]),
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
    fitted = f"fitted to this family: (eta_Z/eta_Y) (V h)^2 = {constant:.2g}"
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
            boundary("printed: eta_Z << eta_Y, read as 1/10", [MUCH_SMALLER] * 2, last[[0, -1]]),
            boundary(fitted, ratios[shown], t_line[shown], "theory"),
        ),
        scale="linear",
    )
