"""The style that all figures share, the widths of the printed page, and styles for journals and slides."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Any

from snapdyn.core.errors import InputError, file_path, positive, real, shown, suggest

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure
else:  # names for annotations: the first drawing loads matplotlib
    Axes = Figure = Any

STYLE = "snapdyn.figures.snapdyn"
SINGLE_COLUMN, DOUBLE_COLUMN = 3.4, 7.0  # inches
TEXT_SIZE = 8.0  # points, of the house style: heights and least widths of panels are meant for this size
# Styles by name, each a file NAME.mplstyle beside this one.
PRESETS = ("neurips", "icml", "jmlr", "slides")
NARROWEST, WIDEST = 2.0, 40.0  # inches
# The time of theory: attributes of data, label of an axis.
CLOCK = {"units": "batch-size-1 steps"}
LINE_WIDTH = 1.2  # points, of the house style: widths of thinner lines are meant for this one
# Line styles that are told apart without colour, in the order of the colours.
LINE_STYLES: tuple[Any, ...] = ("-", "--", "-.", (0, (4, 1, 1, 1, 1, 1)), (0, (2, 1)), (0, (6, 2)), ":")
CIRCLES: dict[str, Any] = {"linestyle": "", "marker": "o", "markerfacecolor": "white"}
TIME_LABEL = "$t$ (batch-size-1 steps)"
# Times of the transition: its start, the peak of gamma, its end.
TIMES = {"start": "$t_0'$", "peak": "$t^*$", "end": "$t_0$"}

Style = str | os.PathLike[str] | Mapping[str, Any]


@contextmanager
def house_style(style: Style | None = None) -> Iterator[None]:
    """Draw and save in the project's style, whatever the user's own matplotlib settings are.

    Parameters
    ----------
    style : str, path or mapping, optional
        "neurips", "icml", "jmlr", "slides", a .mplstyle file, or a mapping of rcParams; applied on top of the house
        style (8 point sans-serif, colours of Okabe and Ito).

    Raises
    ------
    InputError
        The style is unknown, its file cannot be read or has a line that matplotlib does not understand, or LaTeX is
        not installed.

    Examples
    --------
    >>> import matplotlib
    >>> from snapdyn.figures import house_style
    >>> with house_style(style="icml"):
    ...     matplotlib.rcParams["font.family"]
    ['serif']
    """
    import matplotlib.style

    settings = style_settings(style)
    if settings.get("text.usetex") and which("latex") is None:
        raise InputError(
            "expected LaTeX to be installed for text.usetex, received no program latex; install it, or draw without it"
        )
    with matplotlib.style.context([STYLE, settings], after_reset=True):
        yield


def style_settings(style: Style | None) -> dict[str, Any]:
    """Return the rcParams of a style: those of a preset, of a .mplstyle file, or the mapping itself."""
    import matplotlib

    if style is None:
        return {}
    path: Path | None = None
    if not isinstance(style, Mapping):
        path = Path(__file__).with_name(f"{style}.mplstyle") if style in PRESETS else file_path("style", style)
        if path.suffix != ".mplstyle":
            raise InputError(
                f"expected style to be one of {', '.join(PRESETS)}, or a .mplstyle file, received {shown(str(style))}"
                f"{suggest(str(style), PRESETS)}"
            )
    source = "style" if path is None else str(path)
    try:
        settings: Any = (
            matplotlib.RcParams(style)
            if path is None
            else matplotlib.rc_params_from_file(path, fail_on_error=True, use_default_template=False)
        )
        return dict(settings)
    except OSError as error:
        raise InputError(
            f"expected a style file that can be read, received {source!r} ({error.strerror}); check the path"
        ) from error
    except Exception as error:  # what matplotlib raises depends on the line
        raise InputError(
            f"expected settings of matplotlib in {source!r}, received one that it refuses ({error}); correct it"
        ) from error


def figure_width(width: float | None, style: Style | None, default: float) -> float:
    """Return the width in inches: the given one, else that of the style (figure.figsize), else `default`."""
    if width is None:
        size = style_settings(style).get("figure.figsize")
        return float(size[0]) if size is not None else default
    width = real("width", width, at_least=NARROWEST, at_most=WIDEST, advice="give inches")
    return width


def text_scale() -> float:
    """Return the text size of the current style, divided by that of the house style."""
    import matplotlib

    return float(matplotlib.rcParams["font.size"]) / TEXT_SIZE


def line_width(points: float) -> float:
    """Return the width of a line that is `points` wide in the house style, in the current style: wider on slides."""
    import matplotlib

    return points * float(matplotlib.rcParams["lines.linewidth"]) / LINE_WIDTH


def curve_style(number: int) -> dict[str, Any]:
    """Return colour and line style of curve `number` of a panel."""
    return {"color": f"C{number}", "linestyle": LINE_STYLES[number % len(LINE_STYLES)]}


def thin_dotted(points: float = 0.8) -> dict[str, Any]:
    """Return the style of a line that marks a time."""
    return {"linestyle": ":", "linewidth": line_width(points)}


def note_size(factor: float = 1.0) -> float:
    """Return the size of notes in a figure, points: that of legends, times `factor`."""
    import matplotlib
    from matplotlib.font_manager import FontProperties

    return factor * FontProperties(size=matplotlib.rcParams["legend.fontsize"]).get_size_in_points()


def new_figure(width: float, height: float, dpi: float | None = None) -> Figure:
    """Return an empty figure, `width` inches wide; `height` grows with the text of the current style.

    matplotlib is loaded here, at the first drawing, so that the register of figures can be read without it.

    Parameters
    ----------
    width : float
        Inches.
    height : float
        Inches, for the 8 point text of the house style.
    dpi : float, optional
        Dots per inch of bitmaps.

    Returns
    -------
    matplotlib Figure

    Examples
    --------
    >>> from snapdyn.figures import house_style, new_figure
    >>> with house_style(style="slides"):  # 16 points
    ...     new_figure(5.0, 2.0).get_size_inches().tolist()
    [5.0, 4.0]
    """
    from matplotlib.figure import Figure

    size = positive("width", width), positive("height", height) * text_scale()
    return Figure(figsize=size, dpi=None if dpi is None else positive("dpi", dpi))


def power_of_ten(value: float, digits: int = 3) -> str:
    """Write a number as mathtext: 1 890, 0.25, 10^5, 3.2 x 10^-7 with raised exponents.

    Examples
    --------
    >>> power_of_ten(1890), power_of_ten(1e5), power_of_ten(0.25), power_of_ten(3.2e-7)
    ('$1\\\\,890$', '$10^{5}$', '0.25', '$3.2\\\\times10^{-7}$')
    """
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        if abs(value) >= 999.5:
            return f"${value:,.0f}$".replace(",", "\\,")  # a thin space that every mathematical font has
        return f"{value:.{digits}g}"
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    mantissa = f"{float(mantissa):g}"
    power = f"10^{{{int(exponent)}}}"
    return f"${power}$" if mantissa == "1" else f"${mantissa}\\times{power}$"
