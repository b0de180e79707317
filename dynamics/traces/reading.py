"""`read_trace`: traces from files that other programs wrote. No file is run or unpickled."""

from __future__ import annotations

import csv
import math
import os
import re
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from snapdyn.dynamics.classes import Floats
from snapdyn.dynamics.memory import require_memory
from snapdyn.dynamics.traces.event_files import scalars
from snapdyn.dynamics.traces.netcdf_files import read_foreign
from snapdyn.dynamics.traces.trace import AXES, Trace
from snapdyn.errors import InputError, file_path, shown

LARGEST_INDEX = 10_000_000
COLUMN = re.compile(r"(loss|entropy|attention)((?:_\d+)*)")
LONG_COLUMNS = {"step", "seed", "quantity", "class", "token", "value"}
FORMATS = "a csv, npz or netCDF (.nc) file, or an event file of TensorBoard (*.tfevents.*)"


def read_trace(
    path: str | os.PathLike[str],
    clock: str = "updates",
    batch_size: int = 1,
    momentum: float = 0.0,
    rate_factor: float = 1.0,
    seq_len: float | None = None,
) -> Trace:
    """Read a trace of training from a file.

    Parameters
    ----------
    path : str or path-like
        **npz**: arrays `steps` (N,) and one or more of `attention` (N, S, M), `loss` (N,), `entropy` (N, S), or each
        with a first axis of seeds. Other arrays are left aside; pickled objects are refused.
        **nc**: netCDF-4 variables of the same names and shapes.
        **csv**, wide: columns `step`, `seed` (optional), `loss`, `entropy_n` and `attention_n_l`, n the class and l the
        token. **csv**, long: columns `step`, `quantity` (loss, entropy or attention), `value`, and as needed `seed`,
        `class`, `token`. Attention to tokens without a column or row is 0.
        **TensorBoard** event files (their names contain ".tfevents."), with the extra `tensorboard`: scalars with the
        tags loss, entropy/n and attention/n/l, of one run; other tags are left aside.
    clock : {"updates", "sequences", "theory"}
        What the steps count; see `Trace`.
    batch_size : int
        Sequences per update.
    momentum : float
        Heavy-ball momentum.
    rate_factor : float
        Rates of the run over those given to the theory.
    seq_len : int, math.inf or None
        Contextual tokens per sequence, T-1; None where it is unknown. See `Trace`.

    Returns
    -------
    Trace

    Raises
    ------
    InputError
        The file is missing, of another format or shape, or `Trace` refuses its values.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import snapdyn as sd
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "run.csv"
    ...     _ = path.write_text("step,loss,attention_0_0,attention_0_1\\n0,3.5,0.4,0.6\\n100,1.2,0.3,0.7\\n")
    ...     trace = sd.read_trace(path, clock="sequences", batch_size=10, seq_len=127)
    >>> trace.t, trace.seq_len
    (array([ 0., 10.]), 127)
    """
    path = file_path("path", path)
    if not path.is_file():
        raise InputError(f"expected the path of a trace, received {str(path)!r}, which is not a file; check the path")
    readers = {".npz": _from_npz, ".nc": _from_netcdf, ".csv": _from_csv, ".tfevents.": _from_events}
    kind = ".tfevents." if ".tfevents." in path.name else path.suffix.lower()
    if kind not in readers:
        raise InputError(f"expected {FORMATS}, received {path.name!r}; save the trace as one of them")
    values = readers[kind](path)
    if "steps" not in values:
        raise InputError(f"expected steps in {str(path)!r}, received {', '.join(values) or 'no arrays'}; add them")
    known = {name: values[name] for name in ("steps", *AXES) if name in values}
    return Trace(
        **known, clock=clock, batch_size=batch_size, momentum=momentum, rate_factor=rate_factor, seq_len=seq_len
    )


def _from_npz(path: Path) -> dict[str, Any]:
    wanted = {"steps", *AXES}
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(each.file_size for each in archive.infolist() if each.filename.removesuffix(".npy") in wanted)
        require_memory(f"the arrays of {path.name}", 2.0 * size, "fewer recorded steps")
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files if name in wanted}
    except InputError:
        raise
    except Exception as error:  # zipfile, zlib and numpy raise errors of many kinds for damaged files
        raise InputError(
            f"expected an npz file of plain arrays, received {str(path)!r}, which is damaged or holds pickled objects "
            f"({type(error).__name__}); write numbers with numpy.savez"
        ) from error


def _from_netcdf(path: Path) -> dict[str, Any]:
    return dict(read_foreign(path, ["steps", *AXES]))


def _from_events(path: Path) -> dict[str, Any]:
    return dict(_dense(path, scalars(path)))


