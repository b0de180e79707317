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


@pytest.mark.parametrize(
    ("done", "total", "seconds", "shown"),
    [
        (0.0, 10.0, 60.0, ""),
        (5.0, 10.0, 0.5, ""),
        (0.25, 1.0, 10.0, "about 30 s left"),
        (30.0, 90.0, 10.0, "3 a second, about 20 s left"),
        (20.0, 50.0, 100.0, "12 a minute, about 2.5 min left"),
        (1.0, 100.0, 3600.0, "1 an hour, about 4.1 days left"),
        (10.0, 10.0, 10.0, "1 a second, about 0 s left"),
    ],
)
def test_pace(done: float, total: float, seconds: float, shown: str) -> None:
    """Assert the rate of a count and the remaining time; nothing in the first second."""
    assert terminal.pace(done, total, seconds) == shown


def test_the_pace_of_a_second_part_starts_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that the hour of a first part does not enter the rate of a second one."""
    now = [0.0]
    monkeypatch.setattr(terminal.time, "monotonic", lambda: now[0])
    measure, shown = terminal.Pace(), []
    for now[0], done, total in ((3600.0, 50, 50), (3610.0, 1, 19), (3620.0, 2, 19)):
        shown.append(measure(done, total))
    assert shown == ["50 an hour, about 0 s left", "6 a minute, about 3 min left", "6 a minute, about 2.8 min left"]
