"""Validity maps of the conditional claims: measured violation over two quantities, with the printed conditions."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from snapdyn import analytic
from snapdyn.dynamics.classes.synthetic import single_common_token
from snapdyn.dynamics.classes.table import Floats, SequenceClasses
from snapdyn.dynamics.integration.request import log_times
from snapdyn.dynamics.trajectories.trajectory import Trajectory
from snapdyn.validation.claims.sample_classes import correlated_classes, strongly_correlated_classes
from snapdyn.validation.grid import Grid
from snapdyn.validation.phases import fallen
from snapdyn.validation.pictures import Line, Map, Picture
from snapdyn.validation.properties import Property
from snapdyn.validation.rungs.run import DESCENT, EXACT, MEAN_FIELD, run_on_rung
from snapdyn.validation.search.counterexamples import load
from snapdyn.validation.search.instance import Instance


def flow_at_ratio(classes: SequenceClasses, ratio: float, times: Floats) -> Trajectory:
    """Run the mean field with eta_Y = 1 and eta_Z = `ratio`, saved at `times` (batch-size-1 steps)."""
    # BDF is faster after fast attention has settled.
    settled = 0.1 < ratio <= 1 and times[-1] > 1e6
    options: dict[str, Any] = {"method": "BDF" if settled else "auto", "atol": 1e-13 if ratio <= 1 else 1e-11}
    return run_on_rung(MEAN_FIELD, classes, 1.0, ratio, times, rtol=1e-8, **options)


def _printed(label: str, x: ArrayLike, y: ArrayLike) -> Line:
    """Line of a printed condition."""
    return Picture.line(f"printed: {label}", x, y, "printed")


def _printed_ratio(y: Floats) -> Line:
    """The line eta_Z/eta_Y = 1/10 on a map over this ratio and `y`: the paper's eta_Z << eta_Y, read as a tenth."""
    return _printed("eta_Z << eta_Y, read as 1/10", [0.1, 0.1], y[[0, -1]])


def rates_map(level: str, prop: Property, name: str, threshold: float) -> Map:
    """Map of a property over eta_Z/eta_Y and V up to t = 1e4, on the classes of the stored counterexample `name`."""
    stored, points = load(name).instance, 13 if level == "full" else 5
    ratios, sizes = np.geomspace(1e-2, 100, points), np.geomspace(5, 500, points).round()
    grid = Grid(
        {"vocab_size": sizes.astype(int), "eta_Z": ratios},
        partial(replace, stored, eta_Y=1.0, t_end=1e4),
        lambda instance: number.value if (number := prop.number(instance, prop.measure)) else None,
    )
    title, line = f"{prop.name}, classes of {name}", _printed_ratio(sizes)
    return Map.over(title, ("eta_Z/eta_Y", "V"), prop.name, grid, threshold, [line], scale="linear")


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


def common_logit_maps(level: str, points: int | None = None) -> tuple[Map, Map]:
    """F4: maps of |ratio - 1|, modified decoder to mean field, over (V, rho) at K = 10 and over (V, K)."""
    full = level == "full"
    V = np.geomspace(30, 1e7, points or (16 if full else 6)).round().astype(int)
    rho = np.geomspace(1e-5, 0.3, points or (12 if full else 5))
    K = np.unique(np.geomspace(2, 16, points or (8 if full else 4)).round().astype(int))
    assumption = 6 / np.sqrt(V)
    shown = assumption < rho[-1]
    ends = np.clip(SHARE / rho[[-1, 0]], V[0], V[-1])

    def distance(classes: SequenceClasses) -> float:
        t = 2 * classes.num_classes * np.log(classes.vocab_size)
        return abs(common_logit_ratio(classes, t) - 1)

    quantity = "distance of the common logits' ratio from 1"
    over_rho = Grid({"rho": rho, "vocab_size": V}, partial(classes_of_overlap, num_classes=10), distance)
    over_K = Grid({"num_classes": K, "vocab_size": V}, partial(classes_of_overlap, 1e-3), distance)
    by_overlap = Map.over(
        "Modified decoder against mean field, K = 10", ("V", "rho = f_n.f_k"), quantity, over_rho, SHARE,
        (
            _printed("rho < 1/(K(K-1))", V[[0, -1]], [1 / 90] * 2),
            _printed("rho >= 6/sqrt(V)", V[shown], assumption[shown]),
            Picture.line(f"V rho = {SHARE:g}", ends, SHARE / ends),
        ),
    )  # fmt: skip
    by_classes = Map.over(
        "The same at rho = 0.001", ("V", "K"), quantity, over_K, SHARE,
        (
            _printed("V >> K^2, read as 10 K^2", 10.0 * K**2, K),
            Picture.line(f"V rho = {SHARE:g}", [SHARE / 1e-3] * 2, K[[0, -1]]),
        ),
    )  # fmt: skip
    return by_overlap, by_classes


# Label of each axis, and its values.
AXES = {
    "eta_Y": ("eta_Y", lambda points: np.geomspace(1e-3, 1e3, points)),
    "vocab_size": ("V", lambda points: np.geomspace(4, 1e6, points).round().astype(int)),
    "t_end": ("t (batch-size-1 steps)", lambda points: np.geomspace(10, 1e6, points)),
}


