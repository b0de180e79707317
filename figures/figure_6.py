"""Figure 6: entropy of attention on Syn-Medium against the ratio of the rates, published and ours."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray

from snapdyn.figures.declaration import BatchSize, Momentum, Seeds, statement
from snapdyn.figures.panels import legend_above, letter_panels, panel_grid
from snapdyn.figures.shared_runs import SEEDS, final_states
from snapdyn.figures.style import CIRCLES, DOUBLE_COLUMN, Axes, Figure, curve_style, line_width
from snapdyn.validation.claims.published import against_published, published_cells

TITLE = "Entropy of attention on Syn-Medium against the ratio of the rates"
CAPTION = (
    "Entropy of attention over the distinct tokens of a class, renormalised, mean over classes, after 100 steps of "
    "SGD (momentum 0.9, batch 128, T = 128, start uniform in +-1/sqrt(V)) on Syn-Medium. Lines and bands: our runs; "
    "markers with bars: published values, 10 seeds; one range of entropy in all panels. For three or more queries the "
    "entropy is smallest at eta_Y/eta_Z = 2; for one query it rises with the ratio."
)

FAMILY_LEVEL = 0.05
MARKERS = ("o", "s", "^", "D")


def compute(level: str, seeds: Seeds = None, momentum: Momentum = 0.9, batch_size: BatchSize = 128) -> xarray.Dataset:
    """Run all 64 cells and add the published numbers.

    Parameters
    ----------
    level : "quick" or "full"
        10 or 100 seeds per cell.
    seeds, momentum, batch_size
        See the annotations of these arguments.

    Returns
    -------
    xarray.Dataset
        entropy (num_queries, eta_Z, ratio, seed), published and published_std (num_queries, eta_Z, ratio), nats: mean
        over classes of the entropy of attention over the class's distinct tokens, renormalised, after 100 steps.
    """
    dataset = final_states(seeds or SEEDS[level], momentum, batch_size)[["entropy"]].copy()
    for name, column in (("published", "entropy_mean"), ("published_std", "entropy_std")):
        values = {(r["num_queries"], r["eta_Z"], r["eta_Y_over_eta_Z"]): r[column] for r in published_cells()}
        grid = [
            [[values[Q, eta_Z, ratio] for ratio in dataset.ratio.values] for eta_Z in dataset.eta_Z.values]
            for Q in dataset.num_queries.values
        ]
        dataset[name] = (("num_queries", "eta_Z", "ratio"), np.array(grid), {"units": "nats"})
    return dataset


def draw(dataset: xarray.Dataset, width: float = DOUBLE_COLUMN) -> Figure:
    """Draw a panel per number of queries: ours as lines, published as markers with their error bars."""
    labels: Any = {"xlabel": "$\\eta_Y/\\eta_Z$", "ylabel": "entropy of distinct tokens (nats)"}
    figure, panels = panel_grid(width, 4, least=2.4, height=1.85, rest=1.0, sharex=True, sharey=True, **labels)
    for axes, Q in zip(panels.flat, dataset.num_queries.values, strict=True):
        panel = dataset.sel(num_queries=Q)
        for number, eta_Z in enumerate(dataset.eta_Z.values):
            _draw_curve(axes, panel.sel(eta_Z=eta_Z), number)
        axes.set(xscale="log", title=f"{Q} {'query' if Q == 1 else 'queries'}, {2 * Q} next tokens")
        axes.set_xticks(dataset.ratio.values, [f"{r:g}" for r in dataset.ratio.values])
        axes.minorticks_off()
    letter_panels(panels.flat)
    axes.plot([], [], color="black", label=f"ours, mean of {dataset.sizes['seed']} seeds, band $\\pm$ std")
    axes.plot([], [], color="black", label="published, $\\pm$ std", **CIRCLES)
    legend_above(figure)
    return figure


def _draw_curve(axes: Axes, curve: xarray.Dataset, number: int) -> None:
    mean, spread = curve.entropy.mean("seed"), curve.entropy.std("seed", ddof=1)
    place = curve.ratio * (1 + 0.03 * (number - 1.5))  # side by side, so that bars can be told apart
    color = f"C{number}"
    axes.fill_between(place, mean - spread, mean + spread, color=color, alpha=0.15, linewidth=0)
    axes.plot(place, mean, **curve_style(number))
    marked = CIRCLES | {"marker": MARKERS[number], "color": color}
    axes.errorbar(place, curve.published, curve.published_std, elinewidth=line_width(0.8), capsize=1.5, **marked)
    axes.plot([], [], label=f"$\\eta_Z$ = {curve.eta_Z.item():g}", **marked | curve_style(number))


def smallest_p(dataset: xarray.Dataset) -> float:
    """Return the smallest p-value, over the cells, of Welch's test of our mean against the published one."""
    ours = dataset.entropy.transpose("num_queries", "eta_Z", "ratio", "seed").values
    cells = np.ndindex(*dataset.published.shape)
    mean, std = dataset.published.values, dataset.published_std.values
    return min(float(against_published(ours[cell], mean[cell], std[cell])[1]) for cell in cells)


def _reversed(dataset: xarray.Dataset) -> xarray.Dataset:
    return dataset.assign(published=dataset.published.copy(data=dataset.published.values[..., ::-1]))


def _elsewhere(dataset: xarray.Dataset, ratio: float) -> int:
    """Return the number of cells (Q, eta_Z) with Q >= 3 whose entropy is not smallest at `ratio`."""
    means = dataset.entropy.mean("seed").sel(num_queries=slice(3, None))
    return int((means.idxmin("ratio") != ratio).sum())


PROPERTIES = (
    statement(
        "smallest p of the 64 cells (Welch)",
        "SGD",
        smallest_p,
        at_least=lambda dataset: FAMILY_LEVEL / dataset.published.size,
        wrong={"published columns in reverse order, smallest p": lambda dataset: smallest_p(_reversed(dataset))},
    ),
    statement(
        "(Q, eta_Z) with Q >= 3 whose entropy is not smallest at ratio 2, of 12",
        "SGD",
        lambda dataset: _elsewhere(dataset, 2.0),
        at_most=0.0,
        wrong={"entropy smallest at ratio 1, cells that deny it of 12": lambda dataset: _elsewhere(dataset, 1.0)},
    ),
)
