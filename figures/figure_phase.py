"""Phase diagrams of training: entropy, fallen tokens, the transition's time, phases, the ladder's largest gap."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import xarray
from pydantic import Field

from snapdyn import analytic
from snapdyn.dynamics.classes.table import Floats
from snapdyn.dynamics.observables import ODE
from snapdyn.experiments.sweep.cells import Sweep, run_in_process
from snapdyn.figures.declaration import Whole, statement
from snapdyn.figures.heat_maps import draw_diagram
from snapdyn.figures.panels import fitting_columns, legend_above, letter_panels
from snapdyn.figures.phase_theory import ONSET, theory_on
from snapdyn.figures.style import DOUBLE_COLUMN, Figure, new_figure, note_size
from snapdyn.validation.grid import Value, design_of
from snapdyn.validation.phases import SNAPPED, WINNER

TITLE = "Phase diagrams of training"
CAPTION = (
    "First row: mean field over the rates. Left: most of the change of the final entropy (K = 5, V = 1000, a common "
    "token of probability 0.5, t = 1000) comes after the transition and before (eta_Z/eta_Y)(V h)^2 reaches 4.5. "
    "Right: distinct tokens fall only beyond 4.5 (random classes, K = 3, V = 100, t = 1e4; mean of the seeds). Second "
    "row, left: the measured transition lies on t*, within 2 % of K/V, and not on t0' or t0, for K up to 1e9 and V up "
    "to 1e15 (attention slow for all K classes together, eta_Z/eta_Y = 1e-14); this holds at small overlap only (here "
    "rho = 0.010): the time grows with rho, up to t*/(1 - rho) at K = V, and follows the law "
    "transition_time_with_overlap. Next three diagrams: largest gap of z between neighbouring approximations, from the "
    "mean field down to closed forms (rho up to 0.41); the diagram over K, up to 1e6, has eta_Z/eta_Y = 1e-12 and t up "
    "to 1e8. With slow attention the gap follows the law largest_ladder_gap, or (K-1) rho, the gap of Eq. (13), where "
    "that is larger; max(V rho, 1/(1 + V rho)) is its limit for rho V h << 1 and K << V. Where V rho is large, Eq. "
    "(10) breaks; where V rho is small, the leading beta breaks. So in these diagrams no cell has all gaps within the "
    "tolerance 0.05; the printed condition rho < 1/(K(K-1)) has no visible effect. In the diagram over the rates the "
    "gap is at most 1.1 times this law below 4.5, and more beyond 45, because the decoder remembers earlier attention. "
    "Last row, K = 2, V = 100, t = 1e4: attention is still moving at the end, has snapped (over the last decade of t "
    "it moves at less than a tenth of its largest speed, per unit of ln t), or has more than half of its weight on one "
    "distinct token (a winner takes all), which happens under Eq. (10) only. Under Eq. (10) attention has snapped only "
    "above the line 4 A Gamma(t0) = 1, by a factor of 6 or more in eta_Z; in the mean field only where (eta_Z/eta_Y)(V "
    "h)^2 is above 3.5."
)
# They hold at every overlap and for all K and V that the diagram shows.
GENERAL = (
    "|measured time of the transition/its law at the overlap - 1| over what the law leaves out, largest",
    "wrong theory: t* in place of the law: no effect of the overlap",
)


CELLS = 21  # along each axis; fewer where whole numbers repeat
MEAN_FIELD, MODIFIED = "mean field", "modified decoder"
SLOWNESS = "(eta_Z/eta_Y)(V h)^2"
GAPS = ("gaps", "number_gaps", "rate_gaps")
# Largest gap over its law for slow attention.
EXCESS = 1.1
# (eta_Z/eta_Y)(V h)^2 above which attention has snapped in the mean field; K = 2, V = 100, t = 1e4: 3.7 on 61 x 61
# cells.
SNAPS = 3.5
# Relative errors of the solver: local errors of 1e-9 over some hundred steps, and absolute ones of 1e-7 of 1/V.
SOLVER = 1e-6


def compute(
    level: str,
    cells: Annotated[int, Field(ge=5, le=301, description="cells along each axis")] = CELLS,
    instances: Annotated[Whole | None, Field(ge=1, description="random instances (falls), 2 or 8 by the level")] = None,
) -> xarray.Dataset:
    """Measure the eight diagrams.

    Parameters
    ----------
    level : "quick" or "full"
        The share of fallen tokens is a mean over 2 or 8 random instances.
    cells, instances
        See the annotations of these arguments.

    Returns
    -------
    xarray.Dataset
        PANEL_VARIABLE over (PANEL_Y, PANEL_X), panels as in PANELS; its attribute settings has the sections of the
        sweep file that gives the same diagram, as JSON. fallen is a mean over random instances. NaN where V < K.
    """
    count = instances or (8 if level == "full" else 2)
    return xarray.Dataset(
        {
            f"{name}_{panel.variable}": panel.measured(f"{name}_", cells, count if panel.is_random else 0)
            for name, panel in PANELS.items()
        }
    )


# First value, last value and np.geomspace or np.linspace: along the horizontal axis, then along the vertical one.
Places = dict[str, tuple[float, float, Callable[..., Floats]]]


@dataclass(frozen=True)
class Panel:
    """One diagram.

    Attributes
    ----------
    title : str
    variable : str
        Observable of the sweep.
    places : mapping of dotted names to (float, float, callable)
    classes, system, run : mapping
        Sections of the sweep file that gives the same diagram.
    is_random : bool
        Whether the classes are random: the diagram is then the mean over their seeds.
    """

    title: str
    variable: str
    places: Places
    classes: Mapping[str, Any]
    system: Mapping[str, Any]
    run: Mapping[str, Any]
    is_random: bool = False

    @property
    def sections(self) -> dict[str, dict[str, Any]]:
        """Sections of the sweep file."""
        return {name: dict(getattr(self, name)) for name in ("classes", "system", "run")}

    def sweep(self, cells: int, seeds: int = 0) -> Sweep:
        """The sweep of the diagram, with `cells` along each axis, and over this number of seeds if it is not 0."""
        axes: dict[str, list[Value]] = {"classes.seed": list(range(seeds))} if seeds else {}
        for name, (first, last, spaced) in reversed(self.places.items()):
            values = spaced(first, last, cells)
            axes[name] = np.unique(values.round().astype(int) if name in WHOLE else values).tolist()
        return Sweep(self.title, Path(), ODE, self.sections, design_of(axes, {}), (self.variable,), None)

    def measured(self, prefix: str, cells: int, seeds: int = 0) -> xarray.DataArray:
        """Measure the variable in all cells of the sweep, as a mean over seeds; `prefix` begins each dimension."""
        table = run_in_process(self.sweep(cells, seeds))
        if failed := [reason for reason in table.failure.values.flat if reason and "vocab_size" not in reason]:
            raise RuntimeError(f"{len(failed)} cells of {self.title} failed: {failed[0]}")  # not for V < K
        values = table[self.variable].mean("seed") if seeds else table[self.variable]
        values = values.rename({name: f"{prefix}{name}" for name in values.dims})
        return values.assign_attrs(settings=table.attrs["settings"], observable=self.variable)


VOCABULARY, NUMBER, SHARE = "classes.vocab_size", "classes.num_classes", "classes.common_probability"
WHOLE = (VOCABULARY, NUMBER)
RATES: Places = {"system.eta_Y": (1e-2, 10, np.geomspace), "system.eta_Z": (1e-3, 1, np.geomspace)}
SHARES: Places = {SHARE: (0.05, 0.95, np.linspace), "system.eta_Z": (1e-3, 50, np.geomspace)}
EQUAL = {"kind": "single_common_token", "num_distinct": 5}
FIVE, PAIR = EQUAL | {"num_classes": 5}, EQUAL | {"num_classes": 2, "vocab_size": 100}
RANDOM = {"kind": "random_classes", "num_classes": 3, "num_common": 1, "num_distinct": 4, "vocab_size": 100}
FLOW = {"kind": "MeanField"}
LONG = {"first": 0.1, "last": 1e4, "count": 100}
# Gaps are drawn in colours. The logits, (eta_Z/eta_Y)/V or more at the end, have no absolute error.
OF_GAPS = {"first": 1.0, "last": 1e4, "count": 10, "rtol": 1e-7, "atol": 1e-28}
PANELS = {
    "entropy": Panel(
        "final entropy, mean field",
        "entropy",
        RATES,
        FIVE | {"vocab_size": 1000, "common_probability": 0.5},
        FLOW,
        LONG | {"last": 1e3},
    ),
    "fallen": Panel("distinct tokens that fall, mean field", "fallen_share", RATES, RANDOM, FLOW, LONG, is_random=True),
    # Slow for all classes together: K times as much is slow still. The absolute error is 1e-7 of 1/V, the order of Y on
    # outputs that are not the next token.
    "times": Panel(
        "transition, mean field, $K$ up to $10^9$",
        "transition_time",
        {VOCABULARY: (10, 1e15, np.geomspace), NUMBER: (2, 1e9, np.geomspace)},
        EQUAL | {"common_probability": 0.05},
        FLOW | {"eta_Y": 1.0, "eta_Z": 1e-14},
        LONG | {"last": 1e12, "rtol": 1e-9, "atol": 1e-22},
    ),
    # Attention so slow that it does not disturb the decoder.
    "gaps": Panel(
        "largest gap of $z$, $K = 5$",
        "largest_gap",
        {VOCABULARY: (10, 1e5, np.geomspace), SHARE: (1e-3, 0.3, np.geomspace)},
        FIVE,
        FLOW | {"eta_Y": 1e-2, "eta_Z": 1e-5},
        OF_GAPS,
    ),
    # Slow for 10^6 classes together too, and long enough for them.
    "number_gaps": Panel(
        "largest gap of $z$, common token of 0.03",
        "largest_gap",
        {VOCABULARY: (10, 1e9, np.geomspace), NUMBER: (2, 1e6, np.geomspace)},
        EQUAL | {"common_probability": 0.03},
        FLOW | {"eta_Y": 1.0, "eta_Z": 1e-12},
        OF_GAPS | {"last": 1e8},
    ),
    "rate_gaps": Panel(
        "largest gap of $z$, $K = 5$, $V = 1000$",
        "largest_gap",
        {"system.eta_Y": (1e-2, 10, np.geomspace), "system.eta_Z": (1e-6, 1, np.geomspace)},
        FIVE | {"vocab_size": 1000, "common_probability": 0.03},
        FLOW,
        OF_GAPS,
    ),
    "flow": Panel(r"mean field, $\eta_Y = 1$", "phase", SHARES, PAIR, FLOW | {"eta_Y": 1.0}, LONG),
    "modified": Panel(
        r"Eq. (10), $\eta_Y = 1$", "phase", SHARES, PAIR, {"kind": "ModifiedDecoder", "eta_Y": 1.0}, LONG
    ),
}


def field(dataset: xarray.Dataset, name: str) -> xarray.DataArray:
    """Return one diagram."""
    return dataset[f"{name}_{PANELS[name].variable}"]


def draw(dataset: xarray.Dataset, width: float = DOUBLE_COLUMN) -> Figure:
    """Draw the eight diagrams, each with its colours and legend."""
    columns = fitting_columns(width, 2, 2.6)
    rows = len(PANELS) // columns
    figure = new_figure(width, 2.7 * rows)
    drawn = []
    for part, (name, panel) in zip(figure.subfigures(rows, columns, squeeze=False).flat, PANELS.items(), strict=True):
        axes = part.subplots()
        handles = draw_diagram(axes, field(dataset, name))
        axes.set_title(panel.title)
        legend_above(part, handles, loc="outside lower center", fontsize=note_size(0.93), most_columns=2)
        drawn.append(axes)
    letter_panels(drawn)
    return figure


@lru_cache(maxsize=10_000)  # eta_Z does not enter, and several checks ask for the same cells
def _largest_gap(times: tuple[float, float, int], eta_Y: float, V: float, K: float, rho: float) -> float:
    return float(analytic.largest_ladder_gap(np.geomspace(*times), eta_Y, int(V), int(K), rho))


def _gaps(dataset: xarray.Dataset, panel: str) -> list[Floats]:
    """Return the largest gaps of a diagram, their law, the order of what the law neglects, and two other laws.

    The law for slow attention is `largest_ladder_gap`, or (K-1) rho where that is larger, because Eq. (13) moves the
    common logit 1 + (K-1) rho times as fast as the leading beta. The law neglects the decoder's memory of old attention
    (finding F10), which is of order (eta_Z/eta_Y)(V h)^2, and, for Eq. (13), the change of the overlap with 4 A Gamma,
    A = (K-1) rho^2. If a rung of the ladder has the relative error d, a relative gap has the relative error
    d (1 + 1/gap).
    """
    gap, theory = field(dataset, panel).values, theory_on(field(dataset, panel))
    measured = np.isfinite(gap)
    rho, K, V, eta_Y, slowness = (
        np.broadcast_to(x, gap.shape)[measured] for x in (theory.rho, theory.K, theory.V, theory.eta_Y, theory.slowness)
    )
    run = PANELS[panel].run
    times = run["first"], run["last"], run["count"]
    cells = zip(eta_Y.tolist(), V.tolist(), K.tolist(), rho.tolist(), strict=True)
    of_beta = np.array([_largest_gap(times, *cell) for cell in cells])
    reduced = (K - 1) * rho
    law = np.maximum(of_beta, reduced)
    # All K classes move attention. Solver: relative errors of 1e-7 in some hundred steps. Rounding: beta is 1/V, a
    # difference of terms of order 1; runs with V = 1e7..1e10 are off by up to 14 V eps in units of z where K is 2.
    neglected = np.where(of_beta >= reduced, 1.0, 2 * K * reduced * rho) * slowness * np.maximum(1.0, K / 5)
    neglected += 1e-6 + 20 * V * np.finfo(float).eps
    small_overlap = np.maximum(V * rho, 1 / (1 + V * rho))
    return [gap[measured], law, (1 + 1 / law) * neglected, small_overlap, rho * K * (K - 1)]


def _done(dataset: xarray.Dataset, onset: float) -> float:
    """Smallest share of the entropy's whole range over eta_Z that is reached where (eta_Z/eta_Y)(V h)^2 > `onset`."""
    entropy, theory = field(dataset, "entropy").values, theory_on(field(dataset, "entropy"))
    over = np.broadcast_to(theory.time("end") < theory.T, entropy.shape)
    low, high = entropy.min(axis=0), entropy.max(axis=0)  # over eta_Z
    done = (entropy - low) / (high - low)
    return float(done[over & (theory.slowness > onset)].min())


