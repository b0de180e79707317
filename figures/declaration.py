"""What a figure declares: its parameters (arguments of `compute`, keys of TOML sections) and its statements."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field

from snapdyn.core.errors import LARGEST_WHOLE, InputError, file_path, shown, whole
from snapdyn.dynamics import SequenceClasses, syn_small
from snapdyn.experiments.class_sections import CLASSES
from snapdyn.experiments.toml_files import Section, read_sections, section_model
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
MOST_CLASSES_SHOWN = 4
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
Seeds = Annotated[Whole | None, Field(ge=2, description="number of seeds, by the level unless given")]


def chosen_classes(name: str) -> SequenceClasses:
    """Return Syn-Small, or the classes of a run file, at most four, each with a distinct token of its own."""
    if name == SYN_SMALL:
        return syn_small()
    path = file_path("classes", name)
    section = read_sections(path, {"classes": CLASSES}, required=("classes",))["classes"]
    classes: SequenceClasses = section.build(path.parent)
    S = whole("the number of classes to draw", classes.num_classes, 1, MOST_CLASSES_SHOWN)
    tokens = [classes.common_tokens().size, *(classes.distinct_tokens(n).size for n in range(S))]
    if 0 in tokens or classes.num_next_tokens < S:
        raise InputError(
            "expected classes with a common token, a distinct token of each class and different next tokens, received "
            f"{tokens} such tokens and {classes.num_next_tokens} next tokens of {S} classes; give other classes"
        )
    return classes


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
