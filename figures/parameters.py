"""Parameters of figures: declared in the signature of `compute`, with types, units, defaults and bounds."""

from __future__ import annotations

import inspect
import json
import tomllib
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Union, get_args, get_origin, get_type_hints

from snapdyn.errors import LARGEST_WHOLE, InputError, number, shown, text, unknown_name, whole

# Bounds of the rates of flows and closed forms, per step: about four decades on both sides of the paper's rates. What
# figures claim of all parameters is tested at the corners of these bounds, the other parameters at their defaults
# (tests/figures/test_bounds_of_parameters.py); Figure 2 refuses the corner of fast decoder and slow attention.
LEAST_RATE, MOST_RATE = 1e-4, 1e4
# Arguments of `compute` that are no parameters of the figure.
RESERVED = ("level", "runs")


@dataclass(frozen=True)
class Parameter:
    """What a parameter of a figure means, its unit and its bounds: a note in the annotation of `compute`.

    Parameters
    ----------
    meaning : str
        A few words.
    unit : str
        Unit, or an empty text for a number without one.
    at_least : float, optional
        Smallest value (of each entry of a list).
    at_most : float, optional
        Largest value.
    above : float, optional
        Values must be larger than this one.
    entries : int, optional
        Number of entries of a list; default any number from 1 on.
    different : bool
        Whether a list must have each value once, as where every entry is a curve or a panel of its own.

    Examples
    --------
    >>> from typing import Annotated
    >>> def compute(level: str, eta_Z: Annotated[float, Parameter("rate of attention", above=0)] = 0.5): ...
    >>> parameters_of(compute)["eta_Z"].describe()
    'eta_Z = 0.5: rate of attention (number above 0)'
    """

    meaning: str
    unit: str = ""
    at_least: float | None = None
    at_most: float | None = None
    above: float | None = None
    entries: int | None = None
    different: bool = False


@dataclass(frozen=True)
class Declared:
    """A parameter of a figure with its name, its type and the default of the figure."""

    name: str
    kind: type
    listed: bool
    optional: bool
    default: Any
    note: Parameter

    @property
    def expected(self) -> str:
        """Type and bounds in words."""
        words = {int: "whole number", float: "number", str: "text"}[self.kind] + ("s" if self.listed else "")
        count = f"{self.note.entries} " if self.note.entries else ""
        return f"{count}{words}{self._bounds}"

    @property
    def _bounds(self) -> str:
        note = self.note
        bounds = [
            f"above {note.above:g}" if note.above is not None else "",
            f"of at least {note.at_least:g}" if note.at_least is not None else "",
            f"of at most {note.at_most:g}" if note.at_most is not None else "",
        ]
        words = " and ".join(filter(None, bounds)).replace(" and of at", " and at")
        return f" {words}" if words else ""

    def describe(self) -> str:
        """Name, default, meaning, unit, type and bounds in one line."""
        unit = f"{self.note.unit}; " if self.note.unit else ""
        default = "chosen by the figure" if self.default is None else value_text(self.default)
        return f"{self.name} = {default}: {self.note.meaning} ({unit}{self.expected})"

    def read(self, value: Any, where: str) -> Any:
        """Return a value after checking type and bounds; InputError names `where`."""
        if value is None and self.optional:
            return None
        name = f"{self.name} of {where}"
        if not self.listed:
            return self._entry(value, name)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            value = [value]
        try:
            entries = tuple(self._entry(entry, name) for entry in value) if not isinstance(value, str) else ()
        except TypeError:
            entries = ()
        wanted = self.note.entries
        if not entries or (wanted and len(entries) != wanted):
            raise InputError(
                f"expected {name} to be a list of {self.expected}, received {shown(value)}; give such a list"
            )
        if self.note.different and len(set(entries)) < len(entries):
            repeated = max(entries, key=entries.count)
            count = "twice" if entries.count(repeated) == 2 else "more than twice"
            raise InputError(
                f"expected different values of {name}, received {value_text(repeated)} {count}; give each once"
            )
        return entries

    def _entry(self, value: Any, name: str) -> Any:
        if self.kind is str:
            return text(name, value)
        note, noun = self.note, "whole number" if self.kind is int else "number"
        try:
            entry = whole(name, value, -LARGEST_WHOLE) if self.kind is int else number(name, value)
        except InputError:  # whose words know no bounds of this parameter
            entry = float("nan")
        if (
            not abs(entry) < float("inf")
            or (note.above is not None and entry <= note.above)
            or (note.at_least is not None and entry < note.at_least)
            or (note.at_most is not None and entry > note.at_most)
        ):
            kind = "of 64 bits" if self.kind is int else "that is finite"
            raise InputError(
                f"expected {name} to be a {noun}{self._bounds}, received {shown(value)}; give such a number {kind}"
            )
        return entry


