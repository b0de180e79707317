"""Rows of csv files with their lines."""

from pathlib import Path

import pytest

from snapdyn.core.errors import InputError
from snapdyn.dynamics.files.foreign import csv_rows


def test_lines_of_rows(tmp_path: Path) -> None:
    """Assert numbers of lines beside blank lines and a cell of two lines; a byte-order mark is no part of a cell."""
    path = tmp_path / "a.csv"
    path.write_text('\n"a","b\nc"\n\n1,"2,5"\n', encoding="utf-8-sig")
    assert list(csv_rows(path)) == [(3, ["a", "b\nc"]), (5, ["1", "2,5"])]
    path.write_text("")
    assert list(csv_rows(path)) == []


@pytest.mark.parametrize("row", ["1,5,2", "1", "1,2,"])
def test_rows_of_another_length(tmp_path: Path, row: str) -> None:
    """Assert one sentence with the line for a row that is longer or shorter than the first."""
    path = tmp_path / "a.csv"
    path.write_text(f"a,b\n\n1,2\n{row}\n")
    with pytest.raises(InputError, match=rf"expected 2 cells in line 4 of a.csv, .* received {len(row.split(','))};"):
        list(csv_rows(path))


def test_files_that_are_no_text(tmp_path: Path) -> None:
    """Assert one sentence for other bytes and for a folder."""
    (tmp_path / "a.csv").write_bytes(b"a,b\n\xff\xfe")
    for path in (tmp_path / "a.csv", tmp_path):
        with pytest.raises(InputError, match="expected a csv file in UTF-8"):
            list(csv_rows(path))
