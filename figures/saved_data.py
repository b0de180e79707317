"""Saved data of figures: read, checked, and found in a folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from snapdyn.dynamics.netcdf import read_dataset
from snapdyn.errors import InputError
from snapdyn.figures.register import FIGURES, FigureEntry
from snapdyn.validation.evidence import LEVELS

if TYPE_CHECKING:
    import xarray

FORMAT = "snapdyn figure data 1"


def saved_data(source: Path) -> dict[str, list[tuple[Path, xarray.Dataset]]]:
    """Return files of figures and their data by id: one file, or those of a folder, in the order of the register."""
    if not source.exists():
        raise InputError(
            f"expected a figure's .nc file or a folder of them, received {str(source)!r}, which is missing"
        )
    paths = sorted(source.glob("figure_*.nc")) if source.is_dir() else [source]
    contents = [(path, read_data(path)) for path in paths]
    if not contents:
        raise InputError(
            f"expected figure_ID.nc files in {str(source)!r}, received none; give the folder that has them"
        )
    found = {id_: [entry for entry in contents if entry[1].attrs["figure"] == id_] for id_ in FIGURES}
    return {id_: entries for id_, entries in found.items() if entries}


def read_data(path: Path) -> xarray.Dataset:
    """Read the data of a figure.

    Parameters
    ----------
    path : Path

    Returns
    -------
    xarray.Dataset

    Raises
    ------
    InputError
        The file is missing, damaged, without a digest, or holds something else.
    """
    dataset = read_dataset(path, "figure data", FORMAT, "compute it again without --from")
    if dataset.attrs.get("figure") not in FIGURES or dataset.attrs.get("level") not in LEVELS:
        raise InputError(
            f"expected the data of a figure (.nc with its id and level), received {str(path)!r}; "
            "compute it again without --from"
        )
    return dataset


def changed_parameters(entry: FigureEntry, dataset: xarray.Dataset) -> dict[str, Any]:
    """Return the parameters of the data that differ from the figure's defaults."""
    try:
        values = json.loads(dataset.attrs.get("figure_parameters", "{}"))
        return entry.read_parameters(values).model_dump(exclude_defaults=True)
    except (TypeError, ValueError) as error:  # an InputError is a ValueError
        raise InputError(
            f"expected the parameters of figure {entry.id} in its data, received others ({error}); compute it again "
            "without --from"
        ) from error
