"""Grids: which parameters take which values together, the instance of each cell, and what is measured on it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.core.errors import FloatArray, InputError, list_of, whole

Value = bool | int | float | str
MOST_CELLS = 1_000_000


@dataclass(frozen=True)
class Axis:
    """A dimension of the table: the values of one or more parameters (dotted names), all of one length."""

    name: str
    parameters: dict[str, list[Value]]

    def __len__(self) -> int:
        return len(next(iter(self.parameters.values())))


@dataclass(frozen=True)
class Design:
    """The axes of a table of cells; the cells are their product.

    In the table a parameter is called by the last part of its dotted name where nothing else has that name (`names`).
    """

    axes: tuple[Axis, ...]
    names: dict[str, str]

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis."""
        return tuple(len(axis) for axis in self.axes)

    @property
    def parameters(self) -> dict[str, list[Value]]:
        """All parameters by dotted name."""
        return {name: values for axis in self.axes for name, values in axis.parameters.items()}

    def cells(self) -> Iterator[dict[str, Value]]:
        """Values of the parameters in each cell; the last axis runs fastest."""
        for index in itertools.product(*map(range, self.shape)):
            yield {
                name: values[i]
                for axis, i in zip(self.axes, index, strict=True)
                for name, values in axis.parameters.items()
            }


def design_of(
    crossed: Mapping[str, list[Value]], together: Mapping[str, list[Value]], taken: Container[str] = ()
) -> Design:
    """Build a design: an axis `cell` of the values that go together, and an axis for each crossed parameter.

    Parameters
    ----------
    crossed, together : mapping of dotted names to lists
        The lists of `together` have one length: the first cell has their first values, and so on.
    taken : container of str
        Names that no other dimension of the table may have.

    Raises
    ------
    InputError
        The lists have different lengths, crossed values are empty or not all different, or the cells are too many.
    """
    for name, values in crossed.items():
        list_of(f"the values of {name}", values, object, at_least=1, different=True)
    if len({len(values) for values in together.values()}) > 1:
        raise InputError(
            "expected lists of one length in a list design, received "
            f"{', '.join(f'{len(values)} values of {name}' for name, values in together.items())}; or take "
            'design = "grid"'
        )
    last = {name: name.rpartition(".")[2] for name in (*together, *crossed)}
    ends = list(last.values())
    names = {name: end if ends.count(end) == 1 and end not in taken else name for name, end in last.items()}
    axes = [Axis("cell", dict(together))] if together else []
    design = Design((*axes, *(Axis(names[name], {name: values}) for name, values in crossed.items())), names)
    whole("the number of cells", math.prod(design.shape), 0, MOST_CELLS, "take fewer values")
    return design


@dataclass(frozen=True)
class Grid:
    """A measure over the product of some axes.

    Attributes
    ----------
    axes : mapping of str to (N,) array
        Values of each parameter; the last axis runs fastest.
    instance : callable
        ``instance(**cell)`` builds what is measured from a value of each parameter; None where there is no instance.
    measure : callable
        ``measure(instance)`` is a number or an array of one shape for all cells, None where there is no number.
    """

    axes: Mapping[str, ArrayLike]
    instance: Callable[..., Any]
    measure: Callable[[Any], Any]

    def measured(self) -> list[Any]:
        """Measure every cell, one after the other."""
        design = design_of({name: np.asarray(axis).tolist() for name, axis in self.axes.items()}, {})
        instances = (self.instance(**cell) for cell in design.cells())
        return [None if instance is None else self.measure(instance) for instance in instances]

    def values(self) -> FloatArray:
        """Measure every cell; the shape is that of the axes, then that of a measure, NaN where there is no number."""
        found = self.measured()
        own = next((np.shape(each) for each in found if each is not None), ())
        array = np.array([np.full(own, np.nan) if each is None else each for each in found], dtype=float)
        return array.reshape((*map(np.size, self.axes.values()), *own))
