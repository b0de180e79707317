"""Styles: presets, files, widths, LaTeX, formats."""

from pathlib import Path
from shutil import which
from typing import Any

import matplotlib
import numpy as np
import pytest

from snapdyn.core.errors import InputError
from snapdyn.figures import house_style, new_figure, write
from snapdyn.figures.style import figure_width, power_of_ten


@pytest.mark.parametrize(
    ("style", "width"), [("neurips", 5.5), ("icml", 3.25), ("jmlr", 6.0), ("slides", 12.0), (None, 7.0)]
)
def test_presets(style: str | None, width: float, caplog: pytest.LogCaptureFixture) -> None:
    """Assert the width of each preset where none is asked for, the palette of the house, and a letter for each sign.

    A user's settings are as before afterwards.
    """
    before = dict(matplotlib.rcParams)
    assert figure_width(None, style, 7.0) == width
    assert figure_width(4.0, style, 7.0) == 4.0
    with house_style():
        colours = matplotlib.rcParams["axes.prop_cycle"]
    with house_style(style=style):
        assert matplotlib.rcParams["axes.prop_cycle"] == colours
        assert (matplotlib.rcParams["font.size"] > 8) == (style is not None)
        figure = new_figure(3.0, 1.0)
        figure.suptitle(f"$t$ = {power_of_ten(1887.4)}, {power_of_ten(2.5e-7)}: $t_0'$, $\\eta_Y$")
        figure.draw_without_rendering()
    assert not caplog.records
    assert dict(matplotlib.rcParams) == before
    with house_style({"font.size": 16}):  # letters twice as large give a figure twice as high
        assert new_figure(5.0, 2.0).get_size_inches().tolist() == [5.0, 4.0]


def test_a_style_file_is_read_and_checked(tmp_path: Path) -> None:
    """Assert that a .mplstyle file is applied on the house style, and that wrong lines and files are refused."""
    good, bad = tmp_path / "own.mplstyle", tmp_path / "bad.mplstyle"
    good.write_text("lines.linewidth: 3\nfigure.figsize: 4.5, 3\n", encoding="utf-8")
    bad.write_text("lines.linewidth: thick\n", encoding="utf-8")
    with house_style(style=good):
        assert matplotlib.rcParams["lines.linewidth"] == 3
        assert matplotlib.rcParams["font.size"] == 8
    assert figure_width(None, good, 7.0) == 4.5
    for style, message in (
        (bad, "which|refuses"),
        (tmp_path / "none.mplstyle", "can be read"),
        ("icmll", "did you mean 'icml'"),
        ({"no.such": 1}, "refuses"),
        *([] if which("latex") else [({"text.usetex": True}, "install it, or draw without")]),
    ):
        with pytest.raises(InputError, match=message), house_style(style=style):
            pass


def test_formats_and_resolution(tmp_path: Path) -> None:
    """Assert the files of the asked formats only, the same bytes twice, and pixels that follow the resolution."""
    from PIL import Image

    first, again = (
        write("8", tmp_path / name, formats=["svg", "png"], style={"savefig.dpi": 50}, width=4.0)[0]
        for name in ("first", "again")
    )
    assert {path.name for path in (tmp_path / "first").iterdir()} == {
        "figure_8.svg", "figure_8.png", "figure_8.nc", "figure_8.provenance.json",
    }  # fmt: skip
    assert first.pictures["svg"].read_bytes() == again.pictures["svg"].read_bytes()
    with Image.open(first.png) as image:
        assert image.size[0] == 200


@pytest.mark.parametrize(
    "look",
    [{"style": {"savefig.dpi": 2400}, "width": 40}, {"style": {"savefig.dpi": 1e9}}, {"style": {"savefig.dpi": 1e-3}}],
)
def test_bitmaps_that_cannot_be_drawn_are_refused(look: dict[str, Any], tmp_path: Path) -> None:
    """Assert one sentence for bitmaps without a dot and for those beyond matplotlib or memory."""
    with pytest.raises(InputError, match=r"dots in all, received \d+ x \d+; change the width"):
        write("8", tmp_path, formats=["png"], **look)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (43.42, "43.4"),
        (1887.4, "$1\\,887$"),
        (1e5, "$10^{5}$"),
        (2.5e-7, "$2.5\\times10^{-7}$"),
        (999.9, "$1\\,000$"),
    ],
)
def test_numbers_in_figures(value: float, text: str) -> None:
    """Assert digits in groups of three, and raised exponents where a number is very large or small."""
    assert power_of_ten(value) == text
    assert np.isfinite(value)
