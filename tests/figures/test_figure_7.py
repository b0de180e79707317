"""Figures 7 and 10 from saved runs, here made up: one that learns to look, and the same backwards in time."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from snapdyn.core.errors import InputError
from snapdyn.dynamics.training.transformer.runs import TransformerRun
from snapdyn.figures import FIGURES, figure_7, figure_10, write


def learning(
    num_layers: int, rate: float, seed: int, backwards: bool = False, shuffled: bool = False
) -> TransformerRun:
    """Attention that sharpens quickly at first, faster at a larger rate; hardly at all where words were exchanged."""
    length, iteration = 6, np.array([0, 500, 1000, 1500])
    scores = np.random.default_rng(seed).normal(size=(length, length))
    sharpness = 2 * rate * (1 - np.exp(-iteration / 300.0)) * (0.1 if shuffled else 1.0)
    weights = np.exp(sharpness[:, None, None] * scores) * np.tri(length, k=-1)
    total = weights.sum(axis=2, keepdims=True)
    attention = np.where(weights > 0, weights / np.where(total > 0, total, 1), np.nan)
    entropy = -np.nansum(attention * np.log(attention), axis=2).mean(axis=1)
    if backwards:
        attention, entropy = attention[::-1], entropy[::-1]
    change = np.nansum(np.abs(np.diff(attention, axis=0)), axis=2).mean(axis=1) / 2
    return TransformerRun(
        "made up",
        num_layers,
        rate,
        seed,
        iteration,
        attention,
        entropy=entropy,
        tokens=tuple("abcdef"),
        loss=np.linspace(3, 2, 4),
        change=np.insert(change, 0, np.nan),
        shuffled=shuffled,
        settings={"embedding": 8},
    )


def runs(backwards: bool = False) -> list[TransformerRun]:
    return [learning(1, rate, seed, backwards) for rate in (1.0, 3.0, 5.0) for seed in range(4)] + [
        learning(3, 5.0, 0, backwards),
        learning(1, 5.0, 0, shuffled=True),
        learning(1, 1.0, 0, shuffled=True),
    ]


def failed(figure: ModuleType, runs: Sequence[TransformerRun]) -> list[str]:
    """Names of the checks that are not as they must be."""
    entry = FIGURES[figure.__name__.rpartition("figure_")[2]]
    return [check.name for check in entry.numbers(figure.compute("quick", runs)) if not check.as_expected]


def test_runs_that_do_not_show_the_claims_are_noticed() -> None:
    """Assert which claims fail: on runs backwards in time, with rates exchanged, at a steady pace, of any text."""
    assert failed(figure_7, runs()) == failed(figure_10, runs()) == []
    assert len(failed(figure_7, runs(backwards=True))) > 1
    swapped = [
        replace(learning(1, 6 - run.learning_rate, run.seed), learning_rate=run.learning_rate)
        for run in runs()
        if run.num_layers == 1
    ]
    assert any("smallest rate minus" in name for name in failed(figure_10, swapped))
    steady = replace(learning(1, 5.0, 0), change=np.array([np.nan, 0.2, 0.2, 0.2]))
    assert ["pace" in name for name in failed(figure_7, [steady])] == [True]
    same = [learning(1, 5.0, 0), replace(learning(1, 5.0, 0), shuffled=True)]
    assert ["on any text" in name for name in failed(figure_7, same)] == [True]


def test_runs_of_different_kinds_are_not_compared() -> None:
    """Assert that Figure 10 names the setting in which runs differ."""
    mixed = [*runs(), replace(learning(1, 2.0, 0), settings={"embedding": 16})]
    with pytest.raises(InputError, match="received different embedding"):
        figure_10.compute("quick", mixed)


def test_without_runs_they_show_the_short_runs_of_snapdyn(tmp_path: Path) -> None:
    """Assert that both name the settings of the runs that snapdyn has, and that these are of one rate only."""
    for id_ in ("7", "10"):
        settings = FIGURES[id_].compute("quick").attrs["settings"]
        assert "WikiText-2" in settings
        assert "iterations" in settings
    with pytest.raises(InputError, match="received 2; give runs at this rate with --runs"):
        write("7", tmp_path / "none", parameters={"7": {"learning_rate": 2.0}})


def test_saved_runs(tmp_path: Path) -> None:
    """Assert that runs of a rate that a figure cannot show are refused, and that Figure 7 shows it if asked."""
    folder = tmp_path / "runs"
    folder.mkdir()
    learning(1, 2.0, 0).save(folder / "0.nc")
    with pytest.raises(InputError, match=r"at learning rate 5 .*received rates \[2\.0\]"):
        write("7", tmp_path / "out", runs=folder)
    with pytest.raises(InputError, match="at least two learning rates"):
        write("10", tmp_path / "out", runs=folder)
    (figure,) = write("7", tmp_path / "two", runs=folder, parameters={"7": {"learning_rate": 2.0}})
    assert figure.png.name == "figure_7_learning_rate=2.png"


def test_permuted_words_fall_further_at_clip_half() -> None:
    """Assert the caption of Figure 10: three errors more fall than with permuted words at clip 0.1, less at 0.5."""
    beyond = figure_10._beyond_permuted(figure_10.compute("quick"))
    assert beyond.sel(corpus="WikiText-2, clip 0.1") > 3
    assert beyond.sel(corpus="WikiText-2, clip 0.5") < -3
