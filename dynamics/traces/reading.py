"""`read_trace`: traces from files that other programs wrote. No file is run or unpickled.

A netCDF file of another program has no digest that tells whether it is damaged, and on a damaged file the library that
reads HDF5 may crash or never return. So the library runs in a process of its own, which is ended at a time limit.
"""

from __future__ import annotations

import importlib.util
import io
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from snapdyn.core.errors import InputError, choice, existing_file, shown, text
from snapdyn.core.memory import ALWAYS_FREE, free_memory, require_memory
from snapdyn.dynamics.classes.table import Floats
from snapdyn.dynamics.files import netcdf_content
from snapdyn.dynamics.files.csv_rows import csv_rows
from snapdyn.dynamics.files.npz import npz_names, read_npz
from snapdyn.dynamics.traces.trace import AXES, Trace

LARGEST_INDEX = 10_000_000
# Names of the columns of a csv file, and of the tags of an event file; {n} is a class, {l} a token.
COLUMNS = {"loss": "loss", "entropy": "entropy_{n}", "attention": "attention_{n}_{l}"}
TAGS = {"loss": "loss", "entropy": "entropy/{n}", "attention": "attention/{n}/{l}"}
LONG_COLUMNS = {"step", "seed", "quantity", "class", "token", "value"}
FORMATS = "a csv, npz or netCDF (.nc) file, or an event file of TensorBoard (*.tfevents.*)"


