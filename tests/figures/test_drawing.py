"""Drawing: files, bytes, provenance, and what happens to wrong input."""

import json
import subprocess
import sys
from dataclasses import replace
from functools import wraps
from importlib import import_module
from pathlib import Path

import matplotlib
import numpy as np
import pytest
import xarray
from numpy.typing import ArrayLike

from snapdyn.dynamics import System, Trajectory, integrate
from snapdyn.errors import InputError
from snapdyn.figures import FIGURES, DrawnFigure, draw, house_style, write
from snapdyn.figures.files import FORMATS

COMPUTED = list(FIGURES)


@pytest.mark.slow
def test_importing_the_package_loads_no_plotting_library() -> None:
    """Assert that listing figures does not import matplotlib; drawing one does."""
    code = "import sys; from snapdyn.figures import FIGURES, draw, claim_svg; print('matplotlib' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"
    code = (
        "import sys; from snapdyn.figures import FIGURES; entry = FIGURES['8']; entry.draw(entry.compute('quick')); "
        "print('matplotlib' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "True"


def test_every_figure_has_its_files(drawn: dict[str, DrawnFigure]) -> None:
    """Assert that picture, vector picture, data and provenance are there, named after the figure, and nothing else."""
    assert list(drawn) == COMPUTED
    folder = drawn["8"].png.parent
    expected = {f"figure_{id_}.{end}" for id_ in COMPUTED for end in ("png", "pdf", "nc", "provenance.json")}
    assert {path.name for path in folder.iterdir()} == expected
    for figure in drawn.values():
        assert figure.png.read_bytes().startswith(b"\x89PNG")
        assert figure.pdf.read_bytes().startswith(b"%PDF")
        assert (figure.title, figure.caption) == (FIGURES[figure.id].title, FIGURES[figure.id].caption)


def test_provenance_reproduces_the_figure(drawn: dict[str, DrawnFigure]) -> None:
    """Assert that provenance names the code, the libraries, the level and the parameters that the data carry."""
    for figure in drawn.values():
        facts = json.loads(figure.provenance.read_text(encoding="utf-8"))
        assert facts["snapdyn"]
        assert facts["versions"]["matplotlib"] == matplotlib.__version__
        assert facts["level"] == "quick"
        assert facts["wall_time"] > 0
        parameters = xarray.load_dataset(figure.data, engine="h5netcdf").attrs
        assert parameters.pop("format") == "snapdyn figure data 1"
        assert facts["parameters"] == {name: _plain(value) for name, value in parameters.items()}


def _plain(value: object) -> object:
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else value


@pytest.mark.parametrize("id_", COMPUTED)
def test_saved_data_give_the_same_picture(
    id_: str, drawn: dict[str, DrawnFigure], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Assert equal bytes when drawn from the data, under a user's own settings, which stay."""
    monkeypatch.setitem(matplotlib.rcParams, "lines.linewidth", 9.0)
    monkeypatch.setitem(matplotlib.rcParams, "savefig.dpi", 50)
    again = draw(id_, xarray.load_dataset(drawn[id_].data, engine="h5netcdf"))
    with house_style():
        again.savefig(tmp_path / "again.png", **FORMATS["png"])
    assert (tmp_path / "again.png").read_bytes() == drawn[id_].png.read_bytes()
    assert matplotlib.rcParams["lines.linewidth"] == 9.0


@pytest.mark.parametrize("id_", ["2", "3", "4", "attention"])
def test_same_inputs_give_the_same_data(id_: str, drawn: dict[str, DrawnFigure], tmp_path: Path) -> None:
    """Assert equal bytes when computed again: closed forms, flows, and SGD with its seeds."""
    (again,) = write(id_, tmp_path)
    assert again.data.read_bytes() == drawn[id_].data.read_bytes()
    assert again.png.read_bytes() == drawn[id_].png.read_bytes()


def test_data_without_a_variable_are_refused(drawn: dict[str, DrawnFigure]) -> None:
    """Assert one sentence for the data of a figure that lack what it draws."""
    saved = xarray.load_dataset(drawn["8"].data, engine="h5netcdf")
    with pytest.raises(InputError, match="from which it cannot be drawn"):
        draw("8", saved.drop_vars("h"))


def test_full_level_has_more_points_on_the_same_curves(drawn: dict[str, DrawnFigure], tmp_path: Path) -> None:
    """Assert that "full" refines the curves and agrees with "quick" where both have a value."""
    (full,) = write(["8"], tmp_path, level="full")
    fine = xarray.load_dataset(full.data, engine="h5netcdf")
    coarse = xarray.load_dataset(drawn["8"].data, engine="h5netcdf")
    assert fine.sizes["visit"] > 4 * coarse.sizes["visit"]
    np.testing.assert_allclose(fine.h.sel(visit=coarse.visit, method="nearest"), coarse.h, rtol=1e-12)
    assert full.png.read_bytes() != drawn["8"].png.read_bytes()


@pytest.mark.slow
def test_progress_is_reported_before_each_figure_and_at_the_end(tmp_path: Path) -> None:
    """Assert the calls (done, total, id), in the order of the register whatever the order of the request."""
    calls: list[tuple[int, int, str]] = []
    write(["9", "8"], tmp_path, progress=lambda *call: calls.append(call))
    assert calls == [(0, 2, "8"), (1, 2, "9"), (2, 2, "")]


@pytest.mark.parametrize(
    ("ids", "level", "message"),
    [
        (["8", "99"], "quick", "received '99'; did you mean '9'"),
        (["8"], "ful", "received 'ful'; did you mean 'full'"),
    ],
)
def test_unknown_names_are_refused_with_the_nearest(ids: list[str], level: str, message: str, tmp_path: Path) -> None:
    """Assert that an unknown figure or level is named, with a suggestion, before anything is drawn."""
    with pytest.raises(InputError, match=message):
        write(ids, tmp_path / "out", level)
    assert not (tmp_path / "out").exists()


def test_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    """Assert that a file in the place of the folder gives a plain sentence, and stays as it was."""
    in_the_way = tmp_path / "out"
    in_the_way.write_text("precious", encoding="utf-8")
    with pytest.raises(InputError, match="expected a folder that can be written to"):
        write("8", in_the_way)
    assert in_the_way.read_text(encoding="utf-8") == "precious"


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
        return replace(integrate(system, times, **options), status=status, message="stopped half-way")

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
    assert {path.name.split(".", 1)[0] for path in tmp_path.iterdir()} == {"figure_8"}
    assert len(list(tmp_path.iterdir())) == 4
