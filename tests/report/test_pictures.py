"""Pictures of the page."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from snapdyn.report.page import figure_image


@pytest.mark.parametrize(("share", "kind"), [(0.1, "lines"), (0.9, "colours")])
def test_a_figure_is_small(share: float, kind: str, tmp_path: Path) -> None:
    """Assert that a figure is reduced, keeps its size, and that maps of colours are told from lines on paper."""
    pixels = np.full((60, 100, 3), 255, dtype=np.uint8)
    pixels[:, : int(100 * share)] = np.random.default_rng(0).integers(0, 200, (60, int(100 * share), 1))
    Image.fromarray(pixels).save(tmp_path / "figure.png")
    text = figure_image(tmp_path / "figure.png", "A <figure>")
    assert f'<img class="{kind}" src="data:image/png;base64,' in text
    assert 'width="100" height="60" alt="A &lt;figure&gt;"' in text
