"""Pictures of the page."""

from pathlib import Path

import numpy as np
from PIL import Image

from snapdyn.report.page import figure_image


def test_a_figure_keeps_its_size(tmp_path: Path) -> None:
    """Assert the size of the picture, and a text for readers who do not see it."""
    pixels = np.random.default_rng(0).integers(0, 200, (60, 100, 3)).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "figure.png")
    text = figure_image(tmp_path / "figure.png", "A <figure>")
    assert '<img src="data:image/png;base64,' in text
    assert 'width="100" height="60" alt="A &lt;figure&gt;"' in text


def test_a_wide_figure_takes_the_whole_width_of_a_printed_page(tmp_path: Path) -> None:
    """Assert the class of a figure of 7 inches, and none of one of 3.4: its text of 7 points would be 3.4 points."""
    for inches, wide in ((7.0, True), (3.4, False)):
        Image.new("RGB", (int(200 * inches), 20)).save(tmp_path / "figure.png", dpi=(200, 200))
        assert ('class="wide"' in figure_image(tmp_path / "figure.png", "A figure")) is wide
