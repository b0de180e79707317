"""Figure 4: attention on Syn-Small by SGD, the mean field at the clock of momentum, and the errors of theory."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import xarray
from pydantic import Field

from snapdyn.dynamics import momentum_clock, sgd
from snapdyn.figures.declaration import (
    SYN_SMALL,
    Classes,
    Momentum,
    Seeds,
    ShownClasses,
    TwoDecoderRates,
    chosen_classes,
    classes_to_draw,
    statement,
)
from snapdyn.figures.panels import fitting_columns, folded_grid, letter_panels
from snapdyn.figures.shared_runs import (
    ITERATIONS,
    SEEDS,
    SETUP,
    attention_of,
    draw_strip,
    entropy,
    group_attributes,
    groups_legend,
    in_errors,
    tokens_of_group,
)
from snapdyn.figures.style import CLOCK, DOUBLE_COLUMN, Figure, new_figure
from snapdyn.validation.claims.published import figure_4_runs
from snapdyn.validation.rungs.run import MEAN_FIELD, TOLERANCES, not_interrupted, run_on_rung

MOST_HEIGHT = 9.0  # inches: a page
MOST_FOLDED = 6  # rows
TITLE = "Attention by SGD and by the mean field"
CAPTION = (
    "Attention c_n(l) on Syn-Small, both classes, eta_Y = 1 (above) and 10 (below), eta_Z = 1. Columns: SGD with "
    "momentum 0.9, batch 128, T = 128, zero start; the mean field at t, the time on the clock of momentum (a constant "
    "gradient moves attention as far by then as by the iteration); the difference of SGD from the mean field; the "
    "difference of SGD from descent with momentum on the expected gradient (T infinite). Grey: tokens that the class "
    "does not have. At eta_Y = 1 the mean field lags at iteration 48, because momentum builds up twice, in the "
    "decoder and then in attention; descent with momentum does not lag. At eta_Y = 10 the errors of the clock and of "
    "infinite T nearly cancel."
)


# Below these rates 48 iterations do not move attention by 3 standard errors; at ten times the largest SGD overshoots.
def compute(
    level: str,
    eta_Y: TwoDecoderRates[Annotated[float, Field(ge=0.1, le=10)]] = (1.0, 10.0),
    eta_Z: Annotated[float, Field(ge=0.01, le=10, description="rate of attention, per step")] = 1.0,
    momentum: Momentum = 0.9,
    seeds: Seeds = None,
    classes: Classes = SYN_SMALL,
    shown: ShownClasses = None,
) -> xarray.Dataset:
    """Train on Syn-Small, or on own classes, at both decoder rates; run descent and the mean field.

    Parameters
    ----------
    level : "quick" or "full"
        10 or 100 seeds.
    eta_Y, eta_Z, momentum, seeds, classes, shown
        See the annotations of these arguments.

    Returns
    -------
    xarray.Dataset
        Attention c_n(l), NaN where P(l|n) = 0: sgd (eta_Y, seed, iteration, class, token); descent and mean_field
        (eta_Y, iteration, class, token). descent: gradient descent with the same momentum, T infinite, no noise;
        mean_field: the flow at t (iteration), in batch-size-1 steps. Under a constant gradient, t steps without
        momentum move as far as the iterations with momentum.
    """
    count, own = seeds or SEEDS[level], chosen_classes(classes)
    numbers = classes_to_draw(own, shown)
    t = momentum_clock(ITERATIONS, momentum)
    noisy = [
        [attention_of(run, numbers) for run in figure_4_runs(rate, eta_Z, range(count), own, momentum=momentum)]
        for rate in eta_Y
    ]
    steps = {"steps": SETUP["steps"], "batch_size": None, "momentum": momentum, "record": ITERATIONS}
    descent = [
        attention_of(run, numbers) for run in not_interrupted([sgd(own, rate, eta_Z, **steps) for rate in eta_Y])
    ]
    theory = [attention_of(run_on_rung(MEAN_FIELD, own, rate, eta_Z, t, **TOLERANCES), numbers) for rate in eta_Y]
    return xarray.Dataset(
        {
            "sgd": (("eta_Y", "seed", "iteration", "class", "token"), np.array(noisy)),
            "descent": (("eta_Y", "iteration", "class", "token"), np.array(descent)),
            "mean_field": (("eta_Y", "iteration", "class", "token"), np.array(theory)),
            "t": ("iteration", t, CLOCK),
        },
        {
            "eta_Y": np.array(eta_Y),
            "seed": np.arange(count),
            "iteration": ("iteration", ITERATIONS, {"units": "SGD steps"}),
            "class": numbers,
            "token": np.arange(np.shape(noisy)[-1]),
        },
        {**SETUP, **TOLERANCES, **group_attributes(classes, own, numbers)},
    )


def draw(dataset: xarray.Dataset, width: float = DOUBLE_COLUMN) -> Figure:
    """Draw a row per rate and class: SGD (mean over seeds), mean field, differences of SGD from both theories."""
    from matplotlib.colors import SymLogNorm

    sgd = dataset.sgd.mean("seed")
    differences = [sgd - dataset.mean_field, sgd - dataset.descent]
    highest = float(sgd.max())
    # A scale of their own, logarithmic beyond its middle: at the larger rate they are a small part of the largest one.
    widest = float(np.abs(xarray.concat(differences, "theory")).max())
    scale = {"norm": SymLogNorm(widest / 50, vmin=-widest, vmax=widest), "cmap": "RdBu_r"}
    strips: list[tuple[xarray.DataArray, dict[str, Any], str]] = [
        (sgd, {"vmin": 0, "vmax": highest}, f"SGD, mean of {dataset.sizes['seed']} seeds"),
        (dataset.mean_field, {"vmin": 0, "vmax": highest}, "mean field at its clock"),
        (differences[0], scale, "SGD $-$ mean field"),
        (differences[1], scale, "SGD $-$ descent, $T = \\infty$"),
    ]
    cases = [(eta_Y, n) for eta_Y in dataset.eta_Y.values for n in dataset["class"].values]
    # In a narrow figure two of the strips stand below the other two, unless there are too many rows for that.
    columns = 4 if fitting_columns(width, 4, 1.3) == 4 or len(cases) > MOST_FOLDED else 2
    blocks = 4 // columns
    rest, panel = 0.9 + 0.5 * blocks, (1.15, 0.82)[blocks - 1]
    figure = new_figure(width, rest + min(panel * blocks * len(cases), MOST_HEIGHT - rest))
    grid = folded_grid(figure, len(cases), len(strips), columns, sharex=True, sharey=True)
    for number, (values, style, title) in enumerate(strips):
        for axes, (eta_Y, n) in zip(grid[:, number], cases, strict=True):
            mesh = draw_strip(axes, values.sel({"eta_Y": eta_Y, "class": n}), dataset.attrs["first_tokens"], **style)
            if number % columns == 0:
                axes.set_ylabel(f"$\\eta_Y$ = {eta_Y:g}\nclass {n}")
        grid[0, number].set_title(title)
        if number % 2:  # one colour bar for two strips
            shown = grid[:, number - 1 : number + 1]
            label = "attention $c_n(l)$" if number == 1 else "difference of attention"
            where: dict[str, Any] = {"orientation": "horizontal", "aspect": 40, "pad": 0.02}
            bar = figure.colorbar(mesh, ax=shown, label=label, **where)
            bar.ax.minorticks_off()
            if number == 3:
                ten = 10.0 ** np.floor(np.log10(widest)) if widest else 0.0
                bar.set_ticks([-ten, 0.0, ten])
    letter_panels(grid[0])
    figure.supylabel("iteration", fontsize="medium")
    for axes in grid[-1, -columns:]:
        axes.set_xlabel("token")
    settings = f"$\\eta_Z$ = {dataset.attrs['eta_Z']:g}, momentum {dataset.attrs['momentum']:g}"
    groups_legend(figure, settings, dataset)
    return figure


def _change(dataset: xarray.Dataset) -> xarray.DataArray:
    """Change of attention by iteration 48 in SGD."""
    return dataset.sgd.sel(iteration=48) - dataset.sgd.sel(iteration=0)


def _gained(dataset: xarray.Dataset) -> xarray.DataArray:
    change, start = _change(dataset), dataset.sgd.sel(iteration=0).isel(eta_Y=0, seed=0)
    gained = []
    for n in range(dataset.sizes["class"]):
        distinct = tokens_of_group(dataset, 1 + n)
        dominant = distinct[int(np.argmax(start.isel({"class": n, "token": distinct}).values))]
        gained.append(change.isel({"class": n, "token": dominant}, drop=True))
    return xarray.concat(gained, "class")


def _denser(dataset: xarray.Dataset) -> xarray.DataArray:
    """Entropy at iteration 48, at eta_Y = 10 minus at eta_Y = 1, by seed."""
    final = dataset.sgd.sel(iteration=48)
    return (entropy(final.isel(eta_Y=1)) - entropy(final.isel(eta_Y=0))).mean("class")


def _closer(dataset: xarray.Dataset) -> xarray.DataArray:
    """Difference of SGD from descent, divided by its difference from the mean field, at iteration 48, by eta_Y."""
    final = dataset.sel(iteration=48)
    mean = final.sgd.mean("seed")
    off = [np.abs(mean - final[theory]).max(["class", "token"]) for theory in ("descent", "mean_field")]
    return off[0] / off[1]


PROPERTIES = (
    statement(
        "attention lost by the common tokens, in standard errors",
        "SGD",
        lambda dataset: in_errors(-_change(dataset).isel(token=tokens_of_group(dataset, 0)).sum("token")),
        at_least=3.0,
    ),
    statement(
        "attention gained by the dominant token, in standard errors",
        "SGD",
        lambda dataset: in_errors(_gained(dataset)),
        at_least=3.0,
    ),
    statement(
        "entropy, eta_Y = 10 minus eta_Y = 1, in standard errors",
        "SGD",
        lambda dataset: in_errors(_denser(dataset)),
        at_least=3.0,
        wrong={"the smaller ratio ends denser, in standard errors": lambda dataset: in_errors(-_denser(dataset))},
    ),
    statement(
        "difference of SGD from descent with momentum over that from the mean field, eta_Y = 1, iteration 48",
        "descent",
        lambda dataset: _closer(dataset).isel(eta_Y=0),
        at_most=1.0,
        wrong={
            "descent is closer at every eta_Y (at 10 the clock's error and that of T = 128 cancel)": (
                lambda dataset: _closer(dataset).max()
            )
        },
    ),
)
GENERAL = tuple(prop.name for prop in PROPERTIES[:2])
