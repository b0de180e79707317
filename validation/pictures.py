"""Data of the pictures of a claim: curves, and maps of where a statement holds; the figures room draws them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from snapdyn.core.errors import InputError, choice, finite_array, list_of, number, pair, real_array, shown, text
from snapdyn.validation.grid import Grid

LineKind = Literal["theory", "simulation", "printed", "control", "bound"]


@dataclass(frozen=True)
class Line:
    """One curve of a picture.

    Attributes
    ----------
    label : str
        Text for the legend.
    x : (N,) array
        Abscissas.
    y : (N,) array
        Ordinates.
    kind : "theory", "simulation", "printed", "control" or "bound"
        Source of the curve; it determines the line style.

    Raises
    ------
    InputError
        If x and y differ in length.
    """

    label: str
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    kind: LineKind = "theory"

    def __post_init__(self) -> None:
        text("label", self.label)
        choice("kind", self.kind, get_args(LineKind))
        for name in ("x", "y"):
            object.__setattr__(self, name, real_array(name, getattr(self, name)))
        if self.x.ndim != 1 or self.x.shape != self.y.shape:
            raise InputError(
                f"expected line {shown(self.label)} to have x and y of one length, received {self.x.shape}, "
                f"{self.y.shape}; give as many of each"
            )


@dataclass(frozen=True)
class Picture:
    """Data of the picture that shows a claim; `snapdyn.figures` draws it.

    Attributes
    ----------
    xlabel : str
        Label of the x axis, with unit.
    ylabel : str
        Label of the y axis, with unit.
    lines : tuple of Line
        Curves and points; `Picture.line` builds one.
    xscale : "linear" or "log"
        Scale of the x axis.
    yscale : "linear", "log" or "symlog"
        Scale of the y axis.
    verticals : tuple of (str, float)
        Vertical lines: label and position.

    Examples
    --------
    >>> from snapdyn import Picture
    >>> picture = Picture("t (batch-size-1 steps)", "z", (Picture.line("theory", [1, 10], [0.0, 0.5]),))
    >>> picture.lines[0].label
    'theory'
    """

    xlabel: str
    ylabel: str
    lines: tuple[Line, ...]
    xscale: Literal["linear", "log"] = "log"
    yscale: Literal["linear", "log", "symlog"] = "linear"
    verticals: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        text("xlabel", self.xlabel)
        text("ylabel", self.ylabel)
        object.__setattr__(self, "lines", tuple(list_of("lines", self.lines, Line)))
        choice("xscale", self.xscale, ("linear", "log"))
        choice("yscale", self.yscale, ("linear", "log", "symlog"))
        verticals = [pair("a vertical line", entry) for entry in list_of("verticals", self.verticals, tuple)]
        object.__setattr__(
            self, "verticals", tuple((text("label", label), number("position", at)) for label, at in verticals)
        )

    @staticmethod
    def line(label: str, x: ArrayLike, y: ArrayLike, kind: str = "theory") -> Line:
        """Build a `Line` from anything array-like."""
        return Line(label, x, y, kind)  # type: ignore[arg-type]  # the line converts and checks


@dataclass(frozen=True)
class Map:
    """Validity map of a statement: the violation measured on a grid of two quantities, with the printed conditions.

    Attributes
    ----------
    title : str
        Title of the map.
    xlabel : str
        Label of the x axis, with unit.
    ylabel : str
        Label of the y axis, with unit.
    quantity : str
        What `violation` measures, with its unit.
    x : (nx,) array
        Values of the first quantity, increasing.
    y : (ny,) array
        Values of the second quantity, increasing.
    violation : (ny, nx) array
        Measured violation; NaN where an instance does not exist.
    threshold : float
        The statement counts as failed where `violation` is larger.
    boundaries : tuple of Line
        Curves on the same axes: printed conditions (kind "printed"), fitted or corrected conditions (kind "theory").
    xscale : "linear" or "log"
        Scale of the x axis.
    yscale : "linear" or "log"
        Scale of the y axis.
    scale : "linear" or "log"
        Scale of the colours.

    Raises
    ------
    InputError
        If the shape of `violation` is not (ny, nx), or x or y does not increase.
    """

    title: str
    xlabel: str
    ylabel: str
    quantity: str
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    violation: NDArray[np.float64]
    threshold: float
    boundaries: tuple[Line, ...] = ()
    xscale: Literal["linear", "log"] = "log"
    yscale: Literal["linear", "log"] = "log"
    scale: Literal["linear", "log"] = "log"

    def __post_init__(self) -> None:
        for name in ("title", "xlabel", "ylabel", "quantity"):
            text(name, getattr(self, name))
        for name in ("xscale", "yscale", "scale"):
            choice(name, getattr(self, name), ("linear", "log"))
        object.__setattr__(self, "threshold", number("threshold", self.threshold))
        object.__setattr__(self, "boundaries", tuple(list_of("boundaries", self.boundaries, Line)))
        for name in ("x", "y"):
            axis = finite_array(f"{name} of map {shown(self.title)}", getattr(self, name), ("N",), increasing=True)
            object.__setattr__(self, name, axis)
        object.__setattr__(self, "violation", real_array("violation", self.violation))
        if self.violation.shape != (self.y.size, self.x.size):
            raise InputError(
                f"expected map {shown(self.title)} to have violations of shape (ny, nx) = "
                f"{(self.y.size, self.x.size)}, received {self.violation.shape}; give a row per y"
            )

    @staticmethod
    def over(title: str, labels: tuple[str, str], quantity: str, grid: Grid, *more: Any, **scales: Any) -> Map:
        """Map of a grid over y, then x, labelled (x, y); `more` are the threshold and the boundaries."""
        y, x = map(np.asarray, grid.axes.values())
        return Map(title, *labels, quantity, x, y, grid.values(), *more, **scales)
