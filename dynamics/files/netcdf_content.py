"""The content of a netCDF file as plain arrays; nothing outside the file is read.

A file may name other local files in links, external storage and virtual datasets. Such files are refused, whoever
wrote them. `snapdyn.dynamics.traces.reading` runs this module as a program of its own, which starts quickly
because it imports neither xarray nor the rest of snapdyn.
"""

from __future__ import annotations

import math
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

MOST_OBJECTS = 1000  # variables, dimensions and groups of one file
NUMBERS = "biufcS"  # kinds of numpy's dtypes
REFUSED = 3  # exit code of the program for a `RefusedContent`, whose message is then its output


class RefusedContent(ValueError):
    """Raised for a file with content that is never read; the message continues "received 'x.nc', which ..."."""


class Variable(NamedTuple):
    """A variable of a netCDF file as it is stored, not decoded.

    Attributes
    ----------
    dims : tuple of str
        Name of each axis of `values`.
    values : array
        Numbers, or objects that are str.
    attributes : mapping
        Texts, numbers and arrays of numbers.
    """

    dims: tuple[str, ...]
    values: NDArray[Any]
    attributes: Mapping[str, Any]


@dataclass(frozen=True)
class Content:
    """Attributes and variables of a netCDF file.

    Attributes
    ----------
    attributes : mapping
    variables : mapping of str to Variable
    """

    attributes: Mapping[str, Any]
    variables: Mapping[str, Variable]

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Values of every variable by name."""
        return {name: variable.values for name, variable in self.variables.items()}


def read_content(path: str | os.PathLike[str], most_bytes: float) -> Content:
    """Read a netCDF file of the format netCDF-4 (HDF5).

    Parameters
    ----------
    path : str or path-like
    most_bytes : float
        Largest size of all variables together. The sizes that the file declares are compared with this limit before
        memory is taken.

    Returns
    -------
    Content
        The variables of the root group.

    Raises
    ------
    RefusedContent
        The file refers to other files, has more than 1000 objects, has values that are neither numbers nor text, or
        declares more than `most_bytes`.
    Exception
        What h5py and h5netcdf raise for damaged files.
    """
    import h5netcdf
    import h5py

    with h5py.File(path, "r") as file:
        _check_objects(file, most_bytes)
    with h5netcdf.File(path, "r", decode_vlen_strings=True) as file:
        return Content(
            {str(name): _attribute(value) for name, value in file.attrs.items()},
            {
                str(name): Variable(
                    tuple(map(str, variable.dimensions)),
                    np.asarray(variable[...]),
                    {str(key): _attribute(value) for key, value in variable.attrs.items()},
                )
                for name, variable in file.variables.items()
            },
        )


def _check_objects(file: Any, most_bytes: float) -> None:
    """Refuse links to other files, data outside of the file, types that need code, and sizes beyond memory."""
    import h5py

    names: list[bytes] = []
    links: list[bytes] = []

    def visit(name: bytes, link: Any) -> bool | None:
        (names if link.type == h5py.h5l.TYPE_HARD else links).append(name)
        return True if links or len(names) > MOST_OBJECTS else None  # ends the visit; h5py loses errors raised here

    root = h5py.h5g.open(file.id, b"/")
    root.links.visit(visit, info=True)
    if links:
        raise RefusedContent(f"refers to another place by the link {_named(links[0])}")
    if len(names) > MOST_OBJECTS:
        raise RefusedContent(f"holds more than {MOST_OBJECTS} variables and dimensions")
    size = 0
    for name in names:
        if h5py.h5o.get_info(root, name).type != h5py.h5o.TYPE_DATASET:
            continue
        dataset = h5py.h5d.open(root, name)
        storage = dataset.get_create_plist()
        if storage.get_layout() == h5py.h5d.VIRTUAL or storage.get_external_count():
            raise RefusedContent(f"keeps the values of {_named(name)} in another file")
        dtype = dataset.dtype
        if dtype.kind not in NUMBERS and h5py.check_string_dtype(dtype) is None:
            raise RefusedContent(f"holds {_named(name)}, which is neither numbers nor text")
        size += math.prod(dataset.shape or ()) * dtype.itemsize
    if size > most_bytes:
        raise RefusedContent(
            f"declares {size / 2**30:.3g} GiB of values, where {most_bytes / 2**30:.3g} GiB can be read"
        )


def _named(name: bytes) -> str:
    return repr(name.decode("utf-8", "replace"))[:60]


def _attribute(value: Any) -> Any:
    """Attribute as text, a number or an array of numbers or texts."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode()
    array = np.asarray(value)
    if array.dtype.kind in "biufc" or all(isinstance(entry, str) for entry in array.flat):
        return value
    raise RefusedContent("has an attribute that is neither numbers nor text")


def main() -> None:
    """Read the file `argv[1]` of at most `argv[2]` bytes within `argv[3]` seconds.

    The variables `argv[4:]` that are numbers go to the standard output, as an npz file.
    """
    path, most_bytes, limit, *names = sys.argv[1:]
    if hasattr(signal, "alarm"):  # the system ends the process, whatever HDF5 does, and also when its parent is gone
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(int(limit))
    try:
        arrays = read_content(path, float(most_bytes)).arrays
        if not arrays.keys() & set(names):
            raise RefusedContent(f"holds {', '.join(map(repr, sorted(arrays)[:10])) or 'no variables'}")
    except RefusedContent as error:
        sys.stdout.buffer.write(str(error).encode())
        sys.exit(REFUSED)
    numbers = {name: arrays[name] for name in names if name in arrays and arrays[name].dtype.kind in NUMBERS}
    np.savez(sys.stdout.buffer, **numbers)  # type: ignore[arg-type]  # the stubs take each name for allow_pickle


if __name__ == "__main__":
    main()
