"""Rows of csv files that other programs wrote, with their line numbers."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from snapdyn.core.errors import InputError


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
