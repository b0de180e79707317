"""The register of figures: the list of snapdyn's figures; compute, draw and write those of the register."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from threadpoolctl import threadpool_limits

from snapdyn.core.errors import InputError, choice, chosen_ids, file_path, instance, optional_function, whole
from snapdyn.core.parallel import map_in_processes
from snapdyn.core.registry import Registry
from snapdyn.dynamics.files.storage import output_folder
from snapdyn.dynamics.training.transformer.runs import TransformerRun, load_transformer_runs
from snapdyn.experiments.toml_files import Section
from snapdyn.figures import (
    figure_2,
    figure_3,
    figure_4,
    figure_5,
    figure_6,
    figure_7,
    figure_8,
    figure_9,
    figure_10,
    figure_11,
    figure_12,
    figure_attention,
    figure_growth,
    figure_ladder,
    figure_maps,
    figure_orders,
    figure_phase,
    figure_spurious,
    figure_transition,
    figure_winner,
)
from snapdyn.figures.declaration import FigureEntry, listed, value_text
from snapdyn.figures.output import DEFAULT_FORMATS, DrawnFigure, file_names, formats_of, write_figure
from snapdyn.figures.style import Figure, Style, figure_width, house_style
from snapdyn.validation.measured import LEVELS
from snapdyn.validation.register_folder import register_in_use

if TYPE_CHECKING:
    import xarray


LONGEST_NAME = 80  # characters of a file name, beyond which parameters are shortened to a digest

# In the order of reports.
_MODULES = (
    figure_2,
    figure_3,
    figure_4,
    figure_5,
    figure_6,
    figure_7,
    figure_8,
    figure_9,
    figure_10,
    figure_11,
    figure_12,
    figure_attention,
    figure_growth,
    figure_transition,
    figure_ladder,
    figure_orders,
    figure_maps,
    figure_phase,
    figure_winner,
    figure_spurious,
)
FIGURES: Registry[FigureEntry] = Registry("figure", lambda entry: entry.id, map(FigureEntry.from_module, _MODULES))


def chosen_figures(ids: Iterable[str] | None) -> list[FigureEntry]:
    """Return the chosen figures, in order; None: all figures of snapdyn, or those of another register in use."""
    of_register = register_in_use().figures
    if ids is None and of_register is not None:
        return [FIGURES[id_] for id_ in of_register]
    FIGURES.load_named([ids] if isinstance(ids, str) else ids if isinstance(ids, list | tuple) else [])
    return [FIGURES[id_] for id_ in chosen_ids("figure", ids, FIGURES)]


# What drawing and checking raise on a dataset that lacks variables, or has others or other values.
DATA_OF_ANOTHER_KIND = (KeyError, ValueError, IndexError, TypeError, AttributeError, ArithmeticError, RuntimeError)


def compute(
    id: str,
    level: str = "quick",
    *,
    runs: str | os.PathLike[str] | Sequence[TransformerRun] | None = None,
    **parameters: Any,
) -> xarray.Dataset:
    """Compute the data of a figure.

    Parameters
    ----------
    id : str
        Id of the figure: "2" ... "12", or a name.
    level : "quick" or "full"
        "full" computes the curves at more points, or takes more seeds.
    runs : path or sequence of TransformerRun, optional
        Runs of transformers for Figures 7 and 10, or their folder; default: the short ones that come with snapdyn.
    **parameters
        Parameters of the figure (``snapdyn figures --list`` lists them); default the paper's values.

    Returns
    -------
    xarray.Dataset
        Every variable with its unit. The attributes hold the parameters that are numbers. Times are in batch-size-1
        steps.

    Raises
    ------
    InputError
        The figure, the level or a parameter is unknown, a value is of another type or out of bounds, or the integration
        does not reach its end with parameters other than the defaults.

    Examples
    --------
    >>> import snapdyn as sd
    >>> dataset = sd.figures.compute("8", vocab_size=[50, 200])
    >>> dataset.h.shape, dataset.vocab_size.values.tolist()
    ((2, 5, 321), [50, 200])
    """
    FIGURES.load_named([id])
    entry, level = FIGURES[choice("figure", id, FIGURES)], choice("level", level, LEVELS)
    read = entry.read_parameters(parameters)
    values = dict(read)
    if isinstance(runs, (str, os.PathLike)):
        runs = load_transformer_runs(file_path("runs", runs))
    try:
        dataset = entry.compute(level, runs, **values) if entry.from_runs else entry.compute(level, **values)
    except (RuntimeError, ArithmeticError, MemoryError) as error:
        given = listed(read.model_dump(exclude_defaults=True))
        if not given:  # the fault is ours
            raise
        raise InputError(
            f"expected parameters with which figure {entry.id} can be computed, received {given} "
            f"({type(error).__name__}: {error}); choose values nearer to the defaults"
        ) from error
    facts = {name: value for name, value in values.items() if isinstance(value, (int, float))} | dataset.attrs
    facts |= {"figure": entry.id, "level": level}
    return dataset.assign_attrs(facts | ({"figure_parameters": json.dumps(values)} if values else {}))


def draw(id: str, dataset: xarray.Dataset, width: float | None = None, style: Style | None = None) -> Figure:
    """Draw a figure from its data.

    Parameters
    ----------
    id : str
        Id of the figure.
    dataset : xarray.Dataset
        From `compute`, or read from a figure's .nc file.
    width : float, optional
        Width in inches; default that of the style, or else of the figure (7, or 3.4 for one column). Panels are
        arranged so that they fit.
    style : str, path or mapping, optional
        "neurips", "icml", "jmlr", "slides", a .mplstyle file or a mapping of rcParams, on top of the house style.

    Returns
    -------
    matplotlib Figure
        Save it inside `house_style` with the same style, so that its fonts stay the same.

    Raises
    ------
    InputError
        The figure or the style is unknown, the width is out of bounds, or the data are not those of the figure.

    Examples
    --------
    >>> import snapdyn as sd
    >>> figure = sd.figures.draw("8", sd.figures.compute("8"), width=3.25, style="icml")
    >>> float(figure.get_figwidth())
    3.25
    """
    import xarray

    FIGURES.load_named([id])
    entry = FIGURES[choice("figure", id, FIGURES)]
    instance("dataset", dataset, xarray.Dataset, "compute it with snapdyn.figures.compute")
    width = figure_width(width, style, entry.width)
    with house_style(style):
        try:
            return entry.figure(dataset, width)
        except InputError:
            raise
        except DATA_OF_ANOTHER_KIND as error:
            raise InputError(
                f"expected the data of figure {entry.id}, received a dataset from which it cannot be drawn "
                f"({type(error).__name__}: {error}); compute it with snapdyn.figures.compute"
            ) from error


def write(
    ids: Iterable[str] | None = None,
    out: str | os.PathLike[str] = "figures",
    level: str = "quick",
    progress: Callable[[int, int, str], None] | None = None,
    runs: str | os.PathLike[str] | None = None,
    parameters: Mapping[str, Mapping[str, Any]] | None = None,
    width: float | None = None,
    style: Style | None = None,
    formats: Sequence[str] = DEFAULT_FORMATS,
    jobs: int | None = 1,
) -> list[DrawnFigure]:
    """Compute, draw and check figures of the register, and write them into files.

    Parameters
    ----------
    ids : iterable of str, optional
        Ids of the figures, in any order; default: all figures of snapdyn, or those of another register in use. A single
        id may be given as a string.
    out : path
        Folder for the files, created when missing: figure_ID.png, .pdf, .nc (the data) and .provenance.json.
        Parameters that differ from the defaults are part of the name: figure_3_eta_Z=0.2.png.
    level : "quick" or "full"
        "full" computes the curves at more points.
    progress : callable, optional
        Called as progress(done, total, id) before each figure, and at the end with done = total and an empty id. With
        several processes, `id` is one of the figures that are being drawn.
    runs : path, optional
        Folder of saved transformer runs for Figures 7 and 10; default: the short ones that come with snapdyn.
    parameters : mapping, optional
        Parameters by id of the figure: ``{"3": {"eta_Z": 0.2}}``.
    width : float, optional
        As in `draw`.
    style : str, path or mapping, optional
        As in `draw`.
    formats : sequence of str
        Some of "png", "pdf", "svg".
    jobs : int or None
        Processes; None: one per core. Figures of your own files are drawn in this one.

    Returns
    -------
    list of DrawnFigure
        In the order of the register. The same inputs give the same bytes, except for the wall time in the
        provenance.

    Raises
    ------
    InputError
        A figure, a parameter, the level, the style or a format is unknown (the message lists the known names); the
        folder cannot be written to.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import snapdyn as sd
    >>> with TemporaryDirectory() as folder:
    ...     (figure,) = sd.figures.write("8", out=folder, parameters={"8": {"vocab_size": [50, 200]}})
    ...     figure.label, figure.png.name, figure.as_claimed
    ('Figure 8', 'figure_8_vocab_size=50,200.png', True)
    """
    choice("level", level, LEVELS)
    optional_function("progress", progress)
    figure_width(width, style, 1.0)
    formats = formats_of(formats)
    jobs = None if jobs is None else whole("jobs", jobs, 1)
    transformers = None if runs is None else load_transformer_runs(file_path("runs", runs))
    chosen = chosen_figures(ids)
    values = _values(chosen, parameters or {})
    different = {id_: section.model_dump(exclude_defaults=True) for id_, section in values.items()}
    names = {entry.id: file_name(entry, different[entry.id]) for entry in chosen}
    files = [file for name in names.values() for file in file_names(name, formats).values()]
    folder = output_folder(file_path("out", out), *files)
    tasks = [
        Task(entry.id, names[entry.id], different[entry.id], transformers if entry.from_runs else None)
        for entry in chosen
    ]

    def show(done: int, running: Sequence[Task]) -> None:
        if progress:
            progress(done, len(chosen), running[0].id if running else "")

    draw = partial(_drawn, folder=folder, level=level, width=width, style=style, formats=formats)
    ours = all(FIGURES.own.get(entry.id) is entry for entry in chosen)
    return map_in_processes(draw, tasks, jobs if ours else 1, show)


class Task(NamedTuple):
    """A figure to draw: its id, the name of its files, parameters other than the defaults, and transformer runs."""

    id: str
    name: str
    different: dict[str, Any]
    transformers: Sequence[TransformerRun] | None


def _drawn(
    task: Task, folder: Path, level: str, width: float | None, style: Style | None, formats: Sequence[str]
) -> DrawnFigure:
    """Compute, draw and check one figure, and write its files."""
    id_, name, different, transformers = task
    entry, started = FIGURES[id_], time.perf_counter()
    with threadpool_limits(1):  # the last digits of linear algebra depend on the number of its threads
        dataset = compute(id_, level, runs=transformers, **different)
        checks, caption = tuple(entry.numbers(dataset)), entry.caption
    facts: dict[str, Any] = {"level": level}
    left_out: tuple[str, ...] = ()
    if different:
        left_out = tuple(check.name for check in checks if check.name not in entry.general)
        checks = tuple(check for check in checks if check.name in entry.general)
        caption += f" Drawn here with {listed(different)}: the numbers above are those of the default parameters."
        facts |= {"changed_parameters": different, "claims_of_the_defaults_only": list(left_out)}
    facts |= {"figure": id_, "title": entry.title, "caption": caption}
    draw = partial(entry.figure, width=figure_width(width, style, entry.width))
    pictures = write_figure(folder, name, dataset, draw, facts, started, style, formats)
    data, record = pictures.pop("data"), pictures.pop("provenance")
    return DrawnFigure(id_, entry.title, caption, pictures, data, record, checks, left_out)


def _values(chosen: Sequence[FigureEntry], parameters: Mapping[str, Mapping[str, Any]]) -> dict[str, Section]:
    """Return the parameters of each chosen figure, all checked before anything is computed."""
    ids = [entry.id for entry in chosen]
    for id_ in parameters:
        choice("the figure of parameters", id_, FIGURES)
        if id_ not in ids:
            raise InputError(
                f"expected parameters of the chosen figures ({', '.join(ids)}), received those of {id_}; choose it too"
            )
    return {entry.id: entry.read_parameters(parameters.get(entry.id, {})) for entry in chosen}


def file_name(entry: FigureEntry, different: Mapping[str, Any]) -> str:
    """Return the name of a figure's files without ending: figure_3, or figure_3_eta_Z=0.2,num_classes=6."""
    settings = ",".join(f"{key}={value_text(value)}" for key, value in different.items())
    if len(settings) > LONGEST_NAME or any(sign in settings for sign in '/\\:*?"<>| '):
        settings = hashlib.sha256(settings.encode()).hexdigest()[:12]
    return f"{entry.name}_{settings}" if settings else entry.name
