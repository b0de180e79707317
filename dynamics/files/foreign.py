"""Tables of users, read and checked: rows of csv files, and arrays of npz files."""

from __future__ import annotations

import csv
import math
import zipfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from snapdyn.core.errors import InputError, shown
from snapdyn.core.memory import require_memory


def csv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Read the rows of a csv file in UTF-8, with or without a byte-order mark; blank lines are left out.

    Parameters
    ----------
    path : Path

    Yields
    ------
    (int, list of str)
        Number of the line, from 1 on, and its cells.

    Raises
    ------
    InputError
        The file cannot be read, or a row has more or fewer cells than the first one.
    """
    cells = 0
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            for row in reader:
                if not row:
                    continue
                cells = cells or len(row)
                if len(row) != cells:
                    raise InputError(
                        f"expected {cells} cells in line {reader.line_num} of {path.name}, as in its first row, "
                        f"received {len(row)}; write numbers as 1234.5, without a comma"
                    )
                yield reader.line_num, row
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(
            f"expected a csv file in UTF-8, received {str(path)!r} ({type(error).__name__}); save it as UTF-8 text"
        ) from error


HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
COPIES = 4.0  # of an array, while a table or a trace is made from it


def read_npz(path: Path, wanted: Collection[str] | None = None) -> dict[str, NDArray[Any]]:
    """Read the arrays of an npz file.

    Parameters
    ----------
    path : Path
    wanted : collection of str, optional
        Names of the arrays to read, where the file has them; default all.

    Returns
    -------
    dict of arrays

    Raises
    ------
    InputError
        The file is damaged, or holds anything but plain arrays; or the sizes that it declares do not fit into the free
        memory or differ from those of its content.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = {each.filename.removesuffix(".npy"): each for each in archive.infolist()}
            chosen = {name: each for name, each in members.items() if wanted is None or name in wanted}
            # zipfile reads no more of a member than its declared size, however much the compressed data expand to.
            size = sum(each.file_size for each in chosen.values())
            require_memory(f"the arrays of {path.name}", COPIES * size, "fewer numbers")
            for each in chosen.values():
                with archive.open(each) as file:
                    _check_header(file, each.file_size)
            arrays = {}
            for name, each in chosen.items():
                with archive.open(each) as file:
                    arrays[name] = np.lib.format.read_array(file, allow_pickle=False)
            return arrays
    except InputError:
        raise
    except Exception as error:  # zipfile, zlib and numpy raise errors of many kinds for damaged files
        raise InputError(
            f"expected an npz file of plain arrays, received {str(path)!r}, which is damaged or holds pickled objects "
            f"({type(error).__name__}: {shown(str(error))}); write numbers with numpy.savez"
        ) from error


def npz_names(path: Path) -> list[str]:
    """Names of the arrays of an npz file that `read_npz` has read."""
    with zipfile.ZipFile(path) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist()]


def _check_header(file: IO[bytes], size: int) -> None:
    """Check that an array has `size` bytes by its header, as in the file: numpy allocates what the header declares."""
    shape, _, dtype = HEADERS[np.lib.format.read_magic(file)](file)
    declared = file.tell() + math.prod(shape) * dtype.itemsize
    if declared != size or dtype.hasobject:
        raise ValueError(f"an array of {dtype} declares {declared} bytes with its header, and has {size}")
