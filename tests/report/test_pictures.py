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
