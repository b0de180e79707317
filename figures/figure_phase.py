"""Phase diagrams of training: entropy, fallen tokens, the transition's time, phases, the ladder's largest gap."""

from __future__ import annotations

from typing import TYPE_CHECKING

import xarray

from snapdyn.figures.layout import fitting_columns, legend_above, letter_panels
from snapdyn.figures.phase_checks import check
from snapdyn.figures.phase_panels import TITLES, compute, panel_of, title_of
from snapdyn.figures.style import DOUBLE_COLUMN, new_figure, note_size

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["check", "compute", "draw"]

TITLE = "Phase diagrams of training"
CAPTION = (
    "First row: mean field over the rates. Left: most of the change of the final entropy (K = 5, V = 1000, a common "
    "token of probability 0.5, t = 1000) comes after the transition and before (eta_Z/eta_Y)(V h)^2 reaches 4.5. "
    "Right: distinct tokens fall only beyond 4.5 (random classes, K = 3, V = 100, t = 1e4; mean of the seeds). Second"
    " row, left: the measured transition lies on t*, within 2 % of K/V, and not on t0' or t0, for K up to 1e9 and V "
    "up to 1e15 (attention slow for all K classes together, eta_Z/eta_Y = 1e-14); this holds at small overlap only "
    "(here rho = 0.010): the time grows with rho, up to t*/(1 - rho) at K = V, and follows the law "
    "transition_time_with_overlap. Next three diagrams: largest gap of z on the ladder, from the mean field down (rho"
    " up to 0.41); the one over K, up to 1e6, has eta_Z/eta_Y = 1e-12 and t up to 1e8. With slow attention it follows"
    " the law largest_ladder_gap, or (K-1) rho, the gap of Eq. (13), where that is larger; max(V rho, 1/(1 + V rho)) "
    "is its limit for rho V h << 1 and K << V. Where V rho is large Eq. (10) breaks, where it is small the leading "
    "beta breaks, so that in these diagrams no ladder has all rungs within the tolerance; the printed condition rho <"
    " 1/(K(K-1)) has no visible effect. Over the rates the gap is at most 1.1 times this law below 4.5, and more "
    "beyond 45, because the decoder remembers earlier attention. Last row, K = 2, V = 100, t = 1e4: attention is "
    "still moving at the end, has snapped (over the last decade of t it moves at less than a tenth of its largest "
    "speed, per unit of ln t), or has more than half of its weight on one distinct token (a winner takes all), which "
    "happens under Eq. (10) only. Under Eq. (10) attention has snapped only above the line 4 A Gamma(t0) = 1, by a "
    "factor of 6 or more in eta_Z; in the mean field only where (eta_Z/eta_Y)(V h)^2 is above 3.5."
)
# They hold at every overlap and for all K and V that the diagram shows.
GENERAL = (
    "|measured time of the transition/its law at the overlap - 1| over what is left out, largest",
    "wrong theory: the same with t*, which has no overlap",
)


def draw(dataset: xarray.Dataset, width: float = DOUBLE_COLUMN) -> Figure:
    """Draw the eight diagrams, each with its colours and legend."""
    from snapdyn.figures.phase_diagrams import draw_panel

    columns = fitting_columns(width, 2, 2.6)
    rows = len(TITLES) // columns
    figure = new_figure(width, 2.7 * rows)
    parts = figure.subfigures(rows, columns, squeeze=False).flat
    panels = []
    for part, (name, (variable, _)) in zip(parts, TITLES.items(), strict=True):
        axes = part.subplots()
        data = panel_of(dataset, name)
        y, x = map(str, data[variable].dims)
        handles = draw_panel(axes, data, x, y, variable)
        axes.set_title(title_of(dataset, name))
        legend_above(
            part, handles, [str(handle.get_label()) for handle in handles], "outside lower center",
            fontsize=note_size(0.93), most_columns=2,
        )  # fmt: skip
        panels.append(axes)
    letter_panels(panels)
    return figure
