"""Phase diagrams of training: entropy, fallen tokens, the transition's time, phases, the ladder's largest gap."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated

import numpy as np
import xarray
from pydantic import Field

from snapdyn import analytic
from snapdyn.dynamics.classes.table import Floats
from snapdyn.figures.declaration import Whole, statement
from snapdyn.figures.layout import fitting_columns, legend_above, letter_panels
from snapdyn.figures.style import DOUBLE_COLUMN, Figure, new_figure, note_size
from snapdyn.validation import observables
from snapdyn.validation.phase_panels import ONSET, dataset_of, panel_of, panel_theory, panels, settings_of

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
# Title of each diagram; it may hold {section[key]} of its settings.
TITLES = {
    "entropy": "final entropy, mean field",
    "fallen": "distinct tokens that fall, mean field",
    "times": "transition, mean field, $K$ up to $10^9$",
    "gaps": "largest gap of $z$, $K = {classes[num_classes]}$",
    "number_gaps": "largest gap of $z$, common token of {classes[common_probability]:g}",
    "rate_gaps": "largest gap of $z$, $K = {classes[num_classes]}$, $V = {classes[vocab_size]}$",
    "flow": r"mean field, $\eta_Y = {system[eta_Y]:g}$",
    "modified": r"Eq. (10), $\eta_Y = {system[eta_Y]:g}$",
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
        The share of fallen tokens is a mean over 2 or 8 random instances.
    num_classes, vocab_size, num_distinct, common_probability, gap_probability, last_entropy, last_time
        See the annotations of these arguments.
    cells, instances
        See the annotations of these arguments.

    Returns
    -------
    xarray.Dataset
        PANEL_VARIABLE over (PANEL_Y, PANEL_X), panels as in TITLES; the attribute settings_PANEL has the sections of
        the sweep file that gives the same diagram, as JSON; gaps are those of z, whereas such a sweep takes the largest
        over all observables. fallen is a mean over random instances. NaN where V < K.
    """
    count = instances or (8 if level == "full" else 2)
    probabilities, ends = (common_probability, gap_probability), (last_entropy, last_time)
    return dataset_of(panels(cells, count, num_classes, vocab_size, num_distinct, *probabilities, *ends))


def draw(dataset: xarray.Dataset, width: float = DOUBLE_COLUMN) -> Figure:
    """Draw the eight diagrams, each with its colours and legend."""
    from snapdyn.figures.phase_diagrams import draw_panel

    columns = fitting_columns(width, 2, 2.6)
    rows = len(TITLES) // columns
    figure = new_figure(width, 2.7 * rows)
    parts = figure.subfigures(rows, columns, squeeze=False).flat
    drawn = []
    for part, (name, title) in zip(parts, TITLES.items(), strict=True):
        axes = part.subplots()
        data = panel_of(dataset, name)
        ((variable, values),) = data.items()
        y, x = map(str, values.dims)
        handles = draw_panel(axes, data, x, y, str(variable))
        axes.set_title(title.format(**settings_of(dataset, name)) if "[" in title else title)
        legend_above(
            part, handles, [str(handle.get_label()) for handle in handles], "outside lower center",
            fontsize=note_size(0.93), most_columns=2,
        )  # fmt: skip
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
    gap, theory = panel_of(dataset, panel).largest_gap.values, panel_theory(dataset, panel)
    measured = np.isfinite(gap)
    rho, K, V, eta_Y, slowness = (
        np.broadcast_to(x, gap.shape)[measured] for x in (theory.rho, theory.K, theory.V, theory.eta_Y, theory.slowness)
    )
    run = settings_of(dataset, panel)["ladder"]
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
    entropy, theory = panel_of(dataset, "entropy").entropy.values, panel_theory(dataset, "entropy")
    over = np.broadcast_to(theory.time("end") < theory.T, entropy.shape)
    low, high = entropy.min(axis=0), entropy.max(axis=0)  # over eta_Z
    done = (entropy - low) / (high - low)
    return float(done[over & (theory.slowness > onset)].min())


def _transitions(dataset: xarray.Dataset) -> tuple[Floats, Floats, Floats]:
    """Measured times of the transition, K and V of the cells that have one."""
    times = panel_of(dataset, "times").transition_time
    K, V = np.broadcast_arrays(times.num_classes.values[:, None], times.vocab_size.values)
    measured = np.isfinite(times.values)
    return times.values[measured], K[measured], V[measured]


