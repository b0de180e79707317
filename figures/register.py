"""The register of figures: the class that declares one, and the list of ours."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from snapdyn.dynamics.registry import Registry
from snapdyn.errors import list_of
from snapdyn.experiments.toml_files import Section, read_section
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
    figure_animation,
    figure_attention,
    figure_growth,
    figure_ladder,
    figure_maps,
    figure_orders,
    figure_phase,
    figure_transition,
)
from snapdyn.figures.layout import fit_texts
from snapdyn.figures.parameters import parameters_of
from snapdyn.figures.style import DOUBLE_COLUMN
from snapdyn.validation.measured import Measured
from snapdyn.validation.properties import Property

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure


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
        `from_runs` it is ``compute(level, runs, **parameters)``. Its other arguments with a default are the parameters
        of the figure; ``Annotated[type, pydantic.Field(...)]`` gives bounds, and meaning and unit as description.
    draw : callable
        ``draw(dataset, width)``, or ``draw(dataset)``, gives a matplotlib Figure, `width` inches wide. It is called
        inside the project's style.
    properties : tuple of Property, optional
        What the figure states: each measures a number of the dataset, with wrong theories as controls.
    from_runs : bool, optional
        The data come from runs of transformers: `runs` is a sequence of them, or None for those that snapdyn has.
    general : tuple of str, optional
        Names of the properties that hold for all parameters. The others speak of the defaults only.
    width : float, optional
        Width in inches where none is asked for.
    write_extras : callable, optional
        ``write_extras(dataset, folder, name)`` writes further files, whose names begin with `name`, and gives their
        paths.

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
    write_extras: Callable[[xarray.Dataset, Path, str], list[Path]] | None = None
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
            Named figure_ID, with TITLE, CAPTION, compute, draw and PROPERTIES, and where they apply GENERAL, WIDTH,
            FROM_RUNS and write_extras.

        Returns
        -------
        FigureEntry
        """
        return cls(
            module.__name__.rpartition("figure_")[2],
            module.TITLE,
            module.CAPTION,
            module.compute,
            module.draw,
            module.PROPERTIES,
            getattr(module, "FROM_RUNS", False),
            getattr(module, "write_extras", None),
            getattr(module, "GENERAL", ()),
            getattr(module, "WIDTH", DOUBLE_COLUMN),
        )

    def numbers(self, dataset: xarray.Dataset) -> list[Measured]:
        """Numbers of the figure's statements on its data, and of the wrong theories."""
        return [number for prop in self.properties for number in prop.on(dataset)]

    @property
    def name(self) -> str:
        """Name of the files: figure_3."""
        return f"figure_{self.id}"

    @cached_property
    def parameters(self) -> type[Section]:
        """The section whose keys are the parameters, as `compute` declares them."""
        return parameters_of(self.compute)

    def read_parameters(self, values: Mapping[str, Any]) -> Section:
        """Return every parameter with its value, after a check; InputError for an unknown name or a wrong value."""
        plain = {name: value.tolist() if hasattr(value, "tolist") else value for name, value in values.items()}
        section: Section = read_section(self.parameters, plain, f"the parameters of figure {self.id}")
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
    figure_animation,
)
FIGURES: Registry[FigureEntry] = Registry("figure", lambda entry: entry.id, map(FigureEntry.from_module, _MODULES))
