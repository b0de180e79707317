"""The ladder: error of each approximation from SGD to the closed form, over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import xarray

from snapdyn.dynamics import single_common_token
from snapdyn.figures.style import DOUBLE_COLUMN, TIME_LABEL, new_figure
from snapdyn.validation.checks import Check
from snapdyn.validation.rungs import ladder

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Error of each approximation, from SGD to the closed form"
CAPTION = (
    "Largest difference of each rung of the ladder from the next finer rung, relative to the largest change of the "
    "observable in the run: K = 5, V = 1000, one common token of probability 0.05, eta_Y = eta_Z = 0.1, batch 64; "
    "finite T: 127 contextual tokens. Thin: differences that the noise of the seeds explains; dotted: the tolerance "
    "0.05. The largest errors are those of the step from the mean field to Eq. (10) (F4) and of infinite T; finite "
    "steps and noise do not matter here."
)

NUM_CLASSES, NUM_DISTINCT, COMMON_PROBABILITY, VOCAB_SIZE = 5, 4, 0.05, 1000
ETA = 0.1  # both rates
SEQ_LEN, BATCH_SIZE = 127, 64
LAST_TIME, POINTS = 3000, 40
SEEDS = {"quick": 16, "full": 64}
OBSERVABLES = {"z": "attention logits $z$", "entropy": "entropy of attention"}
STYLES = ("-", "--", "-.", (0, (1, 1)), (0, (5, 1, 1, 1)), (0, (3, 2)))
# The orbit is the leading beta in closed form: its gap is of the solver's tolerance and is not drawn.
SMALLEST_SHOWN = 1e-6


def compute(level: str) -> xarray.Dataset:
    """Run the ladder on symmetric classes with one common token.

    Parameters
    ----------
    level : "quick" or "full"
        16 or 64 seeds of SGD.

    Returns
    -------
    xarray.Dataset
        gap, resolved (rung, observable, t) and scale as in `Ladder.gaps`: between each rung and the next finer one, in
        units of the largest change in the run; `resolved` is the part that noise of the seeds does not explain. Times
        in batch-size-1 steps.
    """
    classes = single_common_token(NUM_CLASSES, NUM_DISTINCT, COMMON_PROBABILITY, VOCAB_SIZE)
    times = np.geomspace(1, LAST_TIME, POINTS)
    rungs = ladder(classes, ETA, ETA, times, seeds=SEEDS[level], seq_len=SEQ_LEN, batch_size=BATCH_SIZE)
    return rungs.gaps.assign_attrs(
        num_classes=NUM_CLASSES,
        num_distinct=NUM_DISTINCT,
        common_probability=COMMON_PROBABILITY,
        vocab_size=VOCAB_SIZE,
        eta_Y=ETA,
        eta_Z=ETA,
        seq_len=SEQ_LEN,
        batch_size=BATCH_SIZE,
        seeds=SEEDS[level],
        tolerance=rungs.tolerance,
    )


def draw(dataset: xarray.Dataset) -> Figure:
    """Draw the gaps between neighbouring rungs over time, a panel per observable; thin where noise explains them."""
    figure = new_figure(DOUBLE_COLUMN, 3.4)
    shown = dataset.isel(rung=(dataset.gap.max(["observable", "t"]) > SMALLEST_SHOWN).values)
    for axes, (name, label) in zip(figure.subplots(1, 2, sharey=True), OBSERVABLES.items(), strict=True):
        for number, rung in enumerate(shown.rung.values):
            pair = shown.sel(rung=rung, observable=name)
            gap = np.where(pair.gap > 0, pair.gap, np.nan)
            text = f"{pair.finer.item()} $\\rightarrow$ {rung}"
            axes.plot(pair.t, gap, linestyle=STYLES[number % len(STYLES)], color=f"C{number}", linewidth=0.5)
            known = np.where(pair.resolved > 0.5 * pair.gap, gap, np.nan)
            axes.plot(pair.t, known, linestyle=STYLES[number % len(STYLES)], color=f"C{number}", label=text)
        axes.axhline(dataset.attrs["tolerance"], color="0.5", linestyle=":", linewidth=0.8)
        axes.set(xscale="log", yscale="log", xlim=(1, LAST_TIME), ylim=(SMALLEST_SHOWN, None), title=label)
        axes.set_xlabel(TIME_LABEL)
    figure.axes[0].set_ylabel("gap relative to the largest change")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3)
    return figure


def check(dataset: xarray.Dataset) -> list[Check]:
    """Check that descent follows the flow to first order in eta, Eq. (10) breaks it, and closed forms are exact."""
    largest = dataset.gap.max("t")
    resolved = dataset.resolved.max("t")

    def largest_gap_in_z(rung: str) -> float:
        return float(largest.sel(rung=rung, observable="z"))

    return [
        Check(
            "descent to mean field in z, first order in eta = 0.1",
            "mean field",
            largest_gap_in_z("mean field"),
            dataset.attrs["eta_Y"],
        ),
        Check(
            "mean field to Eq. (10) in z (F4): it breaks the tolerance",
            "modified decoder",
            largest_gap_in_z("exact beta"),
            0.05,
            ">=",
        ),
        Check("leading beta to its closed form, in z", "closed form", largest_gap_in_z("orbit"), 1e-7),
        Check("Eq. (13) to its closed form, in z", "closed form", largest_gap_in_z("closed form"), 1e-7),
        Check(
            "SGD to descent in z beyond the noise of the seeds: a second-order effect of eta",
            "SGD",
            float(resolved.sel(rung="descent", observable="z")),
            dataset.attrs["eta_Y"],
        ),
        Check(
            "wrong theory: sequences of 127 tokens behave as infinite ones within the tolerance, beyond the noise",
            "SGD",
            float(resolved.sel(rung="SGD", observable="z")),
            0.05,
            role="control",
        ),
    ]