def _transitions(dataset: xarray.Dataset) -> tuple[Floats, Floats, Floats, Floats]:
    """Measured times of the transition, K, V and the overlap of the cells that have one."""
    times = field(dataset, "times")
    theory, measured = theory_on(times), np.isfinite(times.values)
    K, V, rho = (np.broadcast_to(each, times.shape)[measured] for each in (theory.K, theory.V, theory.rho))
    return times.values[measured], K, V, rho


def _off_time(dataset: xarray.Dataset, kind: str) -> float:
    """Largest |measured time/theoretical time - 1|, divided by K/V.

    The outputs of the K-1 overlapping classes are ahead of the outputs of no class, which shifts the time by a relative
    rho (K-1)/V while rho ln V << 1.
    """
    times, K, V, _ = _transitions(dataset)
    theory = np.asarray(analytic.transition_time(K, V, 1.0, kind=kind))
    return float((np.maximum(np.abs(times / theory - 1) - SOLVER, 0.0) / (K / V)).max())


def _off_law(dataset: xarray.Dataset, overlap: bool) -> float:
    """Largest |measured time/law - 1|, divided by what the law leaves out; without `overlap` the law is t*."""
    times, K, V, rho = _transitions(dataset)
    t_star = np.asarray(analytic.transition_time(K, V, 1.0))
    law = np.asarray(analytic.transition_time_with_overlap(K, V, 1.0, rho))
    # Attention moves by the order of K (eta_Z/eta_Y) u*^2 until then, and changes the shift by that part.
    left_out = K * PANELS["times"].system["eta_Z"] * analytic.u_peak(V) ** 2 * (law / t_star - 1) + SOLVER
    return float((np.abs(times / (law if overlap else t_star) - 1) / left_out).max())


