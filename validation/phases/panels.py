"""The eight diagrams of phases: each is a design on a grid, with a measure over all of its cells at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import xarray

from snapdyn.dynamics.classes import Floats
from snapdyn.validation.design import Column, design_of, table
from snapdyn.validation.phases import grids, ladder_gaps
from snapdyn.validation.phases.theory import Theory, theory_of

Sections = dict[str, dict[str, Any]]
SLOW = {"eta_Y": 1e-2, "eta_Z": 1e-5}  # attention so slow that it does not disturb the decoder
# Slow for 10^6 classes together too, and long enough for them.
SLOW_FOR_MANY = {"eta_Y": 1.0, "eta_Z": 1e-12}
RATES, LADDER_RATES = ("system.eta_Y", "system.eta_Z"), ("ladder.eta_Y", "ladder.eta_Z")
VOCABULARY, NUMBER, SHARE = "classes.vocab_size", "classes.num_classes", "classes.common_probability"


@dataclass(frozen=True)
class Panel:
    """One diagram: a design on a grid, and its variable.

    Attributes
    ----------
    variable : str
    settings : mapping
        Sections of the sweep file that gives the same diagram.
    axes : mapping of dotted names to arrays
        The horizontal axis (X,), then the vertical one (Y,).
    measure : callable
        ``measure(settings, x, y)``, the values (Y, X).
    """

    variable: str
    settings: Sections
    axes: Mapping[str, Floats]
    measure: Callable[[Sections, Floats, Floats], Floats]

    def table(self) -> xarray.Dataset:
        """Measure the variable in all cells: the dataset that a sweep with these settings gives."""
        found = self.measure(self.settings, *self.axes.values())
        design = design_of({name: values.tolist() for name, values in reversed(list(self.axes.items()))}, {})
        cells = [{self.variable: value} for value in found.ravel().tolist()]
        return table(design, cells, [Column(self.variable)]).assign_attrs(settings=json.dumps(self.settings))


def panels(
    cells: int = 61,
    instances: int = 2,
    num_classes: int = 5,
    vocab_size: int = 1000,
    num_distinct: int = 5,
    common_probability: float = 0.5,
    gap_probability: float = 0.03,
    last_entropy: float = 1e3,
    last_time: float = 1e4,
) -> dict[str, Panel]:
    """Return the eight diagrams; the parameters are those of figure `phase`."""

    def run(last: float) -> dict[str, float]:
        return {"first": 0.1, "last": last, "count": 100}

    def axes(names: tuple[str, str], x: Floats, y: Floats) -> dict[str, Floats]:
        return dict(zip(names, (x, y), strict=True))

    # No descent: the gaps begin with the mean field.
    ladder = {"first": 1.0, "last": last_time, "count": 10, "seeds": 0, "max_steps": 1}
    equal = {"kind": "single_common_token", "num_distinct": num_distinct}
    whole = equal | {"num_classes": num_classes, "vocab_size": vocab_size}
    pair = equal | {"num_classes": 2, "vocab_size": 100}
    drawn = {"kind": "random_classes", "num_classes": 3, "num_common": 1, "num_distinct": 4, "vocab_size": 100}
    # The two rates have the same spacing: cells of equal eta_Z/eta_Y are one run.
    rates = axes(RATES, 10.0 ** np.linspace(-2, 1, cells), 10.0 ** np.linspace(-3, 0, cells))
    shares = axes((SHARE, "system.eta_Z"), np.linspace(0.05, 0.95, cells), np.geomspace(1e-3, 50, cells))
    return {
        "entropy": Panel(
            "entropy",
            {
                "classes": whole | {"common_probability": common_probability},
                "system": {"kind": "MeanField"},
                "run": run(last_entropy),
            },
            rates,
            grids.final_entropy,
        ),
        "fallen": Panel(
            "fallen_share",
            {"classes": drawn, "system": {"kind": "MeanField"}, "run": run(last_time)},
            rates,
            partial(grids.fallen_share, instances=instances),
        ),
        "times": Panel(
            "transition_time",
            {
                "classes": equal | {"common_probability": 0.05},
                "system": {"kind": "MeanField", "eta_Y": 1.0, "eta_Z": 1e-14},  # K times as much is slow still
                "run": run(1e12),
            },
            axes((VOCABULARY, NUMBER), whole_numbers(10, 1e15, cells), whole_numbers(2, 1e9, cells)),
            grids.transition_times,
        ),
        "gaps": Panel(
            "largest_gap",
            {"classes": equal | {"num_classes": num_classes}, "ladder": SLOW | ladder},
            axes((VOCABULARY, SHARE), whole_numbers(max(10, num_classes), 1e5, cells), np.geomspace(1e-3, 0.3, cells)),
            lambda settings, x, y: ladder_gaps.over_vocabulary(settings, x, common_probability=y),
        ),
        "number_gaps": Panel(
            "largest_gap",
            {
                "classes": equal | {"common_probability": gap_probability},
                "ladder": SLOW_FOR_MANY | ladder | {"last": 1e8},
            },
            axes((VOCABULARY, NUMBER), whole_numbers(10, 1e9, cells), whole_numbers(2, 1e6, cells)),
            lambda settings, x, y: ladder_gaps.over_vocabulary(settings, x, num_classes=y),
        ),
        "rate_gaps": Panel(
            "largest_gap",
            {"classes": whole | {"common_probability": gap_probability}, "ladder": ladder},
            axes(LADDER_RATES, 10.0 ** np.linspace(-2, 1, cells), 10.0 ** np.linspace(-6, 0, cells)),
            ladder_gaps.over_rates,
        ),
        "flow": Panel(
            "phase",
            {"classes": pair, "system": {"kind": "MeanField", "eta_Y": 1.0}, "run": run(last_time)},
            shares,
            grids.phases,
        ),
        "modified": Panel(
            "phase",
            {"classes": pair, "system": {"kind": "ModifiedDecoder", "eta_Y": 1.0}, "run": run(last_time)},
            shares,
            grids.phases,
        ),
    }


def whole_numbers(first: float, last: float, count: int) -> Floats:
    """Return `count` different whole numbers, log-spaced where these are more than 1 apart."""
    places = np.arange(count)
    return np.asarray(np.maximum.accumulate(np.geomspace(first, last, count).round() - places) + places)


def dataset_of(shown: Mapping[str, Panel]) -> xarray.Dataset:
    """Measure all panels: PANEL_VARIABLE over (PANEL_Y, PANEL_X), and the attribute settings_PANEL, as JSON."""
    datasets = []
    for name, panel in shown.items():
        data = panel.table()
        renamed = data.rename({each: f"{name}_{each}" for each in data.variables})
        renamed.attrs = {f"settings_{name}": data.attrs["settings"]}
        datasets.append(renamed)
    return xarray.merge(datasets, combine_attrs="no_conflicts")


def settings_of(dataset: xarray.Dataset, name: str) -> Sections:
    """Return the sections of the sweep file that gives the same diagram."""
    return dict(json.loads(dataset.attrs[f"settings_{name}"]))


def panel_of(dataset: xarray.Dataset, name: str) -> xarray.Dataset:
    """Return the data of one diagram as a sweep would give them."""
    (variable,) = (each for each in dataset.data_vars if str(each).startswith(f"{name}_"))
    data = dataset[[variable]]
    names = {each: str(each).removeprefix(f"{name}_") for each in data.variables}
    return data.rename(names).assign_attrs(settings=dataset.attrs[f"settings_{name}"])


def panel_theory(dataset: xarray.Dataset, name: str) -> Theory:
    """Return the theory on the cells of one diagram."""
    (data,) = panel_of(dataset, name).values()
    y, x = (data[dim] for dim in data.dims)
    changes = dict(zip((x.attrs["parameter"], y.attrs["parameter"]), np.meshgrid(x, y), strict=True))
    return theory_of(settings_of(dataset, name), changes)
