"""The animation: the clock, and panels that do not move."""

from pathlib import Path

import numpy as np
import pytest
import xarray
from PIL import Image

from snapdyn.figures.figure_animation import clock_text, write_extras
from snapdyn.figures.style import house_style


@pytest.fixture
def dataset() -> xarray.Dataset:
    """Three frames at which the clock has letters of different heights."""
    attention = np.tile(np.linspace(0.01, 0.09, 20), (2, 3, 1))
    times = [0.0, 1887.4, 1e5]
    return xarray.Dataset(
        {"attention": (("eta_Y", "time", "token"), attention)},
        {"eta_Y": [1.0, 10.0], "time": times, "token": np.arange(20)},
    )


@pytest.mark.parametrize(
    ("time", "text"), [(0.0, "0"), (43.42, "43.4"), (999.9, "$1\\,000$"), (1887.4, "$1\\,890$"), (1e5, "$100\\,000$")]
)
def test_the_clock_shows_steps(time: float, text: str) -> None:
    """Assert three digits in groups of three, without powers of ten."""
    assert clock_text(time) == text


def test_panels_stay_where_they_are(dataset: xarray.Dataset, tmp_path: Path) -> None:
    """Assert that only the clock changes between frames with the same attention."""
    with house_style():
        (path,) = write_extras(dataset, tmp_path, "own")
    with Image.open(path) as gif:
        frames = []
        for number in range(3):
            gif.seek(number)
            frames.append(np.asarray(gif.convert("L")).astype(int))
    below = slice(frames[0].shape[0] // 8, None)
    assert np.abs(frames[0][below] - frames[2][below]).max() < 30  # the palette of each frame differs a little
    assert np.abs(frames[0] - frames[2]).max() > 100
