"""Drawing of curves in the house style: the lines of one figure are moved, which is faster than a new figure."""

from __future__ import annotations

import io
from typing import Any

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


class Picture:
    """Three panels over one time axis: attention, gamma, relative gain, with the times of the transition.

    To be fast, the drawing has no automatic layout and no minor ticks.

    Examples
    --------
    >>> from snapdyn.explorer.curves import Settings, compute_curves
    >>> from snapdyn.explorer.drawing import Picture
    >>> picture = Picture()
    >>> picture.png(compute_curves(Settings()))[:4]
    b'\\x89PNG'
    """

    def __init__(self) -> None:
        from matplotlib.lines import Line2D
        from matplotlib.ticker import LogLocator, NullLocator

        self.lines: dict[str, Any] = {}  # by their names in `Curves`
        self.marks: dict[str, list[Any]] = {name: [] for name in MARKS}
        with house_style({"figure.constrained_layout.use": False}):
            self.figure: Figure = new_figure(*SIZE, dpi=DPI)
            self.panels = self.figure.subplots(3, sharex=True)
            self.figure.subplots_adjust(left=0.09, right=0.69, top=0.98, bottom=0.08, hspace=0.12)
            self.panels[0].set(xscale="log", ylim=(0.0, 1.0))
            self.panels[0].xaxis.set(major_locator=LogLocator(numticks=12), minor_locator=NullLocator())
            place: dict[str, Any] = {"loc": "upper left", "alignment": "left"}
            for axes, (observable, (title, theory, drawn)) in zip(self.panels, PANELS.items(), strict=True):
                for name, (words, colour) in drawn.items():
                    (self.lines[name],) = axes.plot([1.0], [1.0], color=colour, label=words)
                    (self.lines[f"{name} theory"],) = axes.plot([1.0], [1.0], "--", color=colour)
                for mark, (_, style) in MARKS.items():
                    self.marks[mark].append(axes.axvline(1.0, color="0.55", linestyle=style, linewidth=0.8))
                dashed = Line2D([], [], color="0.3", linestyle="--", label=theory)
                handles = [*(self.lines[name] for name in drawn), dashed]
                legend = axes.legend(handles=handles, title=title, bbox_to_anchor=(1.02, 1.0), **place)
                if observable == "speed":
                    axes.add_artist(legend)  # another legend follows
                axes.set_ylabel(OBSERVABLES[observable].label)
                axes.yaxis.set_label_coords(-0.095, 0.5)
            marks, title = [lines[1] for lines in self.marks.values()], "times of the transition"
            legend = self.panels[1].legend(marks, [""] * 3, title=title, bbox_to_anchor=(1.02, 0.62), **place)
            self.times = legend.get_texts()
            self.panels[2].set_xlabel(TIME_LABEL)

    def show(self, curves: Curves) -> Figure:
        """Move all lines and marks to these curves, and return the figure."""
        named = curves.named
        for name, line in self.lines.items():
            line.set_data(curves.t, named[name])
        for text, (name, (words, _)) in zip(self.times, MARKS.items(), strict=True):
            text.set_text(f"{TIMES[name]}, {words}: {power_of_ten(curves.marks[name])}")
            for line in self.marks[name]:
                line.set_xdata([curves.marks[name]] * 2)
        for axes in self.panels[1:]:
            axes.relim()
            axes.autoscale(axis="y")
            axes.autoscale_view(scalex=False)
        self.panels[1].set_ylim(bottom=0.0)
        self.panels[2].set_xlim(curves.t[[0, -1]])
        return self.figure

    def png(self, curves: Curves) -> bytes:
        """The drawing of these curves as a PNG file."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        buffer = io.BytesIO()
        with house_style():
            FigureCanvasAgg(self.show(curves)).print_png(buffer, pil_kwargs={"compress_level": 1})
        return buffer.getvalue()