def _off_time(dataset: xarray.Dataset, kind: str) -> float:
    """Largest |measured time/theoretical time - 1|, divided by K/V.

    The outputs of the K-1 overlapping classes are ahead of the outputs of no class, which shifts the time by a relative
    rho (K-1)/V while rho ln V << 1.
    """
    times, K, V = _transitions(dataset)
    theory = np.asarray(analytic.transition_time(K, V, 1.0, kind=kind))
    return float((np.maximum(np.abs(times / theory - 1) - SOLVER, 0.0) / (K / V)).max())


def _off_law(dataset: xarray.Dataset, overlap: bool) -> float:
    """Largest |measured time/law - 1|, divided by what the law leaves out; without `overlap` the law is t*."""
    times, K, V = _transitions(dataset)
    theory, cells = panel_theory(dataset, "times"), panel_of(dataset, "times").transition_time
    rho, eta_Z = np.broadcast_to(theory.rho, cells.shape)[np.isfinite(cells.values)], float(theory.eta_Z)
    t_star = np.asarray(analytic.transition_time(K, V, 1.0))
    law = np.asarray(analytic.transition_time_with_overlap(K, V, 1.0, rho))
    # Attention moves by the order of K (eta_Z/eta_Y) u*^2 until then, and changes the shift by that part.
    left_out = K * eta_Z * analytic.u_peak(V) ** 2 * (law / t_star - 1) + SOLVER
    return float((np.abs(times / (law if overlap else t_star) - 1) / left_out).max())


def _fallen(dataset: xarray.Dataset, onset: float) -> float:
    """Largest share of distinct tokens that fall where (eta_Z/eta_Y)(V h)^2 is below `onset`."""
    share, slowness = panel_of(dataset, "fallen").fallen_share.values, panel_theory(dataset, "fallen").slowness
    return float(share[slowness < onset].max())


def _winners(dataset: xarray.Dataset, panel: str) -> int:
    return int((panel_of(dataset, panel).phase.values == observables.WINNER).sum())


def _where_snapped(dataset: xarray.Dataset, panel: str, quantity: str) -> float:
    """Smallest value of a theoretical quantity where attention has snapped."""
    still = panel_of(dataset, panel).phase.values >= observables.SNAPPED
    return float(np.broadcast_to(getattr(panel_theory(dataset, panel), quantity), still.shape)[still].min())


def _off_gap(dataset: xarray.Dataset, theory: int) -> float:
    """Largest |gap/law - 1| over what the law leaves out, where that is below 1/2; `theory`: law's place in `_gaps`."""
    columns = [np.concatenate(values) for values in zip(*(_gaps(dataset, panel) for panel in GAPS), strict=True)]
    gap, left_out = columns[0], columns[2]
    off = np.abs(gap / columns[theory] - 1) / left_out
    return float(off[left_out < 0.5].max())


def _growth_of_gap(dataset: xarray.Dataset) -> tuple[Floats, Floats]:
    """Largest gap divided by its law, on the cells of the diagram of the rates, and (eta_Z/eta_Y)(V h)^2 there."""
    gap, law, *_ = _gaps(dataset, "rate_gaps")
    return gap / law, panel_theory(dataset, "rate_gaps").slowness.ravel()


def _largest_growth(dataset: xarray.Dataset, below: float) -> float:
    growth, slowness = _growth_of_gap(dataset)
    return float(growth[slowness < below].max())


def _least_growth(dataset: xarray.Dataset, beyond: float) -> float:
    growth, slowness = _growth_of_gap(dataset)
    return float(growth[slowness > beyond].min())


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
        lambda dataset: _largest_growth(dataset, ONSET),
        at_most=EXCESS,
        wrong={f"the bound for {ONSET:g} up to {10 * ONSET:g}": lambda dataset: _largest_growth(dataset, 10 * ONSET)},
    ),
    statement(
        f"largest gap over its law where {SLOWNESS} > {10 * ONSET:g}, over the rates, smallest",
        MODIFIED,
        lambda dataset: _least_growth(dataset, 10 * ONSET),
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
