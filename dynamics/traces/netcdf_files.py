"""netCDF files that other programs wrote: read in a process of its own, which is ended after a limit of time.

The library that reads HDF5 may crash or never return on a damaged file, and such a file has no digest that tells.
"""

from __future__ import annotations

import io
import math
import os
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapdyn.dynamics import netcdf_content
from snapdyn.dynamics.memory import ALWAYS_FREE, free_memory
from snapdyn.errors import InputError

LIMIT = 60.0  # seconds


def read_foreign(path: str | os.PathLike[str], names: Iterable[str], limit: float = LIMIT) -> dict[str, NDArray[Any]]:
    """Read variables of a netCDF file (HDF5) of another program, in a process of its own.

    The process ends with the limit and with Ctrl-C; when this program is killed, at the latest a second after the
    limit. It runs no code of the file and follows no reference to other files.

    Parameters
    ----------
    path : str or path-like
    names : iterable of str
        Variables to read.
    limit : float
        Longest time in seconds.

    Returns
    -------
    dict of arrays
        Those variables of the root group that are numbers, as the file has them. Their values may be damaged.

    Raises
    ------
    InputError
        The file cannot be read within the limit, refers to other files, holds other things than numbers and text, or
        declares more than a quarter of the free memory.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import xarray
    >>> from snapdyn.dynamics.traces.netcdf_files import read_foreign
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "trace.nc"
    ...     xarray.Dataset({"loss": ("step", [2.0, 1.0])}).to_netcdf(path, engine="h5netcdf")
    ...     read_foreign(path, ["steps", "loss"])
    {'loss': array([2., 1.])}
    """
    most_bytes = max(ALWAYS_FREE, free_memory() / 4)  # one copy in each process, and as much for what is built from it
    arguments = [os.path.abspath(path), repr(most_bytes), str(math.ceil(limit) + 1), *names]
    try:
        # -P: the modules beside the program are no top-level names.
        ended = subprocess.run(
            [sys.executable, "-P", netcdf_content.__file__, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=limit,
        )
    except subprocess.TimeoutExpired:
        what = f"could not be read within {limit:g} s"
    else:
        if ended.returncode == 0:
            with np.load(io.BytesIO(ended.stdout), allow_pickle=False) as arrays:
                return dict(arrays)
        what = "is damaged or of another kind: the library that reads HDF5 failed on it"
        if ended.returncode == netcdf_content.REFUSED:
            what = ended.stdout.decode()
    raise InputError(
        f"expected a trace file (netCDF-4), received {str(path)!r}, which {what}; write the variables "
        f"{', '.join(names)} as netCDF-4"
    )