def decoder_map(prop: Property, title: str, full: bool, axes: tuple[str, str] = ("eta_Y", "vocab_size")) -> Map:
    """Minus the margin of `prop` on two equal classes; without an axis, eta_Y is 1, V is 1000 and t is 1e4."""
    base = Instance(np.eye(2), np.zeros(2, int), np.ones(2), 1000, 1.0, 1.0, 1e4)
    grid = Grid(
        {name: AXES[name][1](25 if full else 13) for name in reversed(axes)},
        partial(replace, base),
        lambda instance: -number.margin if (number := prop.number(instance, prop.measure)) else None,
    )
    labels = AXES[axes[0]][0], AXES[axes[1]][0]
    return Map.over(title, labels, f"{prop.name}, less its bound", grid, 0.0, scale="linear")


def distinct_fall_map(level: str, points: int | None = None, instances: int | None = None) -> Map:
    """Theorem 2(a): share of distinct tokens that fall in the mean field, over eta_Z/eta_Y and |lambda_1| K.

    Each cell is a mean over instances up to t = 1e4/eta_Y. `points` is the number of cells along each axis.
    """
    full = level == "full"
    points, seeds = points or (11 if full else 6), range(instances or (8 if full else 2))
    ratios, correlations = np.geomspace(1e-3, 100, points), np.geomspace(0.03, 10, points)
    times = log_times(1e-1, 1e4, 60)

    @lru_cache(maxsize=1)
    def members(correlation: float) -> list[SequenceClasses]:
        return [correlated_classes(correlation, seed) for seed in seeds]

    grid = Grid(
        {"correlation": correlations, "ratio": ratios},
        lambda correlation, ratio: [flow_at_ratio(each, ratio, times) for each in members(correlation)],
        lambda runs: np.mean([fallen(run)[-1].mean() for run in runs]),
    )
    return Map.over(
        "Distinct tokens that fall, t <= 1e4/eta_Y", ("eta_Z/eta_Y", "|lambda_1(E)| K"),
        "share of distinct tokens that fall", grid, 0.05,
        (_printed("|lambda_1| < 1/K", ratios[[0, -1]], [1.0, 1.0]), _printed_ratio(correlations)), scale="linear",
    )  # fmt: skip


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
    distinct ones per class. The fitted line is the median of its onsets. It belongs to this family: in other families
    tokens fall at other values, also at 0.2 and less; `_linear_response.py` of the chapter on attention predicts them
    for any classes.
    """
    full = level == "full"
    K, V = 3, 100
    ratios = np.geomspace(1e-3, 1, points or (13 if full else 7))
    last = np.geomspace(10, 1e30, 2 * points + 1 if points else 30 if full else 11)
    times = np.geomspace(1, last[-1], 600 if full or points else 150)
    seeds = range(instances or (24 if full else 4))
    drawn = {seed: correlated_classes(0.5, seed, K, V) for seed in seeds}
    onsets = Grid(
        {"ratio": ratios, "seed": seeds},
        lambda ratio, seed: (drawn[seed], ratio),
        lambda instance: fall_onset(instance[0], instance[1], times),
    ).values()
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
            _printed_ratio(last),
            Picture.line(
                f"fitted to this family: (eta_Z/eta_Y) (V h)^2 = {constant:.2g}",
                ratios[shown],
                t_line[shown],
            ),
        ),
        scale="linear",
    )


def momentum_map(level: str, points: int | None = None) -> Map:
    """Error of the clock t = i/(1-mu) in the decrease of the loss, over the step i and the momentum mu.

    Descent on the expected loss with eta = 1e-6 is compared with the mean field, on three strongly correlated classes.
    """
    full, eta, threshold = level == "full", 1e-6, 0.05
    classes = strongly_correlated_classes()
    i = np.unique(np.geomspace(1, 1000, 2 * points + 1 if points else 31 if full else 13).round().astype(int))
    momenta = 1 - np.geomspace(0.5, 0.03, points or (13 if full else 6))
    start = np.log(classes.vocab_size)

    def error(mu: float) -> Floats:
        flow = run_on_rung(MEAN_FIELD, classes, eta, eta, i / (1 - mu), rtol=1e-11, atol=1e-20)
        descent = run_on_rung(DESCENT, classes, eta, eta, i, momentum=mu)
        return np.asarray(np.abs((start - flow.loss) / (start - descent.loss) - 1))

    lag = momenta / (1 - momenta)
    return Map(
        title="Error of the clock i/(1-mu)",
        xlabel="step i of descent",
        ylabel="1/(1-mu)",
        quantity="relative error of the loss's fall",
        x=i.astype(float),
        y=1 / (1 - momenta),
        violation=Grid({"mu": momenta}, lambda mu: mu, error).values(),
        threshold=threshold,
        boundaries=(
            _printed("i = 1/(1-mu)", 1 / (1 - momenta), 1 / (1 - momenta)),
            # The clock is ahead by D = mu/(1-mu) steps, so its error is D/(i-D).
            Picture.line(f"D/(i-D) = {threshold:g}, D = mu/(1-mu)", lag * (1 + 1 / threshold), 1 / (1 - momenta)),
        ),
    )
