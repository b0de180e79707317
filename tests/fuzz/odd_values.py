"""Values that no argument documents, or that only some do; each is made anew for each call."""

import os
import socket
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray
from scipy import sparse

import snapdyn as sd
from snapdyn.core.errors import shown


class _SeveralLines:
    def __repr__(self) -> str:
        return "first line\nsecond line \x1b[31m\x00"


def _in_folder(name: str, make: Callable[[Path], Any]) -> Path:
    """Make a special file in the current folder, which a test chooses for this."""
    path = Path(name)
    if not os.path.lexists(path):
        make(path)
    return path


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.fspath(path))


# Values that no call can change.
FIXED = (
    None, float("nan"), float("inf"), float("-inf"), -0.0, 0, -1, 1, 2.5, 1e300, 1e-320, True, np.True_, 10**400,
    -(2**63), 2**63 - 1, 2**63, 2**62, 10**6, np.float32(0.5), np.int8(3), Fraction(1, 3), Decimal("0.5"),
    Decimal("sNaN"), 1j, "x", "1.0", "", "x" * 100_000, "a\nb\x1b[31m\rc\x00", "\udc80", b"1.0", (1.0, 2.0), int,
    range(3), Path("no") / "file", np.datetime64("2020-01-01"), _SeveralLines(),
)  # fmt: skip
ODD: dict[str, Callable[[], Any]] = {
    **{f"{number} {shown(value)}": (lambda value=value: value) for number, value in enumerate(FIXED)},
    "text array": lambda: np.array("x"),
    "number array": lambda: np.array(2.0),
    "empty array": lambda: np.array([]),
    "array of no rows": lambda: np.empty((0, 3)),
    "3-d array": lambda: np.zeros((2, 2, 2)),
    "array of five": lambda: np.arange(5.0),
    "array with nan": lambda: np.array([1.0, np.nan]),
    "ragged": lambda: [[1.0], [1.0, 2.0]],
    "list": lambda: [1, 2, 3],
    "list with None": lambda: [1.0, None],
    "list of True": lambda: [0, True],
    "empty list": list,
    "generator": lambda: (x for x in (1.0, 2.0)),
    "set": lambda: {1, 2},
    "dict": lambda: {"a": 1},
    "function": lambda: lambda *arguments: None,
    "exception": lambda: ValueError("no\nvalue"),
    "object": object,
    "folder": lambda: _in_folder("folder", os.mkdir),
    "named pipe": lambda: _in_folder("pipe", os.mkfifo),
    "socket": lambda: _in_folder("socket", _socket),
    "link to nothing": lambda: _in_folder("link", lambda path: path.symlink_to("nothing")),
    "link to a pipe": lambda: _in_folder("other link", lambda path: path.symlink_to(_in_folder("pipe", os.mkfifo))),
    "Series": lambda: pd.Series([1.0, 2.0]),
    "DataFrame": lambda: pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]}),
    "DataArray": lambda: xarray.DataArray([1.0, 2.0], dims="x"),
    "sparse": lambda: sparse.csr_array(np.eye(2)),
    "sparse index too large": lambda: sparse.csr_array(([1.0, 1.0], [0, 10**8], [0, 1, 2]), shape=(2, 2)),
    "sparse of many tokens": lambda: sparse.csr_array(([1.0, 1.0], [0, 1], [0, 1, 2]), shape=(2, 2**62)),
    "list of sparse": lambda: [sparse.csr_array(np.eye(2))],
    "classes": sd.syn_small,
    "list of classes": lambda: [sd.syn_small()],
    "objects": lambda: np.array([None, "x"], dtype=object),
    "complex array": lambda: np.array([1j, 2.0]),
}
