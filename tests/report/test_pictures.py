"""Pictures of the page."""

import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from snapdyn.figures import claim_svg
from snapdyn.figures.claim_pictures import map_svg
from snapdyn.report.page import figure_image, page_svg
from snapdyn.validation import Map, Picture


@pytest.fixture(scope="module")
def drawn() -> str:
    """A picture with a line of 100 points, as matplotlib writes it."""
    x = np.geomspace(1, 1e4, 100)
    lines = (Picture.line("eta_Y <= 1", x, np.sqrt(x)), Picture.line("SGD", x, x, "simulation"))
    return claim_svg(Picture("t (batch-size-1 steps)", "xi_n", lines, yscale="log"))


def points(svg: str) -> np.ndarray:
    """Points of the first line of 100, absolute."""
    number = r"-?(?:\d+\.?\d*|\.\d+)"
    outline = next(path for path in re.findall(r' d="([^"]+)"', svg) if len(re.findall(number, path)) == 200)
    numbers = np.array([float(each) for each in re.findall(number, outline)]).reshape(-1, 2)
    return np.cumsum(numbers, axis=0) if "l" in outline else numbers


def test_a_line_keeps_its_place(drawn: str) -> None:
    """Assert that the smaller picture has the same line, to a tenth of a point, and half of the characters."""
    small = page_svg(drawn)
    assert len(small) < 0.6 * len(drawn)
    assert points(small) == pytest.approx(points(drawn.replace("\n", " ")), abs=0.051)


def test_labels_are_in_mathematics(drawn: str) -> None:
    """Assert that labels show Greek letters and signs, and that the picture is well formed and described."""
    root = ElementTree.fromstring(page_svg(drawn))
    shown = ["".join(text.itertext()) for text in root.iter("text")]
    assert "ξn" in shown
    assert "ηY ≤ 1" in shown
    assert root.get("aria-label")


def test_colours_follow_the_page(drawn: str) -> None:
    """Assert that black is the colour of the text and white that of the paper."""
    small = page_svg(drawn)
    assert "#000000" not in small
    assert "#ffffff" not in small
    assert "stroke:currentColor" in small


def test_cells_of_a_map_are_one_bitmap() -> None:
    """Assert that a map of a thousand cells is small, and that its lines keep their dark edge."""
    grid = np.linspace(1.0, 2.0, 32)
    violation = np.where(np.add.outer(grid, grid) > 3, 1.0, 0.1)
    small = page_svg(map_svg(Map("Where", "x", "y", "violation", grid, grid, violation, 0.25, scale="linear")))
    assert small.count("data:image/png;base64,") == 1
    assert len(small) < 30_000
    assert "stroke:#000000" in small  # the dark edge of a white line on the map stays dark


@pytest.mark.parametrize(("share", "kind"), [(0.1, "lines"), (0.9, "colours")])
def test_a_figure_is_small(share: float, kind: str, tmp_path: Path) -> None:
    """Assert that a figure is reduced, keeps its size, and that maps of colours are told from lines on paper."""
    pixels = np.full((60, 100, 3), 255, dtype=np.uint8)
    pixels[:, : int(100 * share)] = np.random.default_rng(0).integers(0, 200, (60, int(100 * share), 1))
    Image.fromarray(pixels).save(tmp_path / "figure.png")
    text = figure_image(tmp_path / "figure.png", "A <figure>")
    assert f'<img class="{kind}" src="data:image/png;base64,' in text
    assert 'width="100" height="60" alt="A &lt;figure&gt;"' in text
