"""No two texts of a figure overlap and none leaves the page: every figure, in a column and across the page."""

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import xarray
from matplotlib.figure import Figure

import snapdyn as sd
from snapdyn.core.prose import as_mathtext
from snapdyn.figures import FIGURES
from snapdyn.figures.panels import fit_texts, fitting_columns, words_of, wrap
from snapdyn.figures.style import PRESETS, house_style
from tests.text_boxes import overlaps

PAGE = 9.0  # inches of text on a page of a journal
SEVERAL_PAGES = ("maps", "phase")  # in a column of 3.25 inches; drawn there by make full alone
COLUMN = {"width": 3.25}
LOOKS: list[dict[str, Any]] = [{"width": 5.5}, *({"style": style} for style in PRESETS)]
EVERY_LOOK = bool(os.environ.get("SNAPDYN_EVERY_PRESET"))  # set by make full


@pytest.mark.parametrize(
    ("id_", "look"),
    [
        (id_, look)
        for id_ in FIGURES
        for look in [*([] if id_ in SEVERAL_PAGES else [COLUMN]), *(LOOKS if EVERY_LOOK else [])]
    ],
    ids=str,
)
def test_texts_of_figures_do_not_overlap(
    id_: str, look: dict[str, Any], data: Callable[[str], xarray.Dataset], caplog: pytest.LogCaptureFixture
) -> None:
    """Assert that boxes of titles, labels, notes, legends and tick labels are apart, and the width is as asked."""
    figure = sd.figures.draw(id_, data(id_), **look)
    with house_style(style=look.get("style")):
        assert overlaps(figure) == []
    assert not caplog.records  # a font lacks a sign
    assert figure.get_figwidth() == look.get("width", figure.get_figwidth())
    if look.get("style") != "slides" and id_ not in SEVERAL_PAGES:
        assert figure.get_figheight() <= PAGE


def two_panels(title: str) -> Figure:
    """Two panels side by side in 3 inches, with titles."""
    figure = Figure(figsize=(3.0, 2.0), layout="constrained")
    for axes in figure.subplots(1, 2):
        axes.set_title(title, loc="left")
        axes.plot(np.arange(5))
    return figure


def test_overlaps_are_found_and_mended() -> None:
    """Assert that long titles are found, and that fitting mends them: the test can fail."""
    with house_style():
        crowded = two_panels("a title that is far longer than its panel")
        assert overlaps(crowded)
        fitted = two_panels("a title that is far longer than its panel")
        fit_texts(fitted)
        assert overlaps(fitted) == []


def test_a_text_beyond_the_page_is_found() -> None:
    """Assert that a text that is cut off is reported as such."""
    figure = Figure(figsize=(2, 2))
    figure.text(0.9, 0.5, "cut off by the edge")
    assert overlaps(figure) == [("cut off by the edge", "edge of the page")]


def test_formulas_and_equations_stay_whole() -> None:
    """Assert that lines break between words, not inside $...$ or K = 10."""
    assert words_of("at $a + b$ and K = 10") == ["at", "$a + b$", "and", "K\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}10"]


def test_breaks_that_were_written_stay() -> None:
    """Assert that a label of two lines is broken inside its lines only."""
    figure = Figure(figsize=(3, 2))
    label = figure.text(0, 0, "1 layer\nposition of the query")
    wrap(label, 70.0)
    first, *others = label.get_text().splitlines()
    assert first == "1 layer"
    assert " ".join(others) == "position of the query"
    assert len(others) > 1


@pytest.mark.parametrize(("width", "columns"), [(3.25, 1), (5.5, 2), (7.0, 2), (20.0, 4)])
def test_columns_that_fit(width: float, columns: int) -> None:
    """Assert the number of columns of 2.5 inches for four panels; three would leave an emptier row."""
    with house_style():
        assert fitting_columns(width, 4, 2.5) == columns
    with house_style({"font.size": 16}):
        assert fitting_columns(2 * width, 4, 2.5) == columns


@pytest.mark.parametrize(
    ("plain", "typeset"),
    [
        ("printed: |lambda_1| < 1/K", r"printed: |$\mathit{λ}_{\mathrm{1}}$| < 1/$\mathit{K}$"),
        ("share of distinct tokens that fall", "share of distinct tokens that fall"),
        ("10 K^2 at t = 1e-3", r"10 $\mathit{K}^{\mathrm{2}}$ at $\mathit{t}$ = 10$^{\mathrm{−3}}$"),
        ("already $\\eta$", "already $\\eta$"),
    ],
)
def test_formulas_become_mathtext(plain: str, typeset: str) -> None:
    """Assert formulas between $, and words left alone."""
    assert as_mathtext(plain) == typeset
