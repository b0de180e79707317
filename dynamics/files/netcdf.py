"""netCDF files with a digest: written completely or not at all, and read with one error for every kind of damage.

A file is HDF5 data followed by a trailer of 81 bytes: ``snapdyn-sha-256 ``, the SHA-256 digest of the data in 64
hexadecimal digits, and a line end. HDF5 ignores what follows its data, so xarray and every other reader of netCDF-4
opens the file. The digest is checked before HDF5 opens the file: on damaged data the HDF5 library may crash, never
return, or return wrong numbers.

The attribute ``format`` of every file gives its kind and the version of its format, such as "snapdyn trajectory 3".
"""

from __future__ import annotations

import hashlib
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from snapdyn.core.errors import InputError, existing_file, shown, shown_path
from snapdyn.core.memory import ALWAYS_FREE, free_memory, require_memory
from snapdyn.dynamics.files.netcdf_content import MOST_OBJECTS, Content, RefusedContent, read_content
from snapdyn.dynamics.files.storage import replacing

if TYPE_CHECKING:
    import xarray

MAGIC = b"snapdyn-sha-256 "
TRAILER_SIZE = len(MAGIC) + 64 + 1
BLOCK = 2**20
# What h5py, h5netcdf and json raise for damaged files, and constructors for values that do not fit together.
UNREADABLE = (OSError, KeyError, TypeError, ValueError, IndexError, RuntimeError, AttributeError, EOFError)


def write_netcdf(dataset: xarray.Dataset, path: str | os.PathLike[str], file_format: str) -> Path:
    """Write a dataset to a netCDF file with a digest, under a temporary name first, and return the path.

    Parameters
    ----------
    dataset : xarray.Dataset
    path : str or path-like
        File to create or to replace; its folder must exist.
    file_format : str
        Kind and version of the format; the attribute "format" of the file.

    Returns
    -------
    Path

    Raises
    ------
    InputError
        The folder is missing, the file cannot be written, or it would have more than 1000 variables and dimensions, the
        most that `reading_netcdf` accepts.
    """
    if (objects := len({*dataset.variables, *dataset.dims})) > MOST_OBJECTS:
        raise InputError(
            f"expected at most {MOST_OBJECTS} variables and dimensions in one file, received {objects}; put numbers "
            "that belong together into one array"
        )
    require_memory("the file", dataset.nbytes, "fewer recorded times")
    with _signals_wait():
        # In memory: HDF5 ends the process when the disk is too full for the data in its buffers.
        content = dataset.assign_attrs(format=file_format).to_netcdf(engine="h5netcdf")
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.write(content)
        file.write(_trailer(hashlib.sha256(content)))
    return Path(path)


@contextmanager
def _signals_wait() -> Iterator[None]:
    """Delay Ctrl-C and SIGTERM until the block ends: inside HDF5 an exception is lost, and a lock may stay taken."""
    came: list[int] = []
    is_main = threading.current_thread() is threading.main_thread()  # other threads see no signals
    waiting = (signal.SIGINT, signal.SIGTERM) if is_main else ()
    before = [signal.signal(each, lambda number, _: came.append(number)) for each in waiting]
    try:
        yield
    finally:
        for each, handler in zip(waiting, before, strict=True):
            signal.signal(each, handler)
        for number in came:
            signal.raise_signal(number)


def _trailer(digest: Any) -> bytes:
    return MAGIC + digest.hexdigest().encode() + b"\n"


def _doubt(path: str | os.PathLike[str]) -> str:
    """What is wrong with the digest of a file, as a phrase; empty for the right digest."""
    with open(path, "rb") as file:
        left, digest = os.fstat(file.fileno()).st_size - TRAILER_SIZE, hashlib.sha256()
        while left > 0 and (part := file.read(min(left, BLOCK))):
            digest.update(part)
            left -= len(part)
        trailer = file.read()
    if not trailer.startswith(MAGIC):
        return "has no digest at its end: it is damaged, or another program wrote it"
    return "" if trailer == _trailer(digest) else "is damaged: its SHA-256 digest differs"


@contextmanager
def reading_netcdf(path: str | os.PathLike[str], kind: str, file_format: str, advice: str) -> Iterator[Content]:
    """Read a netCDF file after checking its digest.

    Errors of the `with` block, which builds an object from the content, count as damage.

    Parameters
    ----------
    path : str or path-like
    kind : str
        Kind of the file in error messages, such as "trajectory".
    file_format : str
        Value that the attribute "format" of the file must have.
    advice : str
        What to do about a damaged file; ends the error message.

    Yields
    ------
    Content

    Raises
    ------
    InputError
        The file is missing, damaged, without a digest, or of another format.
    """
    kind = f"{kind} file ({file_format})"
    path = existing_file(f"a {kind}", path)
    try:
        with _signals_wait():
            if doubt := _doubt(path):
                raise RefusedContent(doubt)
            content = read_content(path, max(ALWAYS_FREE, free_memory() / 2))
        found = content.attributes.get("format")
        if found != file_format:
            raise RefusedContent(f"is of another kind ({shown(found)})")
        yield content
    except RefusedContent as error:
        raise InputError(f"expected a whole {kind}, received {shown_path(path)}, which {error}; {advice}") from None
    except UNREADABLE as error:
        raise InputError(
            f"expected a whole {kind}, received {shown_path(path)}, which is damaged or of another kind "
            f"({type(error).__name__}); {advice}"
        ) from error


def read_dataset(path: str | os.PathLike[str], kind: str, file_format: str, advice: str) -> xarray.Dataset:
    """Read a netCDF file as a labelled dataset, as ``xarray.load_dataset`` gives it, without the attribute "format".

    Parameters
    ----------
    path : str or path-like
    kind, file_format, advice : str
        As for `reading_netcdf`.

    Returns
    -------
    xarray.Dataset

    Raises
    ------
    InputError
        As for `reading_netcdf`.
    """
    import xarray

    with reading_netcdf(path, kind, file_format, advice) as content:
        attributes = {name: value for name, value in content.attributes.items() if name != "format"}
        variables = {name: (v.dims, v.values, v.attributes) for name, v in content.variables.items()}
        return xarray.decode_cf(xarray.Dataset(variables, attrs=attributes))