def read_trace(
    path: str | os.PathLike[str],
    clock: str = "updates",
    batch_size: int = 1,
    momentum: float = 0.0,
    rate_factor: float = 1.0,
    seq_len: float | None = None,
    columns: Mapping[str, str] | None = None,
) -> Trace:
    """Read a trace of training from a file.

    Parameters
    ----------
    path : str or path-like
        **npz**: arrays `steps` (N,) and one or more of `attention` (N, S, M), `loss` (N,), `entropy` (N, S); these may
        have a first axis of seeds. Other arrays are ignored; pickled objects are refused.
        **nc**: netCDF-4 variables of the same names and shapes.
        **csv**, wide: columns `step`, `seed` (optional), `loss`, `entropy_n` and `attention_n_l`, n the class and l the
        token; before the name, "run - " names a run, as wandb writes it. **csv**, long: columns `step`, `quantity`
        (loss, entropy or attention), `value`, and as needed `seed`, `class`, `token`. Attention to tokens without a
        column or row is 0. A blank cell is a value that was not recorded, NaN; its row keeps its step.
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
    columns : mapping of str to str, optional
        Names of the columns of a wide csv file: "step" (default "step"), "seed", and one or more of "loss", "entropy"
        and "attention". In these, {n} stands for the class, {l} for the token, and {seed} for the name of the run:
        ``{"step": "Step", "entropy": "run-{seed} - train/entropy_{n}"}``. Other columns are not read. Runs are numbered
        in the order of their columns.

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
        ".csv": lambda path: _from_csv(path, columns),
        ".tfevents.": lambda path: _dense(path, _scalars(path)),
    }
    kind = ".tfevents." if ".tfevents." in path.name else path.suffix.lower()
    if kind not in readers:
        raise InputError(f"expected {FORMATS}, received {path.name!r}; save the trace as one of them")
    if columns is not None:
        columns = _checked_columns(columns)
        if kind != ".csv":
            raise InputError(f"expected columns only for a csv file, received {path.name!r}; leave columns out")
    values = readers[kind](path)
    if "steps" not in values or not values.keys() & AXES.keys():
        has = npz_names(path) if kind == ".npz" else list(values)
        raise InputError(
            f"expected the arrays steps, and one or more of {', '.join(AXES)}, in {str(path)!r}, received "
            f"{', '.join(has) or 'no arrays'}; name them so"
        )
    known = {name: values[name] for name in ("steps", *AXES) if name in values}
    return Trace(
        **known, clock=clock, batch_size=batch_size, momentum=momentum, rate_factor=rate_factor, seq_len=seq_len
    )


def _pattern(template: str) -> re.Pattern[str]:
    """Pattern of the names that a template such as "run-{seed} - entropy_{n}" stands for."""
    parts = re.split(r"\{(seed|n|l)\}", template)
    groups = [rf"(?P<{part}>{'.+' if part == 'seed' else '[0-9]{1,7}'})" for part in parts[1::2]]
    return re.compile("".join(re.escape(part) + group for part, group in zip(parts[::2], [*groups, ""], strict=True)))


class Place(NamedTuple):
    """What a column or a tag holds: quantity, name of the run (None: of the only one), class and token."""

    quantity: str
    run: str | None
    indices: tuple[int, ...]


def _place(name: str, patterns: Iterable[tuple[str, re.Pattern[str]]]) -> Place | None:
    for quantity, pattern in patterns:
        if match := pattern.fullmatch(name):
            found = match.groupdict()
            return Place(quantity, found.get("seed"), tuple(int(found[key]) for key in ("n", "l") if key in found))
    return None


def _checked_columns(columns: Any) -> dict[str, str]:
    """The map of columns of `read_trace`, checked."""
    if not isinstance(columns, Mapping) or not columns.keys() & AXES.keys():
        raise InputError(
            f"expected columns as a map with one or more of {', '.join(AXES)}, received {shown(columns)}; write for "
            "example {'step': 'Step', 'loss': 'train/loss'}"
        )
    for key, template in columns.items():
        choice("each key of columns", key, ("step", "seed", *AXES))
        text(f"columns[{key!r}]", template, 1)
        needed = {"class": "n", "token": "l"}
        wanted = sorted(needed[axis] for axis in AXES.get(key, ())[1:])
        placeholders = sorted(re.findall(r"\{(seed|n|l)\}", template))
        if placeholders not in (wanted, sorted([*wanted, "seed"] if key in AXES else wanted)):
            allowed = " and ".join(f"{{{each}}}" for each in sorted(wanted, reverse=True)) or "no placeholder"
            raise InputError(
                f"expected {allowed} once in columns[{key!r}]{', and {seed} at most once' if key in AXES else ''}, "
                f"received {shown(template)}; {{n}} stands for the class, {{l}} for the token, {{seed}} for the run"
            )
    return dict(columns)


def _from_csv(path: Path, columns: Mapping[str, str] | None) -> dict[str, Any]:
    rows = csv_rows(path)
    names = [name.strip() for name in next(rows, (0, []))[1]]
    if len(set(names)) < len(names):
        raise InputError(f"expected different names of columns in {path.name}, received {shown(names)}")
    lower = [name.lower() for name in names]
    if columns is None and {"quantity", "value"} <= set(lower):
        return _dense(path, _long_entries(path, lower, rows))
    return _dense(path, _wide_entries(path, names, columns, rows))


# A value with its place: quantity, seed, step, indices (class, then token).
Entry = tuple[str, int | str, float, tuple[int, ...], float]
Rows = Iterable[tuple[int, list[str]]]


def _long_entries(path: Path, names: list[str], rows: Rows) -> Iterator[Entry]:
    """Values of a csv file with a value per row."""
    if unknown := set(names) - LONG_COLUMNS:
        raise InputError(
            f"expected the columns {', '.join(sorted(LONG_COLUMNS))} in {path.name}, received {shown(sorted(unknown))} "
            "too; remove it"
        )
    _column(path, names, "step", "step")
    for line, cells in rows:
        row = dict(zip(names, cells, strict=True))
        quantity = row["quantity"].strip()
        if quantity not in AXES:
            raise InputError(
                f"expected quantity to be one of {', '.join(AXES)} in line {line} of {path.name}, received "
                f"{shown(quantity)}; leave other rows out"
            )
        indices = tuple(_index(path, line, axis, row.get(axis)) for axis in AXES[quantity][1:])
        seed = _index(path, line, "seed", row["seed"]) if "seed" in row else 0
        yield quantity, seed, _number(path, line, "step", row["step"]), indices, _value(path, line, row["value"])


def _wide_entries(path: Path, names: list[str], columns: Mapping[str, str] | None, rows: Rows) -> Iterator[Entry]:
    """Values of a csv file with a column per quantity, class, token and run; `columns` as in `read_trace`."""
    if columns is None:
        lower = [name.lower() for name in names]
        step, seed = _column(path, lower, "step", "step"), lower.index("seed") if "seed" in lower else None
        templates = [(key, name) for key, one in COLUMNS.items() for name in (one, f"{{seed}} - {one}")]
    else:
        step = _column(path, names, "step", columns.get("step", "step"))
        seed = _column(path, names, "seed", columns["seed"]) if "seed" in columns else None
        templates = [(key, columns[key]) for key in AXES if key in columns]
    patterns = [(key, _pattern(template)) for key, template in templates]
    places: dict[int, Place] = {}
    # wandb writes the smallest and the largest value of a step beside each column.
    extremes = {f"{name}{end}" for name in names for end in ("__MIN", "__MAX")}
    for number, name in enumerate(names):
        if name in extremes or number in (step, seed):
            continue
        place = _place(name.lower() if columns is None else name, patterns)
        if place is not None:
            places[number] = place
        elif columns is None:
            raise InputError(
                f"expected columns step, seed, loss, entropy_n and attention_n_l (class n, token l) in {path.name}, "
                f"received {shown(name)}; rename or remove it, or say with columns= which columns to read"
            )
    for key, template in templates if columns is not None else ():
        if key not in {place.quantity for place in places.values()}:
            raise InputError(
                f"expected columns {template!r} ({key}) in {path.name}, received {shown(names)}; correct columns"
            )
    if seed is not None and any(place.run is not None for place in places.values()):
        raise InputError(
            f"expected runs in {path.name} by names of columns or by a column {names[seed]!r}, received both; leave "
            "out one of them"
        )
    for line, cells in rows:
        of_row = 0 if seed is None else _index(path, line, "seed", cells[seed])
        at = _number(path, line, names[step], cells[step])
        for number, (quantity, run, indices) in places.items():
            yield (
                quantity,
                of_row if run is None else run,
                at,
                indices,
                _value(path, line, cells[number], names[number]),
            )


def _column(path: Path, names: list[str], key: str, name: str) -> int:
    if name not in names:
        raise InputError(
            f"expected a column {name} ({key}) in {path.name}, received {shown(names)}; add it, or name another one "
            "with columns="
        )
    return names.index(name)


def _value(path: Path, line: int, cell: str, column: str = "value") -> float:
    """A cell as a number; NaN where it is blank."""
    return _number(path, line, column, cell) if cell.strip() else math.nan


def _number(path: Path, line: int, column: str, cell: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(
            f"expected a finite {column} in line {line} of {path.name}, received {shown(cell)}; correct it"
        )
    return value


def _index(path: Path, line: int, column: str, cell: str | None) -> int:
    if cell is None or not re.fullmatch(r"\s*\d{1,8}\s*", cell, re.ASCII) or int(cell) > LARGEST_INDEX:
        raise InputError(
            f"expected {column} as a whole number from 0 on in line {line} of {path.name}, received {shown(cell)}; "
            "correct it"
        )
    return int(cell)


def _dense(path: Path, entries: Iterable[Entry]) -> dict[str, Floats]:
    """Arrays with axes (seed, step, class, token) from single values; NaN where a quantity was not recorded.

    Attention to tokens that have no column or row is 0 where the attention to the others was recorded.
    """
    found: dict[str, dict[tuple[int, ...], float]] = {}
    seed_rows: dict[int | str, int] = {}
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
        require_memory(f"{quantity} of shape {shape}", 24.0 * math.prod(shape), "smaller ids of tokens")
        if len(shape) > 2 and (none := np.setdiff1d(np.arange(shape[2]), keys[:, 2])).size:
            raise InputError(
                f"expected {quantity} of every class from 0 to {shape[2] - 1} in {path.name}, received none of class "
                f"{none[0]}; add it, or number the classes from 0 on"
            )
        array, missing = np.full(shape, np.nan), np.ones(shape, dtype=bool)
        array[tuple(keys.T)], missing[tuple(keys.T)] = list(values.values()), False
        if quantity == "attention":
            blank: NDArray[np.bool_] = np.isnan(array) & ~missing
            recorded = np.asarray(~blank.any(axis=-1) & ~missing.all(axis=-1))
            array[missing & recorded[..., None]] = 0.0
        arrays[quantity] = array[:, order]
    return arrays


def _scalars(path: Path) -> Iterator[Entry]:
    """Scalars with the tags of a trace, as seed 0, from an event file; read by tensorboard without TensorFlow."""
    if importlib.util.find_spec("tensorboard") is None:
        raise InputError(
            f"expected the package tensorboard for the event file {path.name!r}, received an installation without it; "
            "pip install 'snapdyn[tensorboard]'"
        )
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
    from tensorboard.util.tensor_util import make_ndarray

    patterns = [(quantity, _pattern(template)) for quantity, template in TAGS.items()]
    try:
        for event in EventFileLoader(str(path)).Load():
            for summary in event.summary.value:
                place = _place(summary.tag, patterns)
                if place is None:
                    continue
                value = float(make_ndarray(summary.tensor))
                if not math.isfinite(value):
                    raise InputError(
                        f"expected finite values of {summary.tag} in {path.name}, received {value} at step "
                        f"{event.step}; end the trace before it"
                    )
                yield place.quantity, 0, float(event.step), place.indices, value
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
