"""What Figures 7 and 10 share: the short runs that snapdyn has, and the sentence with the settings of runs."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import xarray

from snapdyn.dynamics.netcdf import read_dataset
from snapdyn.dynamics.training.transformer.runs import TransformerRun
from snapdyn.figures.files import FORMAT


def stored_data(name: str) -> xarray.Dataset:
    """Read the data of a figure that were computed from short runs (`figures/data/`); PyTorch is not needed.

    The runs on WikiText-2 are those of `examples/short_transformer_runs.py`.
    """
    with resources.as_file(resources.files("snapdyn.figures") / "data" / f"{name}.nc") as path:
        return read_dataset(Path(path), "figure data", FORMAT, "install snapdyn again")


def settings_text(run: TransformerRun) -> str:
    """Return the settings of a run that a reader must know, as they stand in a figure."""
    settings: Mapping[str, Any] = run.settings
    known = {
        "embedding": "width {}",
        "vocabulary": "{} words",
        "window": "window {}",
        "batch_size": "batch {}",
        "clip": "clip {}",
        "iterations": "{} iterations",
    }
    texts = [text.format(settings[name]) for name, text in known.items() if settings.get(name) is not None]
    return ", ".join([run.corpus, *texts])
