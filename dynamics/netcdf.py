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
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from snapdyn.dynamics.memory import ALWAYS_FREE, free_memory
from snapdyn.dynamics.netcdf_content import MOST_OBJECTS, Content, RefusedContent, read_content
from snapdyn.dynamics.storage import replacing
from snapdyn.dynamics.unverified import read_unverified
from snapdyn.errors import InputError, flag

if TYPE_CHECKING:
    import xarray

HEADER = "snapdyn"  # attribute that holds a JSON header; files without it keep their header in plain attributes
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
        return "has no digest at its end: it is damaged, or an earlier version of snapdyn or another program wrote it"
    return "" if trailer == _trailer(path, size) else "is damaged: its SHA-256 digest differs"


def read_netcdf(
    path: str | os.PathLike[str], kind: str, advice: str, unverified: bool = False, unchecked: str = "unverified=True"
) -> Content:
    """Read a netCDF file after checking its digest.

    Parameters
    ----------
    path : str or path-like
    kind : str
        Kind of the file in error messages, such as "trajectory file (snapdyn trajectory 3)".
    advice : str
        What to do about a damaged file; ends the error message.
    unverified : bool
        Read a file without a digest, or with a wrong one, by `read_unverified`: in a process of its own, which is
        ended after 60 s.
    unchecked : str
        How a user asks for that, in the error message.

    Returns
    -------
    Content

    Raises
    ------
    InputError
        The file is missing, damaged, without a digest (unless `unverified`), or of another kind.
    """
    unverified = flag("unverified", unverified)
    if not isinstance(path, (str, os.PathLike)) or not Path(path).is_file():
        raise InputError(f"expected the path of a {kind}, received {path!r}, which is not a file; check the path")
    try:
        if doubt := _doubt(path):
            if unverified:
                return read_unverified(path, kind)
            raise RefusedContent(doubt, "" if "differs" in doubt else f", or read it all the same with {unchecked}")
        return read_content(path, max(ALWAYS_FREE, free_memory() / 2))
    except RefusedContent as error:
        what, remedy = (*error.args, "")[:2]
        raise InputError(f"expected a whole {kind}, received {str(path)!r}, which {what}; {advice}{remedy}") from None
    except UNREADABLE as error:
        if isinstance(error, InputError):
            raise
        raise _unreadable(path, kind, advice, error) from error


def _unreadable(path: str | os.PathLike[str], kind: str, advice: str, error: Exception) -> InputError:
    return InputError(
        f"expected a whole {kind}, received {str(path)!r}, which is damaged or of another kind "
        f"({type(error).__name__}); {advice}"
    )


@contextmanager
def reading_netcdf(
    path: str | os.PathLike[str],
    kind: str,
    file_format: str,
    advice: str,
    unverified: bool = False,
    earlier: Sequence[str] = (),
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
    unverified : bool
        As for `read_netcdf`.
    earlier : sequence of str
        Further values that "format" may have.

    Yields
    ------
    header : mapping
        The entries of the JSON header, or the attributes of a file without one; and "format".
    values : dict of arrays
        Every variable of the file, by name.

    Raises
    ------
    InputError
        The file is missing, damaged, without a digest (unless `unverified`), or of another format.
    """
    kind = f"{kind} file ({file_format})"
    content = read_netcdf(path, kind, advice, unverified)
    try:
        attributes = content.attributes
        header = json.loads(attributes[HEADER]) if HEADER in attributes else attributes
        header = {"format": attributes.get("format"), **header}  # of old files it stands in the JSON
        if header["format"] not in (file_format, *earlier):
            raise KeyError("format")
        yield header, content.arrays
    except UNREADABLE as error:
        raise _unreadable(path, kind, advice, error) from error


def read_dataset(
    path: str | os.PathLike[str],
    kind: str,
    file_format: str,
    advice: str,
    unverified: bool = False,
    unchecked: str = "unverified=True",
) -> xarray.Dataset:
    """Read a netCDF file as a labelled dataset, as ``xarray.load_dataset`` gives it, without the attribute "format".

    Parameters
    ----------
    path : str or path-like
    kind : str
        Kind of the file in error messages, such as "figure data".
    file_format : str
        Value that the attribute "format" must have. Files without a digest may lack it.
    advice : str
        What to do about a damaged file; ends the error message.
    unverified : bool
        As for `read_netcdf`.
    unchecked : str
        As for `read_netcdf`.

    Returns
    -------
    xarray.Dataset

    Raises
    ------
    InputError
        The file is missing, damaged, without a digest (unless `unverified`), or of another format.
    """
    import xarray

    kind = f"{kind} file ({file_format})"
    content = read_netcdf(path, kind, advice, unverified, unchecked)
    attributes = dict(content.attributes)
    try:
        if attributes.pop("format", file_format if unverified else None) != file_format:
            raise KeyError("format")
        variables = {name: (v.dims, v.values, v.attributes) for name, v in content.variables.items()}
        return xarray.decode_cf(xarray.Dataset(variables, attrs=attributes))
    except UNREADABLE as error:
        raise _unreadable(path, kind, advice, error) from error
