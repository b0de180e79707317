"""Runs that several figures show: Syn-Small, Syn-Medium, and the short transformer runs that come with snapdyn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray
from scipy.special import softmax

from snapdyn.dynamics import SequenceClasses, Trajectory, syn_medium
from snapdyn.dynamics.classes.table import Ints
from snapdyn.dynamics.files.netcdf import read_dataset
from snapdyn.dynamics.training.transformer.runs import TransformerRun
from snapdyn.figures.output import FORMAT
from snapdyn.figures.panels import fitting_columns, folded_grid, legend_above, letter_panels
from snapdyn.figures.style import Axes, Figure, curve_style, line_width, new_figure, note_size
from snapdyn.validation.claims.published import (
    FIGURE_4,
    FIGURE_4_ITERATIONS,
    FIGURE_6,
    distinct_entropy,
    figure_6_runs,
)

if TYPE_CHECKING:
    from matplotlib.collections import QuadMesh

ITERATIONS = np.array(FIGURE_4_ITERATIONS)
SETUP = {name: FIGURE_4[name] for name in ("steps", "batch_size", "seq_len")}
SEEDS = {"quick": 10, "full": 100}
COMMON = np.arange(10)
# The most frequent distinct token of each class, the last of its ten.
DOMINANT = (19, 29)
RAREST = 10  # of the distinct tokens of class 0


def groups_of(classes: SequenceClasses, shown: Sequence[int]) -> dict[str, Ints]:
    """Return the common tokens and the distinct ones of each class to draw, each by increasing id."""
    distinct = {f"distinct of class {n}": classes.distinct_tokens(n) for n in shown}
    return {"common": classes.common_tokens()} | distinct


def attention_of(run: Trajectory, shown: Sequence[int]) -> np.ndarray:
    """Return attention c_n(l) of the classes to draw, (time, class, token); NaN: a token that the class does not have.

    Tokens are ordered by their groups: common ones, then the distinct ones of each of these classes.
    """
    classes = run.require_classes()
    order = np.concatenate(list(groups_of(classes, shown).values()))
    return np.where(classes.P.toarray() > 0, run.attention, np.nan)[:, shown][..., order]


def entropy(attention: xarray.DataArray) -> xarray.DataArray:
    """Return the entropy over tokens in nats; tokens that a class lacks are NaN."""
    return -(attention * np.log(attention)).sum("token")


def group_attributes(name: str, classes: SequenceClasses, shown: Sequence[int]) -> dict[str, Any]:
    """Return the name of the data, names of the groups of tokens, and the place of the first token of each."""
    groups = {group: tokens.size for group, tokens in groups_of(classes, shown).items()}
    data = {"syn_small": "Syn-Small"}.get(name, Path(name).stem)
    return {"data": data, "groups": list(groups), "first_tokens": np.cumsum([0, *groups.values()])[:-1].tolist()}


def tokens_of_group(dataset: xarray.Dataset, number: int) -> np.ndarray:
    """Return the places of the tokens of a group: 0 for the common ones, 1 + n for the distinct ones of class n."""
    ends = [*np.atleast_1d(dataset.attrs["first_tokens"])[1:], dataset.sizes["token"]]
    return np.arange(np.atleast_1d(dataset.attrs["first_tokens"])[number], ends[number])


def draw_strip(axes: Axes, strip: xarray.DataArray, first_tokens: Sequence[int], **style: Any) -> QuadMesh:
    """Draw (iteration, token) as a grid of cells, a row per iteration; grey: tokens that the class does not have."""
    rows, tokens = np.arange(strip.sizes["iteration"]), strip.token.values
    axes.set_facecolor("0.85")
    mesh = axes.pcolormesh(tokens, rows, strip.transpose("iteration", "token"), **style)
    axes.spines["left"].set_visible(False)
    axes.set_yticks(rows[::2], strip.iteration.values[::2])
    axes.set_ylim(rows[-1] + 0.5, -0.5)
    axes.tick_params(length=0)
    shown_groups = [first for first in first_tokens if first <= tokens[-1]]
    for first in shown_groups[1:]:
        axes.axvline(first - 0.5, color="white", linewidth=line_width(1.0))
    axes.set_xticks(shown_groups)
    axes.tick_params(axis="x", length=2)
    return mesh


def groups_legend(figure: Figure, settings: str, dataset: xarray.Dataset, absent: bool = True) -> None:
    """Write settings, the groups of tokens, and the meaning of grey above the panels."""
    from matplotlib.patches import Patch

    groups = [(tokens_of_group(dataset, number), name) for number, name in enumerate(dataset.attrs["groups"])]
    places = [
        ("–".join(map(str, dict.fromkeys(tokens[[0, -1]].tolist()))), name) for tokens, name in groups if tokens.size
    ]
    names = ", ".join(f"{place} {name}" for place, name in places)
    text = f"{dataset.attrs['data']}, {settings}; tokens: {names}"
    if not absent:
        figure.suptitle(text, fontsize=note_size())
        return
    handle = Patch(facecolor="0.85", label="token not in this class")
    legend_above(figure, [handle], title=text)


NUM_QUERIES = (1, 3, 5, 10)
ATTENTION_RATES = (0.5, 1.0, 2.0, 3.0)
RATIOS = (1.0, 2.0, 5.0, 10.0)  # eta_Y/eta_Z
# Where the printed axes of Figures 11 and 12 begin and end, by number of queries.
THRESHOLDS = {1: (0.028, 0.038), 3: (0.012, 0.016), 5: (0.0075, 0.0105), 10: (0.0040, 0.0050)}
NUM_THRESHOLDS = 41
SYN_MEDIUM_SETUP = {name: value for name, value in FIGURE_6.items() if value is not None}


@lru_cache(maxsize=4)
def final_states(num_seeds: int, momentum: float, batch_size: int) -> xarray.Dataset:
    """Measure entropy and recall at the end of the runs of Fig. 6, seeds 0, 1, ...

    Parameters
    ----------
    num_seeds : int
        Seeds per cell.
    momentum : float
        Momentum of SGD.
    batch_size : int

    Returns
    -------
    xarray.Dataset
        entropy (num_queries, eta_Z, ratio, seed), nats: mean over classes of the entropy of c_n over its distinct
        tokens, renormalised; recall (num_queries, eta_Z, ratio, seed, point) at threshold (num_queries, point):
        share of a query's distinct tokens (those of its classes) with softmax(z_m)_l over all V ids above the
        threshold, mean over queries. Computed once per process: three figures show it.
    """
    changes: dict[str, Any] = {"momentum": momentum, "batch_size": batch_size}
    entropies, recalls, thresholds = [], [], []
    for Q in NUM_QUERIES:
        classes = syn_medium(Q)
        cells = [(classes, ratio * eta_Z, eta_Z) for eta_Z in ATTENTION_RATES for ratio in RATIOS]
        runs = [run for cell in figure_6_runs(cells, range(num_seeds), **changes) for run in cell]
        threshold = np.linspace(*THRESHOLDS[Q], NUM_THRESHOLDS)
        shape = (len(ATTENTION_RATES), len(RATIOS), num_seeds)
        entropies.append(np.reshape([distinct_entropy(run) for run in runs], shape))
        recalls.append(recall(classes, np.array([run.z[-1] for run in runs]), threshold).reshape(*shape, -1))
        thresholds.append(threshold)
    return xarray.Dataset(
        {
            "entropy": (("num_queries", "eta_Z", "ratio", "seed"), np.array(entropies), {"units": "nats"}),
            "recall": (("num_queries", "eta_Z", "ratio", "seed", "point"), np.array(recalls)),
            "threshold": (("num_queries", "point"), np.array(thresholds)),
        },
        {
            "num_queries": list(NUM_QUERIES),
            "eta_Z": list(ATTENTION_RATES),
            "ratio": list(RATIOS),
            "seed": np.arange(num_seeds),
        },
        SYN_MEDIUM_SETUP | changes,
    )


def recall(classes: SequenceClasses, z: np.ndarray, threshold: np.ndarray) -> np.ndarray:
    """Return the share of a query's distinct tokens with softmax(z_m) over all V ids above each threshold, mean over m.

    z (runs, Q, M), rows in increasing query id; ids that are no contextual token have logit 0. Shape (runs, point).
    """
    logits = np.zeros((*z.shape[:2], classes.vocab_size))
    logits[:, :, : z.shape[2]] = z
    attention = softmax(logits, axis=2)
    shares = []
    for m, query in enumerate(classes.queries):
        distinct = np.concatenate([classes.distinct_tokens(int(n)) for n in np.flatnonzero(classes.query == query)])
        shares.append((attention[:, m, distinct][..., None] > threshold).mean(axis=1))
    return np.mean(shares, axis=0)


RATES = {"ratio": "\\eta_Y/\\eta_Z", "eta_Z": "\\eta_Z"}


def draw_recall(dataset: xarray.Dataset, columns: str, curves: str, width: float) -> Figure:
    """Draw mean over seeds and its standard error, a panel for each pair of num_queries and `columns`.

    In a narrow figure two of the columns of panels are below the other two.
    """
    count = dataset.sizes[columns]
    shown = count if fitting_columns(width, count, 1.25) == count else 2
    blocks, queries = -(-count // shown), dataset.sizes["num_queries"]
    figure = new_figure(width, 0.7 + (1.45, 0.95)[blocks - 1] * queries * blocks)
    grid = folded_grid(figure, queries, count, shown, sharey=True)
    for number, value in enumerate(dataset[columns].values):
        for axes, Q in zip(grid[:, number], dataset.num_queries.values, strict=True):
            _draw_recall(axes, dataset.sel({"num_queries": Q, columns: value}), curves)
            if number % shown == 0:
                axes.set_ylabel(f"recall, {Q} {'query' if Q == 1 else 'queries'}")
        grid[0, number].set_title(f"${RATES[columns]}$ = {value:g}")
        grid[-1, number].set_xlabel("threshold / $10^{-3}$")
    letter_panels(grid[0])
    legend_above(figure, title=f"mean of {dataset.sizes['seed']} seeds, band: standard error")
    return figure


def _draw_recall(axes: Axes, panel: xarray.Dataset, curves: str) -> None:
    from matplotlib.ticker import MaxNLocator

    threshold = 1e3 * panel.threshold  # so that the labels of ticks are short
    for number, value in enumerate(panel[curves].values):
        recall = panel.recall.sel({curves: value})
        # The bands of single runs would merge; the standard error says how well the mean is known.
        mean, error = recall.mean("seed"), recall.std("seed", ddof=1) / np.sqrt(panel.sizes["seed"])
        label = f"${RATES[curves]}$ = {value:g}"
        axes.plot(threshold, mean, label=label, **curve_style(number))
        axes.fill_between(threshold, mean - error, mean + error, color=f"C{number}", alpha=0.2, linewidth=0)
    axes.set(xlim=(threshold[0], threshold[-1]), ylim=(0.1, 1))
    axes.xaxis.set_major_locator(MaxNLocator(3, prune="both"))
    axes.xaxis.set_major_formatter("{x:g}")


def stored_data(name: str) -> xarray.Dataset:
    """Read the data of a figure that were computed from short runs (`figures/data/`); PyTorch is not needed.

    The runs on WikiText-2 are those of `examples/short_transformer_runs.py`.
    """
    with resources.as_file(resources.files("snapdyn.figures") / "data" / f"{name}.nc") as path:
        return read_dataset(Path(path), "figure data", FORMAT, "install snapdyn again")


def settings_text(run: TransformerRun) -> str:
    """Return the settings of a run that a reader must know, as they stand in a figure."""
    settings: Mapping[str, Any] = run.settings
    known = {
        "embedding": "width {}",
        "vocabulary": "{} words",
        "window": "window {}",
        "batch_size": "batch {}",
        "clip": "clip {}",
        "iterations": "{} iterations",
    }
    texts = [text.format(settings[name]) for name, text in known.items() if settings.get(name) is not None]
    return ", ".join([run.corpus, *texts])


def in_errors(difference: xarray.DataArray) -> float:
    """Return the mean over seeds in standard errors, smallest over all other dimensions."""
    errors = difference.std("seed", ddof=1) / np.sqrt(difference.sizes["seed"])
    return float((difference.mean("seed") / errors).min())