def _fallen(dataset: xarray.Dataset, onset: float) -> float:
    """Largest share of distinct tokens that fall where (eta_Z/eta_Y)(V h)^2 is below `onset`."""
    share, slowness = field(dataset, "fallen").values, theory_on(field(dataset, "fallen")).slowness
    return float(share[slowness < onset].max())


def _winners(dataset: xarray.Dataset, panel: str) -> int:
    return int((field(dataset, panel).values == WINNER).sum())


def _where_snapped(dataset: xarray.Dataset, panel: str, quantity: str) -> float:
    """Smallest value of a theoretical quantity where attention has snapped."""
    phases = field(dataset, panel)
    values = np.broadcast_to(getattr(theory_on(phases), quantity), phases.shape)
    return float(values[phases.values >= SNAPPED].min())


def _off_gap(dataset: xarray.Dataset, theory: int) -> float:
    """Largest |gap/law - 1| over what the law leaves out, where that is below 1/2; `theory`: law's place in `_gaps`."""
    columns = [np.concatenate(values) for values in zip(*(_gaps(dataset, panel) for panel in GAPS), strict=True)]
    gap, left_out = columns[0], columns[2]
    off = np.abs(gap / columns[theory] - 1) / left_out
    return float(off[left_out < 0.5].max())


def _growth_of_gap(dataset: xarray.Dataset, low: float, high: float = np.inf) -> Floats:
    """Largest gap divided by its law, over the rates, in the cells where (eta_Z/eta_Y)(V h)^2 is from low to high."""
    gap, law, *_ = _gaps(dataset, "rate_gaps")
    slowness = theory_on(field(dataset, "rate_gaps")).slowness.ravel()
    return (gap / law)[(slowness > low) & (slowness < high)]


