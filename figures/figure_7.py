"""Figure 7: attention of the lowest layer of transformers on text, during training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
import xarray
from pydantic import Field

from snapdyn.core.errors import InputError
from snapdyn.dynamics.training.transformer.runs import TransformerRun
from snapdyn.figures.declaration import statement
from snapdyn.figures.panels import fitting_columns, folded_grid, legend_above, letter_panels
from snapdyn.figures.shared_runs import settings_text, stored_data
from snapdyn.figures.style import DOUBLE_COLUMN, Axes, Figure, new_figure

TITLE = "Attention of transformers on text during training"
CAPTION = (
    "Attention of the lowest layer on one validation sequence; the heading gives the settings of the runs. The title "
    "of each map gives the iteration and the mean attention entropy on the validation text. Below, over the whole "
    "run: that entropy, and the share of attention that moves to other tokens per 100 iterations. Dashed (control): "
    "the same training on the same text after all its words were permuted at random, where the next word is "
    "unpredictable."
)
FROM_RUNS = True

STORED_RATE = 5.0  # of the runs that snapdyn has
SHOWN = 4  # iterations; the paper shows 0, 500, 1000 and 1500
WRITTEN, SHUFFLED = "as written", "words exchanged"
TEXTS = (WRITTEN, SHUFFLED)
PACE = 100  # iterations
SPARSE = -np.log(2)  # attention on half as many words, counted as exp(entropy)
FROZEN = 0.5  # of the fastest pace


def compute(
    level: str,
    runs: Sequence[TransformerRun] | None = None,
    learning_rate: Annotated[float, Field(gt=0, description="of the runs that are shown, per step")] = STORED_RATE,
) -> xarray.Dataset:
    """Choose from the saved runs at one rate, for each depth, the run with the smallest seed and its control.

    A control is a run with the same settings on a text whose words were permuted at random.

    Parameters
    ----------
    level : "quick" or "full"
        Level of the saved runs; not used here.
    runs : sequence of TransformerRun, optional
        Default: the short runs that come with snapdyn, at rate 5.
    learning_rate
        See the annotation of this argument.

    Returns
    -------
    xarray.Dataset
        attention (num_layers, frame, query, key), NaN where a position may not attend, shown_iteration and
        shown_entropy (num_layers, frame): the frames are the first and the last record, and those nearest to a third
        and to two thirds of the run. iteration, entropy (nats) and pace (share of attention that moves per 100
        iterations, since the record before) (num_layers, text, record): all records; NaN where a run has fewer.
    """
    if runs is None:
        if learning_rate != STORED_RATE:
            raise InputError(
                f"expected learning_rate {STORED_RATE:g}, that of the runs that come with snapdyn, received "
                f"{learning_rate:g}; give runs at this rate with --runs"
            )
        return stored_data("figure_7")
    chosen: dict[int, TransformerRun] = {}
    for run in sorted(runs, key=lambda run: run.seed):
        if run.learning_rate == learning_rate and run.iteration.size >= SHOWN and not run.shuffled:
            chosen.setdefault(run.num_layers, run)
    if not chosen:
        rates = sorted({run.learning_rate for run in runs})
        raise InputError(
            f"expected saved runs at learning rate {learning_rate:g} with at least {SHOWN} iterations for figure 7, "
            f"received rates {rates}"
        )
    lengths = {len(run.tokens) for run in chosen.values()}
    if len(lengths) > 1:
        raise InputError(f"expected runs on sequences of one length for figure 7, received lengths {sorted(lengths)}")
    depths = sorted(chosen)
    pairs = [(chosen[depth], _control(chosen[depth], runs)) for depth in depths]
    records = max(run.iteration.size for pair in pairs for run in pair if run)
    series = {name: np.full((len(pairs), len(TEXTS), records), np.nan) for name in ("iteration", "entropy", "pace")}
    for row, pair in enumerate(pairs):
        for column, member in enumerate(pair):
            if member:
                place = row, column, slice(member.iteration.size)
                series["iteration"][place], series["entropy"][place] = member.iteration, member.entropy
                series["pace"][place] = member.change / np.diff(member.iteration, prepend=np.nan) * PACE

    def of_frames(name: str) -> np.ndarray:
        return np.array([getattr(run, name)[_frames(run)] for run, _ in pairs])

    shown = ("num_layers", "frame")
    units = {"iteration": "SGD steps", "entropy": "nats", "pace": f"share of attention per {PACE} SGD steps"}
    return xarray.Dataset(
        {
            "attention": ((*shown, "query", "key"), of_frames("attention")),
            "shown_iteration": (shown, of_frames("iteration")),
            "shown_entropy": (shown, of_frames("entropy")),
            **{name: (("num_layers", "text", "record"), s, {"units": units[name]}) for name, s in series.items()},
        },
        {"num_layers": depths, "text": list(TEXTS)},
        {
            "corpus": pairs[0][0].corpus,
            "learning_rate": learning_rate,
            "settings": f"{settings_text(pairs[0][0])}, seed {pairs[0][0].seed}",
        },
    )


def _control(run: TransformerRun, runs: Sequence[TransformerRun]) -> TransformerRun | None:
    """Return the control of a run, with the same seed where possible."""
    controls = [
        other
        for other in runs
        if other.shuffled
        and (other.corpus, other.num_layers, other.learning_rate) == (run.corpus, run.num_layers, run.learning_rate)
        and other.settings == run.settings
    ]
    return min(controls, key=lambda other: (other.seed != run.seed, other.seed), default=None)


def _frames(run: TransformerRun) -> list[int]:
    wanted = np.linspace(run.iteration[0], run.iteration[-1], SHOWN)
    return [int(np.argmin(np.abs(run.iteration - i))) for i in wanted]


def draw(dataset: xarray.Dataset, width: float = DOUBLE_COLUMN) -> Figure:
    """Draw attention maps, a row per depth, a column per iteration; below entropy and pace over the whole run."""
    from matplotlib.colors import PowerNorm

    rows, frames = dataset.sizes["num_layers"], dataset.sizes["frame"]
    columns = frames if fitting_columns(width, frames, 1.25) == frames else 2
    blocks, wide = -(-frames // columns), fitting_columns(width, 2, 2.4)
    tall = 0.9 + (1.8, 1.05)[blocks - 1] * rows * blocks, 0.4 + (1.9 if wide > 1 else 2.6)
    figure = new_figure(width, sum(tall) + 0.3)
    parts: Any = figure.subfigures(2, 1, height_ratios=tall)
    maps, below = parts
    panels = folded_grid(maps, rows, frames, columns, sharex=True, sharey=True)
    # The square root keeps attention that is spread over 30 words visible beside attention on one word.
    colours = PowerNorm(0.5, vmin=0, vmax=float(dataset.attention.max()))
    for row, depth in zip(panels, dataset.num_layers.values, strict=True):
        for frame, axes in enumerate(row):
            shown = dataset.sel(num_layers=depth).isel(frame=frame)
            axes.set_facecolor("0.9")
            mesh = axes.imshow(shown.attention, norm=colours, aspect="auto", interpolation="nearest")
            title = f"iteration {shown.shown_iteration.item()}\n{shown.shown_entropy.item():.2f} nats"
            axes.set_title(title)
            if frame % columns == 0:
                axes.set_ylabel(f"{_layers(depth)}\nquery position")
    for axes in panels[-1, -columns:]:
        axes.set_xlabel("key position")
    maps.colorbar(mesh, ax=panels, label="attention", location="bottom", pad=0.02, aspect=40)
    settings = dataset.attrs.get("settings", dataset.attrs["corpus"])
    figure.suptitle(f"{settings}; learning rate {dataset.attrs['learning_rate']:g}", fontsize="medium")
    entropy, pace = below.subplots(2 // wide, wide, squeeze=False).flat
    _draw_series(entropy, dataset, "entropy")
    entropy.set_title("entropy of attention (nats)")
    _draw_series(pace, dataset, "pace")
    pace.set_title(f"attention that moves per {PACE} iterations")
    letter_panels([*panels.flat, entropy, pace])
    legend_above(below, loc="outside lower center")
    return figure


def _draw_series(axes: Axes, dataset: xarray.Dataset, name: str) -> None:
    for number, depth in enumerate(dataset.num_layers.values):
        for text, line, marker in ((WRITTEN, "-", "o"), (SHUFFLED, "--", "x")):
            run = dataset.sel(num_layers=depth, text=text)
            if run.iteration.notnull().any():
                axes.plot(
                    run.iteration,
                    run[name],
                    f"C{number}{line}",
                    marker=marker,
                    markerfacecolor="white",
                    clip_on=False,
                    label=_layers(depth) + (", words permuted" if text == SHUFFLED else ""),
                )
    axes.set_xlabel("iteration")
    axes.set_xlim(float(dataset.iteration.min()), float(dataset.iteration.max()))
    axes.set_ylim(bottom=0)


def _layers(depth: int) -> str:
    return f"{depth} layer{'s' if depth > 1 else ''}"


def _last(series: xarray.DataArray) -> xarray.DataArray:
    """Last value of each run; runs may have fewer records than others."""
    return series.isel(record=series.notnull().sum("record") - 1)


def _fall(dataset: xarray.Dataset, text: str) -> xarray.DataArray:
    """Change of the entropy from first to last record, by depth."""
    return (_last(dataset.entropy) - dataset.entropy.isel(record=0)).sel(text=text)


def _shuffled(dataset: xarray.Dataset) -> xarray.DataArray | None:
    fall = _fall(dataset, SHUFFLED)
    return fall.min() if fall.notnull().any() else None


PROPERTIES = (
    statement(
        "change of the entropy from first to last record, largest over depths (-ln 2: half as many words attended)",
        "transformer",
        lambda dataset: _fall(dataset, WRITTEN).max(),
        at_most=SPARSE,
        wrong={
            "attention spreads out, the records backwards, change of the entropy": (
                lambda dataset: -_fall(dataset, WRITTEN).max()
            ),
            "attention becomes sparse on any text; change of the entropy, words permuted at random, smallest over "
            "depths": _shuffled,
        },
    ),
    statement(
        "pace of attention, last over fastest, largest over depths",
        "transformer",
        lambda dataset: (_last(dataset.pace) / dataset.pace.max("record")).sel(text=WRITTEN).max(),
        at_most=FROZEN,
    ),
)
