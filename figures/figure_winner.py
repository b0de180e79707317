"""Which distinct token wins under gradient descent, sign descent and Adam: training and the mean map."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import numpy as np
import xarray
from pydantic import Field

from snapdyn.dynamics import Adam, MeanField, Trajectory, descend, sgd
from snapdyn.dynamics.classes.table import Floats
from snapdyn.figures.declaration import BatchSize, Rate, Seeds, Whole, statement
from snapdyn.figures.panels import legend_above, letter_panels, panel_grid
from snapdyn.figures.style import DOUBLE_COLUMN, Figure
from snapdyn.validation.claims.sample_classes import three_frequencies
from snapdyn.validation.rungs.run import not_interrupted

TITLE = "Which distinct token wins: gradient descent, sign descent, Adam"
CAPTION = (
    "Three classes of one query, V = 60, each with a common token (probability 0.3) and three distinct tokens (0.4, "
    "0.2, 0.1); eta_Y = eta_Z = 0.01, zero start, infinite T, batch 32. Shares of the distinct tokens in the "
    "attention that class 0 pays to its distinct tokens. Lines: mean map, the rule's step with the mean gradient; "
    "bands: 10 to 90 % of training runs, mostly narrower than the lines. With gradient descent the most frequent "
    "token keeps its lead, 2 at the start, which grows slowly. Sign descent makes the tokens equal. Adam does so too, "
    "and then the memory of the decoder's second moment puts the rarest token on top."
)
RULES = ("sgd", "sign", "adam")
NAMES = {"sgd": "gradient descent", "sign": "sign descent", "adam": "Adam"}
PROBABILITIES = (0.4, 0.2, 0.1)
WORDS = ("most frequent", "middle", "rarest")
SEEDS = {"quick": 8, "full": 64}
POINTS = 60


def shares(run: Trajectory) -> Floats:
    """Shares of the distinct tokens of class 0 in its attention to them, (N, 3)."""
    own = run.attention[:, 0, 1:4]
    return np.asarray(own / own.sum(axis=1, keepdims=True))


def compute(
    level: str,
    rate: Annotated[Rate, Field(description="rates eta_Y = eta_Z, per update")] = 0.01,
    updates: Annotated[Whole, Field(ge=100, le=100_000, description="updates of a run")] = 10_000,
    batch_size: BatchSize = 32,
    beta2: Annotated[float, Field(ge=0.5, lt=1.0, description="memory of Adam's second moment")] = 0.999,
    seeds: Seeds = None,
) -> xarray.Dataset:
    """Train with three rules, and make the mean map of each.

    Parameters
    ----------
    level : "quick" or "full"
        8 or 64 seeds.
    rate, updates, batch_size, beta2, seeds
        See the annotations of these arguments.

    Returns
    -------
    xarray.Dataset
        share_training (rule, seed, iteration, token) and share_theory (rule, iteration, token): shares of the distinct
        tokens in the attention of class 0 to them. Iterations count updates.
    """
    classes, count = three_frequencies(), seeds or SEEDS[level]
    record = np.unique(np.geomspace(1, updates, POINTS).round().astype(int))
    training, theory = [], []
    for name in RULES:
        rule = Adam(beta2=beta2) if name == "adam" else name
        runs = sgd(classes, rate, rate, updates, batch_size, optimizer=rule, seed=range(count), record=record)
        noise = batch_size if name == "adam" else None
        system = MeanField(classes, rate, rate, optimizer=rule, batch_size=noise)
        training.append([shares(run) for run in not_interrupted(runs)])
        theory += [shares(run) for run in not_interrupted([descend(system, updates, 1.0, record=record)])]
    return xarray.Dataset(
        {
            "share_training": (("rule", "seed", "iteration", "token"), np.array(training)),
            "share_theory": (("rule", "iteration", "token"), np.array(theory)),
        },
        {
            "rule": list(RULES),
            "seed": np.arange(count),
            "iteration": ("iteration", record, {"units": "updates"}),
            "token": list(WORDS),
        },
        {"vocab_size": classes.vocab_size},
    )


def draw(dataset: xarray.Dataset, width: float = DOUBLE_COLUMN) -> Figure:
    """Draw a panel per rule: lines of the mean map, bands of training."""
    figure, grid = panel_grid(
        width, len(RULES), least=1.5, height=1.7, rest=0.6, xlabel="updates $k$",
        ylabel="share of distinct attention", sharey=True,
    )  # fmt: skip
    panels = grid.flat[: len(RULES)]
    low, high = (dataset.share_training.quantile(q, "seed") for q in (0.1, 0.9))
    for axes, name in zip(panels, RULES, strict=True):
        for number, token in enumerate(WORDS):
            at = {"rule": name, "token": token}
            axes.fill_between(dataset.iteration, low.sel(at), high.sel(at), color=f"C{number}", alpha=0.3, linewidth=0)
            probability = PROBABILITIES[number]
            axes.plot(
                dataset.iteration, dataset.share_theory.sel(at), color=f"C{number}",
                label=f"{token} token, $P$ = {probability:g}",
            )  # fmt: skip
        axes.set(xscale="log", xlim=dataset.iteration.values[[0, -1]], ylim=(0, 1), title=NAMES[name])
    letter_panels(panels)
    legend_above(figure, most_columns=3)
    return figure


def _at_end(dataset: xarray.Dataset, rule: str, token: str) -> xarray.DataArray:
    """Share of a token over that of the largest of the others at the end, smallest over seeds."""
    end = dataset.share_training.sel(rule=rule).isel(iteration=-1)
    return (end.sel(token=token) / end.drop_sel(token=token).max("token")).min()


def _gap(dataset: xarray.Dataset, rule: str = "") -> xarray.DataArray:
    """Largest difference between the mean over seeds and the mean map, of the same rule or of another one."""
    theory = dataset.share_theory.sel(rule=rule) if rule else dataset.share_theory
    return np.abs(dataset.share_training.mean("seed") - theory).max()


PROPERTIES = (
    statement(
        "share of the most frequent token over that of the next one at the end, smallest over seeds, gradient descent",
        "SGD",
        partial(_at_end, rule="sgd", token=WORDS[0]),
        at_least=PROBABILITIES[0] / PROBABILITIES[1],
        wrong={"it wins under Adam as well": partial(_at_end, rule="adam", token=WORDS[0])},
    ),
    statement(
        "share of the rarest token over that of the next one at the end, smallest over seeds, Adam",
        "SGD with a rule",
        partial(_at_end, rule="adam", token=WORDS[2]),
        at_least=1.05,
        wrong={"it wins under sign descent as well": partial(_at_end, rule="sign", token=WORDS[2])},
    ),
    statement(
        "largest distance of a share from 1/3 at the end, mean map of sign descent",
        "mean map",
        lambda dataset: np.abs(dataset.share_theory.sel(rule="sign").isel(iteration=-1) - 1 / 3).max(),
        at_most=0.01,
        wrong={
            "so it is under Adam": (
                lambda dataset: np.abs(dataset.share_theory.sel(rule="adam").isel(iteration=-1) - 1 / 3).max()
            )
        },
    ),
    statement(
        "largest difference of a share, mean over seeds less mean map",
        "SGD with a rule",
        _gap,
        at_most=0.05,
        wrong={"every rule is gradient descent": partial(_gap, rule="sgd")},
    ),
)
