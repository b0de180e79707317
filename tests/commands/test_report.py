"""`snapdyn report`."""

from pathlib import Path

import pytest

import snapdyn.figures
import snapdyn.report.page
import snapdyn.validation
from snapdyn.report.page import BuiltReport
from snapdyn.validation import Report
from tests.helpers import Command
from tests.report.helpers import invented


def test_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: Command) -> None:
    """Assert that the command says where the page is, and that a verdict that differs gives exit code 1."""
    page = tmp_path / "index.html"
    for expected, code in (("refuted", 0), ("holds", 1)):
        built = BuiltReport(page, Report("quick", (invented("claim-news", "refuted", expected=expected),)))
        monkeypatch.setattr(snapdyn.report.page, "build_report", lambda *arguments, result=built: result)
        assert str(page) in command("report", "--out", tmp_path, code=code).out
