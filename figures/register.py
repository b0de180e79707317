"""The register of figures: the class of an entry, the list of snapdyn's figures, their data and their drawing."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Any

from snapdyn.core.errors import InputError, choice, chosen_ids, file_path, instance, list_of
from snapdyn.core.registry import Registry
from snapdyn.dynamics.training.transformer.runs import TransformerRun, load_transformer_runs
from snapdyn.experiments.toml_files import Section, read_model
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
    figure_transition,
)
from snapdyn.figures.declaration import listed, parameters_of
from snapdyn.figures.layout import fit_texts
from snapdyn.figures.style import DOUBLE_COLUMN, Figure, Style, figure_width, house_style
from snapdyn.validation.evidence import LEVELS
from snapdyn.validation.measured import Measured
from snapdyn.validation.properties import Property
from snapdyn.validation.register_folder import register_in_use

if TYPE_CHECKING:
    import xarray


@dataclass(frozen=True)
class FigureEntry:
    """A figure of the register: what it shows, and how it is computed, drawn and checked.

    Parameters
    ----------
    id : str
        The paper's number, or a name where the paper has no such figure.
    title : str
        One line.
    caption : str
        The text below the picture. Tests assert its numbers on the data.
    compute : callable
        ``compute(level, **parameters)`` gives the data as an xarray.Dataset; level is "quick" or "full". With
        `from_runs` it is ``compute(level, runs, **parameters)``. The other arguments of `compute` that have a default
        are the parameters of the figure; ``Annotated[type, pydantic.Field(...)]`` gives bounds, and meaning and unit as
        description.
    draw : callable
        ``draw(dataset, width)``, or ``draw(dataset)``, gives a matplotlib Figure, `width` inches wide. It is called
        inside the project's style.
    properties : tuple of Property, optional
        What the figure states: each measures a number of the dataset, with wrong theories as controls.
    from_runs : bool, optional
        The data come from runs of transformers: `runs` is a sequence of them, or None for those that come with snapdyn.
    general : tuple of str, optional
        Names of the properties that hold for all parameters. The others hold for the defaults only.
    width : float, optional
        Width in inches if the user gives none.

    Examples
    --------
    A user's figure joins the register; then `draw` and ``snapdyn figures`` know it:

    >>> import xarray
    >>> from snapdyn.figures import FIGURES, FigureEntry
    >>> line = FigureEntry(
    ...     "line",
    ...     "A line",
    ...     "y = x.",
    ...     compute=lambda level: xarray.Dataset({"y": ("x", [0.0, 1.0])}),
    ...     draw=lambda dataset: ...,
    ... )
    >>> FIGURES.add(line).name
    'figure_line'
    >>> del FIGURES["line"]
    """

    id: str
    title: str
    caption: str
    compute: Callable[..., xarray.Dataset]
    draw: Callable[..., Figure]
    properties: tuple[Property, ...] = ()
    from_runs: bool = False
    general: tuple[str, ...] = ()
    width: float = DOUBLE_COLUMN

    def __post_init__(self) -> None:
        given = [self.properties] if isinstance(self.properties, Property) else self.properties
        object.__setattr__(self, "properties", tuple(list_of("properties", given, Property)))

    @classmethod
    def from_module(cls, module: ModuleType) -> FigureEntry:
        """Read a figure from its module.

        Parameters
        ----------
        module : module
            Named figure_ID, with TITLE, CAPTION, compute, draw and PROPERTIES, and where they apply GENERAL, WIDTH
            and FROM_RUNS.

        Returns
        -------
        FigureEntry
        """
        declared = {
            field.name: vars(module)[key]
            for field in fields(cls)
            for key in (field.name, field.name.upper())
            if key in vars(module)
        }
        return cls(module.__name__.rpartition("figure_")[2], **declared)

    def numbers(self, dataset: xarray.Dataset) -> list[Measured]:
        """Numbers of the figure's statements on its data, and of the wrong theories."""
        return [number for prop in self.properties for number in prop.on(dataset)]

    @property
    def name(self) -> str:
        """Name of the files: figure_3."""
        return f"figure_{self.id}"

    @cached_property
    def parameters(self) -> type[Section]:
        """Class of a TOML section with one key for each parameter of `compute`."""
        return parameters_of(self.compute)

    def read_parameters(self, values: Mapping[str, Any]) -> Section:
        """Return every parameter with its value, after a check; InputError for an unknown name or a wrong value."""
        plain = {name: value.tolist() if hasattr(value, "tolist") else value for name, value in values.items()}
        section: Section = read_model(self.parameters, plain, f"the parameters of figure {self.id}", False)
        return section

    def figure(self, dataset: xarray.Dataset, width: float) -> Figure:
        """Draw the data inside the current style, and fit titles and labels to their place."""
        if "width" in inspect.signature(self.draw).parameters:
            figure = self.draw(dataset, width=width)
        else:
            figure = self.draw(dataset)
            figure.set_size_inches(width, figure.get_figheight())
        fit_texts(figure)
        return figure


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
