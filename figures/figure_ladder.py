"""The ladder: error of each approximation from SGD to the closed form, over time."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import xarray
from pydantic import Field

from snapdyn.dynamics import single_common_token
from snapdyn.dynamics.observables import OBSERVABLES
from snapdyn.figures.declaration import BatchSize, CommonProbability, NumClasses, VocabSize, Whole, statement
from snapdyn.figures.panels import legend_above, letter_panels, panel_grid
from snapdyn.figures.style import DOUBLE_COLUMN, TIME_LABEL, Axes, Figure, curve_style, line_width, thin_dotted
from snapdyn.validation.rungs.build import ladder

TITLE = "Error of each approximation, from SGD to the closed form"
CAPTION = (
    "Largest difference of each approximation (rung of the ladder) from the next finer one, relative to the largest "
    "change of the observable in the run: K = 5, V = 1000, one common token of probability 0.05, eta_Y = eta_Z = 0.1, "
    "batch 64; finite T: 127 contextual tokens. Thin: differences that the noise of the seeds explains; dotted: the "
    "tolerance 0.05. The largest errors are those of the step from the mean field to Eq. (10) (finding F4) and of "
    "infinite T; finite steps and noise do not matter here."
)

POINTS = 40
SEEDS = {"quick": 16, "full": 64}
SHOWN = ("z", "entropy")
GAP = "gap relative to the largest change"
# The orbit is the leading beta in closed form: its gap is of the solver's tolerance and is not drawn.
SMALLEST_SHOWN = 1e-6


# At ten times the largest rates descent overshoots with the default classes, and its gaps grow up to infinity.
def compute(
    level: str,
    num_classes: NumClasses = 5,
    num_distinct: Annotated[Whole, Field(ge=2, description="distinct tokens of a class")] = 4,
    common_probability: CommonProbability = 0.05,
    vocab_size: VocabSize = 1000,
    eta_Y: Annotated[float, Field(ge=1e-4, le=10, description="rate of the decoder, per step")] = 0.1,
    eta_Z: Annotated[float, Field(ge=1e-4, le=10, description="rate of attention, per step")] = 0.1,
    seq_len: Annotated[Whole, Field(ge=1, description="contextual tokens of finite sequences")] = 127,
    batch_size: BatchSize = 64,
    last_time: Annotated[float, Field(ge=50, description="end of the run, batch-size-1 steps")] = 3000.0,
    seeds: Annotated[Whole | None, Field(ge=4, description="number of seeds, 16 or 64 by the level")] = None,
) -> xarray.Dataset:
    """Run the ladder on symmetric classes with one common token.

    Parameters
    ----------
    level : "quick" or "full"
        16 or 64 seeds of SGD.
    num_classes, num_distinct, common_probability, vocab_size, eta_Y, eta_Z, seq_len, batch_size, last_time, seeds
        See the annotations of these arguments.

    Returns
    -------
    xarray.Dataset
        gap, resolved (rung, observable, t) and scale as in `Ladder.gaps`. `gap` is the difference between each rung and
        the next finer one, in units of the largest change in the run; `resolved` is the part that noise of the seeds
        does not explain. Times in batch-size-1 steps.
    """
    count = seeds or SEEDS[level]
    classes = single_common_token(num_classes, num_distinct, common_probability, vocab_size)
    times = np.geomspace(1, last_time, POINTS)
    rungs = ladder(classes, eta_Y, eta_Z, times, seeds=count, seq_len=seq_len, batch_size=batch_size)
    return rungs.gaps.assign_attrs(seeds=count, tolerance=rungs.tolerance)


def draw(dataset: xarray.Dataset, width: float = DOUBLE_COLUMN) -> Figure:
    """Draw the gaps between neighbouring rungs over time, a panel per observable; thin where noise explains them."""
    figure, panels = panel_grid(width, 2, least=2.4, height=2.55, rest=0.8, ylabel=GAP, sharey=True)
    for axes, name in zip(panels.flat, SHOWN, strict=True):
        draw_gaps(axes, dataset, name)
        axes.set_title(OBSERVABLES[name].label)
    letter_panels(panels.flat)
    legend_above(figure, most_columns=3)
    return figure


def draw_gaps(axes: Axes, dataset: xarray.Dataset, observable: str) -> None:
    """Draw the gap of each rung from the next finer one: thin where the noise of the seeds explains it."""
    shown = dataset.isel(rung=(dataset.gap.max(["observable", "t"]) > SMALLEST_SHOWN).values)
    for number, rung in enumerate(shown.rung.values):
        pair = shown.sel(rung=rung, observable=observable)
        gap = np.where(pair.gap > 0, pair.gap, np.nan)
        style = curve_style(number)
        axes.plot(pair.t, gap, linewidth=line_width(0.5), **style)
        known = np.where(pair.resolved > 0.5 * pair.gap, gap, np.nan)
        axes.plot(pair.t, known, label=f"{pair.finer.item()} $\\rightarrow$ {rung}", **style)
    axes.plot([], [], color="0.3", linewidth=line_width(0.5), label="explained by the noise of the seeds")
    tolerance = dataset.attrs["tolerance"]
    axes.axhline(tolerance, color="0.5", label=f"tolerance {tolerance:g}", **thin_dotted())
    after_start = dataset.t.values[dataset.t.values > 0]  # times below half a step are rounded to step 0
    axes.set(xscale="log", yscale="log", xlim=after_start[[0, -1]], ylim=(SMALLEST_SHOWN, None))
    axes.set_xlabel(TIME_LABEL)


def _gap_in_z(dataset: xarray.Dataset, rung: str, of: str = "gap") -> xarray.DataArray:
    return dataset[of].max("t").sel(rung=rung, observable="z")


def _eta(dataset: xarray.Dataset) -> float:
    return float(dataset.attrs["eta_Y"])


PROPERTIES = (
    statement(
        "descent to mean field in z, first order in eta = 0.1",
        "mean field",
        lambda dataset: _gap_in_z(dataset, "mean field"),
        at_most=_eta,
    ),
    statement(
        "mean field to Eq. (10) in z (F4): it breaks the tolerance",
        "modified decoder",
        lambda dataset: _gap_in_z(dataset, "exact beta"),
        at_least=0.05,
    ),
    statement(
        "leading beta to its closed form, in z",
        "closed form",
        lambda dataset: _gap_in_z(dataset, "orbit"),
        at_most=1e-7,
    ),
    statement(
        "Eq. (13) to its closed form, in z",
        "closed form",
        lambda dataset: _gap_in_z(dataset, "closed form"),
        at_most=1e-7,
    ),
    statement(
        "SGD to descent in z beyond the noise of the seeds: a second-order effect of eta",
        "SGD",
        lambda dataset: _gap_in_z(dataset, "descent", "resolved"),
        at_most=_eta,
        wrong={
            "the same for sequences of 127 tokens as infinite ones": (
                lambda dataset: _gap_in_z(dataset, "SGD", "resolved")
            )
        },
    ),
)
GENERAL = tuple(prop.name for prop in PROPERTIES[2:4])
