"""Drawing of curves in the house style, in one figure whose lines are moved: a new one would take three times as long."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from snapdyn.explorer.curves import Curves
from snapdyn.figures import house_style, new_figure
from snapdyn.figures.style import TIME_LABEL, power_of_ten

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZE, DPI = (7.0, 5.4), 130
# Names of the tokens and of the marks: key in `Curves`, words, colour or line style.
TOKENS = {
    "common": ("common token", "C0"),
    "dominant": ("dominant distinct token", "C1"),
    "other": ("other distinct tokens together", "C2"),
}
MARKS = {"start": (r"$t_0'$, start", ":"), "peak": (r"$t^*$, peak of $\gamma$", "-"), "end": ("$t_0$, end", "--")}
PANELS = {
    "attention": r"attention $c_n[l]$",
    "gamma": r"speed $\gamma_n$",
    "gain": r"relative gain $r_{l/l'|n}$",
}
MEASURED = {"attention": "mean field", "gamma": "mean field", "gain": "mean field"}
THEORY = {
    "attention": "modified decoder, Eq. (10)",
    "gamma": "modified decoder, Eq. (85)",
    "gain": r"$r(0)\,\chi_l(t)$, Eq. (11)",
}


class Picture:
    """Three panels over one time axis: attention, gamma, relative gain, with the times of the transition.

    Examples
    --------
    >>> from snapdyn.explorer.curves import Settings, compute_curves
    >>> from snapdyn.explorer.drawing import Picture
    >>> picture = Picture()
    >>> picture.png(compute_curves(Settings()))[:4]
    b'\\x89PNG'
    """

    def __init__(self) -> None:
        self.lines: dict[tuple[str, str], Any] = {}
        self.marks: dict[str, list[Any]] = {name: [] for name in MARKS}
        # Fixed margins and no minor ticks: layout and ticks are most of the time of a drawing.
        with house_style({"figure.constrained_layout.use": False}):
            from matplotlib.backends.backend_agg import FigureCanvasAgg

            self.figure: Figure = new_figure(*SIZE, dpi=DPI)
            FigureCanvasAgg(self.figure)
            self.panels = dict(zip(PANELS, self.figure.subplots(3, sharex=True), strict=True))
            self.figure.subplots_adjust(left=0.09, right=0.69, top=0.98, bottom=0.08, hspace=0.12)
            for name, axes in self.panels.items():
                self._prepare(name, axes)
            self.panels["gain"].set_xlabel(TIME_LABEL)

    def _prepare(self, name: str, axes: Any) -> None:
        from matplotlib.lines import Line2D
        from matplotlib.ticker import LogLocator, NullLocator

        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(numticks=12))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_ylabel(PANELS[name])
        for mark, (_, style) in MARKS.items():
            self.marks[mark].append(axes.axvline(1.0, color="0.55", linestyle=style, linewidth=0.8))
        tokens = TOKENS if name == "attention" else {"": ("", "C1" if name == "gain" else "C3")}
        handles = []
        for token, (words, colour) in tokens.items():
            (self.lines[name, token],) = axes.plot([1.0], [1.0], color=colour)
            (self.lines[f"{name} theory", token],) = axes.plot([1.0], [1.0], color=colour, linestyle="--")
            if words:
                handles.append(Line2D([], [], color=colour, label=words))
        colour = "0.3" if handles else colour
        handles += [
            Line2D([], [], color=colour, label=MEASURED[name]),
            Line2D([], [], color=colour, linestyle="--", label=THEORY[name]),
        ]
        if name == "gain":
            title = "dominant over another\ndistinct token"
            axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.02, 1.0), title=title, alignment="left")
        else:
            axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.02, 1.0))
        if name == "attention":
            axes.set_ylim(0.0, 1.0)
        if name == "gamma":
            marks = [Line2D([], [], color="0.55", linestyle=style, linewidth=0.8) for _, style in MARKS.values()]
            first = axes.get_legend()
            self.mark_legend = axes.legend(
                marks, ["" for _ in MARKS], loc="upper left", bbox_to_anchor=(1.02, 0.62),
                title="times of the transition", alignment="left",
            )  # fmt: skip
            axes.add_artist(first)

    def show(self, curves: Curves) -> Figure:
        """Move all lines and marks to these curves, and return the figure."""
        for token in TOKENS:
            self.lines["attention", token].set_data(curves.t, curves.attention[token])
            self.lines["attention theory", token].set_data(curves.t, curves.attention_modified[token])
        self.lines["gamma", ""].set_data(curves.t, curves.gamma)
        self.lines["gamma theory", ""].set_data(curves.t, curves.gamma_modified)
        self.lines["gain", ""].set_data(curves.t, curves.relative_gain)
        self.lines["gain theory", ""].set_data(curves.t, curves.relative_gain_theorem3)
        for text, (name, (words, _)) in zip(self.mark_legend.get_texts(), MARKS.items(), strict=True):
            text.set_text(f"{words}: {power_of_ten(curves.marks[name])}")
            for line in self.marks[name]:
                line.set_xdata([curves.marks[name]] * 2)
        self.panels["gain"].set_xlim(curves.t[0], curves.t[-1])
        self.panels["gamma"].set_ylim(0.0, 1.05 * max(curves.gamma.max(), curves.gamma_modified.max()))
        both = curves.relative_gain, curves.relative_gain_theorem3
        low, high = min(map(min, both)), max(map(max, both))
        margin = 0.05 * (high - low) or 0.05 * abs(high)
        self.panels["gain"].set_ylim(low - margin, high + margin)
        return self.figure

    def png(self, curves: Curves) -> bytes:
        """The drawing of these curves as a PNG file."""
        import numpy as np
        from PIL import Image

        with house_style():
            self.show(curves)
            canvas: Any = self.figure.canvas
            canvas.draw()
            buffer = io.BytesIO()
            Image.fromarray(np.asarray(canvas.buffer_rgba())).save(buffer, "png", compress_level=1)
        return buffer.getvalue()
