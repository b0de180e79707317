"""Phase diagrams of training: entropy, fallen tokens, the transition's time, phases, the ladder's largest gap."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import xarray
from pydantic import Field

from snapdyn.figures.layout import fitting_columns, legend_above, letter_panels
from snapdyn.figures.parameters import Whole
from snapdyn.figures.style import DOUBLE_COLUMN, new_figure, note_size
from snapdyn.validation.phases.checks import PROPERTIES
from snapdyn.validation.phases.panels import dataset_of, panel_of, panels, settings_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PROPERTIES", "compute", "draw"]

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
