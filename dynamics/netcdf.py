"""netCDF files with a digest: written completely or not at all, and read with one error for every kind of damage.

A file is HDF5 data followed by a trailer of 82 bytes: ``snapdyn-digest-1 ``, 64 hexadecimal digits and a line end.
HDF5 does not look behind its own end, so xarray and every other reader of netCDF-4 opens the file. The digits are the
SHA-256 of the SHA-256 digests (32 bytes each) of the data in blocks of 1 MiB, the last one shorter; several threads
compute them. The digest is checked before HDF5 opens the file: on damaged data the library may crash, never return, or
return other numbers.

The attribute ``format`` of every file gives its kind and the version of its format, such as "snapdyn trajectory 3".
"""

from __future__ import annotations

import _thread
import hashlib
import io
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from snapdyn.dynamics.memory import ALWAYS_FREE, free_memory
from snapdyn.dynamics.netcdf_content import MOST_OBJECTS, Content, RefusedContent, read_content
from snapdyn.dynamics.storage import replacing
from snapdyn.errors import InputError, shown

if TYPE_CHECKING:
    import xarray

MAGIC = b"snapdyn-digest-1 "
TRAILER_SIZE = len(MAGIC) + 64 + 1
BLOCK = 2**20
BLOCKS_AT_ONCE = 2  # per call of a thread
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
        The folder is missing, the file cannot be written, or it would have more than 1000 variables and dimensions,
        which reading refuses.
    """
    if (objects := len({*dataset.variables, *dataset.dims})) > MOST_OBJECTS:
        raise InputError(
            f"expected at most {MOST_OBJECTS} variables and dimensions in one file, received {objects}; put numbers "
            "that belong together into one array"
        )
    with replacing(path) as temporary:
        _undisturbed(lambda stop: _write_content(dataset.assign_attrs(format=file_format), temporary, stop))
        trailer = _trailer(temporary, temporary.stat().st_size)
        with temporary.open("ab") as end:
            end.write(trailer)
    return Path(path)


def _undisturbed(work: Callable[[list[bool]], None]) -> None:
    """Call `work` in a thread and wait: Ctrl-C reaches the main thread only; inside HDF5 it could end the process.

    After Ctrl-C the list that `work` gets is no longer empty. The locks of `threading` are not used: a signal can leave
    them locked.
    """
    stop: list[bool] = []
    begun: list[bool] = []
    outcome: list[BaseException | None] = []
    ended = _thread.allocate_lock()
    ended.acquire()

    def run() -> None:
        begun.append(True)
        try:
            work(stop)
        except BaseException as error:
            outcome.append(error)
        else:
            outcome.append(None)
        ended.release()

    interrupted, waits = False, 0
    try:
        _thread.start_new_thread(run, ())
    except KeyboardInterrupt:
        interrupted = True
    while not outcome and not (interrupted and not begun and waits > 20):  # else the thread was not started
        try:
            if interrupted:
                stop.append(True)
            waits += 1
            ended.acquire(timeout=0.05)
        except KeyboardInterrupt:
            interrupted = True
    if interrupted:
        raise KeyboardInterrupt
    if outcome[0] is not None:
        raise outcome[0]


def _write_content(dataset: xarray.Dataset, path: Path, stop: list[bool]) -> None:
    """Write the HDF5 data; once `stop` is not empty the rest does not reach the file, which is useless."""
    import h5netcdf
    from xarray.backends import H5NetCDFStore

    with _Target(path, "w+") as target:
        target.stop = stop
        with h5netcdf.File(target, "w", decode_vlen_strings=True) as file:
            dataset.dump_to_store(H5NetCDFStore(file))
        if target.error is not None:
            raise target.error


class _Target(io.FileIO):
    """File that HDF5 writes to. After an error, which it keeps, or `stop`, HDF5 goes on in a copy in memory.

    HDF5 ends the process when it cannot write what it holds back, as on a full disk, or when it reads other bytes than
    it wrote, as the strings of a variable.
    """

    error: OSError | None = None
    stop: list[bool]
    memory: io.BytesIO | None = None

    def _leave_disk(self) -> io.BytesIO:
        at = super().tell()
        super().seek(0)
        self.memory = io.BytesIO(super().read() or b"")
        self.memory.seek(at)
        return self.memory

    def write(self, data: Any) -> int:
        """Write all bytes."""
        left = memoryview(data).cast("B")
        size = len(left)
        try:
            while left and self.memory is None and not self.stop:
                left = left[super().write(left) :]
        except OSError as error:
            self.error = error
        if left:
            (self.memory or self._leave_disk()).write(left)
        return size

    def truncate(self, size: int | None = None) -> int:
        """Set the size."""
        size = self.tell() if size is None else size
        if self.memory is None and not self.stop:
            try:
                return super().truncate(size)
            except OSError as error:
                self.error = error
        memory, at = self.memory or self._leave_disk(), self.tell()
        missing = size - memory.seek(0, io.SEEK_END)
        memory.write(bytes(missing)) if missing > 0 else memory.truncate(size)
        memory.seek(at)
        return size

    def readinto(self, data: Any) -> int | None:
        return super().readinto(data) if self.memory is None else self.memory.readinto(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return super().seek(offset, whence) if self.memory is None else self.memory.seek(offset, whence)

    def tell(self) -> int:
        return super().tell() if self.memory is None else self.memory.tell()


def _trailer(path: str | os.PathLike[str], size: int) -> bytes:
    """Trailer for the first `size` bytes of a file."""

    def of_blocks(start: int) -> bytes:
        digests = []
        with open(path, "rb") as file:
            file.seek(start)
            for begin in range(start, min(start + BLOCKS_AT_ONCE * BLOCK, size), BLOCK):
                digests.append(hashlib.sha256(file.read(min(BLOCK, size - begin))).digest())
        return b"".join(digests)

    starts = range(0, size, BLOCKS_AT_ONCE * BLOCK)
    # Threads for one block cost more than they save.
    pool = ThreadPoolExecutor(min(len(starts), os.cpu_count() or 1)) if len(starts) > 1 else None
    try:
        digests = b"".join((pool.map if pool else map)(of_blocks, starts))
    finally:
        if pool:
            pool.shutdown(cancel_futures=True)
    return MAGIC + hashlib.sha256(digests).hexdigest().encode() + b"\n"


def _doubt(path: str | os.PathLike[str]) -> str:
    """What is wrong with the digest of a file, as a phrase; empty for the right digest."""
    size = os.stat(path).st_size - TRAILER_SIZE
    trailer = b""
    if size >= 0:
        with open(path, "rb") as file:
            file.seek(size)
            trailer = file.read()
    if not trailer.startswith(MAGIC):
        return "has no digest at its end: it is damaged, or another program wrote it"
    return "" if trailer == _trailer(path, size) else "is damaged: its SHA-256 digest differs"


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
    if not isinstance(path, (str, os.PathLike)) or not Path(path).is_file():
        raise InputError(f"expected the path of a {kind}, received {path!r}, which is not a file; check the path")
    try:
        if doubt := _doubt(path):
            raise RefusedContent(doubt)
        content = read_content(path, max(ALWAYS_FREE, free_memory() / 2))
        found = content.attributes.get("format")
        if found != file_format:
            raise RefusedContent(f"is of another kind ({shown(found)})")
        yield content
    except RefusedContent as error:
        raise InputError(f"expected a whole {kind}, received {str(path)!r}, which {error}; {advice}") from None
    except UNREADABLE as error:
        raise InputError(
            f"expected a whole {kind}, received {str(path)!r}, which is damaged or of another kind "
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
