"""netCDF files: written completely or not at all, and read with one error for every kind of damage."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from snapdyn.dynamics.storage import replacing
from snapdyn.errors import InputError

if TYPE_CHECKING:
    import xarray

HEADER = "snapdyn"  # attribute that holds a JSON header; files without it keep their header in plain attributes
# What xarray, h5netcdf and json raise for damaged files, and constructors for values that do not fit together.
UNREADABLE = (OSError, KeyError, TypeError, ValueError, RuntimeError, AttributeError, EOFError)


def write_netcdf(dataset: xarray.Dataset, path: str | os.PathLike[str]) -> Path:
    """Write a dataset to a netCDF file, under a temporary name first, and return the path.

    Parameters
    ----------
    dataset : xarray.Dataset
    path : str or path-like
        File to create or to replace; its folder must exist.

    Returns
    -------
    Path

    Raises
    ------
    InputError
        The folder is missing, or the file cannot be written.
    """
    with replacing(path) as temporary:
        dataset.to_netcdf(temporary, engine="h5netcdf")
    return Path(path)


@contextmanager
def reading_netcdf(
    path: str | os.PathLike[str], kind: str, file_format: str, advice: str
) -> Iterator[tuple[Mapping[str, Any], dict[str, NDArray[Any]]]]:
    """Read a netCDF file; errors of the `with` block, which builds an object from its content, count as damage.

    Parameters
    ----------
    path : str or path-like
    kind : str
        Kind of the file in error messages, such as "trajectory".
    file_format : str
        Value that "format" must have in the header.
    advice : str
        What to do about a damaged file; ends the error message.

    Yields
    ------
    header : mapping
        The JSON header, or the attributes of a file without one.
    values : dict of arrays
        Every variable of the file, by name.

    Raises
    ------
    InputError
        The file is missing, damaged, or of another format.
    """
    import xarray

    if not isinstance(path, (str, os.PathLike)) or not Path(path).is_file():
        raise InputError(f"expected the path of a {kind} file, received {path!r}, which is not a file; check the path")
    try:
        with xarray.open_dataset(path, engine="h5netcdf", decode_cf=False) as dataset:
            header = json.loads(dataset.attrs[HEADER]) if HEADER in dataset.attrs else dict(dataset.attrs)
            if header["format"] != file_format:
                raise KeyError("format")
            values = {str(name): np.array(variable.values) for name, variable in dataset.variables.items()}
        yield header, values
    except UNREADABLE as error:
        raise InputError(
            f"expected a whole {kind} file ({file_format}), received {str(path)!r}, which is damaged or of another "
            f"kind ({type(error).__name__}); {advice}"
        ) from error
