"""Figure 10: entropy of attention of 1-layer transformers on text, after training, against the learning rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import xarray

from snapdyn.core.errors import InputError
from snapdyn.dynamics.training.transformer.runs import TransformerRun
from snapdyn.figures.declaration import statement
from snapdyn.figures.panels import legend_above
from snapdyn.figures.shared_runs import settings_text, stored_data
from snapdyn.figures.style import SINGLE_COLUMN, Figure, new_figure

TITLE = "Attention entropy of transformers on text against the learning rate"
CAPTION = (
    "Mean attention entropy of 1-layer transformers on the validation text after training; bars: standard deviation "
    "over seeds. The heading gives the settings of the runs; clip is the norm to which larger gradients are scaled. "
    "Dashed (control): training on the same text after all its words were permuted at random. Dotted: uniform "
    "attention. In the default data the entropy falls with the rate at both clips, but at clip 0.5 it falls further "
    "with permuted words, on which there is nothing to learn."
)
FROM_RUNS = True
WIDTH = SINGLE_COLUMN

MARKERS = ("o", "s", "^", "D")
TEXTS = ("as written", "words exchanged")


def compute(level: str, runs: Sequence[TransformerRun] | None = None) -> xarray.Dataset:
    """Take the final entropy of every saved 1-layer run.

    Parameters
    ----------
    level : "quick" or "full"
        Level of the saved runs; not used here.
    runs : sequence of TransformerRun, optional
        Default: the short runs that come with snapdyn. Runs on text with permuted words are the control.

    Returns
    -------
    xarray.Dataset
        entropy (corpus, text, learning_rate, seed), nats: after the last iteration, NaN without such a run; where runs
        differ in clip, the name of the corpus has it; uniform (): entropy of uniform attention, nats.
    """
    if runs is None:
        return stored_data("figure_10")
    shallow = [run for run in runs if run.num_layers == 1]
    written = [run for run in shallow if not run.shuffled]
    rates = sorted({run.learning_rate for run in written})
    seeds = sorted({run.seed for run in written})
    clips = {run.settings.get("clip") for run in shallow}

    def curve(run: TransformerRun) -> str:
        return run.corpus if len(clips) == 1 else f"{run.corpus}, clip {run.settings.get('clip')}"

    curves = sorted({curve(run) for run in written})
    if len(rates) < 2 or len(seeds) < 2:
        raise InputError(
            "expected saved 1-layer runs of at least two learning rates and two seeds for figure 10, received rates "
            f"{rates} and seeds {seeds}"
        )
    # Corpora differ in their vocabulary.
    settings = [{key: run.settings[key] for key in run.settings.keys() - {"vocabulary", "clip"}} for run in shallow]
    if any(other != settings[0] for other in settings):
        different = sorted(
            {key for other in settings for key in {*other, *settings[0]} if other.get(key) != settings[0].get(key)}
        )
        raise InputError(
            f"expected 1-layer runs that differ in rate, seed, corpus and clip alone for figure 10, received different "
            f"{', '.join(different)}; give a folder of runs of one kind"
        )
    first = written[0]
    if len(clips) > 1:
        first = replace(first, settings={key: value for key, value in first.settings.items() if key != "clip"})
    entropy = np.full((len(curves), len(TEXTS), len(rates), len(seeds)), np.nan)
    for run in shallow:
        if curve(run) in curves and run.learning_rate in rates and run.seed in seeds:
            cell = curves.index(curve(run)), int(run.shuffled), rates.index(run.learning_rate), seeds.index(run.seed)
            entropy[cell] = run.entropy[-1]
    attended = np.arange(1, len(shallow[0].tokens))
    return xarray.Dataset(
        {
            "entropy": (("corpus", "text", "learning_rate", "seed"), entropy, {"units": "nats"}),
            "uniform": ((), np.log(attended).mean(), {"units": "nats"}),
        },
        {"corpus": curves, "text": list(TEXTS), "learning_rate": rates, "seed": seeds},
        {"settings": settings_text(first)},
    )


def draw(dataset: xarray.Dataset, width: float = SINGLE_COLUMN) -> Figure:
    """Draw the mean over seeds and its standard deviation against the rate, a curve per corpus and text."""
    figure = new_figure(width, 3.2)
    axes = figure.subplots()
    for number, corpus in enumerate(dataset.corpus.values):
        for text, line in zip(TEXTS, ("-", "--"), strict=True):
            entropy = dataset.entropy.sel(corpus=corpus, text=text).dropna("learning_rate", how="all")
            if entropy.size:
                several = int(entropy.count("seed").min()) > 1
                axes.errorbar(
                    entropy.learning_rate,
                    entropy.mean("seed"),
                    entropy.std("seed", ddof=1) if several else None,
                    color=f"C{number}",
                    linestyle=line,
                    marker=MARKERS[number % len(MARKERS)] if line == "-" else "x",
                    markerfacecolor="white",
                    capsize=2,
                    label=f"{corpus}, {dataset.sizes['seed']} seeds" if line == "-" else f"{corpus}, words permuted",
                )
    axes.axhline(float(dataset.uniform), color="0.45", linestyle=":", label="uniform attention")
    axes.set_xlabel("learning rate of SGD")
    axes.set_ylabel("attention entropy (nats)")
    axes.set_ylim(bottom=0)
    rates = dataset.learning_rate.values
    axes.set_xticks(rates, [f"{rate:g}" for rate in rates])
    legend_above(figure, most_columns=2, title=dataset.attrs.get("settings", ""))
    return figure


def _fall(entropy: xarray.DataArray) -> xarray.DataArray:
    """Fall of the entropy from the smallest to the largest rate in standard errors, by corpus."""
    first, last = entropy.isel(learning_rate=0), entropy.isel(learning_rate=-1)
    error = np.sqrt(first.var("seed", ddof=1) / first.count("seed") + last.var("seed", ddof=1) / last.count("seed"))
    return (first.mean("seed") - last.mean("seed")) / error


def _turned(entropy: xarray.DataArray) -> xarray.DataArray:
    """Entropy with the runs of seed number i assigned to other rates, rotated by i places."""
    turned = entropy.copy()
    for i in range(entropy.sizes["seed"]):
        turned[{"seed": i}] = entropy.isel(seed=i).roll(learning_rate=i).values
    return turned


def _beyond_permuted(dataset: xarray.Dataset) -> xarray.DataArray:
    """Fall of the entropy minus its fall with permuted words in standard errors, of the corpora with both."""
    written, permuted = (dataset.entropy.sel(text=text) for text in TEXTS)
    beyond = written - permuted
    several = (beyond.isel(learning_rate=[0, -1]).count("seed") > 1).all("learning_rate")
    return _fall(beyond.isel(corpus=np.flatnonzero(several)))


PROPERTIES = (
    statement(
        "entropy at the smallest rate minus that at the largest, in standard errors",
        "transformer",
        lambda dataset: _fall(dataset.entropy.sel(text=TEXTS[0])).min(),
        at_least=3.0,
        wrong={
            "a larger rate gives denser attention, in standard errors": (
                lambda dataset: -_fall(dataset.entropy.sel(text=TEXTS[0])).max()
            ),
            "the rates of other runs predict the entropy as well, in standard errors": (
                lambda dataset: _fall(_turned(dataset.entropy.sel(text=TEXTS[0]))).min()
            ),
        },
    ),
    statement(
        "fall of the entropy beyond that with permuted words, in standard errors, largest over corpora and clips",
        "transformer",
        lambda dataset: _beyond_permuted(dataset).max() if _beyond_permuted(dataset).size else None,
        at_least=3.0,
        wrong={
            "permuted words are the text, in standard errors": (
                lambda dataset: -_beyond_permuted(dataset).max() if _beyond_permuted(dataset).size else None
            ),
        },
    ),
)
