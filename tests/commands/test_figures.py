"""`snapdyn figures --from` and `--check`."""

import subprocess
import sys
from pathlib import Path

import pytest
import xarray

from snapdyn.commands.main import main
from snapdyn.dynamics.files.netcdf import write_netcdf
from snapdyn.figures.files import FORMAT


def test_check_says_what_the_figure_claims(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert exit code 0, the claims with their numbers, and a wrong theory that is rejected."""
    assert main(["figures", "8", "--out", str(tmp_path), "--check"]) == 0
    shown = capsys.readouterr().out
    assert "all figures show what they claim" in shown
    assert "rejected, as it must be" in shown


@pytest.mark.slow
def test_check_fails_on_data_that_show_something_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert exit code 1, naming the figure, when the data drawn from do not show what the figure claims."""
    assert main(["figures", "8", "--out", str(tmp_path)]) == 0
    saved = xarray.load_dataset(tmp_path / "figure_8.nc", engine="h5netcdf")
    wrong = tmp_path / "wrong.nc"
    write_netcdf(saved.assign(h=saved.h * 1.2), wrong, FORMAT)
    capsys.readouterr()
    assert main(["figures", "--from", str(wrong), "--out", str(tmp_path / "again"), "--check"]) == 1
    assert "data contradict the claims of: 8" in capsys.readouterr().out


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit of the file size")
def test_a_full_disk_is_bad_input(tmp_path: Path) -> None:
    """Assert exit code 2, one sentence, and no file, where files may not grow."""
    code = (
        "import resource, sys; from snapdyn.commands.main import main; "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000)); "
        "sys.exit(main(['figures', '8', '--out', sys.argv[1]]))"
    )
    run = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=300)
    assert run.returncode == 2
    assert run.stderr.strip().endswith("File too large; choose another path")
    assert "Traceback" not in run.stderr
    assert list(tmp_path.iterdir()) == []


def test_from_a_file_that_is_no_figure_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert exit code 2 and one sentence for a path that does not exist."""
    assert main(["figures", "--from", str(tmp_path / "none.nc"), "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert "which is missing" in error
    assert "Traceback" not in error


def test_interrupt_of_figures(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Assert that Ctrl-C in any other command gives exit code 130 and one sentence."""

    def interrupted(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("snapdyn.figures.write", interrupted)
    assert main(["figures", "--out", str(tmp_path)]) == 130
    assert capsys.readouterr().err.startswith("snapdyn: interrupted")


def test_figures_are_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert that a named figure is drawn into the folder, and where is said."""
    assert main(["figures", "9", "--out", str(tmp_path / "pictures")]) == 0
    picture = tmp_path / "pictures" / "figure_9.png"
    assert picture.is_file()
    assert str(picture) in capsys.readouterr().out
