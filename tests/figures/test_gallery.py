"""The register of figures: a new figure is one module, or one entry that a user adds."""

import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest
import xarray

import snapdyn as sd
from snapdyn.core.errors import InputError
from snapdyn.dynamics.training import descent
from snapdyn.figures import FIGURES, FigureEntry, write
from tests.helpers import Command

TOY = """
import xarray

from snapdyn.figures.style import SINGLE_COLUMN, new_figure
from snapdyn.validation import Measured, Property

TITLE = "A toy"
CAPTION = "The line y = x."


def compute(level):
    return xarray.Dataset({"y": ("x", [0.0, 1.0, 2.0])}, {"x": [0.0, 1.0, 2.0]})


def draw(dataset):
    figure = new_figure(SINGLE_COLUMN, 2.0)
    figure.subplots().plot(dataset.x, dataset.y)
    return figure


PROPERTIES = (
    Property("largest y", "closed form", lambda dataset: Measured(float(dataset.y.max()), at_most=2.0)),
)
"""


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FigureEntry]:
    """A figure in a new module, in the register for one test."""
    (tmp_path / "figure_toy.py").write_text(TOY, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield FIGURES.add(FigureEntry.from_module(import_module("figure_toy")))
    del sys.modules["figure_toy"]


def test_every_module_of_a_figure_is_in_the_register() -> None:
    """Assert one entry per file figure_ID.py, with a title and a caption that ends its sentence."""
    folder = Path(import_module("snapdyn.figures").__path__[0])
    assert {path.stem for path in folder.glob("figure_*.py")} == {entry.name for entry in FIGURES.values()}
    for id_, entry in FIGURES.items():
        assert entry.id == id_
        assert entry.title
        assert not entry.title.endswith(".")
        assert entry.caption.endswith(".")


def test_a_module_becomes_a_figure(toy: FigureEntry, tmp_path: Path, command: Command) -> None:
    """Assert that an added module is drawn with its texts, by the command too, and named in error messages."""
    (drawn,) = write("toy", tmp_path / "out")
    assert (drawn.id, drawn.title, drawn.caption, drawn.label) == ("toy", "A toy", "The line y = x.", "Toy")
    assert drawn.as_claimed
    assert drawn.png.name == "figure_toy.png"
    assert xarray.load_dataset(drawn.data, engine="h5netcdf").y.values.tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(InputError, match=r"expected figure to be one of 2, 3, .*, toy, received 'toi'; did you mean"):
        write("toi", tmp_path / "none")
    folder = tmp_path / "of_the_command"
    assert "largest y" in command("figures", "toy", "--check", "--format", "svg", "--out", folder).out
    assert (folder / "figure_toy.svg").exists()
    with pytest.raises(InputError, match="expected jobs to be a whole number of at least 1, received 0"):
        write("toy", tmp_path / "none", jobs=0)
    with pytest.raises(InputError, match="expected a new name for a figure, received 'toy'"):
        FIGURES.add(toy)


def test_two_processes_draw_the_same(tmp_path: Path) -> None:
    """Assert the order of the register, the same pictures and data as one process, progress to the end, and checks."""
    shown: list[tuple[int, int, str]] = []
    one = write(["8", "9"], tmp_path / "one")
    two = write(["9", "8"], tmp_path / "two", jobs=2, progress=lambda *each: shown.append(each))
    assert [figure.id for figure in two] == ["8", "9"]
    assert [shown[0][:2], shown[-1]] == [(0, 2), (2, 2, "")]
    for alone, beside in zip(one, two, strict=True):
        assert alone.png.read_bytes() == beside.png.read_bytes()
        assert alone.data.read_bytes() == beside.data.read_bytes()
        assert alone.checks == beside.checks
    with pytest.raises(InputError, match="jobs"):
        write(["8", "9"], tmp_path / "none", jobs=0)


@pytest.mark.parametrize("id_", ["4", "5", "growth", "winner"])
def test_ctrl_c_during_training_comes_out(id_: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert KeyboardInterrupt where Ctrl-C stops training: its record is not that of the whole run."""
    train = descent.train

    def stopped(settings: sd.SGD, stop: object) -> sd.Trajectory:
        return train(replace(settings, steps=1, record=[1]), threading.Event()).changed(status="interrupted")

    monkeypatch.setattr(descent, "train", stopped)
    with pytest.raises(KeyboardInterrupt):
        sd.figures.compute(id_)