def _from_csv(path: Path) -> dict[str, Any]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            columns = [name.strip() for name in reader.fieldnames or []]
            reader.fieldnames = columns
            if len(set(columns)) < len(columns):
                raise InputError(f"expected different names of columns in {path.name}, received {shown(columns)}")
            if "step" not in columns:
                raise InputError(f"expected a column step in {path.name}, received {shown(columns)}; add it")
            read = _long if {"quantity", "value"} <= set(columns) else _wide
            return _dense(path, read(path, columns, reader))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(
            f"expected a csv file in UTF-8, received {str(path)!r} ({type(error).__name__}); save it as UTF-8 text"
        ) from error


# A value with its place: quantity, seed, step, indices (class, then token).
Entry = tuple[str, int, float, tuple[int, ...], float]


def _long(path: Path, columns: list[str], rows: Iterable[Mapping[str, str]]) -> Iterable[Entry]:
    if unknown := set(columns) - LONG_COLUMNS:
        raise InputError(
            f"expected the columns {', '.join(sorted(LONG_COLUMNS))} in {path.name}, received {shown(sorted(unknown))} "
            "too; remove it"
        )
    for line, row in enumerate(rows, 2):
        quantity = (row["quantity"] or "").strip()
        if quantity not in AXES:
            raise InputError(
                f"expected quantity to be one of {', '.join(AXES)} in line {line} of {path.name}, received "
                f"{shown(quantity)}; leave other rows out"
            )
        indices = tuple(_index(path, line, axis, row.get(axis)) for axis in AXES[quantity][1:])
        seed = _index(path, line, "seed", row["seed"]) if "seed" in columns else 0
        yield (
            quantity,
            seed,
            _number(path, line, "step", row["step"]),
            indices,
            _number(path, line, "value", row["value"]),
        )


def _wide(path: Path, columns: list[str], rows: Iterable[Mapping[str, str]]) -> Iterable[Entry]:
    places: dict[str, tuple[str, tuple[int, ...]]] = {}
    for name in columns:
        if name in ("step", "seed"):
            continue
        match = COLUMN.fullmatch(name)
        indices = tuple(int(part) for part in match[2].split("_")[1:]) if match else ()
        if not match or len(indices) != len(AXES[match[1]]) - 1 or max(indices, default=0) > LARGEST_INDEX:
            raise InputError(
                f"expected columns step, seed, loss, entropy_n and attention_n_l (class n, token l) in {path.name}, "
                f"received {shown(name)}; rename or remove it"
            )
        places[name] = match[1], indices
    for line, row in enumerate(rows, 2):
        seed = _index(path, line, "seed", row["seed"]) if "seed" in columns else 0
        step = _number(path, line, "step", row["step"])
        for name, (quantity, indices) in places.items():
            yield quantity, seed, step, indices, _number(path, line, name, row[name])


def _number(path: Path, line: int, column: str, text: str | None) -> float:
    try:
        value = float(text or "")
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(
            f"expected a finite {column} in line {line} of {path.name}, received {shown(text)}; correct it"
        )
    return value


def _index(path: Path, line: int, column: str, text: str | None) -> int:
    if text is None or not re.fullmatch(r"\s*\d{1,8}\s*", text, re.ASCII) or int(text) > LARGEST_INDEX:
        raise InputError(
            f"expected {column} as a whole number from 0 on in line {line} of {path.name}, received {shown(text)}; "
            "correct it"
        )
    return int(text)


def _dense(path: Path, entries: Iterable[Entry]) -> dict[str, Floats]:
    """Arrays with axes (seed, step, class, token) from single values; values of attention that are missing are 0."""
    found: dict[str, dict[tuple[int, ...], float]] = {}
    seed_rows: dict[int, int] = {}
    step_rows: dict[float, int] = {}
    for quantity, seed, step, indices, value in entries:
        key = (seed_rows.setdefault(seed, len(seed_rows)), step_rows.setdefault(step, len(step_rows)), *indices)
        values = found.setdefault(quantity, {})
        if key in values:
            raise InputError(
                f"expected {quantity} once per seed, step, class and token in {path.name}, received two values at step "
                f"{step:g} of seed {seed}; remove one, or add a column seed"
            )
        values[key] = value
    if not found:
        raise InputError(f"expected rows with values in {path.name}, received none; write one per recorded step")
    order = np.argsort(list(step_rows))
    arrays: dict[str, Floats] = {"steps": np.array(list(step_rows))[order]}
    for quantity, values in found.items():
        keys = np.array(list(values))
        shape = (len(seed_rows), len(step_rows), *(keys[:, 2:].max(axis=0) + 1).tolist())
        require_memory(f"{quantity} of shape {shape}", 16.0 * math.prod(shape), "smaller ids of tokens")
        array = np.full(shape, 0.0 if quantity == "attention" else np.nan)
        array[tuple(keys.T)] = list(values.values())
        if np.isnan(array).any():
            raise InputError(
                f"expected {quantity} at every step, for every seed and class, in {path.name}, received "
                f"{int(np.isnan(array).sum())} gaps; leave out steps that some runs lack"
            )
        arrays[quantity] = array[:, order]
    return arrays
