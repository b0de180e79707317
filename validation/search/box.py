"""Boxes of parameters of any theory, from which a search draws: domains of statements without sequence classes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import numpy as np

from snapdyn.core.errors import InputError, number, real, shown, text
from snapdyn.dynamics.classes.table import Floats

# Draws with a number from here on are random choices of corners.
CORNER_CHOICE = 10**9
# Spread of the first population of a directed search, of 1 for a whole range.
FIRST_STEP = 0.25


@dataclass(frozen=True)
class Range:
    """Range of one parameter: its ends, whether values are whole, and whether they are uniform in the logarithm."""

    low: float
    high: float
    whole: bool
    log: bool

    @staticmethod
    def of(name: str, given: Any) -> Range:
        """Range as a user writes it, (smallest, largest) or (smallest, largest, "log")."""
        advice = f"expected the range of {shown(name)} as (smallest, largest) or (smallest, largest, 'log')"
        if (
            not isinstance(given, tuple | list)
            or len(given) not in (2, 3)
            or given[2:] not in ((), [], ("log",), ["log"])
        ):
            raise InputError(f"{advice}, received {shown(given)}; give two numbers")
        low, high = (number(f"the range of {shown(name)}", end) for end in given[:2])
        log = len(given) == 3
        if not (math.isfinite(low) and math.isfinite(high) and low <= high):
            raise InputError(f"{advice}, received {shown(given)}, which is empty; exchange its ends")
        if log and low <= 0:
            raise InputError(f"{advice} with positive ends for 'log', received {shown(given)}; leave 'log' out")
        whole = all(isinstance(end, int | np.integer) and not isinstance(end, bool) for end in given[:2])
        return Range(low, high, whole, log)

    def at(self, share: float) -> float:
        """Value at a fraction of the range, from 0 (smallest) to 1 (largest)."""
        share = min(max(share, 0.0), 1.0)
        if self.whole and self.log:
            return min(int(self.low * ((self.high + 1) / self.low) ** share), int(self.high))
        if self.whole:
            return min(int(self.low + share * (self.high - self.low + 1)), int(self.high))
        if self.log:
            value = math.exp((1 - share) * math.log(self.low) + share * math.log(self.high))
        else:
            value = (1 - share) * self.low + share * self.high
        return min(max(value, self.low), self.high)

    def share(self, value: float) -> float:
        """Fraction of the range at a value; the inverse of `at`."""
        if self.low == self.high:
            return 0.5
        high = self.high + 1 if self.whole else self.high
        middle = value + 0.5 if self.whole else value
        if self.log:
            return (math.log(middle) - math.log(self.low)) / (math.log(high) - math.log(self.low))
        return (middle - self.low) / (high - self.low)

    def contains(self, value: float) -> bool:
        """Whether a value lies in the range, up to rounding."""
        inside = self.low - 1e-9 * abs(self.low) <= value <= self.high + 1e-9 * abs(self.high)
        return inside and (not self.whole or value == round(value))

    def __str__(self) -> str:
        if self.low == self.high:
            return f"{self.low:g}"
        return f"{self.low:g}{'-' if self.whole else ' to '}{self.high:g}"


@dataclass(frozen=True, init=False)
class Box:
    """Parameters of a theory with their ranges; its instances are mappings of parameter to value.

    Parameters
    ----------
    **ranges : (float, float) or (float, float, "log")
        Smallest and largest value of each parameter, uniform, or uniform in the logarithm. Two whole ends make a whole
        parameter.

    Raises
    ------
    InputError
        There is no parameter, or a range is not a pair of numbers, is empty, or is logarithmic and reaches 0.

    Examples
    --------
    >>> import snapdyn as sd
    >>> print(sd.Box(eta=(1e-3, 10.0, "log"), r=(0.1, 0.9), arms=(2, 10)))
    eta 0.001 to 10, r 0.1 to 0.9, arms 2-10
    """

    ranges: Mapping[str, Range]

    def __init__(self, **ranges: tuple[float, float] | tuple[float, float, Literal["log"]]) -> None:
        if not ranges:
            raise InputError("expected at least one parameter of a Box, received none; write Box(eta=(0.1, 1.0))")
        object.__setattr__(self, "ranges", {name: Range.of(name, given) for name, given in ranges.items()})

    def __str__(self) -> str:
        return ", ".join(f"{name} {range_}" for name, range_ in self.ranges.items())

    @property
    def name(self) -> str:
        """Its parameters and ranges."""
        return str(self)

    def speaks_of(self, instance: Any) -> bool:
        """Whether `instance` gives a number to each of the parameters, and to no other."""
        return isinstance(instance, Mapping) and set(instance) == set(self.ranges)

    def contains(self, instance: Any) -> bool:
        """Whether every parameter lies in its range, up to rounding."""
        return self.speaks_of(instance) and all(range_.contains(instance[name]) for name, range_ in self.ranges.items())

    def of_parameters(self, given: Mapping[str, Any]) -> dict[str, float]:
        """A user's parameters, checked, in the order of the box; whole ones as integers.

        Raises
        ------
        InputError
            A value is no finite number, or not whole where the parameter is.
        """
        checked: dict[str, float] = {}
        for name, range_ in self.ranges.items():
            value = real(text("a parameter", name), given[name])
            if range_.whole and value != round(value):
                raise InputError(f"expected {name} to be a whole number, received {shown(given[name])}; round it")
            checked[name] = int(value) if range_.whole else value
        return checked

    def draw(self, seed: int, number: int) -> dict[str, float]:
        """Instance `number` of the sequence of draws with root `seed`; a SeedSequence child per instance."""
        shares = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number,))).random(len(self.ranges))
        return self._at(shares)

    def corners(self, seed: int, most: int) -> Iterator[dict[str, float]]:
        """Combinations of ends of ranges, `most` of them: of all ranges, and of half of them with random values."""
        ends = list(product(*(sorted({range_.at(0.0), range_.at(1.0)}) for range_ in self.ranges.values())))
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(CORNER_CHOICE,)))
        whole = rng.permutation(len(ends))[: (most + 1) // 2]
        for i in whole:
            yield dict(zip(self.ranges, ends[i], strict=True))
        for _ in range(most - len(whole)):
            shares = rng.random(len(self.ranges))
            yield self._at(np.where(rng.random(shares.size) < 0.5, shares.round(), shares))

    def coordinates(self, start: Mapping[str, float]) -> tuple[Floats, Floats, float]:
        """Fractions (n,) of the ranges at `start`, their bounds (n, 2), and the spread of a first population."""
        x = np.array([range_.share(start[name]) for name, range_ in self.ranges.items()])
        return x, np.tile([0.0, 1.0], (x.size, 1)), FIRST_STEP

    def moved(self, start: Mapping[str, float], x: Floats) -> dict[str, float]:
        """Instance at a point of the directed search that began at `start`."""
        return self._at(x)

    def simpler(self, instance: Mapping[str, float]) -> Iterator[dict[str, float]]:
        """Instances of the box that are strictly simpler: with smaller whole numbers or rounder other numbers."""
        for name, range_ in self.ranges.items():
            value = instance[name]
            if range_.whole:
                steps = (range_.low, (range_.low + value) // 2, value - 1)
                rounder: list[float] = [int(step) for step in steps if range_.low <= step < value]
            else:
                rounded = (float(f"{value:.{digits}e}") for digits in (0, 1, 2))
                rounder = [new for new in rounded if new != value and len(f"{new:g}") < len(f"{value!r}")]
            for new in rounder:
                if self.contains({**instance, name: new}):
                    yield {**instance, name: new}

    def described(self, instance: Mapping[str, float]) -> str:
        """Instance in a few words."""
        return ", ".join(f"{name} = {value:.3g}" for name, value in instance.items())

    def _at(self, shares: Floats) -> dict[str, float]:
        return {
            name: range_.at(float(share)) for (name, range_), share in zip(self.ranges.items(), shares, strict=True)
        }