def parameters_of(compute: Callable[..., Any]) -> dict[str, Declared]:
    """Read the parameters of a figure from the signature of its `compute`.

    Arguments with a default are parameters, except `level` and `runs`. The type is that of the annotation
    (``int``, ``float``, ``str``, a sequence of these, or one of these or None), or of the default. `Parameter` in the
    annotation says the rest.
    """
    try:
        hints = get_type_hints(compute, include_extras=True)
    except (NameError, TypeError):  # annotations that only a type checker can read
        hints = {}
    found = {}
    for name, argument in inspect.signature(compute).parameters.items():
        if name not in RESERVED and argument.default is not inspect.Parameter.empty:
            kind, listed, optional, note = _type(hints.get(name, type(argument.default)), argument.default)
            found[name] = Declared(name, kind, listed, optional, argument.default, note)
    return found


def _type(hint: Any, default: Any) -> tuple[type, bool, bool, Parameter]:
    note = next((entry for entry in getattr(hint, "__metadata__", ()) if isinstance(entry, Parameter)), Parameter(""))
    if hasattr(hint, "__metadata__"):
        hint = get_args(hint)[0]
    optional = get_origin(hint) in (Union, types.UnionType) and type(None) in get_args(hint)
    if optional:
        hint = next(entry for entry in get_args(hint) if entry is not type(None))
    listed = get_origin(hint) is not None or isinstance(default, (list, tuple))
    if listed:
        hint = next(
            (entry for entry in get_args(hint) if entry in (int, float, str)), type(default[0]) if default else float
        )
    return (hint if hint in (int, float, str) else float), listed, optional, note


def read_parameters(declared: Mapping[str, Declared], values: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return every parameter with its value: the given ones after a check, defaults for the others.

    Raises
    ------
    InputError
        An unknown name (the message lists the known ones), or a value of another type or out of bounds.
    """
    for name in values:
        if not declared:
            raise InputError(f"expected no parameters for {where}, which has none, received {shown(name)}; remove it")
        if name not in declared:
            raise unknown_name(f"a parameter of {where}", name, declared)
    return {
        name: parameter.read(values[name], where) if name in values else parameter.default
        for name, parameter in declared.items()
    }


def changed(declared: Mapping[str, Declared], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that differ from their defaults."""
    return {
        name: value
        for name, value in values.items()
        if name in declared and json.dumps(value) != json.dumps(declared[name].default)
    }


def value_text(value: Any) -> str:
    """Return a value as it is written after --set: 0.2, or 0.5,1,2."""
    if isinstance(value, (list, tuple)):
        return ",".join(map(value_text, value))
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def read_setting(setting: str) -> tuple[str, Any]:
    """Read NAME=VALUE of the command line: a number, a list such as 0.5,1,2 or a text.

    Raises
    ------
    InputError
        The text has no name, no "=" or no value.
    """
    name, equals, value = (part.strip() for part in setting.partition("="))
    if not (name and equals and value):
        raise InputError(f"expected --set NAME=VALUE, received {shown(setting)}; write for example --set eta_Z=0.2")
    for written in (value, f"[{value}]"):
        try:
            return name, tomllib.loads(f"value = {written}")["value"]
        except (tomllib.TOMLDecodeError, ValueError, RecursionError):
            continue
    return name, value