# What the theory says of every diagram, with wrong theories as controls.
PROPERTIES = (
    statement(
        f"share of the change of entropy that is done where {SLOWNESS} > {ONSET:g} and t0 is over, smallest",
        MEAN_FIELD,
        lambda dataset: _done(dataset, ONSET),
        at_least=0.5,
        wrong={f"this share where {SLOWNESS} > {ONSET / 100:g}": lambda dataset: _done(dataset, ONSET / 100)},
    ),
    statement(
        f"share of distinct tokens that fall where {SLOWNESS} < {ONSET:g}, largest",
        MEAN_FIELD,
        lambda dataset: _fallen(dataset, ONSET),
        at_most=0.0,
        wrong={f"this share where {SLOWNESS} < {100 * ONSET:g}": lambda dataset: _fallen(dataset, 100 * ONSET)},
    ),
    statement(
        "|measured time of the transition/t* - 1| over K/V, largest, K up to 1e9, V up to 1e15",
        MEAN_FIELD,
        lambda dataset: _off_time(dataset, "peak"),
        at_most=0.02,
        wrong={"t0 in place of t*": lambda dataset: _off_time(dataset, "end")},
    ),
    statement(
        "|measured time of the transition/its law at the overlap - 1| over what the law leaves out, largest",
        MEAN_FIELD,
        lambda dataset: _off_law(dataset, overlap=True),
        at_most=1.0,
        wrong={"t* in place of the law: no effect of the overlap": lambda dataset: _off_law(dataset, overlap=False)},
    ),
    statement(
        "|largest gap/its law - 1| over what the law leaves out, where this is below 1/2",
        MODIFIED,
        lambda dataset: _off_gap(dataset, 1),
        at_most=1.0,
        wrong={
            "max(V rho, 1/(1 + V rho)), from E' for rho and 1/V for the mean field's beta": (
                lambda dataset: _off_gap(dataset, 3)
            ),
            "rho K(K-1), from the printed condition": lambda dataset: _off_gap(dataset, 4),
        },
    ),
    statement(
        "smallest of the largest gaps: none within the tolerance 0.05",
        MODIFIED,
        lambda dataset: min(_gaps(dataset, panel)[0].min() for panel in GAPS),
        at_least=0.05,
    ),
    statement(
        f"largest gap over its law where {SLOWNESS} < {ONSET:g}, over the rates, largest",
        MODIFIED,
        lambda dataset: _growth_of_gap(dataset, 0, ONSET).max(),
        at_most=EXCESS,
        wrong={
            f"the bound for {ONSET:g} up to {10 * ONSET:g}": lambda dataset: _growth_of_gap(
                dataset, 0, 10 * ONSET
            ).max()
        },
    ),
    statement(
        f"largest gap over its law where {SLOWNESS} > {10 * ONSET:g}, over the rates, smallest",
        MODIFIED,
        lambda dataset: _growth_of_gap(dataset, 10 * ONSET).min(),
        at_least=EXCESS,
    ),
    statement(
        "cells in which a winner takes all, in the mean field",
        MEAN_FIELD,
        lambda dataset: _winners(dataset, "flow"),
        at_most=0.0,
    ),
    statement(
        "cells in which a winner takes all, under Eq. (10)",
        MODIFIED,
        lambda dataset: _winners(dataset, "modified"),
        at_least=1.0,
    ),
    statement(
        "2K(K-1) u_+^2 (eta_Z/eta_Y)/rho0^4 where attention has snapped, smallest",
        MODIFIED,
        lambda dataset: _where_snapped(dataset, "modified", "driven_by_transition"),
        at_least=1.0,
        wrong={
            "this bound in the mean field": lambda dataset: _where_snapped(dataset, "flow", "driven_by_transition"),
        },
    ),
    statement(
        f"{SLOWNESS} where attention has snapped, smallest",
        MEAN_FIELD,
        lambda dataset: _where_snapped(dataset, "flow", "slowness"),
        at_least=SNAPS,
    ),
)
