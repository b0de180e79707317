"""`snapdyn equations`."""

import pytest

from snapdyn.commands.main import main


def test_equations_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """Assert that every displayed equation of the paper is counted, with what recomputes it."""
    assert main(["equations"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("138 displayed equations: ")
    assert "by lemma6" in shown
