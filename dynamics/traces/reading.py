"""`read_trace`: traces from files that other programs wrote. No file is run or unpickled.

A netCDF file of another program has no digest that tells whether it is damaged, and on a damaged file the library that
reads HDF5 may crash or never return. So the library runs in a process of its own, which is ended at a time limit.
"""

from __future__ import annotations

import importlib.util
import io
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from snapdyn.core.errors import InputError, choice, existing_file, shown, text
from snapdyn.core.memory import ALWAYS_FREE, free_memory, require_memory
from snapdyn.dynamics.classes.table import Floats
from snapdyn.dynamics.files import netcdf_content
from snapdyn.dynamics.files.foreign import csv_rows, npz_names, read_npz
from snapdyn.dynamics.rules import Optimizer
from snapdyn.dynamics.traces.trace import AXES, LEAST, Trace
from snapdyn.dynamics.training.steps import Schedule

LARGEST_INDEX = 10_000_000
# Names of columns, keys and tags; {n} is a class, {l} a token, {seed} the name of a run; "/" may stand for "_".
NAMES = {"loss": "loss", "entropy": "entropy_{n}", "attention": "attention_{n}_{l}"}
STEPS = ("step", "global_step")
# What wandb and TensorBoard write beside the values: times, and the extremes and the step of each column.
TIMES = ("wall time", "relative time (wall)", "relative time (process)", "_runtime", "_timestamp", "_step")
EXTREMES = ("__MIN", "__MAX", "__STEP")
LONG_COLUMNS = {"step", "seed", "quantity", "class", "token", "value"}
EXAMPLE = "for example columns={'step': 'Step', 'loss': 'train/loss'}"
JSON_LINES = (".jsonl", ".ndjson", ".json")
FORMATS = (
    "a csv, JSON lines (.jsonl, .ndjson, .json), npz or netCDF (.nc) file, or an event file of TensorBoard "
    "(*.tfevents.*)"
)


