"""Drawing: files, bytes, provenance, and what happens to wrong input."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from importlib import import_module
from pathlib import Path

import matplotlib
import numpy as np
import pytest
import xarray
from numpy.typing import ArrayLike

from snapdyn.core.errors import InputError
from snapdyn.dynamics import System, Trajectory, integrate
from snapdyn.figures import FIGURES, DrawnFigure, draw, house_style, write
from snapdyn.figures.output import FORMATS

Drawn = Callable[[str], DrawnFigure]


@pytest.mark.slow
def test_only_drawing_loads_the_plotting_library() -> None:
    """Assert that listing figures does not import matplotlib; drawing one does."""
    code = """
import sys
from snapdyn.figures import FIGURES, claim_svg, draw

print("matplotlib" in sys.modules)
FIGURES["8"].draw(FIGURES["8"].compute("quick"))
print("matplotlib" in sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["False", "True"]


@pytest.mark.parametrize("id_", FIGURES)
def test_files_of_every_figure(
    id_: str, drawn: Drawn, data: Callable[[str], xarray.Dataset], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Assert names and kinds of the files, provenance with the parameters, and the same picture drawn from the data.

    The last under a user's own settings, which stay.
    """
    figure, entry = drawn(id_), FIGURES[id_]
    names = {path.name for path in figure.png.parent.iterdir()}
    assert names == {f"figure_{id_}.{end}" for end in ("png", "pdf", "nc", "provenance.json")}
    assert figure.png.read_bytes().startswith(b"\x89PNG")
    assert figure.pdf.read_bytes().startswith(b"%PDF")
    assert (figure.id, figure.title, figure.caption) == (id_, entry.title, entry.caption)
    facts, parameters = json.loads(figure.provenance.read_text(encoding="utf-8")), dict(data(id_).attrs)
    assert facts["snapdyn"]
    assert facts["versions"]["matplotlib"] == matplotlib.__version__
    assert facts["level"] == "quick"
    assert facts["wall_time"] > 0
    assert parameters.pop("format") == "snapdyn figure data 1"
    assert facts["parameters"] == json.loads(json.dumps(parameters, default=lambda value: value.tolist()))
    monkeypatch.setitem(matplotlib.rcParams, "lines.linewidth", 9.0)
    monkeypatch.setitem(matplotlib.rcParams, "savefig.dpi", 50)
    again = draw(id_, data(id_))
    with house_style():
        again.savefig(tmp_path / "again.png", **FORMATS["png"])
    assert (tmp_path / "again.png").read_bytes() == figure.png.read_bytes()
    assert matplotlib.rcParams["lines.linewidth"] == 9.0


def test_same_inputs_give_the_same_data(drawn: Drawn, tmp_path: Path) -> None:
    """Assert equal bytes when SGD with its seeds and flows are computed again."""
    (again,) = write("4", tmp_path)
    assert again.data.read_bytes() == drawn("4").data.read_bytes()
    assert again.png.read_bytes() == drawn("4").png.read_bytes()


def test_data_without_a_variable_are_refused(data: Callable[[str], xarray.Dataset]) -> None:
    """Assert one sentence for the data of a figure that lack what it draws."""
    with pytest.raises(InputError, match="from which it cannot be drawn"):
        draw("8", data("8").drop_vars("h"))


def test_full_level_and_progress(data: Callable[[str], xarray.Dataset], tmp_path: Path) -> None:
    """Assert that "full" refines the same curves; progress (done, total, id) comes in the order of the register."""
    calls: list[tuple[int, int, str]] = []
    full, _ = write(["9", "8"], tmp_path, level="full", progress=lambda *call: calls.append(call))
    assert calls == [(0, 2, "8"), (1, 2, "9"), (2, 2, "")]
    fine, coarse = xarray.load_dataset(full.data, engine="h5netcdf"), data("8")
    assert fine.sizes["visit"] > 4 * coarse.sizes["visit"]
    np.testing.assert_allclose(fine.h.sel(visit=coarse.visit, method="nearest"), coarse.h, rtol=1e-12)


def test_failure_while_writing_leaves_no_half_file(tmp_path: Path) -> None:
    """Assert that a folder in the place of the PNG is refused by name, and that no other file is written."""
    (tmp_path / "figure_8.png").mkdir()
    with pytest.raises(InputError, match=r"figure_8\.png"):
        write("8", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["figure_8.png"]


@pytest.mark.parametrize(("status", "raised"), [("interrupted", KeyboardInterrupt), ("failed", RuntimeError)])
def test_no_figure_is_drawn_from_half_a_run(
    status: str, raised: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Assert that a run that did not reach its last time stops the figure and leaves no file."""

    def half(system: System, times: ArrayLike, **options: float) -> Trajectory:
        return integrate(system, times, **options).changed(status=status, message="stopped half-way")

    monkeypatch.setattr(import_module("snapdyn.dynamics.integration.driver"), "integrate", half)
    with pytest.raises(raised):
        write("attention", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_interruption_keeps_finished_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that Ctrl-C in the second figure leaves the first whole and nothing of the second."""

    @wraps(FIGURES["9"].compute)
    def interrupt(*arguments: object, **parameters: object) -> xarray.Dataset:
        raise KeyboardInterrupt

    monkeypatch.setitem(FIGURES, "9", replace(FIGURES["9"], compute=interrupt))
    with pytest.raises(KeyboardInterrupt):
        write(["8", "9"], tmp_path)
    assert sorted(path.name.split(".", 1)[0] for path in tmp_path.iterdir()) == ["figure_8"] * 4
