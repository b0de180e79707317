"""Designs of sweeps: which parameters take which values together, on a grid, as a list, or drawn at random."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from pydantic import Field

from snapdyn.errors import InputError, positive, shown, unknown_name, whole
from snapdyn.experiments.toml_files import Section, read_section

Value = bool | int | float | str
DESIGNS = ("grid", "list", "random")
MOST_CELLS = 1_000_000


class Range(Section):
    """Evenly spaced values, both ends included."""

    first: float
    last: float
    count: int = Field(ge=1, le=MOST_CELLS)
    spacing: Literal["linear", "log"] = "linear"

    def values(self, name: str, whole_numbers: bool) -> list[Value]:
        """The values of a parameter; whole numbers are rounded, and doubles dropped."""
        if self.spacing == "log":
            first, last = positive(f"first of {name}", self.first), positive(f"last of {name}", self.last)
            numbers = np.geomspace(first, last, self.count)
        else:
            _require_finite(name, "first", self.first, "last", self.last)
            numbers = np.linspace(self.first, self.last, self.count)
        if whole_numbers:
            return list(dict.fromkeys(round(number) for number in numbers.tolist()))
        return list(numbers.tolist())


class Spread(Section):
    """A distribution to draw from."""

    low: float
    high: float
    distribution: Literal["uniform", "log-uniform"] = "uniform"

    def draw(self, name: str, rng: np.random.Generator, count: int, whole_numbers: bool) -> list[Value]:
        """Draw values of a parameter; whole numbers from low to high, both included."""
        low, high = self.low, self.high
        if not low < high:
            raise InputError(f"expected low below high for {name}, received {low:g} and {high:g}; exchange them")
        _require_finite(name, "low", low, "high", high)
        if whole_numbers:
            low, high = math.ceil(low) - 0.5, math.floor(high) + 0.5
            if not low < high:
                raise InputError(
                    f"expected a whole number from low to high for {name}, received {self.low:g} and {self.high:g}; "
                    "widen the range"
                )
        if self.distribution == "log-uniform":
            positive(f"low of {name}", self.low)
            numbers = np.exp(rng.uniform(np.log(low), np.log(high), count))
        else:
            numbers = rng.uniform(low, high, count)
        return [round(number) for number in numbers.tolist()] if whole_numbers else list(numbers.tolist())


def _require_finite(name: str, first: str, low: float, last: str, high: float) -> None:
    """Check that the distance of two finite numbers is finite, as numpy needs it."""
    if not math.isfinite(high - low):
        raise InputError(
            f"expected {first} and {last} of {name} less than 1e308 apart, received {low:g} and {high:g}; take a "
            "smaller range"
        )


@dataclass(frozen=True)
class Axis:
    """A dimension of the result: the values of one or more parameters (dotted names), all of one length."""

    name: str
    parameters: dict[str, list[Value]]

    def __len__(self) -> int:
        return len(next(iter(self.parameters.values())))


@dataclass(frozen=True)
class Design:
    """The axes of a sweep; its cells are their product."""

    axes: tuple[Axis, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis."""
        return tuple(len(axis) for axis in self.axes)

    @property
    def parameters(self) -> dict[str, list[Value]]:
        """All swept parameters by dotted name."""
        return {name: values for axis in self.axes for name, values in axis.parameters.items()}

    def cells(self) -> Iterator[tuple[tuple[int, ...], dict[str, Value]]]:
        """Index in the result and values of the parameters, per cell; the last axis runs fastest."""
        for index in itertools.product(*map(range, self.shape)):
            yield (
                index,
                {name: values[i] for axis, i in zip(self.axes, index, strict=True)
                 for name, values in axis.parameters.items()},
            )  # fmt: skip


def short_names(parameters: Mapping[str, Any], taken: frozenset[str]) -> dict[str, str]:
    """Name of each parameter in the result: the last part of its dotted name where nothing else has that name."""
    last = {name: name.rsplit(".", 1)[1] for name in parameters}
    ends = list(last.values())
    return {name: end if ends.count(end) == 1 and end not in taken else name for name, end in last.items()}


