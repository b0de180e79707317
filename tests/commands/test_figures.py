"""`snapdyn figures`: what it draws, and `--check`."""

import subprocess
import sys
from pathlib import Path

import pytest

import snapdyn as sd
from snapdyn.commands.main import main


def test_check_says_what_the_figure_claims(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert exit code 0, the claims with their numbers, and a wrong theory that is rejected."""
    assert main(["figures", "8", "--out", str(tmp_path), "--check"]) == 0
    shown = capsys.readouterr().out
    assert "all figures show what they claim" in shown
    assert "rejected, as it must be" in shown


def test_check_fails_on_data_that_show_something_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Assert exit code 1, naming the figure, when the data do not show what the figure claims."""
    data = sd.figures.compute("8")
    monkeypatch.setattr("snapdyn.figures.writing.compute", lambda *_, **__: data.assign(h=data.h * 1.2))
    assert main(["figures", "8", "--out", str(tmp_path), "--check"]) == 1
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
