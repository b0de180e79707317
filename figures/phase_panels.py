"""The eight diagrams of the figure of phases: the sweep behind each, and their data."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import xarray
from pydantic import Field

from snapdyn.dynamics.classes import Floats
from snapdyn.figures import phase_gaps, phase_runs
from snapdyn.figures.parameters import Whole
from snapdyn.figures.phase_theory import Theory, theory_of

SLOW = {"eta_Y": 1e-2, "eta_Z": 1e-5}  # attention so slow that it does not disturb the decoder
# Slow for 10^6 classes together too, and long enough for them.
SLOW_FOR_MANY = {"eta_Y": 1.0, "eta_Z": 1e-12}


@dataclass(frozen=True)
class Panel:
    """One diagram: its axes, its variable, its title, and the sections of the sweep that it shows.

    The title may hold {section[key]} of the settings.
    """

    x: str
    y: str
    variable: str
    title: str
    settings: dict[str, dict[str, Any]]

    def parameter(self, name: str) -> str:
        """Dotted name of an axis in the sweep."""
        rates = "ladder" if "ladder" in self.settings else "system"
        return f"{rates}.{name}" if name in ("eta_Y", "eta_Z") else f"classes.{name}"


def panels(
    num_classes: int = 5,
    vocab_size: int = 1000,
    num_distinct: int = 5,
    common_probability: float = 0.5,
    gap_probability: float = 0.03,
    last_entropy: float = 1e3,
    last_time: float = 1e4,
) -> dict[str, Panel]:
    """Return the eight diagrams of these parameters of the figure."""

    def run(last: float) -> dict[str, float]:
        return {"first": 0.1, "last": last, "count": 100}

    # No descent: the gaps begin with the mean field.
    ladder = {"first": 1.0, "last": last_time, "count": 10, "seeds": 0, "max_steps": 1}
    equal = {"kind": "single_common_token", "num_distinct": num_distinct}
    whole = equal | {"num_classes": num_classes, "vocab_size": vocab_size}
    pair = equal | {"num_classes": 2, "vocab_size": 100}
    drawn = {"kind": "random_classes", "num_classes": 3, "num_common": 1, "num_distinct": 4, "vocab_size": 100}
    return {
        "entropy": Panel(
            "eta_Y", "eta_Z", "entropy", "final entropy, mean field",
            {
                "classes": whole | {"common_probability": common_probability},
                "system": {"kind": "MeanField"},
                "run": run(last_entropy),
            },
        ),
        "fallen": Panel(
            "eta_Y", "eta_Z", "fallen_share", "distinct tokens that fall, mean field",
            {"classes": drawn, "system": {"kind": "MeanField"}, "run": run(last_time)},
        ),
        "times": Panel(
            "vocab_size", "num_classes", "transition_time", "transition, mean field, $K$ up to $10^9$",
            {
                "classes": equal | {"common_probability": 0.05},
                "system": {"kind": "MeanField", "eta_Y": 1.0, "eta_Z": 1e-14},  # K times as much is slow still
                "run": run(1e12),
            },
        ),
        "gaps": Panel(
            "vocab_size", "common_probability", "largest_gap", "largest gap of $z$, $K = {classes[num_classes]}$",
            {"classes": equal | {"num_classes": num_classes}, "ladder": SLOW | ladder},
        ),
        "number_gaps": Panel(
            "vocab_size", "num_classes", "largest_gap",
            "largest gap of $z$, common token of {classes[common_probability]:g}",
            {
                "classes": equal | {"common_probability": gap_probability},
                "ladder": SLOW_FOR_MANY | ladder | {"last": 1e8},
            },
        ),
        "rate_gaps": Panel(
            "eta_Y", "eta_Z", "largest_gap",
            "largest gap of $z$, $K = {classes[num_classes]}$, $V = {classes[vocab_size]}$",
            {"classes": whole | {"common_probability": gap_probability}, "ladder": ladder},
        ),
        "flow": Panel(
            "common_probability", "eta_Z", "phase", r"mean field, $\eta_Y = {system[eta_Y]:g}$",
            {"classes": pair, "system": {"kind": "MeanField", "eta_Y": 1.0}, "run": run(last_time)},
        ),
        "modified": Panel(
            "common_probability", "eta_Z", "phase", r"Eq. (10), $\eta_Y = {system[eta_Y]:g}$",
            {"classes": pair, "system": {"kind": "ModifiedDecoder", "eta_Y": 1.0}, "run": run(last_time)},
        ),
    }  # fmt: skip


PANELS = panels()


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
        PANEL_VARIABLE over (PANEL_Y, PANEL_X), panels as in PANELS; the attribute settings_PANEL has the sections of
        the sweep file that gives the same diagram, as JSON; gaps are those of z, where such a sweep takes the largest
        over all observables. fallen is a mean over random instances. NaN where V < K.
    """
    shown = panels(num_classes, vocab_size, num_distinct, common_probability, gap_probability, last_entropy, last_time)
    # The two rates have the same spacing: cells of equal eta_Z/eta_Y are one run.
    rates = 10.0 ** np.linspace(-2, 1, cells), 10.0 ** np.linspace(-3, 0, cells)
    slow = 10.0 ** np.linspace(-2, 1, cells), 10.0 ** np.linspace(-6, 0, cells)
    outputs, many, sizes, large, numbers = (
        whole_numbers(first, last, cells)
        for first, last in ((10, 1e15), (2, 1e9), (max(10, num_classes), 1e5), (10, 1e9), (2, 1e6))
    )
    shares = np.linspace(0.05, 0.95, cells), np.geomspace(1e-3, 50, cells)
    count = instances or (8 if level == "full" else 2)

    def settings(name: str) -> dict[str, dict[str, Any]]:
        return shown[name].settings

    diagrams = {
        "entropy": (*rates, phase_runs.final_entropy(settings("entropy"), *rates)),
        "fallen": (*rates, phase_runs.fallen_share(settings("fallen"), *rates, count)),
        "times": (outputs, many, phase_runs.transition_times(settings("times"), outputs, many)),
        "gaps": (sizes, gap_shares := np.geomspace(1e-3, 0.3, cells),
                 phase_gaps.over_vocabulary(settings("gaps"), sizes, common_probability=gap_shares)),
        "number_gaps": (large, numbers,
                        phase_gaps.over_vocabulary(settings("number_gaps"), large, num_classes=numbers)),
        "rate_gaps": (*slow, phase_gaps.over_rates(settings("rate_gaps"), *slow)),
        **{name: (*shares, phase_runs.phases(settings(name), *shares)) for name in ("flow", "modified")},
    }  # fmt: skip
    datasets = [_diagram(name, shown[name], *values) for name, values in diagrams.items()]
    return xarray.Dataset(
        {name: variable for diagram in datasets for name, variable in diagram.data_vars.items()},
        attrs={name: text for diagram in datasets for name, text in diagram.attrs.items()},
    )


def whole_numbers(first: float, last: float, count: int) -> Floats:
    """Return `count` different whole numbers, log-spaced where these are more than 1 apart."""
    places = np.arange(count)
    return np.asarray(np.maximum.accumulate(np.geomspace(first, last, count).round() - places) + places)


def _diagram(name: str, panel: Panel, x: Floats, y: Floats, values: Floats) -> xarray.Dataset:
    """Data of one diagram, values (y, x); its names begin with that of the panel."""
    return xarray.Dataset(
        {f"{name}_{panel.variable}": ((f"{name}_{panel.y}", f"{name}_{panel.x}"), values)},
        {f"{name}_{panel.x}": x, f"{name}_{panel.y}": y},
        {f"settings_{name}": json.dumps(panel.settings)},
    )


def title_of(dataset: xarray.Dataset, name: str) -> str:
    """Return the title of a diagram, with the values of its settings."""
    text = PANELS[name].title
    return text.format(**json.loads(dataset.attrs[f"settings_{name}"])) if "[" in text else text


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
