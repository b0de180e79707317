"""Spurious tokens of small data sets: their number, and attention on them."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import xarray
from pydantic import Field

from snapdyn.analytic import expected_spurious, expected_spurious_attention, transition_time, variance_of_spurious
from snapdyn.dynamics import data_set, sgd
from snapdyn.figures.declaration import Whole, statement
from snapdyn.figures.panels import legend_above, letter_panels, panel_grid
from snapdyn.figures.style import CIRCLES, CLOCK, SINGLE_COLUMN, Figure, curve_style
from snapdyn.validation.claims.sample_classes import three_classes

TITLE = "Spurious tokens: how many a data set has, and what training makes of them"
CAPTION = (
    "Three classes of ten common tokens and three distinct ones, V = 50, sequences of T-1 = 20 tokens, of which N per "
    "class are stored and reused. (a) Number of tokens that look distinct and are common: exact expectation with one "
    "standard deviation, and data sets. (b) Attention on them, mean over all sequences: exact at z = 0, and at 10 t0 "
    "of SGD on the stored sequences (batch 8). With one sequence per class training hardly changes it; with more it "
    "falls."
)

SIZES = (1, 2, 3, 4, 6, 8, 12, 16)
DATA_SETS = {"quick": 60, "full": 400}
ETA = 0.1  # both rates, per step
WIDTH = SINGLE_COLUMN


def compute(
    level: str,
    seq_len: Annotated[Whole, Field(ge=2, le=1000, description="contextual tokens of a sequence, T-1")] = 20,
    data_sets: Annotated[Whole | None, Field(ge=2, description="data sets per N, by the level unless given")] = None,
) -> xarray.Dataset:
    """Draw data sets of each size, and train on them.

    Parameters
    ----------
    level : "quick" or "full"
        60 or 400 data sets per N.
    seq_len, data_sets
        See the annotations of these arguments.

    Returns
    -------
    xarray.Dataset
        By N: expected, deviation and expected_attention (exact); number, start and attention (data, N): spurious
        tokens, and attention on them before and after SGD; t_end, batch-size-1 steps.
    """
    classes, many = three_classes(), data_sets or DATA_SETS[level]
    end = round(10.0 * float(transition_time(classes.num_classes, classes.vocab_size, ETA, kind="end")))
    found = np.empty((3, many, len(SIZES)))
    for i, N in enumerate(SIZES):
        for seed in range(many):
            data = data_set(classes, N, seq_len, seed)
            run = sgd(data, ETA, ETA, end, batch_size=8, seed=seed, record=[0, end])
            found[:, seed, i] = len(data.spurious), *run.observable("spurious_attention")
    given = [(classes.P, classes.next_token, N, seq_len) for N in SIZES]
    return xarray.Dataset(
        {name: (("data", "N"), each) for name, each in zip(("number", "start", "attention"), found, strict=True)}
        | {
            "expected": ("N", [expected_spurious(*each) for each in given]),
            "deviation": ("N", [variance_of_spurious(*each) ** 0.5 for each in given]),
            "expected_attention": ("N", [expected_spurious_attention(*each) for each in given]),
            "t_end": ((), end, CLOCK),
        },
        {"N": list(SIZES), "data": np.arange(many)},
    )


def draw(dataset: xarray.Dataset, width: float = SINGLE_COLUMN) -> Figure:
    """Draw the number and attention over N: exact lines, and means over data sets with their standard errors."""
    figure, grid = panel_grid(width, 2, 1.6, 2.0, 0.6, xlabel="sequences per class, $N$")
    number, attention = grid.flat[:2]
    N, mean = dataset.N, dataset.mean("data")
    error = dataset.std("data") / dataset.sizes["data"] ** 0.5
    low, high = dataset.expected - dataset.deviation, dataset.expected + dataset.deviation
    number.fill_between(N, np.maximum(low, 0.0), high, color="0.85", linewidth=0, label="one standard deviation")
    number.plot(N, dataset.expected, **curve_style(0), label="exact, before training")
    number.errorbar(N, mean.number, error.number, color="C0", **CIRCLES, label="data sets")
    attention.plot(N, dataset.expected_attention, **curve_style(0))
    attention.errorbar(N, mean.attention, error.attention, color="C1", fmt="x", label="after SGD on them")
    number.set(ylabel="spurious tokens", ylim=(0, None))
    attention.set(ylabel="attention on them", yscale="log")
    letter_panels((number, attention))
    legend_above(figure, most_columns=2)
    return figure


def _in_errors(dataset: xarray.Dataset, number: xarray.DataArray) -> xarray.DataArray:
    """Largest distance of the mean number of spurious tokens from a law, in standard errors of the exact law."""
    return np.abs((dataset.number.mean("data") - number) / dataset.deviation).max() * dataset.sizes["data"] ** 0.5


def _left(dataset: xarray.Dataset, several: bool) -> xarray.DataArray:
    """Attention on spurious tokens at the end over the start, mean over data sets: largest over N > 1, or at N = 1."""
    mean = dataset.mean("data")
    ratio = mean.attention / mean.start
    return ratio.sel(N=slice(2, None)).max() if several else ratio.sel(N=1)


PROPERTIES = (
    statement(
        "mean number of spurious tokens against the exact law, in standard errors",
        "closed form",
        lambda dataset: _in_errors(dataset, dataset.expected),
        at_most=4.5,  # eight sizes, whose numbers are skewed where they are small
        wrong={
            "the number decays like 1/N": lambda dataset: _in_errors(dataset, dataset.expected.sel(N=1) / dataset.N)
        },
    ),
    statement(
        "attention on spurious tokens at the end over the start, largest over N > 1",
        "SGD",
        lambda dataset: _left(dataset, True),
        at_most=0.98,
        wrong={"one sequence per class is as many": lambda dataset: _left(dataset, False)},
    ),
)
