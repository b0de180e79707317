"""Drawing of curves in the house style."""

from __future__ import annotations

import io

from snapdyn.dynamics.observables import OBSERVABLES
from snapdyn.explorer.curves import Curves
from snapdyn.figures import house_style, new_figure
from snapdyn.figures.style import TIME_LABEL, TIMES, Figure, power_of_ten

SIZE, DPI = (7.0, 5.4), 130
# Times of the transition: words and line style.
MARKS = {"start": ("early law ends", ":"), "peak": (r"peak of $\gamma$", "-"), "end": ("late law begins", "--")}
TOKENS = {
    "common": ("common token", "C0"),
    "dominant": ("dominant distinct token", "C1"),
    "other": ("other distinct tokens together", "C2"),
}
# By observable: the title of the legend, the theory, and label and colour of each curve in `Curves.named`.
PANELS: dict[str, tuple[str | None, str, dict[str, tuple[str, str]]]] = {
    "attention": (None, "modified decoder, Eq. (10)", TOKENS),
    "speed": (None, "modified decoder, Eq. (85)", {"gamma": ("mean field", "C3")}),
    "relative_gain": (
        "dominant over another\ndistinct token",
        r"$r(0)\,\chi_l(t)$, Eq. (11)",
        {"gain": ("mean field", "C1")},
    ),
}


def draw(curves: Curves) -> Figure:
    """Draw three panels over one time axis: attention, gamma, relative gain, with the times of the transition.

    To be fast, the drawing has no automatic layout and no minor ticks.
    """
    named = curves.named
    figure = new_figure(*SIZE, dpi=DPI)
    panels = figure.subplots(3, sharex=True)
    figure.subplots_adjust(left=0.09, right=0.69, top=0.98, bottom=0.08, hspace=0.12)
    for axes, (observable, (title, theory, drawn)) in zip(panels, PANELS.items(), strict=True):
        for name, (words, colour) in drawn.items():
            run = words if curves.marks else words.replace("mean field", "mean map")
            axes.plot(curves.t, named[name], color=colour, label=run)
            if curves.marks:
                axes.plot(curves.t, named[f"{name} theory"], "--", color=colour)
        if curves.marks:
            axes.plot([], [], "--", color="0.3", label=theory)
        for mark, (words, style) in MARKS.items() if curves.marks else ():
            label = f"{TIMES[mark]}, {words}: {power_of_ten(curves.marks[mark])}" if observable == "speed" else None
            axes.axvline(curves.marks[mark], color="0.55", linestyle=style, linewidth=0.8, label=label)
        axes.legend(title=title, loc="upper left", bbox_to_anchor=(1.02, 1.0), alignment="left")
        axes.set_ylabel(OBSERVABLES[observable].label)
        axes.yaxis.set_label_coords(-0.095, 0.5)
    panels[0].set(xscale="log", ylim=(0.0, 1.0))
    panels[1].set_ylim(bottom=0.0)
    panels[2].set(xlim=curves.t[[0, -1]], xlabel=TIME_LABEL if curves.marks else "updates $k$")
    panels[2].xaxis.minorticks_off()
    return figure


def png(curves: Curves) -> bytes:
    """Return the drawing of these curves as a PNG file.

    Examples
    --------
    >>> from snapdyn.explorer.curves import Settings, compute_curves
    >>> from snapdyn.explorer.drawing import png
    >>> png(compute_curves(Settings()))[:4]
    b'\\x89PNG'
    """
    buffer = io.BytesIO()
    with house_style({"figure.constrained_layout.use": False}):
        draw(curves).savefig(buffer, format="png", dpi=DPI, pil_kwargs={"compress_level": 1})
    return buffer.getvalue()
