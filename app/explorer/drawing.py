"""Drawing of curves in the house style: the lines of one figure are moved, which is faster than a new figure."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from snapdyn.dynamics.observables import OBSERVABLES
from snapdyn.explorer.curves import Curves
from snapdyn.figures import house_style, new_figure
from snapdyn.figures.style import TIME_LABEL, TIMES, Figure, power_of_ten

SIZE, DPI = (7.0, 5.4), 130
RIGHT = 0.69  # end of the panels, as a share of the width
# Names of the tokens and of the marks: key in `Curves`, words, colour or line style.
TOKENS = {
    "common": ("common token", "C0"),
    "dominant": ("dominant distinct token", "C1"),
    "other": ("other distinct tokens together", "C2"),
}
MARKS: dict[str, tuple[str, Any]] = {
    "start": ("early law ends", ":"),
    "peak": (r"peak of $\gamma$", "-"),
    "end": ("late law begins", "--"),
}
PANELS = {
    panel: OBSERVABLES[name].label
    for panel, name in (("attention", "attention"), ("gamma", "speed"), ("gain", "relative_gain"))
}
THEORY = {
    "attention": "modified decoder, Eq. (10)",
    "gamma": "modified decoder, Eq. (85)",
    "gain": r"$r(0)\,\chi_l(t)$, Eq. (11)",
}


class Picture:
    """Three panels over one time axis: attention, gamma, relative gain, with the times of the transition.

    To be fast, the drawing has no automatic layout and no minor ticks, and legends that stay the same are drawn once
    and copied.

    Examples
    --------
    >>> from snapdyn.explorer.curves import Settings, compute_curves
    >>> from snapdyn.explorer.drawing import Picture
    >>> picture = Picture()
    >>> picture.png(compute_curves(Settings()))[:4]
    b'\\x89PNG'
    """

    def __init__(self) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.lines import Line2D

        self.lines: dict[str, Any] = {}  # by their names in `Curves`
        self.marks: dict[str, list[Any]] = {name: [] for name in MARKS}
        self.legends: list[Any] = []
        self._drawn_legends: Any = None
        with house_style({"figure.constrained_layout.use": False}):
            self.figure: Figure = new_figure(*SIZE, dpi=DPI)
            FigureCanvasAgg(self.figure)
            self.panels = dict(zip(PANELS, self.figure.subplots(3, sharex=True), strict=True))
            self.figure.subplots_adjust(left=0.09, right=RIGHT, top=0.98, bottom=0.08, hspace=0.12)
            for name, axes in self.panels.items():
                self._prepare(name, axes)
            self.panels["attention"].set_ylim(0.0, 1.0)
            self.panels["gain"].set_xlabel(TIME_LABEL)
            handles = [Line2D([], [], color="0.55", linestyle=style, linewidth=0.8) for _, style in MARKS.values()]
            self.mark_legend = self._legend("gamma", handles, "times of the transition", 0.62, [""] * len(MARKS))

    def _prepare(self, name: str, axes: Any) -> None:
        from matplotlib.lines import Line2D
        from matplotlib.ticker import LogLocator, NullLocator

        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(numticks=12))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_ylabel(PANELS[name])
        axes.yaxis.set_label_coords(-0.095, 0.5)
        for mark, (_, style) in MARKS.items():
            self.marks[mark].append(axes.axvline(1.0, color="0.55", linestyle=style, linewidth=0.8))
        drawn = TOKENS if name == "attention" else {name: ("", {"gamma": "C3", "gain": "C1"}[name])}
        for curve, (_, colour) in drawn.items():
            (self.lines[curve],) = axes.plot([1.0], [1.0], color=colour)
            (self.lines[f"{curve} theory"],) = axes.plot([1.0], [1.0], "--", color=colour)
        handles = [Line2D([], [], color=colour, label=words) for words, colour in drawn.values() if words]
        colour = "0.3" if handles else colour
        handles.append(Line2D([], [], color=colour, label="mean field"))
        handles.append(Line2D([], [], color=colour, linestyle="--", label=THEORY[name]))
        title = "dominant over another\ndistinct token" if name == "gain" else None
        self.legends.append(self._legend(name, handles, title, 1.0))

    def _legend(self, panel: str, handles: list[Any], title: str | None, top: float, labels: Any = None) -> Any:
        """A legend on the right of a panel; canvas.draw() leaves it out, because it is animated."""
        from matplotlib.legend import Legend

        axes = self.panels[panel]
        names = [handle.get_label() for handle in handles] if labels is None else labels
        place: Any = {"loc": "upper left", "bbox_to_anchor": (1.02, top)}
        legend = Legend(axes, handles, names, title=title, alignment="left", **place)
        axes.add_artist(legend)
        legend.set_animated(True)
        return legend

    def show(self, curves: Curves) -> Figure:
        """Move all lines and marks to these curves, and return the figure."""
        named = curves.named
        for name, line in self.lines.items():
            line.set_data(curves.t, named[name])
        for text, (name, (words, _)) in zip(self.mark_legend.get_texts(), MARKS.items(), strict=True):
            text.set_text(f"{TIMES[name]}, {words}: {power_of_ten(curves.marks[name])}")
            for line in self.marks[name]:
                line.set_xdata([curves.marks[name]] * 2)
        self.panels["gain"].set_xlim(curves.t[0], curves.t[-1])
        self.panels["gamma"].set_ylim(0.0, 1.05 * max(curves.gamma.max(), curves.gamma_modified.max()))
        both = np.concatenate([curves.relative_gain, curves.relative_gain_theorem3])
        margin = 0.05 * np.ptp(both) or 0.05 * abs(both.max())
        self.panels["gain"].set_ylim(both.min() - margin, both.max() + margin)
        return self.figure

    def png(self, curves: Curves) -> bytes:
        """The drawing of these curves as a PNG file."""
        from matplotlib.transforms import Bbox
        from PIL import Image

        with house_style():
            self.show(curves)
            canvas: Any = self.figure.canvas
            canvas.draw()
            if self._drawn_legends is None:
                for legend in self.legends:
                    legend.axes.draw_artist(legend)
                box = self.figure.bbox
                margin = Bbox.from_bounds(box.width * (RIGHT + 0.01), 0.0, box.width * (0.99 - RIGHT), box.height)
                self._drawn_legends = canvas.copy_from_bbox(margin)
            canvas.restore_region(self._drawn_legends)
            self.mark_legend.axes.draw_artist(self.mark_legend)
            buffer = io.BytesIO()
            Image.fromarray(np.asarray(canvas.buffer_rgba())).save(buffer, "png", compress_level=1)
        return buffer.getvalue()