def read_trace(
    path: str | os.PathLike[str],
    clock: str = "updates",
    batch_size: int = 1,
    momentum: float = 0.0,
    seq_len: float | None = None,
    columns: Mapping[str, str] | None = None,
    schedule: Schedule | None = None,
    optimizer: Optimizer = "sgd",
) -> Trace:
    """Read a trace of training from a file.

    Parameters
    ----------
    path : str or path-like
        **npz**: arrays `steps` (N,) and one or more of `attention` (N, S, M), `loss` (N,), `entropy` (N, S); these may
        have a first axis of seeds. Other arrays are ignored; pickled objects are refused.
        **nc**: netCDF-4 variables of the same names and shapes.
        **csv**, wide: columns `step` (or `global_step`), `seed` (optional), `loss`, `entropy_n` and `attention_n_l`, n
        the class and l the token; before the name, "run - " names a run, as wandb writes it. Columns that end in
        `__MIN`, `__MAX` and `__STEP`, and times, are left out. "Value" in a file "run-...-tag-loss.csv" of TensorBoard
        is what the name of the file says. **csv**, long: columns `step`, `quantity` (loss, entropy or attention),
        `value`, and as needed `seed`, `class`, `token`. Attention to tokens without a column or row is 0. A blank cell
        is a value that was not recorded, NaN; its row keeps its step. Classes without a column are not recorded.
        **JSON lines** (.jsonl, .ndjson, .json): an object a line, with the names of a wide csv file; null is a blank
        cell, and other keys are left out.
        **TensorBoard** event files (their names contain ".tfevents."), with the extra `tensorboard`: scalars with these
        names as tags, of one run, where "/" may stand for "_"; other tags are left out.
    clock : {"updates", "sequences", "theory"}
        What the steps count; see `Trace`.
    batch_size : int
        Sequences per update.
    momentum : float
        Heavy-ball momentum.
    seq_len : int, math.inf or None
        Contextual tokens per sequence, T-1; None where it is unknown. See `Trace`.
    columns : mapping of str to str, optional
        Names of the columns of a wide csv file, of keys or of tags: "step" (default "step"), "seed", and one or more of
        "loss", "entropy" and "attention". In these, {n} stands for the class, {l} for the token, and {seed} for the
        name of the run: ``{"step": "Step", "entropy": "run-{seed} - train/entropy_{n}"}``. Other columns are not read.
        Runs are numbered in the order in which they appear.
    schedule : array_like, callable or float, optional
        Multipliers of both rates, one for each update or a number for all; see `Trace`.
    optimizer : str, rule, pair of rules or mapping
        As in `sgd`; with another rule than "sgd", t counts updates.

    Returns
    -------
    Trace

    Raises
    ------
    InputError
        The file is missing, of another format or shape, has names with two meanings, or `Trace` refuses its values.

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
        ".tfevents.": lambda path: _from_table(path, *_events(path), columns),
    } | dict.fromkeys(JSON_LINES, lambda path: _from_table(path, *_json_lines(path), columns))
    kind = ".tfevents." if ".tfevents." in path.name else path.suffix.lower()
    if kind not in readers:
        raise InputError(f"expected {FORMATS}, received {path.name!r}; save the trace as one of them")
    arrays = kind in (".npz", ".nc")
    if columns is not None:
        columns = _checked_columns(columns)
        if arrays:
            raise InputError(f"expected columns only for a table, received {path.name!r}; leave columns out")
    values = readers[kind](path)
    if "steps" not in values or not values.keys() & AXES.keys():
        has = npz_names(path) if kind == ".npz" else list(values)
        raise InputError(
            f"expected the arrays steps, and one or more of {', '.join(AXES)}, in {str(path)!r}, received "
            f"{', '.join(has) or 'no arrays'}; name them so"
        )
    known = {name: values[name] for name in ("steps", *AXES) if name in values}
    trace = Trace(
        **known,
        clock=clock,
        batch_size=batch_size,
        momentum=momentum,
        optimizer=optimizer,
        seq_len=seq_len,
        schedule=schedule,
    )
    trace.numbers_classes = not arrays
    return trace


def _pattern(template: str, flags: int) -> re.Pattern[str]:
    """Pattern of the names that a template such as "run-{seed} - entropy_{n}" stands for."""
    parts = re.split(r"\{(seed|n|l)\}", template)
    groups = [rf"(?P<{part}>{'.+' if part == 'seed' else '[0-9]{1,7}'})" for part in parts[1::2]]
    pattern = "".join(re.escape(part) + group for part, group in zip(parts[::2], [*groups, ""], strict=True))
    return re.compile(pattern, flags)


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
            f"expected columns as a map with one or more of {', '.join(AXES)}, received {shown(columns)}; write "
            f"{EXAMPLE}"
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
        if "}{" in template:
            raise InputError(
                f"expected characters between the placeholders of columns[{key!r}], received {shown(template)}, which "
                "names fit in several ways; write the whole name"
            )
    return dict(columns)


# A value with its place: quantity, seed, step, indices (class, then token).
Entry = tuple[str, int | str, float, tuple[int, ...], float]
# Rows of a table: where each stands, in words, and its cells by name.
Rows = Iterable[tuple[str, Mapping[str, Any]]]


def _from_csv(path: Path, columns: Mapping[str, str] | None) -> dict[str, Any]:
    lines = csv_rows(path)
    names = [name.strip() for name in next(lines, (0, []))[1]]
    if columns is None and {"quantity", "value"} <= {name.lower() for name in names}:
        names, read = [name.lower() for name in names], _long_entries
    else:
        read = partial(_wide_entries, columns=columns, all_names=True)
    if columns is None and (tag := re.fullmatch(r"run-.*-tag-(.+)\.csv", path.name)):
        names = [tag[1] if name == "Value" else name for name in names]
    if len(set(names)) < len(names):
        raise InputError(
            f"expected different names of columns in {path.name}, received {shown(names)}; rename those that are equal"
        )
    rows = ((f"in line {line} of {path.name}", dict(zip(names, cells, strict=True))) for line, cells in lines)
    return _dense(path, read(path, names, rows))


def _from_table(path: Path, names: list[str], rows: Rows, columns: Mapping[str, str] | None) -> dict[str, Any]:
    return _dense(path, _wide_entries(path, names, rows, columns, all_names=False))


def _json_lines(path: Path) -> tuple[list[str], Rows]:
    """Names and rows of a file with a JSON object a line."""
    rows: list[tuple[str, dict[str, str]]] = []
    number = 0
    try:
        with path.open(encoding="utf-8-sig") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    rows.append((f"in line {number} of {path.name}", _cells(json.loads(line, object_pairs_hook=list))))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(
            f"expected a JSON object with different keys in each line of {path.name}, received something else in line "
            f'{number} ({shown(str(error))}); write for example {{"step": 0, "loss": 3.5}}'
        ) from error
    return list(dict.fromkeys(name for _, cells in rows for name in cells)), rows


def _cells(pairs: Any) -> dict[str, str]:
    """Cells of a JSON object, which is given as a list of its keys and values, as a csv file has them."""
    if not isinstance(pairs, list) or not all(isinstance(pair, tuple) for pair in pairs):
        raise ValueError("no object")
    cells = {key: "" if value is None else value if isinstance(value, str) else repr(value) for key, value in pairs}
    if len(cells) < len(pairs):
        raise ValueError("a key twice")
    return cells


def _long_entries(path: Path, names: list[str], rows: Rows) -> Iterator[Entry]:
    """Values of a csv file with a value per row."""
    if unknown := set(names) - LONG_COLUMNS:
        raise InputError(
            f"expected the columns {', '.join(sorted(LONG_COLUMNS))} in {path.name}, received {shown(sorted(unknown))} "
            "too; remove it"
        )
    _require_column(path, names, "step", "step")
    for where, row in rows:
        quantity = row["quantity"].strip()
        if quantity not in AXES:
            raise InputError(
                f"expected quantity to be one of {', '.join(AXES)} {where}, received {shown(quantity)}; leave other "
                "rows out"
            )
        indices = tuple(_index(where, axis, row.get(axis)) for axis in AXES[quantity][1:])
        seed = _index(where, "seed", row["seed"]) if "seed" in row else 0
        yield (
            quantity,
            seed,
            _number(where, "step", row["step"]),
            indices,
            _value(where, "value", row["value"], quantity),
        )


def _wide_entries(
    path: Path, names: list[str], rows: Rows, columns: Mapping[str, str] | None, all_names: bool
) -> Iterator[Entry]:
    """Values of a table with a name per quantity, class, token and run; arguments as of `_places`."""
    step, seed, places = _places(path, names, columns, all_names)
    for where, row in rows:
        found = [(name, places[name]) for name in row if name in places]
        if not found:
            continue
        of_row = 0 if seed is None else _index(where, "seed", row.get(seed))
        at = _number(where, step, row.get(step, ""))
        for name, (quantity, run, indices) in found:
            yield quantity, of_row if run is None else run, at, indices, _value(where, name, row[name], quantity)


def _places(
    path: Path, names: list[str], columns: Mapping[str, str] | None, all_names: bool
) -> tuple[str, str | None, dict[str, Place]]:
    """Column of the steps, column of the seeds (None: there is none), and what the other columns hold.

    `columns` is as in `read_trace`; without it, a name that says nothing is refused if `all_names`, else left out.
    """

    def refused(received: str) -> InputError:
        return InputError(
            f"expected columns step, seed, loss, entropy_n and attention_n_l (class n, token l) in {path.name}, each "
            f"with one meaning, received {received}; rename it, or say which of {shown(names)} to read, {EXAMPLE}"
        )

    if columns is None:
        steps = [name for name in names if name.lower() in STEPS] or [name for name in names if name == "_step"]
        if len(steps) > 1:
            raise refused(f"{shown(steps[0])} beside {shown(steps[1])}")
        step, seed = steps[0] if steps else "step", next((name for name in names if name.lower() == "seed"), None)
        forms = [(key, form) for key, one in NAMES.items() for form in dict.fromkeys((one, one.replace("_", "/")))]
        templates = [(key, start + form) for key, form in forms for start in ("", "{seed} - ")]
    else:
        step, seed = columns.get("step", "step"), columns.get("seed")
        templates = [(key, columns[key]) for key in AXES if key in columns]
    for key, name in (("step", step), ("seed", seed)):
        if name is not None:
            _require_column(path, names, key, name)
    patterns = [(key, _pattern(form, re.IGNORECASE if columns is None else 0)) for key, form in templates]
    places: dict[str, Place] = {}
    names_of: dict[Place, str] = {}
    left_out = {step, seed, *(name + end for name in names for end in EXTREMES)}
    for name in names:
        if name in left_out or (columns is None and name.lower().rpartition(" - ")[2] in TIMES):
            continue
        place = _place(name, patterns)
        if place is None:
            if columns is None and all_names:
                raise refused(shown(name))
            continue
        if place in names_of:
            raise refused(f"{shown(names_of[place])} beside {shown(name)}")
        if columns is None and " - " in (place.run or ""):
            raise refused(f"{shown(name)}, in which the name of the run can end at two places")
        if (place.run is None) != (next(iter(names_of), place).run is None):
            raise refused(f"{shown(next(iter(places)))} beside {shown(name)}, of which one names a run")
        places[name], names_of[place] = place, name
    if not places and columns is None:
        raise refused(shown(names))
    for key, template in templates if columns is not None else ():
        if key not in {place.quantity for place in places.values()}:
            raise InputError(
                f"expected columns {template!r} ({key}) in {path.name}, received {shown(names)}; correct columns"
            )
    if seed is not None and any(place.run is not None for place in places.values()):
        raise InputError(
            f"expected runs in {path.name} by names of columns or by a column {seed!r}, received both; leave out one "
            "of them"
        )
    return step, seed, places


def _require_column(path: Path, names: list[str], key: str, name: str) -> None:
    if name not in names:
        raise InputError(
            f"expected a column {name} ({key}) in {path.name}, received {shown(names)}; add it, or name another one, "
            f"{EXAMPLE}"
        )


def _value(where: str, column: str, cell: Any, quantity: str) -> float:
    """A cell as a number of a quantity; NaN where it is blank."""
    if isinstance(cell, str) and not cell.strip():
        return math.nan
    value = _number(where, column, cell)
    if value < LEAST[quantity]:
        raise InputError(
            f"expected {column} of at least {LEAST[quantity]:g} {where}, received {value:g}; correct it: attention is "
            "a probability, loss is -ln alpha, entropy -sum c ln c"
        )
    return value


def _number(where: str, column: str, cell: Any) -> float:
    try:
        value = float(cell)
    except (ValueError, TypeError):
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"expected a finite {column} {where}, received {shown(cell)}; correct it")
    return value


def _index(where: str, column: str, cell: str | None) -> int:
    if cell is None or not re.fullmatch(r"\s*\d{1,8}\s*", cell, re.ASCII) or int(cell) > LARGEST_INDEX:
        raise InputError(f"expected {column} as a whole number from 0 on {where}, received {shown(cell)}; correct it")
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
        if not math.isnan(values.get(key, math.nan)) and not math.isnan(value):
            raise InputError(
                f"expected {quantity} once per seed, step, class and token in {path.name}, received two values at step "
                f"{step:g} of seed {seed}; remove one, or add a column seed"
            )
        values[key] = values.get(key, math.nan) if math.isnan(value) else value
    if not found:
        raise InputError(f"expected rows with values in {path.name}, received none; write one per recorded step")
    order = np.argsort(list(step_rows))
    arrays: dict[str, Floats] = {"steps": np.array(list(step_rows))[order]}
    for quantity, values in found.items():
        keys = np.array(list(values))
        shape = (len(seed_rows), len(step_rows), *(keys[:, 2:].max(axis=0) + 1).tolist())
        require_memory(f"{quantity} of shape {shape}", 24.0 * math.prod(shape), "smaller ids of tokens")
        if len(shape) > 2 and np.array_equal(np.unique(keys[:, 2]), np.arange(1, shape[2])):
            raise InputError(
                f"expected {quantity} of classes with numbers from 0 on in {path.name}, received every class from 1 to "
                f"{shape[2] - 1} and none of class 0; number them from 0 on, or add class 0 with blank cells"
            )
        array, missing = np.full(shape, np.nan), np.ones(shape, dtype=bool)
        array[tuple(keys.T)], missing[tuple(keys.T)] = list(values.values()), False
        if quantity == "attention":
            blank: NDArray[np.bool_] = np.isnan(array) & ~missing
            recorded = np.asarray(~blank.any(axis=-1) & ~missing.all(axis=-1))
            array[missing & recorded[..., None]] = 0.0
        arrays[quantity] = array[:, order]
    return arrays


def _events(path: Path) -> tuple[list[str], Rows]:
    """Names and rows of an event file, a row for each event; read by tensorboard without TensorFlow."""
    if importlib.util.find_spec("tensorboard") is None:
        raise InputError(
            f"expected the package tensorboard for the event file {path.name!r}, received an installation without it; "
            "pip install 'snapdyn[tensorboard]'"
        )
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
    from tensorboard.util.tensor_util import make_ndarray

    rows: list[tuple[str, dict[str, Any]]] = []
    try:
        for event in EventFileLoader(str(path)).Load():
            values = {
                each.tag: make_ndarray(each.tensor).tolist() for each in event.summary.value if each.tag not in STEPS
            }
            rows.append((f"at step {event.step} of {path.name}", {**values, "step": event.step}))
    except Exception as error:  # tensorboard and protobuf raise errors of many kinds for damaged files
        raise InputError(
            f"expected an event file of TensorBoard with scalars, received {str(path)!r}, which is damaged or holds "
            f"other values ({type(error).__name__}: {shown(str(error))}); write add_scalar(tag, ...)"
        ) from error
    return list(dict.fromkeys(name for _, row in rows for name in row)), rows


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
