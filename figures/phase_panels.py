"""Data of the figure of phases: eight diagrams in one dataset."""

from __future__ import annotations

import json
from typing import Annotated, Any

import numpy as np
import xarray
from pydantic import Field

from snapdyn.figures.parameters import Whole
from snapdyn.validation.phases.panels import panels
from snapdyn.validation.phases.theory import Theory, theory_of

# Variable and title of each diagram; the title may hold {section[key]} of its settings.
TITLES = {
    "entropy": ("entropy", "final entropy, mean field"),
    "fallen": ("fallen_share", "distinct tokens that fall, mean field"),
    "times": ("transition_time", "transition, mean field, $K$ up to $10^9$"),
    "gaps": ("largest_gap", "largest gap of $z$, $K = {classes[num_classes]}$"),
    "number_gaps": ("largest_gap", "largest gap of $z$, common token of {classes[common_probability]:g}"),
    "rate_gaps": ("largest_gap", "largest gap of $z$, $K = {classes[num_classes]}$, $V = {classes[vocab_size]}$"),
    "flow": ("phase", r"mean field, $\eta_Y = {system[eta_Y]:g}$"),
    "modified": ("phase", r"Eq. (10), $\eta_Y = {system[eta_Y]:g}$"),
}


def compute(
    level: str,
    num_classes: Annotated[int, Field(ge=2, le=1000, description="classes K (entropy, gaps)")] = 5,
    vocab_size: Annotated[Whole, Field(ge=1000, description="vocabulary V (entropy, gaps over rates)")] = 1000,
    num_distinct: Annotated[int, Field(ge=2, le=100, description="distinct tokens of a class")] = 5,
    common_probability: Annotated[float, Field(ge=0.01, le=0.99, description="of the common token (entropy)")] = 0.5,
    gap_probability: Annotated[
        float, Field(ge=1e-3, le=0.9, description="of the common token (gaps over K and over rates)")
    ] = 0.03,
    last_entropy: Annotated[
        float, Field(ge=10, le=1e12, description="end of the runs (entropy), batch-size-1 steps")
    ] = 1e3,
    last_time: Annotated[float, Field(ge=1e3, le=1e9, description="end of the other runs, batch-size-1 steps")] = 1e4,
    cells: Annotated[int, Field(ge=5, le=301, description="cells along each axis")] = 61,
    instances: Annotated[Whole | None, Field(ge=1, description="random instances (falls), 2 or 8 by the level")] = None,
) -> xarray.Dataset:
    """Run the sweeps of the eight diagrams.

    Parameters
    ----------
    level : "quick" or "full"
        Whether the falls are a mean over 2 or 8 random instances.
    num_classes, vocab_size, num_distinct, common_probability, gap_probability, last_entropy, last_time
        As in the annotations.
    cells, instances
        As in the annotations.

    Returns
    -------
    xarray.Dataset
        PANEL_VARIABLE over (PANEL_Y, PANEL_X), panels as in TITLES; the attribute settings_PANEL has the sections of
        the sweep file that gives the same diagram, as JSON; gaps are those of z, where such a sweep takes the largest
        over all observables. fallen is a mean over random instances. NaN where V < K.
    """
    count = instances or (8 if level == "full" else 2)
    shown = panels(
        cells,
        count,
        num_classes,
        vocab_size,
        num_distinct,
        common_probability,
        gap_probability,
        last_entropy,
        last_time,
    )
    datasets = []
    for name, panel in shown.items():
        data = panel.table()
        renamed = data.rename({each: f"{name}_{each}" for each in data.variables})
        renamed.attrs = {f"settings_{name}": data.attrs["settings"]}
        datasets.append(renamed)
    return xarray.merge(datasets, combine_attrs="no_conflicts")


def title_of(dataset: xarray.Dataset, name: str) -> str:
    """Return the title of a diagram, with the values of its settings."""
    _, text = TITLES[name]
    return text.format(**_settings_of(dataset, name)) if "[" in text else text


def _settings_of(dataset: xarray.Dataset, name: str) -> dict[str, dict[str, Any]]:
    return dict(json.loads(dataset.attrs[f"settings_{name}"]))


def panel_of(dataset: xarray.Dataset, name: str) -> xarray.Dataset:
    """Return the data of one diagram as a sweep would give them, for `snapdyn.figures.phase_diagrams`."""
    data = dataset[[f"{name}_{TITLES[name][0]}"]]
    names = {each: str(each).removeprefix(f"{name}_") for each in data.variables}
    return data.rename(names).assign_attrs(settings=dataset.attrs[f"settings_{name}"])


def panel_theory(dataset: xarray.Dataset, name: str) -> Theory:
    """Return the theory on the cells of one diagram."""
    data = panel_of(dataset, name)
    y, x = (data[dim] for dim in data[TITLES[name][0]].dims)
    changes = dict(zip((x.attrs["parameter"], y.attrs["parameter"]), np.meshgrid(x, y), strict=True))
    return theory_of(_settings_of(dataset, name), changes)
