"""Files without a digest: written by earlier versions, by other tools, or damaged.

The library that reads HDF5 may crash or never return on a damaged file. It therefore reads such a file in a process of
its own, which is ended after a limit of time. Only numbers and text come back.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np

from snapdyn.dynamics import netcdf_content
from snapdyn.dynamics.memory import ALWAYS_FREE, free_memory
from snapdyn.dynamics.netcdf_content import NUMBERS, Content, Variable, unpacked
from snapdyn.errors import InputError, positive

LIMIT = 60.0  # seconds
# Path and arguments follow; without the folder of the script, whose modules are no top-level names.
PROGRAM = "import runpy, sys; sys.path[:] = {path!r}; runpy.run_path({file!r}, run_name='__main__')"


def read_unverified(path: str | os.PathLike[str], kind: str = "netCDF", limit: float = LIMIT) -> Content:
    """Read a netCDF file (HDF5) that nobody vouches for, in a process of its own.

    The process ends with the limit and with Ctrl-C; when this program is killed, at the latest a second after the
    limit. It runs no code of the file and follows no reference to other files.

    Parameters
    ----------
    path : str or path-like
    kind : str
        Kind of the file in error messages, such as "trajectory".
    limit : float
        Longest time in seconds, 60 by default.

    Returns
    -------
    Content
        Attributes and variables. Shapes agree with the names of the axes. Values are as the file has them; they may
        be damaged.

    Raises
    ------
    InputError
        The file cannot be read within the limit, refers to other files, holds other things than numbers and text, or
        declares more than a quarter of the free memory.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import xarray
    >>> from snapdyn.dynamics.unverified import read_unverified
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "trace.nc"
    ...     xarray.Dataset({"loss": ("step", [2.0, 1.0])}).to_netcdf(path, engine="h5netcdf")
    ...     read_unverified(path).arrays["loss"].tolist()
    [2.0, 1.0]
    """
    limit = positive("limit", limit)
    most_bytes = max(ALWAYS_FREE, free_memory() / 4)  # one copy in each process, and as much for what is built from it

    def refused(what: str) -> InputError:
        return InputError(f"expected a {kind} file, received {str(path)!r}, which {what}; choose another file")

    if not Path(path).is_file():
        raise refused("is not a file")
    program = PROGRAM.format(path=[os.path.abspath(entry) for entry in sys.path], file=netcdf_content.__file__)
    arguments = [os.path.abspath(path), repr(most_bytes), str(math.ceil(min(limit, 1e8)) + 1)]
    process = subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
    )
    expired = threading.Event()

    def end() -> None:
        expired.set()
        process.kill()

    timer = threading.Timer(min(limit, threading.TIMEOUT_MAX), end)
    timer.daemon = True
    try:
        timer.start()
        return _received(process.stdout, most_bytes)
    except _Refused as error:
        raise refused(str(error)) from None
    except (ValueError, KeyError, TypeError, AttributeError, EOFError, MemoryError) as error:
        if expired.is_set():
            raise refused(f"could not be read within {limit:g} s") from error
        raise refused("is damaged: the library that reads HDF5 failed on it") from error
    finally:
        timer.cancel()
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()


class _Refused(Exception):
    """The other process refused the file; the message is a phrase."""


def _received(pipe: Any, most_bytes: float) -> Content:
    """Content of a file from the other process; what it says of sizes is checked again."""
    line = pipe.readline(int(min(most_bytes, 2.0**40)))
    if not line.endswith(b"\n"):
        raise EOFError
    answer = json.loads(line)
    if "refused" in answer:
        raise _Refused(answer["refused"])
    variables: dict[str, Variable] = {}
    lengths: dict[str, int] = {}
    left = most_bytes
    for entry in answer["variables"]:
        if entry["text"] is not None:
            values = np.asarray(unpacked(entry["text"]), dtype=object)
        else:
            dtype, shape = np.dtype(entry["dtype"]), tuple(map(int, entry["shape"]))
            left -= math.prod(shape) * dtype.itemsize
            if dtype.kind not in NUMBERS or min(shape, default=0) < 0 or left < 0:
                raise ValueError("sizes")
            values = np.empty(shape, dtype)
            if values.size and pipe.readinto(values.reshape(-1).view(np.uint8)) != values.nbytes:
                raise EOFError
        dims = tuple(entry["dims"])
        for dim, length in zip(dims, values.shape, strict=True):
            if lengths.setdefault(dim, length) != length:
                raise _Refused(f"is damaged: its variables disagree on the length of {dim!r}"[:120])
        attributes = {key: unpacked(value) for key, value in entry["attributes"].items()}
        variables[entry["name"]] = Variable(dims, values, attributes)
    return Content({key: unpacked(value) for key, value in answer["attributes"].items()}, variables)
