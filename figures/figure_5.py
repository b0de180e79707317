"""Figure 5: attention on Syn-Small trained with Adam at three rates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import xarray

from snapdyn.figures.figure_4 import entropy, in_errors
from snapdyn.figures.style import DOUBLE_COLUMN, new_figure
from snapdyn.figures.syn_small import COMMON, DOMINANT, ITERATIONS, SEEDS, SETUP, attention_of, draw_strip
from snapdyn.validation.checks import Check
from snapdyn.validation.published import figure_4_runs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Attention on Syn-Small with Adam"
CAPTION = (
    "Attention of class 0 on Syn-Small with Adam at eta_Y = eta_Z = 0.1, 0.5 and 1, batch 128, T = 128, zero start, "
    "mean over seeds. Common tokens lose attention at every rate, and a larger rate gives sparser attention at "
    "iteration 48. Which distinct token wins depends on the rate: Adam divides by the size of the gradient, so rare "
    "tokens move as fast as frequent ones, and the most frequent token leads at rate 1 only."
)

RATES = np.array([0.1, 0.5, 1.0])  # eta_Y = eta_Z


def compute(level: str) -> xarray.Dataset:
    """Train on Syn-Small with Adam.

    Parameters
    ----------
    level : "quick" or "full"
        10 or 100 seeds.

    Returns
    -------
    xarray.Dataset
        attention (rate, seed, iteration, token): c_0(l) of the first class, tokens 0-19.
    """
    runs = [figure_4_runs(rate, rate, range(SEEDS[level]), optimizer="adam", momentum=0.0) for rate in RATES]
    attention = [[attention_of(run)[:, 0, :20] for run in seeds] for seeds in runs]
    return xarray.Dataset(
        {"attention": (("rate", "seed", "iteration", "token"), np.array(attention))},
        {
            "rate": RATES,
            "seed": np.arange(SEEDS[level]),
            "iteration": ("iteration", ITERATIONS, {"units": "Adam steps"}),
            "token": np.arange(20),
        },
        {"optimizer": "adam", "betas": [0.9, 0.999], "eps": 1e-8, **SETUP},
    )


def draw(dataset: xarray.Dataset) -> Figure:
    """Draw a strip per rate, mean over seeds."""
    figure = new_figure(DOUBLE_COLUMN, 2.3)
    panels = figure.subplots(1, dataset.sizes["rate"], sharey=True)
    mean = dataset.attention.mean("seed")
    for axes, rate in zip(panels, dataset.rate.values, strict=True):
        mesh = draw_strip(axes, mean.sel(rate=rate), vmin=0, vmax=float(mean.max()))
        axes.set_title(f"Adam, $\\eta_Y = \\eta_Z$ = {rate:g}")
        axes.set_xlabel("token (0-9 common)")
    panels[0].set_ylabel("iteration")
    figure.colorbar(mesh, ax=panels, label="attention $c_0(l)$", aspect=14, pad=0.01)
    return figure


def check(dataset: xarray.Dataset) -> list[Check]:
    """Check that common tokens lose, a larger rate gives sparser attention, and the winner depends on the rate."""
    start, final = dataset.attention.sel(iteration=0), dataset.attention.sel(iteration=48)
    common = (final - start).sel(token=COMMON).sum("token")
    steps = entropy(final).diff("rate")
    frequent = (final.idxmax("token") == DOMINANT[0]).mean("seed")  # share of the seeds
    return [
        Check(
            "change of the common tokens' attention by iteration 48, largest over seeds",
            "SGD",
            float(common.max()),
            0.0,
        ),
        Check(
            "fall of the entropy at iteration 48 from a rate to the next, smallest, in standard errors",
            "SGD",
            in_errors(-steps),
            3.0,
            ">=",
        ),
        Check(
            "share of the seeds in which the most frequent distinct token leads at iteration 48, rate 1",
            "SGD",
            float(frequent.sel(rate=1.0)),
            0.9,
            ">=",
        ),
        Check(
            "wrong theory: it leads at every rate, smallest share of the seeds",
            "SGD",
            float(frequent.min()),
            0.9,
            ">=",
            role="control",
        ),
        Check(
            "wrong theory: a larger rate gives denser attention, in standard errors",
            "SGD",
            in_errors(steps),
            3.0,
            ">=",
            role="control",
        ),
    ]