def build_design(
    kind: str,
    parameters: Mapping[str, Any],
    whole_numbers: Mapping[str, bool],
    count: int | None,
    seed: int,
    taken: frozenset[str],
) -> Design:
    """Build the design from what the file gives for each parameter.

    Parameters
    ----------
    kind : "grid", "list" or "random"
    parameters : mapping of dotted names to a list of values, or to the keys of `Range` or `Spread`
    whole_numbers : mapping of dotted names to bool
        Which parameters take whole numbers.
    count, seed : int
        Number of cells of a random design, and its seed. The first cells of a larger design are those of a smaller.
    taken : frozenset of str
        Names that no dimension may have.

    Raises
    ------
    InputError
        Values that are none, lists of different lengths, a design that is not known or too large.
    """
    if kind not in DESIGNS:
        raise unknown_name("design in [sweep]", kind, DESIGNS)
    if not parameters:
        raise InputError(
            "expected at least one parameter in [sweep], received none; "
            'add, for example, "system.eta_Y" = [0.1, 1.0, 10.0]'
        )
    if (count is not None) != (kind == "random"):
        raise InputError(
            "expected count in [sweep] for a random design and for no other, received "
            f"{'none' if count is None else count} with design = {shown(kind)}"
        )
    if count is not None:
        whole("count in [sweep]", count, 1, MOST_CELLS)
        # A stream per parameter, by its name: another parameter changes no value of this one.
        values = {name: _drawn(name, entry, whole_numbers[name], count, seed) for name, entry in parameters.items()}
    else:
        values = {name: _listed(name, entry, whole_numbers[name]) for name, entry in parameters.items()}
    size = math.prod(map(len, values.values())) if kind == "grid" else len(next(iter(values.values())))
    if size > MOST_CELLS:
        raise InputError(f"expected at most {MOST_CELLS} cells, received {size}; take fewer values")
    if kind == "grid":
        for name, entries in values.items():
            if len(set(entries)) < len(entries):
                raise InputError(
                    f"expected different values of {name} on a grid, received some twice: {shown(entries)}"
                )
        names = short_names(values, taken)
        return Design(tuple(Axis(names[name], {name: entries}) for name, entries in values.items()))
    lengths = {name: len(entries) for name, entries in values.items()}
    if len(set(lengths.values())) > 1:
        raise InputError(
            "expected lists of one length in a list design, received "
            f'{", ".join(f"{length} values of {name}" for name, length in lengths.items())}; or take design = "grid"'
        )
    return Design((Axis("cell", values),))


def _listed(name: str, entry: Any, whole_numbers: bool) -> list[Value]:
    if isinstance(entry, dict):
        spaced: Range = read_section(Range, entry, f"{name} of [sweep]")
        return spaced.values(name, whole_numbers)
    return _checked_list(name, entry, whole_numbers)


def _drawn(name: str, entry: Any, whole_numbers: bool, count: int, seed: int) -> list[Value]:
    key = [whole("seed in [sweep]", seed, 0), *name.encode()]
    rng = np.random.default_rng(np.random.SeedSequence(key))
    if isinstance(entry, dict):
        spread: Spread = read_section(Spread, entry, f"{name} of [sweep]")
        return spread.draw(name, rng, count, whole_numbers)
    choices = _checked_list(name, entry, whole_numbers)
    return [choices[i] for i in (rng.random(count) * len(choices)).astype(int)]


def _checked_list(name: str, entry: Any, whole_numbers: bool) -> list[Value]:
    if not isinstance(entry, list) or not entry or not all(isinstance(value, Value) for value in entry):
        raise InputError(
            f"expected {name} of [sweep] as a list of numbers, texts or true/false, received {shown(entry)}; "
            "write, for example, [0.1, 1.0]"
        )
    if not all(math.isfinite(value) for value in entry if isinstance(value, float)):
        raise InputError(
            f"expected finite numbers for {name} of [sweep], received {shown(entry)}; leave out the others"
        )
    if whole_numbers:  # 100.0 is one, 1e5 too
        return [int(value) if isinstance(value, float) and value.is_integer() else value for value in entry]
    return entry
