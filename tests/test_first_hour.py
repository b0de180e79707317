"""The page docs/first_hour.md as a newcomer does it: its files and commands alone, each goal in an empty folder."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.helpers import ROOT

PAGE = (ROOT / "docs" / "first_hour.md").read_text()
pytestmark = pytest.mark.long  # of each release as well: make test-wheel


def done(heading: str, folder: Path) -> str:
    """Write the files of a section, run its commands in the folder, and return what they print."""
    section = re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]
    (text,) = (each for each in section if each.startswith(heading))
    for name, content in re.findall(r"```\w+\n# (\S+)\n(.*?)```", text, re.DOTALL):
        (folder / name).write_text(content)
    # The commands are those of the environment that runs this test.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"PATH": path}
    commands = "".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL))
    assert commands
    ended = subprocess.run(
        ["bash", "-eu", "-c", commands], cwd=folder, env=environment, capture_output=True, text=True, timeout=600
    )
    assert ended.returncode == 0, ended.stderr
    assert "Traceback" not in ended.stderr
    return ended.stdout


def test_own_distribution_is_checked_and_tabulated(tmp_path: Path) -> None:
    """Assert an answer for every claim, on the classes of the page, and a LaTeX table of those that apply."""
    printed = done("Which theorems hold", tmp_path)
    counts, table = printed.partition("\n")[0], (tmp_path / "zipf.tex").read_text()
    (absent,) = re.findall(r"^% Does not apply here: (.*)\.$", table, re.MULTILINE)
    rows = [line for line in table.splitlines() if line.endswith(r"\\ \addlinespace") and r"\texttt{" in line]
    assert sum(map(int, re.findall(r"\d+", counts))) == len(rows) + len(absent.split(", "))
    assert "classes = 12, tokens = 140" in table
    P = np.loadtxt(tmp_path / "zipf.csv", delimiter=",")
    np.testing.assert_allclose(np.sort(P, axis=1)[:, -1] / np.sort(P, axis=1)[:, -30], 30.0)  # Zipf's law


def test_figure_has_own_rates_and_width(tmp_path: Path) -> None:
    """Assert the picture's width, 3.25 in, and that its claims hold for the rates."""
    from matplotlib.image import imread

    printed = done("A figure of the paper", tmp_path)
    assert "all figures show what they claim" in printed
    assert imread(tmp_path / "pictures" / "figure_3_eta_Z=0.2.png").shape[1] == pytest.approx(3.25 * 200, abs=1)
    assert (tmp_path / "pictures" / "figure_3_eta_Z=0.2.pdf").stat().st_size > 1000


def test_own_run_under_the_theory(tmp_path: Path) -> None:
    """Assert that the theory's residual is small, that the fit holds the rates of the program, and the picture."""
    printed = done("The theory over", tmp_path)
    residuals = [float(each) for each in re.findall(r"mean_field +(\S+)", printed)]
    assert len(residuals) == 2
    assert 0 < max(residuals) < 2e-3  # of an entropy that falls by 0.02
    for name, rate in (("eta_Y", 0.1), ("eta_Z", 0.02)):
        low, high = re.findall(rf"{name} = .*90 %: (\S+) to ([\d.e-]+)", printed)[0]
        assert float(low) < rate < float(high)
    assert "this theory describes this trace" in printed
    assert (tmp_path / "train.png").stat().st_size > 10_000
