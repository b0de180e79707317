"""What a figure declares: its entry in the register, its parameters (arguments of `compute`) and its statements."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field

from snapdyn.core.errors import LARGEST_WHOLE, InputError, file_path, list_of, shown, whole
from snapdyn.dynamics import SequenceClasses, syn_small
from snapdyn.experiments.class_sections import CLASSES
from snapdyn.experiments.toml_files import Section, read_model, read_sections, section_model
from snapdyn.figures.panels import fit_texts
from snapdyn.figures.style import DOUBLE_COLUMN, Figure
from snapdyn.validation.measured import Measured
from snapdyn.validation.properties import Measure, Property

if TYPE_CHECKING:
    import xarray

# Arguments of `compute` that are no parameters of the figure.
RESERVED = ("level", "runs")
Entry = TypeVar("Entry")


def _several(value: Any) -> tuple[Any, ...]:
    """Return the entries of a list; a single number is a list of one."""
    entries = tuple(value) if isinstance(value, (list, tuple)) else (value,) if isinstance(value, (int, float)) else ()
    if not entries:
        raise ValueError(f"one number or more, received {shown(value)}; write for example [0.5, 1.0]")
    return entries


def _two(entries: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(entries) != 2:
        raise ValueError(f"two numbers, received {shown(entries)}; give both")
    return entries


def _different(entries: tuple[Any, ...]) -> tuple[Any, ...]:
    for entry in entries:
        if entries.count(entry) > 1:
            raise ValueError(f"different values, received {value_text(entry)} more than once; give each once")
    return entries


Several = Annotated[tuple[Entry, ...], BeforeValidator(_several)]
"""A list of numbers, such as the rates of several curves."""
Two = Annotated[Several[Entry], AfterValidator(_two)]
"""One number for each of two panels."""
Different = Annotated[Several[Entry], AfterValidator(_different)]
"""A list in which each number is a curve or a panel of its own."""

Whole = Annotated[int, Field(le=LARGEST_WHOLE)]
Rate = Annotated[float, Field(ge=1e-4, le=1e4)]
"""A learning rate in flows and closed forms, within about four decades on both sides of the paper's rates.

