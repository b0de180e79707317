"""Figure 4: attention on Syn-Small by SGD, the mean field at the clock of momentum, and the errors of theory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import xarray

from snapdyn.dynamics import MeanField, momentum_clock, sgd, syn_small
from snapdyn.figures.style import CLOCK, DOUBLE_COLUMN, new_figure
from snapdyn.figures.syn_small import COMMON, DOMINANT, ITERATIONS, SEEDS, SETUP, attention_of, draw_strip
from snapdyn.validation.accurate_runs import TOLERANCES, accurate_run
from snapdyn.validation.checks import Check
from snapdyn.validation.published import FIGURE_4, figure_4_runs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Attention on Syn-Small, SGD and mean field"
CAPTION = (
    "Attention c_n(l) on Syn-Small, both classes, eta_Y = 1 (above) and 10 (below), eta_Z = 1. Columns: SGD with "
    "momentum 0.9, batch 128, T = 128, zero start; the mean field at the time that a constant gradient would have "
    "reached; the difference of SGD from the mean field; the difference of SGD from descent with momentum on the "
    "expected gradient (T infinite). Grey: tokens that the class does not have. At eta_Y = 1 the mean field lags at "
    "iteration 48, because momentum builds up twice, in the decoder and then in attention; descent with momentum does "
    "not lag. At eta_Y = 10 the errors of the clock and of infinite T nearly cancel."
)

DECODER_RATES, ETA_Z = np.array([1.0, 10.0]), 1.0
MOMENTUM = FIGURE_4["momentum"]


def compute(level: str) -> xarray.Dataset:
    """Train on Syn-Small at both decoder rates; run descent on the expected gradient and the mean field.

    Parameters
    ----------
    level : "quick" or "full"
        10 or 100 seeds.

    Returns
    -------
    xarray.Dataset
        Attention c_n(l), NaN where P(l|n) = 0: sgd (eta_Y, seed, iteration, class, token); descent and mean_field
        (eta_Y, iteration, class, token). descent: gradient descent with the same momentum, T infinite, no noise;
        mean_field: the flow at t (iteration), batch-size-1 steps, at which a constant gradient would have arrived.
    """
    t = momentum_clock(ITERATIONS, MOMENTUM)
    noisy = [[attention_of(run) for run in figure_4_runs(rate, ETA_Z, range(SEEDS[level]))] for rate in DECODER_RATES]
    steps = {"steps": SETUP["steps"], "batch_size": None, "momentum": MOMENTUM, "record": ITERATIONS}
    descent = [attention_of(sgd(syn_small(), rate, ETA_Z, **steps)) for rate in DECODER_RATES]
    theory = [attention_of(accurate_run(MeanField(syn_small(), rate, ETA_Z), t)) for rate in DECODER_RATES]
    return xarray.Dataset(
        {
            "sgd": (("eta_Y", "seed", "iteration", "class", "token"), np.array(noisy)),
            "descent": (("eta_Y", "iteration", "class", "token"), np.array(descent)),
            "mean_field": (("eta_Y", "iteration", "class", "token"), np.array(theory)),
            "t": ("iteration", t, CLOCK),
        },
        {
            "eta_Y": DECODER_RATES,
            "seed": np.arange(SEEDS[level]),
            "iteration": ("iteration", ITERATIONS, {"units": "SGD steps"}),
            "token": np.arange(np.shape(noisy)[-1]),
        },
        {"eta_Z": ETA_Z, "momentum": MOMENTUM, **SETUP, **TOLERANCES},
    )


def draw(dataset: xarray.Dataset) -> Figure:
    """Draw a row per rate and class: SGD (mean over seeds), mean field, differences of SGD from both theories."""
    figure = new_figure(DOUBLE_COLUMN, 5.6)
    sgd = dataset.sgd.mean("seed")
    differences = [sgd - dataset.mean_field, sgd - dataset.descent]
    highest = float(sgd.max())
    widest = float(np.abs(xarray.concat(differences, "theory")).max())
    panels = figure.subplots(4, 4, sharex=True, sharey=True)
    cases = [(eta_Y, n) for eta_Y in dataset.eta_Y.values for n in range(dataset.sizes["class"])]
    for row, (eta_Y, n) in zip(panels, cases, strict=True):
        for axes, strip in zip(row[:2], (sgd, dataset.mean_field), strict=True):
            level = draw_strip(axes, strip.sel(eta_Y=eta_Y).isel({"class": n}), vmin=0, vmax=highest)
        for axes, strip in zip(row[2:], differences, strict=True):
            shown = strip.sel(eta_Y=eta_Y).isel({"class": n})
            change = draw_strip(axes, shown, vmin=-widest, vmax=widest, cmap="RdBu_r")
        row[0].set_ylabel(f"$\\eta_Y$ = {eta_Y:g}, class {n}\niteration")
    titles = (
        f"SGD, mean of {dataset.sizes['seed']} seeds",
        "mean field at its clock",
        "SGD $-$ mean field",
        "SGD $-$ descent\nwith momentum, $T = \\infty$",
    )
    for axes, title in zip(panels[0], titles, strict=True):
        axes.set_title(title)
    for axes in panels[-1]:
        axes.set_xlabel("token")
    for shown, mesh, label in ((panels[:, :2], level, "attention $c_n(l)$"), (panels[:, 2:], change, "difference")):
        figure.colorbar(mesh, ax=shown, label=label, orientation="horizontal", aspect=40, pad=0.02)
    return figure


def check(dataset: xarray.Dataset) -> list[Check]:
    """Check the movement of tokens, the denser attention at the larger eta_Y/eta_Z, and the errors of both theories."""
    final = dataset.sel(iteration=48)
    change = dataset.sgd - dataset.sgd.sel(iteration=0)
    lost = -change.sel(token=COMMON, iteration=48).sum("token")
    gained = xarray.concat([change.isel({"class": n}).sel(token=DOMINANT[n], iteration=48) for n in (0, 1)], "class")
    denser = (entropy(final.sgd.sel(eta_Y=10.0)) - entropy(final.sgd.sel(eta_Y=1.0))).mean("class")
    off = [
        np.abs(final.sgd.mean("seed") - final[theory]).max(["class", "token"]) for theory in ("descent", "mean_field")
    ]
    closer = off[0] / off[1]
    return [
        Check("attention lost by the common tokens, in standard errors", "SGD", in_errors(lost), 3.0, ">="),
        Check("attention gained by the dominant token, in standard errors", "SGD", in_errors(gained), 3.0, ">="),
        Check("entropy, eta_Y = 10 less eta_Y = 1, in standard errors", "SGD", in_errors(denser), 3.0, ">="),
        Check(
            "difference of SGD from descent with momentum over that from the mean field, eta_Y = 1, iteration 48",
            "descent",
            float(closer.sel(eta_Y=1.0)),
            1.0,
        ),
        Check(
            "wrong theory: descent is closer at every eta_Y (at 10 the clock's error and that of T = 128 cancel)",
            "descent",
            float(closer.max()),
            1.0,
            role="control",
        ),
        Check(
            "wrong theory: the smaller ratio ends denser, in standard errors",
            "SGD",
            in_errors(-denser),
            3.0,
            ">=",
            role="control",
        ),
    ]


def in_errors(difference: xarray.DataArray) -> float:
    """Return the mean over seeds in standard errors, smallest over all other dimensions."""
    errors = difference.std("seed", ddof=1) / np.sqrt(difference.sizes["seed"])
    return float((difference.mean("seed") / errors).min())


def entropy(attention: xarray.DataArray) -> xarray.DataArray:
    """Return the entropy over tokens in nats; tokens that a class lacks are NaN."""
    return -(attention * np.log(attention)).sum("token")
