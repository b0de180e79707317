"""`read_trace`: traces from files that other programs wrote. No file is run or unpickled.

A netCDF file of another program has no digest that tells whether it is damaged, and on a damaged file the library that
reads HDF5 may crash or never return. So the library runs in a process of its own, which is ended at a time limit.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapdyn.dynamics.classes.table import Floats
from snapdyn.dynamics.files import netcdf_content
from snapdyn.dynamics.files.npz import read_npz
from snapdyn.dynamics.traces.trace import AXES, Trace
from snapdyn.errors import InputError, existing_file, shown
from snapdyn.memory import ALWAYS_FREE, free_memory, require_memory

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
        **npz**: arrays `steps` (N,) and one or more of `attention` (N, S, M), `loss` (N,), `entropy` (N, S); these may
        have a first axis of seeds. Other arrays are ignored; pickled objects are refused.
        **nc**: netCDF-4 variables of the same names and shapes.
        **csv**, wide: columns `step`, `seed` (optional), `loss`, `entropy_n` and `attention_n_l`, n the class and l the
        token. **csv**, long: columns `step`, `quantity` (loss, entropy or attention), `value`, and as needed `seed`,
        `class`, `token`. Attention to tokens without a column or row is 0.
        **TensorBoard** event files (their names contain ".tfevents."), with the extra `tensorboard`: scalars with the
        tags loss, entropy/n and attention/n/l, of one run; other tags are ignored.
    clock : {"updates", "sequences", "theory"}
        What the steps count; see `Trace`.
    batch_size : int
        Sequences per update.
    momentum : float
        Heavy-ball momentum.
    rate_factor : float
        Rates of the run, divided by those given to the theory.
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
    path = existing_file("a trace", path)
    readers: dict[str, Callable[[Path], dict[str, Any]]] = {
        ".npz": lambda path: read_npz(path, {"steps", *AXES}),
        ".nc": lambda path: read_foreign(path, ["steps", *AXES]),
        ".csv": _from_csv,
        ".tfevents.": lambda path: _dense(path, _scalars(path)),
    }
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
            return _dense(path, _entries(path, columns, reader))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(
            f"expected a csv file in UTF-8, received {str(path)!r} ({type(error).__name__}); save it as UTF-8 text"
        ) from error


# A value with its place: quantity, seed, step, indices (class, then token).
Entry = tuple[str, int, float, tuple[int, ...], float]


def _entries(path: Path, columns: list[str], rows: Iterable[Mapping[str, str]]) -> Iterator[Entry]:
    """Values of a csv file: of one column ("long"), or of a column for each quantity, class and token ("wide")."""
    long = {"quantity", "value"} <= set(columns)
    if long and (unknown := set(columns) - LONG_COLUMNS):
        raise InputError(
            f"expected the columns {', '.join(sorted(LONG_COLUMNS))} in {path.name}, received {shown(sorted(unknown))} "
            "too; remove it"
        )
    places = {} if long else {name: _place(path, name) for name in columns if name not in ("step", "seed")}
    for line, row in enumerate(rows, 2):
        if long:
            quantity = (row["quantity"] or "").strip()
            if quantity not in AXES:
                raise InputError(
                    f"expected quantity to be one of {', '.join(AXES)} in line {line} of {path.name}, received "
                    f"{shown(quantity)}; leave other rows out"
                )
            places["value"] = quantity, tuple(_index(path, line, axis, row.get(axis)) for axis in AXES[quantity][1:])
        seed = _index(path, line, "seed", row["seed"]) if "seed" in columns else 0
        step = _number(path, line, "step", row["step"])
        for name, (quantity, indices) in places.items():
            yield quantity, seed, step, indices, _number(path, line, name, row[name])


def _place(path: Path, name: str) -> tuple[str, tuple[int, ...]]:
    """Quantity and indices of a column of a wide csv file."""
    match = COLUMN.fullmatch(name)
    indices = tuple(int(part) for part in match[2].split("_")[1:]) if match else ()
    if not match or len(indices) != len(AXES[match[1]]) - 1 or max(indices, default=0) > LARGEST_INDEX:
        raise InputError(
            f"expected columns step, seed, loss, entropy_n and attention_n_l (class n, token l) in {path.name}, "
            f"received {shown(name)}; rename or remove it"
        )
    return match[1], indices


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


# Quantity, and as many indices as it has: class, token.
TAG = re.compile(r"(?:(loss)|(entropy)/(\d{1,7})|(attention)/(\d{1,7})/(\d{1,7}))", re.ASCII)


def _scalars(path: Path) -> Iterator[Entry]:
    """Scalars with the tags of a trace, as seed 0, from an event file; read by tensorboard without TensorFlow."""
    if importlib.util.find_spec("tensorboard") is None:
        raise InputError(
            f"expected the package tensorboard for the event file {path.name!r}, received an installation without it; "
            "pip install 'snapdyn[tensorboard]'"
        )
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
    from tensorboard.util.tensor_util import make_ndarray

    try:
        for event in EventFileLoader(str(path)).Load():
            for summary in event.summary.value:
                tag = TAG.fullmatch(summary.tag)
                if tag is None:
                    continue
                value = float(make_ndarray(summary.tensor))
                if not math.isfinite(value):
                    raise InputError(
                        f"expected finite values of {summary.tag} in {path.name}, received {value} at step "
                        f"{event.step}; end the trace before it"
                    )
                name, *indices = (each for each in tag.groups() if each is not None)
                yield name, 0, float(event.step), tuple(map(int, indices)), value
    except InputError:
        raise
    except Exception as error:  # tensorboard and protobuf raise errors of many kinds for damaged files
        raise InputError(
            f"expected an event file of TensorBoard with scalars, received {str(path)!r}, which is damaged or holds "
            f"other values under these tags ({type(error).__name__}: {shown(str(error))}); write add_scalar(tag, ...)"
        ) from error


LIMIT = 60.0  # seconds


def read_foreign(path: str | os.PathLike[str], names: Iterable[str], limit: float = LIMIT) -> dict[str, NDArray[Any]]:
    """Read variables of a netCDF file (HDF5) of another program, in a process of its own.

    The process ends at the time limit and at Ctrl-C; if this program is killed, it ends at the latest a second after
    the limit. It runs no code of the file and follows no reference to other files.

    Parameters
    ----------
    path : str or path-like
    names : iterable of str
        Variables to read.
    limit : float
        Longest time in seconds.

    Returns
    -------
    dict of arrays
        Those variables of the root group that are numbers, as the file has them. Their values may be damaged.

    Raises
    ------
    InputError
        The file cannot be read within the limit, refers to other files, holds other things than numbers and text, or
        declares more than a quarter of the free memory.
    """
    most_bytes = max(ALWAYS_FREE, free_memory() / 4)  # one copy in each process, and as much for what is built from it
    arguments = [os.path.abspath(path), repr(most_bytes), str(math.ceil(limit) + 1), *names]
    sys.audit("open", arguments[0], "r", os.O_RDONLY)  # another process opens it (`dynamics.files.dependencies`)
    try:
        # -P: the modules beside the program are no top-level names.
        ended = subprocess.run(
            [sys.executable, "-P", netcdf_content.__file__, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=limit,
        )
    except subprocess.TimeoutExpired:
        what = f"could not be read within {limit:g} s"
    else:
        if ended.returncode == 0:
            with np.load(io.BytesIO(ended.stdout), allow_pickle=False) as arrays:
                return dict(arrays)
        what = "is damaged or of another kind: the library that reads HDF5 failed on it"
        if ended.returncode == netcdf_content.REFUSED:
            what = ended.stdout.decode()
    raise InputError(
        f"expected a trace file (netCDF-4), received {str(path)!r}, which {what}; write the variables "
        f"{', '.join(names)} as netCDF-4"
    )
