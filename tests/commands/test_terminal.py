"""What commands print: tables, lines of progress."""

import pytest

from snapdyn.commands import terminal


def test_a_piped_table_is_plain_and_not_cut(capsys: pytest.CaptureFixture[str]) -> None:
    """Assert that brackets are text, that columns are aligned, and that long cells keep their words."""
    long = "word " * 60
    terminal.show_table(["id", "source"], [["a", "[own]"], ["bcd", long]])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].index("source") == lines[1].index("[own]") == lines[2].index("word")
    assert "\n".join(lines).count("word") == 60


@pytest.mark.parametrize(("total", "shown"), [(1.0, "cells 50% b"), (8.0, "cells 4/8 b")])
def test_a_log_gets_lines(
    total: float, shown: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Assert a line with percent or counts where stderr is no terminal, and none before a minute is over."""
    with terminal.progress_bar("cells") as update:
        update(0.0, total, "a")
        assert capsys.readouterr().err == ""
        monkeypatch.setattr(terminal, "SECONDS_BETWEEN_LINES", 0.0)
        update(0.5 * total, total, "b")
    assert capsys.readouterr().err == f"snapdyn: {shown}\n"


def test_a_log_says_the_remaining_time_of_each_part(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Assert about the time left where it is known, and that a second part does not have the pace of the first."""
    monkeypatch.setattr(terminal, "SECONDS_BETWEEN_LINES", 0.0)
    now = [0.0]
    monkeypatch.setattr("rich.console.monotonic", lambda: now[0])
    with terminal.progress_bar("claims") as update:
        for now[0], done, total in ((0.0, 1, 61), (60.0, 31, 61), (70.0, 1, 19), (80.0, 2, 19), (90.0, 3, 19)):
            update(done, total, "a")
    times = [line.partition("about ")[2] for line in capsys.readouterr().err.splitlines()]
    assert times == ["", "0:01:00 left", "", "", "0:02:40 left"]