What figures claim of all parameters is tested at the corners of these bounds, with the other parameters at their
defaults (tests/figures/test_bounds_of_parameters.py); Figure 2 refuses the corner of fast decoder and slow attention.
"""

SYN_SMALL = "syn_small"
MOST_CLASSES_SHOWN = 8
# Parameters that several figures have.
DecoderRate = Annotated[Rate, Field(description="rate of the decoder, per step")]
AttentionRate = Annotated[Rate, Field(description="rate of attention, per step")]
TwoDecoderRates = Annotated[Different[Entry], AfterValidator(_two), Field(description="rates of the decoder, per step")]
Start = Annotated[float | None, Field(ge=1e-6, le=1e6, description="start of Eq. (13), K^(1/4) unless given")]
NumClasses = Annotated[Whole, Field(ge=2, description="classes K")]
CommonProbability = Annotated[float, Field(gt=0, le=0.99, description="of the common token")]
VocabSize = Annotated[Whole, Field(ge=8, description="vocabulary V")]
Momentum = Annotated[float, Field(ge=0, le=0.99, description="momentum of SGD")]
BatchSize = Annotated[Whole, Field(ge=1, description="sequences per step")]
Classes = Annotated[str, Field(description="syn_small, or a run file with a section [classes] alone")]
ShownClasses = Annotated[
    Different[Annotated[int, Field(ge=0)]] | None, Field(description="classes to draw, such as 0,2; all unless given")
]
Seeds = Annotated[Whole | None, Field(ge=2, description="number of seeds, by the level unless given")]


def chosen_classes(name: str) -> SequenceClasses:
    """Return Syn-Small, or the classes of a run file, each with a distinct token of its own."""
    if name == SYN_SMALL:
        return syn_small()
    path = file_path("classes", name)
    section = read_sections(path, {"classes": CLASSES}, required=("classes",))["classes"]
    classes: SequenceClasses = section.build(path.parent)
    S = classes.num_classes
    tokens = [classes.common_tokens().size, *(classes.distinct_tokens(n).size for n in range(S))]
    if 0 in tokens or classes.num_next_tokens < S:
        raise InputError(
            "expected classes with a common token, a distinct token of each class and different next tokens, received "
            f"{tokens} such tokens and {classes.num_next_tokens} next tokens of {S} classes; give other classes"
        )
    return classes


def classes_to_draw(classes: SequenceClasses, shown: tuple[int, ...] | None) -> list[int]:
    """Return the numbers of the chosen classes, all unless chosen; raise InputError if they do not fit on one page."""
    numbers = [classes.check_class(n) for n in (range(classes.num_classes) if shown is None else shown)]
    whole("the number of classes to draw", len(numbers), 1, MOST_CLASSES_SHOWN, "choose some with shown=0,1")
    return numbers


def parameters_of(compute: Callable[..., Any]) -> type[Section]:
    """Return the section whose keys are the parameters of a figure: arguments of `compute` with a default.

    Types, bounds, meanings and units are those of the annotations. `level` and `runs` are not parameters.
    """
    arguments = inspect.signature(compute).parameters.values()
    needed = [argument.name for argument in arguments if argument.default is argument.empty]
    return section_model("Parameters", compute, Section, skip=[*needed, *RESERVED])


def describe(parameters: type[Section]) -> list[str]:
    """Return a line for each parameter: name, default, meaning, type and bounds."""
    lines = []
    for name, schema in parameters.model_json_schema()["properties"].items():
        default = parameters.model_fields[name].default
        entry = schema.get("anyOf", [schema])[0]
        several, entry = "items" in entry, entry.get("items", entry)
        kind = {"integer": "whole number", "number": "number"}.get(entry.get("type"), "text") + "s" * several
        words = {"exclusiveMinimum": "above", "minimum": "at least", "maximum": "at most"}
        found = [(word, entry[key]) for key, word in words.items() if key in entry]
        bounds = [f"{word} {bound:g}" for word, bound in found if bound != LARGEST_WHOLE]
        meaning = f"{schema.get('description', name)}; {', '.join([kind, *bounds])}"
        lines.append(f"{name} = {'chosen by the figure' if default is None else value_text(default)}: {meaning}")
    return lines


def listed(values: Mapping[str, Any]) -> str:
    """Return parameters with their values for a sentence: eta_Z = 0.2, num_classes = 6."""
    return ", ".join(f"{name} = {value_text(value)}" for name, value in values.items())


def value_text(value: Any) -> str:
    """Return a value as it is written after --set: 0.2, or 0.5,1,2."""
    if isinstance(value, (list, tuple)):
        return ",".join(map(value_text, value))
    return f"{value:.12g}" if isinstance(value, float) else str(value)


Number = Callable[["xarray.Dataset"], Any]
"""A function that reads one number from the data of a figure; None where the data have none."""


def statement(
    name: str,
    rung: str,
    number: Number,
    at_most: float | Number | None = None,
    at_least: float | Number | None = None,
    wrong: Mapping[str, Number] | None = None,
) -> Property:
    """Return a statement of a figure: a number of its data and its bound; numbers of wrong theories must break it.

    Parameters
    ----------
    name : str
        What is measured.
    rung : str
        Rung of the ladder of approximations (from SGD to the closed form) on which it is measured.
    number : callable
        ``number(dataset)``.
    at_most, at_least : float or callable
        Exactly one of them: the bound, or a function that reads it from the data.
    wrong : mapping of str to callable, optional
        For each wrong theory, by name: the function that reads its number from the data.
    """

    def against_the_bound(number: Number) -> Measure:
        def measure(dataset: xarray.Dataset) -> Measured | None:
            value = number(dataset)
            most, least = (bound(dataset) if callable(bound) else bound for bound in (at_most, at_least))
            return None if value is None else Measured(float(value), most, least)

        return measure

    controls = {f"wrong theory: {theory}": against_the_bound(of_theory) for theory, of_theory in (wrong or {}).items()}
    return Property(name, rung, against_the_bound(number), controls=controls)


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
