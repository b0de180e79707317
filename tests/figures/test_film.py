"""Films: the clock, panels that do not move, MP4 with and without ffmpeg."""

from pathlib import Path

import numpy as np
import pytest
import xarray
from PIL import Image

from snapdyn.errors import InputError
from snapdyn.figures import film
from snapdyn.figures.film import clock_text, ffmpeg_program, write_film
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
        write_film(dataset, tmp_path / "film.gif")
    with Image.open(tmp_path / "film.gif") as gif:
        frames = []
        for number in range(3):
            gif.seek(number)
            frames.append(np.asarray(gif.convert("L")).astype(int))
    below = slice(frames[0].shape[0] // 8, None)
    assert np.abs(frames[0][below] - frames[2][below]).max() < 30  # the palette of each frame differs a little
    assert np.abs(frames[0] - frames[2]).max() > 100


def test_mp4_needs_ffmpeg(dataset: xarray.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert one sentence where there is neither the program nor the package."""

    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(film, "which", lambda name: None)
    monkeypatch.setattr(film, "import_module", missing)
    with pytest.raises(InputError, match=r"expected ffmpeg to write film.mp4, .*; install it, or imageio-ffmpeg"):
        write_film(dataset, tmp_path / "film.mp4")


@pytest.mark.skipif(ffmpeg_program() is None, reason="neither ffmpeg nor imageio-ffmpeg is installed")
def test_mp4(dataset: xarray.Dataset, tmp_path: Path) -> None:
    """Assert a file of the MPEG-4 container."""
    with house_style():
        write_film(dataset, tmp_path / "film.mp4")
    assert (tmp_path / "film.mp4").read_bytes()[4:8] == b"ftyp"
