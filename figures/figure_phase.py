"""Phase diagrams of training: entropy, fallen tokens, the transition's time, phases, the ladder's largest gap."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import xarray
from matplotlib.figure import Figure

from snapdyn import analytic
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
from snapdyn.figures.phase_diagrams import ONSET, Theory, draw_panel, theory_of
from snapdyn.figures.style import DOUBLE_COLUMN
from snapdyn.validation import observables
from snapdyn.validation.results import Check
from snapdyn.validation.rungs.runs import ladder

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
MEAN_FIELD, MODIFIED = "mean field", "modified decoder"
SLOWNESS = "(eta_Z/eta_Y)(V h)^2"
GAPS = ("gaps", "number_gaps", "rate_gaps")


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
    assert run.classes is not None
    return float(observables.phase(run, observables.transition_between(run.t, run.loss, run.classes.vocab_size)))


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


def draw(dataset: xarray.Dataset) -> Figure:
    """Draw the eight diagrams, each with its own colours and legend."""
    figure = Figure(figsize=(DOUBLE_COLUMN, 12.8))
    parts = figure.subfigures(4, 2, squeeze=False).flat
    for part, (panel, (x, y, variable, title)) in zip(parts, PANELS.items(), strict=True):
        axes = part.subplots()
        handles = draw_panel(axes, panel_of(dataset, panel), x, y, variable)
        axes.set_title(title)
        part.legend(handles=handles, loc="outside lower center", ncols=2, fontsize=6.5)
    return figure


def check(dataset: xarray.Dataset) -> list[Check]:
    """What the diagrams show, and wrong theories that they reject."""
    own = (_on_entropy, _on_falls, _on_transition, _on_gaps, _on_phases)
    return [check for checks in own for check in checks(dataset)]


def _on_entropy(dataset: xarray.Dataset) -> list[Check]:
    entropy, theory = panel_of(dataset, "entropy").entropy.values, _theory(dataset, "entropy")
    over = np.broadcast_to(theory.time("end") < theory.T, entropy.shape)
    low, high = entropy.min(axis=0), entropy.max(axis=0)  # over eta_Z
    done = (entropy - low) / (high - low)

    def least(onset: float) -> float:
        return float(done[over & (theory.slowness > onset)].min())

    name = f"share of the change of entropy that is done where {SLOWNESS} > {ONSET:g} and t0 is over, smallest"
    return [
        Check(name, MEAN_FIELD, least(ONSET), 0.5, ">="),
        Check(
            f"wrong theory: the same where it is above {ONSET / 100:g}",
            MEAN_FIELD,
            least(ONSET / 100),
            0.5,
            ">=",
            role="control",
        ),
    ]


def _on_transition(dataset: xarray.Dataset) -> list[Check]:
    times = panel_of(dataset, "times").transition_time
    K, V = np.broadcast_arrays(times.num_classes.values[:, None], times.vocab_size.values)
    there = np.isfinite(times.values)
    # K - 1 of the V outputs, those of overlapping classes, are ahead of the others: of order K/V in alpha.
    order = K[there] / V[there]

    def off(kind: str) -> float:
        theory = np.asarray(analytic.transition_time(K[there], V[there], 1.0, kind=kind))
        return float((np.abs(times.values[there] / theory - 1) / order).max())

    return [
        Check("|measured time of the transition/t* - 1| over K/V, largest", MEAN_FIELD, off("peak"), 0.02),
        Check("wrong theory: the same with t0 for t*", MEAN_FIELD, off("end"), 0.02, role="control"),
    ]


def _on_falls(dataset: xarray.Dataset) -> list[Check]:
    share, slowness = panel_of(dataset, "fallen").fallen_share.values, _theory(dataset, "fallen").slowness

    def below(onset: float) -> float:
        return float(share[slowness < onset].max())

    name = f"share of distinct tokens that fall where {SLOWNESS} < {ONSET:g}, largest"
    return [
        Check(name, MEAN_FIELD, below(ONSET), 0.0),
        Check(f"wrong theory: the same below {100 * ONSET:g}", MEAN_FIELD, below(100 * ONSET), 0.0, role="control"),
    ]


def _on_phases(dataset: xarray.Dataset) -> list[Check]:
    seen = {name: panel_of(dataset, name).phase.values for name in ("flow", "modified")}
    theory = {name: _theory(dataset, name) for name in seen}

    def smallest(name: str, quantity: Floats) -> float:
        still = seen[name] >= observables.SNAPPED
        return float(np.broadcast_to(quantity, still.shape)[still].min())

    driven = "2K(K-1) u_+^2 (eta_Z/eta_Y)/rho0^4"
    winners = {name: float((seen[name] == observables.WINNER).sum()) for name in seen}
    return [
        Check("cells in which a winner takes all", MEAN_FIELD, winners["flow"], 0.0),
        Check("cells in which a winner takes all", MODIFIED, winners["modified"], 1.0, ">="),
        Check(
            f"{driven} where attention has snapped, smallest",
            MODIFIED,
            smallest("modified", theory["modified"].driven_by_transition),
            1.0,
            ">=",
        ),
        Check(
            "wrong theory: the same in the mean field",
            MEAN_FIELD,
            smallest("flow", theory["flow"].driven_by_transition),
            1.0,
            ">=",
            role="control",
        ),
        Check(
            f"{SLOWNESS} where attention has snapped, smallest",
            MEAN_FIELD,
            smallest("flow", theory["flow"].slowness),
            ONSET,
            ">=",
        ),
    ]


def _on_gaps(dataset: xarray.Dataset) -> list[Check]:
    gap, law, printed, left_out = (
        np.concatenate(values) for values in zip(*(_gaps(dataset, panel) for panel in GAPS), strict=True)
    )
    known = left_out < 0.5

    def off(theory: Floats) -> float:
        return float((np.abs(gap / theory - 1) / left_out)[known].max())

    over_rates, law_of_rates, *_ = _gaps(dataset, "rate_gaps")
    growth, slowness = over_rates / law_of_rates, _theory(dataset, "rate_gaps").slowness.ravel()
    much = 10 * ONSET
    return [
        Check(
            "|largest gap/max(V rho, 1/(1 + V rho)) - 1| over what is left out, where below 1/2",
            MODIFIED,
            off(law),
            1.0,
        ),
        Check("wrong theory: rho K(K-1), from the printed condition", MODIFIED, off(printed), 1.0, role="control"),
        Check("smallest of the largest gaps: none within the tolerance 0.05", MODIFIED, gap.min(), 0.05, ">="),
        Check(
            f"largest gap over that law where {SLOWNESS} < {ONSET:g}, over the rates, largest",
            MODIFIED,
            growth[slowness < ONSET].max(),
            1.1,
        ),
        Check(f"the same beyond {much:g}, smallest", MODIFIED, growth[slowness > much].min(), 1.1, ">="),
        Check(
            f"wrong theory: below {much:g} as below {ONSET:g}",
            MODIFIED,
            growth[slowness < much].max(),
            1.1,
            role="control",
        ),
    ]


def _gaps(dataset: xarray.Dataset, panel: str) -> list[Floats]:
    """Largest gaps of one diagram's cells, their law, the printed condition's, the order of what the law leaves out.

    beta is E' + 1/V under Eq. (10), 1/V in the mean field and E' in the leading order: relative gaps V rho, and
    1/(1 + V rho). Left out: rho u in the mean field's beta, which grows with the lead u <= V h(t/K); E' against rho;
    K of V outputs; the decoder's memory of old attention (F10). A beta that is off by a share d changes the former gap,
    (1 + V rho)/(1 + d) - 1, by d (1 + 1/(V rho)) of itself, and the latter by less than d.
    """
    gap, theory = panel_of(dataset, panel).largest_gap.values, _theory(dataset, panel)
    rho, K, V = theory.rho, theory.K, theory.V
    law = np.maximum(V * rho, 1 / (1 + V * rho))
    left_out = (1 + np.where(V * rho >= 1 / (1 + V * rho), 1 / law, 0)) * (
        rho * (_lead(theory) + K) + K / V + theory.slowness
    )
    there = np.isfinite(gap)
    return [np.broadcast_to(x, gap.shape)[there] for x in (gap, law, rho * K * (K - 1), left_out)]


def _lead(theory: Theory) -> Floats:
    """Lead V h of a class's own output at the end of the run."""
    return np.sqrt(theory.slowness * theory.eta_Y / theory.eta_Z)


def _theory(dataset: xarray.Dataset, panel: str) -> Theory:
    own = panel_of(dataset, panel)
    x, y, _, _ = PANELS[panel]
    X, Y = np.meshgrid(own[x], own[y])
    changes = {own[x].attrs["parameter"]: X, own[y].attrs["parameter"]: Y}
    return theory_of(json.loads(own.attrs["settings"]), changes)
