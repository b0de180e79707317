"""A small sweep, and what it leaves on disk."""

import re
from pathlib import Path

import numpy as np
import xarray

import snapdyn
from snapdyn.commands.main import main
from snapdyn.dynamics.training.transformer.runs import TransformerRun

GRID = """
[classes]
kind = "single_common_token"
num_classes = 3
num_distinct = 2
common_probability = 0.3
vocab_size = 20

[system]
kind = "MeanField"
eta_Y = 1.0

[run]
first = 1.0
last = 100.0
count = 5

[sweep]
design = "grid"
observables = ["entropy", "class_entropy", "transition_time", "t_peak", "loss_series"]
"system.eta_Z" = [0.1, 0.5]
classes.num_classes = [2, 3, 25]
"""
GOOD = re.sub(r"observables = .*", 'observables = ["entropy", "loss"]', GRID.replace(", 25]", "]"))


def swept(text: str, folder: Path, *options: str, name: str = "grid") -> int:
    """Run a sweep file in this process; its exit code."""
    file = folder / f"{name}.toml"
    file.write_text(text)
    return main(["sweep", str(file), "--out", str(folder / "out"), "--jobs", "1", *options])


def dataset(folder: Path, name: str = "grid") -> xarray.Dataset:
    with xarray.open_dataset(folder / "out" / f"{name}.nc") as opened:
        return opened.load()


def kept(folder: Path) -> dict[str, float]:
    """Time of the last change of every file in OUT/cells."""
    return {path.name: path.stat().st_mtime_ns for path in (folder / "out" / "cells").iterdir()}


def most_duplicates(cells: int, others: int) -> int:
    """Number of cells computed twice that sweeps on one folder exceed with a probability below 1e-6.

    A worker picks a cell at random from those that are not stored, while `others` workers compute one each. When `left`
    are not stored, it picks one of theirs with a probability of at most others/left. Each cell that is new lowers
    `left` by one, so that the number of duplicates is a sum of independent draws.
    """
    chances = np.ones(1)
    for left in range(1, cells + 1):
        chance = min(1.0, others / left)
        chances = np.convolve(chances, [1 - chance, chance])
    return int(np.argmax(np.cumsum(chances) > 1 - 1e-6))


def fake_training(
    paths: list[Path],
    *,
    learning_rate: float,
    num_layers: int = 1,
    seed: int = 0,
    shuffle: bool = False,
    iterations: int = 10,
    max_vocab: int | None = None,
    embedding: int = 200,
    clip: float | None = 0.5,
    progress: object = None,
    **others: object,
) -> TransformerRun:
    """Stand in for `train_transformer`: the same signature in short, and a run at once."""
    assert all(path.is_file() or path.is_dir() for path in paths)
    if learning_rate > 5:
        raise snapdyn.InputError("expected a smaller learning_rate, received one at which training diverges")
    attention = np.array([[[np.nan, np.nan], [1.0, np.nan]]] * 2)
    entropy = np.array([3.0, 3.0 - 0.1 * learning_rate + 0.01 * seed])
    return TransformerRun(
        "text",
        num_layers,
        learning_rate,
        seed,
        np.array([0, iterations]),
        attention,
        entropy,
        ("a", "b"),
        loss=np.ones(2),
        change=np.ones(2),
    )


PHASE = '[phase]\nx = "eta_Z"\ny = "num_classes"\nvariable = "entropy"\n'
