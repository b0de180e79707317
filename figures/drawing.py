"""Figures of the register: compute their data, and draw them."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from snapdyn.dynamics.training.transformer.runs import TransformerRun, load_transformer_runs
from snapdyn.errors import InputError, choice, file_path, instance
from snapdyn.figures.parameters import listed
from snapdyn.figures.register import FIGURES
from snapdyn.figures.style import Style, figure_width, house_style
from snapdyn.validation.evidence import LEVELS

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

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
        Runs of transformers for Figures 7 and 10, or their folder; default the short ones that snapdyn has.
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


def draw(
    id: str, dataset: xarray.Dataset, width: float | None = None, style: Style | None = None, tex: bool = False
) -> Figure:
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
    tex : bool
        Let LaTeX set the texts.

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
    try:
        with house_style(style=style, tex=tex):
            return entry.figure(dataset, width)
    except InputError:
        raise
    except DATA_OF_ANOTHER_KIND as error:
        raise InputError(
            f"expected the data of figure {entry.id}, received a dataset from which it cannot be drawn "
            f"({type(error).__name__}: {error}); compute it with snapdyn.figures.compute"
        ) from error
