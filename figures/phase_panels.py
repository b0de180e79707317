"""The eight diagrams of the figure of phases: their runs and their data."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import xarray

from snapdyn.dynamics import (
    MeanField,
    ModifiedDecoder,
    SequenceClasses,
    System,
    integrate,
    log_times,
    random_classes,
    single_common_token,
    whole_run,
)
from snapdyn.dynamics.classes import Floats
from snapdyn.figures.phase_theory import Theory, theory_of
from snapdyn.validation import observables
from snapdyn.validation.rungs import ladder

SAVES = 100
K, V, D = 5, 1000, 5
GAP_RATES = 1e-2, 1e-5  # attention so slow that it does not disturb the decoder
GAP_END, GAP_COUNT = 1e4, 10
GAP_RUN = {"first": 1.0, "last": GAP_END, "count": GAP_COUNT, "seeds": 0}
GAP_SHARE = 0.03  # of the common token, where it is one number
PANELS = {  # name: x, y, variable, title
    "entropy": ("eta_Y", "eta_Z", "entropy", "final entropy, mean field"),
    "fallen": ("eta_Y", "eta_Z", "fallen_share", "distinct tokens that fall, mean field"),
    "times": ("vocab_size", "num_classes", "transition_time", "transition, mean field"),
    "gaps": ("vocab_size", "common_probability", "largest_gap", "largest gap, $K = 5$"),
    "number_gaps": ("vocab_size", "num_classes", "largest_gap", "largest gap, common token of 0.03"),
    "rate_gaps": ("eta_Y", "eta_Z", "largest_gap", "largest gap, $K = 5$, $V = 1000$"),
    "flow": ("common_probability", "eta_Z", "phase", r"mean field, $\eta_Y = 1$"),
    "modified": ("common_probability", "eta_Z", "phase", r"Eq. (10), $\eta_Y = 1$"),
}


def compute(level: str) -> xarray.Dataset:
    """Run the cells of eight diagrams.

    Parameters
    ----------
    level : "quick" or "full"
        Coarse or fine grids.

    Returns
    -------
    xarray.Dataset
        PANEL_VARIABLE over (PANEL_Y, PANEL_X), panels as in PANELS; the attribute settings_PANEL has the sections of
        the sweep file that gives the same diagram, as JSON. fallen is a mean over random instances.
    """
    full = level == "full"
    rates = np.geomspace(1e-2, 10, 13 if full else 6), np.geomspace(1e-3, 0.5, 13 if full else 6)
    instances = range(8 if full else 2)
    sizes = np.geomspace(10, 1e5, 17 if full else 5).round()
    numbers = np.array([2, 3, 4, 6, 8, 11, 16] if full else [2, 5, 10])
    shares, ratios = np.linspace(0.05, 0.95, 19 if full else 7), np.geomspace(1e-3, 50, 16 if full else 6)
    common = {"kind": "single_common_token", "num_classes": K, "num_distinct": D, "vocab_size": V}
    halves = single_common_token(K, D, 0.5, V)
    others = [random_classes(3, num_common=1, num_distinct=4, vocab_size=100, seed=seed) for seed in instances]
    random = {"kind": "random_classes", "num_classes": 3, "num_common": 1, "num_distinct": 4, "vocab_size": 100}
    pair = {"kind": "single_common_token", "num_classes": 2, "num_distinct": D, "vocab_size": 100}
    panels = [
        _panel(
            "entropy",
            rates,
            {"classes": common | {"common_probability": 0.5}, "system": {"kind": "MeanField"}, "run": _run(1e3)},
            lambda eta_Y, eta_Z: _entropy(MeanField(halves, eta_Y, eta_Z), 1e3),
        ),
        _panel(
            "fallen",
            rates,
            {"classes": random, "system": {"kind": "MeanField"}, "run": _run(1e4)},
            lambda eta_Y, eta_Z: _fallen(others, eta_Y, eta_Z, 1e4),
        ),
        _panel(
            "times",
            (sizes, numbers),
            {
                "classes": {"kind": "single_common_token", "num_distinct": D, "common_probability": 0.05},
                "system": {"kind": "MeanField", "eta_Y": 1.0, "eta_Z": 0.01},
                "run": _run(1e3),
            },
            lambda size, number: _transition(int(number), int(size), 1e3),
        ),
        _panel(
            "gaps",
            (sizes, np.geomspace(1e-3, 0.3, 13 if full else 5)),
            {
                "classes": {"kind": "single_common_token", "num_classes": K, "num_distinct": D},
                "ladder": {"eta_Y": GAP_RATES[0], "eta_Z": GAP_RATES[1], **GAP_RUN},
            },
            lambda size, share: _gap(K, int(size), share),
        ),
        _panel(
            "number_gaps",
            (sizes, numbers),
            {
                "classes": {"kind": "single_common_token", "num_distinct": D, "common_probability": GAP_SHARE},
                "ladder": {"eta_Y": GAP_RATES[0], "eta_Z": GAP_RATES[1], **GAP_RUN},
            },
            lambda size, number: _gap(int(number), int(size), GAP_SHARE),
        ),
        _panel(
            "rate_gaps",
            (rates[0], np.geomspace(1e-6, 1, 13 if full else 7)),
            {"classes": common | {"common_probability": GAP_SHARE}, "ladder": GAP_RUN},
            lambda eta_Y, eta_Z: _gap(K, V, GAP_SHARE, eta_Y, eta_Z),
        ),
        _panel(
            "flow",
            (shares, ratios),
            {"classes": pair, "system": {"kind": "MeanField", "eta_Y": 1.0}, "run": _run(1e4)},
            lambda share, eta_Z: _phase(MeanField(single_common_token(2, D, share, 100), 1.0, eta_Z), 1e4),
        ),
        _panel(
            "modified",
            (shares, ratios),
            {"classes": pair, "system": {"kind": "ModifiedDecoder", "eta_Y": 1.0}, "run": _run(1e4)},
            lambda share, eta_Z: _phase(ModifiedDecoder(single_common_token(2, D, share, 100), 1.0, eta_Z), 1e4),
        ),
    ]
    return xarray.Dataset(
        {name: variable for panel in panels for name, variable in panel.data_vars.items()},
        attrs={name: text for panel in panels for name, text in panel.attrs.items()},
    )


def _run(last: float) -> dict[str, float]:
    return {"first": 0.1, "last": last, "count": SAVES}


def _panel(
    panel: str, points: tuple[Floats, Floats], settings: dict[str, Any], measure: Callable[[float, float], float]
) -> xarray.Dataset:
    x, y, variable, _ = PANELS[panel]
    values = np.array([[measure(a, b) for a in points[0]] for b in points[1]])
    return xarray.Dataset(
        {f"{panel}_{variable}": ((f"{panel}_{y}", f"{panel}_{x}"), values)},
        {f"{panel}_{name}": values for name, values in zip((x, y), points, strict=True)},
        {f"settings_{panel}": json.dumps(settings)},
    )


def _entropy(system: System, last: float) -> float:
    return float(whole_run(system, log_times(0.1, last, SAVES)).entropy()[-1].mean())


def _fallen(members: Sequence[SequenceClasses], eta_Y: float, eta_Z: float, last: float) -> float:
    times = log_times(0.1, last, SAVES)
    runs = [whole_run(MeanField(classes, eta_Y, eta_Z), times) for classes in members]
    return float(np.mean([observables.fallen_share(run) for run in runs]))


def _transition(num_classes: int, vocab_size: int, last: float) -> float:
    if vocab_size < num_classes:
        return np.nan
    system = MeanField(single_common_token(num_classes, D, 0.05, vocab_size), 1.0, 0.01)
    run = integrate(system, [last], events={"transition": observables.transition_event(vocab_size)})
    return run.events[0].t if run.events else np.inf


def _gap(
    num_classes: int, vocab_size: int, share: float, eta_Y: float = GAP_RATES[0], eta_Z: float = GAP_RATES[1]
) -> float:
    if vocab_size < num_classes:
        return np.nan
    classes = single_common_token(num_classes, D, share, vocab_size)
    return float(ladder(classes, eta_Y, eta_Z, log_times(1.0, GAP_END, GAP_COUNT), seeds=0).gaps.gap.max())


def _phase(system: System, last: float) -> float:
    run = whole_run(system, log_times(0.1, last, SAVES))
    vocab_size = run.require_classes().vocab_size
    return float(observables.phase(run, observables.transition_between(run.t, run.loss, vocab_size)))


def panel_of(dataset: xarray.Dataset, panel: str) -> xarray.Dataset:
    """One panel's data as a sweep would give them, for `snapdyn.figures.phase_diagrams`."""
    x, y, variable, _ = PANELS[panel]
    names = {f"{panel}_{name}": name for name in (x, y, variable)}
    own = dataset[[f"{panel}_{variable}"]].rename(names)
    settings = json.loads(dataset.attrs[f"settings_{panel}"])
    rates = "ladder" if "ladder" in settings else "system"
    for name in (x, y):
        own[name].attrs["parameter"] = f"{rates if name in ('eta_Y', 'eta_Z') else 'classes'}.{name}"
    return own.assign_attrs(settings=json.dumps(settings))


def panel_theory(dataset: xarray.Dataset, panel: str) -> Theory:
    """Return the theory on the cells of one diagram."""
    data = panel_of(dataset, panel)
    x, y, _, _ = PANELS[panel]
    X, Y = np.meshgrid(data[x], data[y])
    changes = {data[x].attrs["parameter"]: X, data[y].attrs["parameter"]: Y}
    return theory_of(json.loads(data.attrs["settings"]), changes)
