"""The paper's experiments of Figs. 4 and 6: our runs, and the published numbers beside them."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.dynamics.classes.synthetic import syn_medium, syn_small
from snapdyn.dynamics.classes.table import Floats, SequenceClasses
from snapdyn.dynamics.training.descent import SGD, sgd_runs
from snapdyn.dynamics.trajectories.trajectory import Trajectory
from snapdyn.validation.rungs.run import not_interrupted

# Fig. 6 (the paper's Appendix and logs): SGD with momentum, start uniform in +-1/sqrt(V), 127 contextual tokens.
FIGURE_6: dict[str, Any] = {"steps": 100, "batch_size": 128, "seq_len": 127, "momentum": 0.9, "init": "uniform"}
PUBLISHED_SEEDS = 10
ROUNDING = 0.5e-3  # of the published numbers
# Fig. 4: zero start, the iterations that the figure shows.
FIGURE_4: dict[str, Any] = {"steps": 48, "batch_size": 128, "seq_len": 127, "momentum": 0.9}
FIGURE_4_ITERATIONS = (0, 2, 4, 6, 8, 10, 48)


@dataclass(frozen=True)
class Cell:
    """One cell of Fig. 6: published mean and standard deviation, ours per seed, and how they compare.

    `z` is the difference in units of both sides' standard errors; `p` the two-sided probability of a difference
    this large under equal means (Welch's t, published numbers widened by their rounding).
    """

    num_queries: int
    eta_Z: float
    ratio: float
    published: float
    published_std: float
    ours: Floats
    z: float
    p: float


def published_cells() -> list[dict[str, float]]:
    """Rows of the published table: num_queries, eta_Z, eta_Y_over_eta_Z, entropy_mean, entropy_std."""
    text = (resources.files("snapdyn.validation") / "reference" / "syn_medium_entropy.csv").read_text(encoding="utf-8")
    return [{key: float(value) for key, value in row.items()} for row in csv.DictReader(text.splitlines())]


def distinct_entropy(trajectory: Trajectory) -> float:
    """Mean over classes of the final entropy over distinct tokens, renormalised (nats): Fig. 6's quantity."""
    return float(trajectory.entropy(distinct_only=True)[-1].mean())


def full_entropy(trajectory: Trajectory) -> float:
    """Mean over classes of the final entropy over all tokens (nats), which is not Fig. 6's quantity."""
    return float(trajectory.entropy()[-1].mean())


def figure_6_runs(
    cells: Iterable[tuple[SequenceClasses, float, float]],
    seeds: Sequence[int],
    record: Sequence[int] = (FIGURE_6["steps"],),
    threads: int | None = None,
    **changes: Any,
) -> list[list[Trajectory]]:
    """Train as in Fig. 6.

    Parameters
    ----------
    cells : iterable of (SequenceClasses, float, float)
        Classes, eta_Y and eta_Z per step.
    seeds : sequence of int
        Seeds of every cell.
    record : sequence of int, optional
        Steps at which the state is kept; default the last one.
    threads : int or None
        As in `sgd_runs`; the numbers do not depend on it.
    **changes
        Settings of `SGD` other than those of Fig. 6, for controls.

    Returns
    -------
    list of list of Trajectory
        One list per cell, one trajectory per seed.
    """
    settings = FIGURE_6 | changes
    runs = [
        SGD(classes, eta_Y, eta_Z, **settings, seed=seed, record=record)
        for classes, eta_Y, eta_Z in cells
        for seed in seeds
    ]
    trained, count = not_interrupted(sgd_runs(runs, threads=threads)), len(seeds)
    return [trained[start : start + count] for start in range(0, len(trained), count)]


def figure_6(
    seeds: Sequence[int],
    observable: Callable[[Trajectory], float] = distinct_entropy,
    cells: Sequence[dict[str, float]] | None = None,
    threads: int | None = None,
    **changes: Any,
) -> list[Cell]:
    """Run the cells of Fig. 6 (default all 64) and compare each with the published one.

    Parameters
    ----------
    seeds : sequence of int
        Seeds of every cell. At Q = 1 the entropies have heavy tails for eta_Z = 2 and 3 at ratio 10: ten seeds are too
        few for sharp means there.
    observable : callable
        ``observable(trajectory)`` gives the number that is compared; an observable other than the default serves as a
        control.
    cells : sequence of dict, optional
        Rows of `published_cells`; default all.
    threads : int or None
        As in `sgd_runs`; the numbers do not depend on it.
    **changes
        Settings of `SGD` other than those of Fig. 6, for controls.

    Returns
    -------
    list of Cell
        In the order of the rows.
    """
    rows = published_cells() if cells is None else list(cells)
    classes = {Q: syn_medium(Q) for Q in {int(row["num_queries"]) for row in rows}}
    settings = [
        (classes[int(row["num_queries"])], row["eta_Y_over_eta_Z"] * row["eta_Z"], row["eta_Z"]) for row in rows
    ]
    compared = []
    for row, runs in zip(rows, figure_6_runs(settings, seeds, threads=threads, **changes), strict=True):
        ours = np.array([observable(run) for run in runs])
        mean, std = row["entropy_mean"], row["entropy_std"]
        z, p = (float(value) for value in against_published(ours, mean, std))
        compared.append(Cell(int(row["num_queries"]), row["eta_Z"], row["eta_Y_over_eta_Z"], mean, std, ours, z, p))
    return compared


def against_published(ours: Floats, mean: ArrayLike, std: ArrayLike) -> tuple[Floats, Floats]:
    """Difference of our means from published ones in units of both standard errors, and Welch's p.

    Parameters
    ----------
    ours : (..., seeds) array
        Our numbers, nats.
    mean : (...) array
        Published means over `PUBLISHED_SEEDS` seeds.
    std : (...) array
        Published standard deviations.

    Returns
    -------
    ((...) array, (...) array)
        z and p.
    """
    from scipy.stats import ttest_ind_from_stats

    count, found, spread = ours.shape[-1], ours.mean(axis=-1), ours.std(axis=-1, ddof=1)
    # Rounding shifts a mean by up to half a unit: take the published value nearest to ours.
    nearest = mean + np.clip(found - mean, -ROUNDING, ROUNDING)
    widened = np.asarray(std) + ROUNDING
    test = ttest_ind_from_stats(found, spread, count, nearest, widened, PUBLISHED_SEEDS, equal_var=False)
    error = np.hypot(spread / np.sqrt(count), widened / np.sqrt(PUBLISHED_SEEDS))
    return (found - nearest) / error, np.asarray(test.pvalue)


def smallest_at_ratio_2(cells: Sequence[Cell]) -> int:
    """Number of (Q, eta_Z) with Q >= 3 where our mean entropy is not smallest at eta_Y/eta_Z = 2."""
    groups: dict[tuple[int, float], dict[float, float]] = {}
    for cell in cells:
        groups.setdefault((cell.num_queries, cell.eta_Z), {})[cell.ratio] = float(cell.ours.mean())
    return sum(min(group, key=group.__getitem__) != 2.0 for (Q, _), group in groups.items() if Q >= 3)


def figure_4_runs(
    eta_Y: float, eta_Z: float, seeds: Sequence[int], classes: SequenceClasses | None = None, **changes: Any
) -> list[Trajectory]:
    """Train on Syn-Small, or on other classes, as in Fig. 4.

    Parameters
    ----------
    eta_Y : float
        Learning rate of the decoder, per step.
    eta_Z : float
        Learning rate of attention, per step.
    seeds : sequence of int
    classes : SequenceClasses, optional
        Default Syn-Small.
    **changes
        Settings of `SGD` other than those of Fig. 4; Fig. 5 has optimizer="adam" without momentum.

    Returns
    -------
    list of Trajectory
        One per seed, at the iterations that the figure shows.
    """
    classes, settings = classes or syn_small(), FIGURE_4 | changes
    runs = [SGD(classes, eta_Y, eta_Z, **settings, seed=seed, record=FIGURE_4_ITERATIONS) for seed in seeds]
    return not_interrupted(sgd_runs(runs))
