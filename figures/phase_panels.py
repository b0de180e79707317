"""The eight diagrams of the figure of phases: the sweep behind each, and their data."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray

from snapdyn.dynamics.classes import Floats
from snapdyn.experiments.sweep.design import Axis, Design, Value
from snapdyn.experiments.sweep.execution import run_in_process
from snapdyn.experiments.sweep.files import KIND_OF_SECTION, Sweep
from snapdyn.figures import phase_runs
from snapdyn.figures.phase_theory import Theory, theory_of

K, V, D = 5, 1000, 5
GAP_RATES = {"eta_Y": 1e-2, "eta_Z": 1e-5}  # attention so slow that it does not disturb the decoder
# No descent: the gaps begin with the mean field.
GAP_RUN = {"first": 1.0, "last": 1e4, "count": 10, "seeds": 0, "max_steps": 1}
GAP_SHARE = 0.03  # of the common token, where it is one number
WHOLE_NUMBERS = ("vocab_size", "num_classes")


@dataclass(frozen=True)
class Panel:
    """One diagram: its axes, its variable, its title, and the sections of the sweep that it shows."""

    x: str
    y: str
    variable: str
    title: str
    settings: dict[str, dict[str, Any]]

    def parameter(self, name: str) -> str:
        """Dotted name of an axis in the sweep."""
        rates = "ladder" if "ladder" in self.settings else "system"
        return f"{rates}.{name}" if name in ("eta_Y", "eta_Z") else f"classes.{name}"


def _run(last: float) -> dict[str, float]:
    return {"first": 0.1, "last": last, "count": 100}


_SYMMETRIC = {"kind": "single_common_token", "num_classes": K, "num_distinct": D, "vocab_size": V}
_PAIR = {"kind": "single_common_token", "num_classes": 2, "num_distinct": D, "vocab_size": 100}
_RANDOM = {"kind": "random_classes", "num_classes": 3, "num_common": 1, "num_distinct": 4, "vocab_size": 100}
PANELS = {
    "entropy": Panel(
        "eta_Y", "eta_Z", "entropy", "final entropy, mean field",
        {"classes": _SYMMETRIC | {"common_probability": 0.5}, "system": {"kind": "MeanField"}, "run": _run(1e3)},
    ),
    "fallen": Panel(
        "eta_Y", "eta_Z", "fallen_share", "distinct tokens that fall, mean field",
        {"classes": _RANDOM, "system": {"kind": "MeanField"}, "run": _run(1e4)},
    ),
    "times": Panel(
        "vocab_size", "num_classes", "transition_time", "transition, mean field, $K$ up to $10^9$",
        {
            "classes": {"kind": "single_common_token", "num_distinct": D, "common_probability": 0.05},
            "system": {"kind": "MeanField", "eta_Y": 1.0, "eta_Z": 1e-14},  # K times as much is slow still
            "run": _run(1e12),
        },
    ),
    "gaps": Panel(
        "vocab_size", "common_probability", "largest_gap", "largest gap, $K = 5$",
        {
            "classes": {"kind": "single_common_token", "num_classes": K, "num_distinct": D},
            "ladder": GAP_RATES | GAP_RUN,
        },
    ),
    "number_gaps": Panel(
        "vocab_size", "num_classes", "largest_gap", "largest gap, common token of 0.03",
        {
            "classes": {"kind": "single_common_token", "num_distinct": D, "common_probability": GAP_SHARE},
            "ladder": GAP_RATES | GAP_RUN,
        },
    ),
    "rate_gaps": Panel(
        "eta_Y", "eta_Z", "largest_gap", "largest gap, $K = 5$, $V = 1000$",
        {"classes": _SYMMETRIC | {"common_probability": GAP_SHARE}, "ladder": GAP_RUN},
    ),
    "flow": Panel(
        "common_probability", "eta_Z", "phase", r"mean field, $\eta_Y = 1$",
        {"classes": _PAIR, "system": {"kind": "MeanField", "eta_Y": 1.0}, "run": _run(1e4)},
    ),
    "modified": Panel(
        "common_probability", "eta_Z", "phase", r"Eq. (10), $\eta_Y = 1$",
        {"classes": _PAIR, "system": {"kind": "ModifiedDecoder", "eta_Y": 1.0}, "run": _run(1e4)},
    ),
}  # fmt: skip


def compute(level: str) -> xarray.Dataset:
    """Run the sweeps of the eight diagrams.

    Parameters
    ----------
    level : "quick" or "full"
        Coarse or fine grids.

    Returns
    -------
    xarray.Dataset
        PANEL_VARIABLE over (PANEL_Y, PANEL_X), panels as in PANELS; the attribute settings_PANEL has the sections of
        the sweep file that gives the same diagram, as JSON. fallen is a mean over random instances. NaN where V < K.
    """
    full = level == "full"
    # 20 values per decade of both: cells of equal eta_Z/eta_Y are one run.
    rates = 10.0 ** (np.arange(61) / 20 - 2), 10.0 ** (np.arange(61) / 20 - 3)
    sizes = np.geomspace(10, 1e5, 17 if full else 5).round()
    numbers = np.array([2, 3, 4, 6, 8, 11, 16] if full else [2, 5, 10])
    outputs = np.geomspace(10, 1e15, 43 if full else 15).round()
    many = np.geomspace(2, 1e9, 37 if full else 13).round()
    shares = np.linspace(0.05, 0.95, 61 if full else 19), np.geomspace(1e-3, 50, 61 if full else 20)
    slow = np.geomspace(1e-2, 10, 13 if full else 6), np.geomspace(1e-6, 1, 13 if full else 7)
    instances = 8 if full else 2
    diagrams = [
        _diagram("entropy", *rates, phase_runs.final_entropy(PANELS["entropy"].settings, *rates)),
        _diagram("fallen", *rates, phase_runs.fallen_share(PANELS["fallen"].settings, *rates, instances)),
        _diagram("times", outputs, many, phase_runs.transition_times(PANELS["times"].settings, outputs, many)),
        _swept("gaps", sizes, np.geomspace(1e-3, 0.3, 13 if full else 5)),
        _swept("number_gaps", sizes, numbers),
        _swept("rate_gaps", *slow),
        *(_diagram(name, *shares, phase_runs.phases(PANELS[name].settings, *shares)) for name in ("flow", "modified")),
    ]
    return xarray.Dataset(
        {name: variable for diagram in diagrams for name, variable in diagram.data_vars.items()},
        attrs={name: text for diagram in diagrams for name, text in diagram.attrs.items()},
    )


def _diagram(name: str, x: Floats, y: Floats, values: Floats) -> xarray.Dataset:
    """Data of one diagram, values (y, x); its names begin with that of the panel."""
    panel = PANELS[name]
    return xarray.Dataset(
        {f"{name}_{panel.variable}": ((f"{name}_{panel.y}", f"{name}_{panel.x}"), values)},
        {f"{name}_{panel.x}": x, f"{name}_{panel.y}": y},
        {f"settings_{name}": json.dumps(panel.settings)},
    )


def _swept(name: str, x: Floats, y: Floats) -> xarray.Dataset:
    """Run the sweep of one diagram."""
    panel = PANELS[name]
    values: dict[str, list[Value]] = {
        axis: [int(value) for value in points] if axis in WHOLE_NUMBERS else points.tolist()
        for axis, points in ((panel.y, y), (panel.x, x))
    }
    axes = tuple(Axis(axis, {panel.parameter(axis): entries}) for axis, entries in values.items())
    kind = KIND_OF_SECTION["ladder" if "ladder" in panel.settings else "system"]
    sweep = Sweep(name, Path(), kind, panel.settings, Design(axes), (panel.variable,), phase=None)
    return _diagram(name, x, y, run_in_process(sweep)[panel.variable].values)


def panel_of(dataset: xarray.Dataset, name: str) -> xarray.Dataset:
    """Return the data of one diagram as a sweep would give them, for `snapdyn.figures.phase_diagrams`."""
    panel = PANELS[name]
    names = {f"{name}_{part}": part for part in (panel.x, panel.y, panel.variable)}
    data = dataset[[f"{name}_{panel.variable}"]].rename(names)
    for axis in (panel.x, panel.y):
        data[axis].attrs["parameter"] = panel.parameter(axis)
    return data.assign_attrs(settings=dataset.attrs[f"settings_{name}"])


def panel_theory(dataset: xarray.Dataset, name: str) -> Theory:
    """Return the theory on the cells of one diagram."""
    panel, data = PANELS[name], panel_of(dataset, name)
    X, Y = np.meshgrid(data[panel.x], data[panel.y])
    changes = {panel.parameter(panel.x): X, panel.parameter(panel.y): Y}
    return theory_of(json.loads(data.attrs["settings"]), changes)
