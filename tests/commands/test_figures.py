"""`snapdyn figures`: what it draws, its settings, `--list` and `--check`."""

from pathlib import Path

import pytest

import snapdyn as sd
from snapdyn.commands.figures import complete_figures
from snapdyn.figures import FIGURES, write
from tests.helpers import Command


def test_settings_and_check(tmp_path: Path, command: Command) -> None:
    """Assert the data that Python gives for the same settings, the claims with their numbers, and where files are."""
    out = tmp_path / "out"
    shown = command("figures", "3", "--set", " num_classes = 6", "--set", "eta_Z=0.2", "--out", out, "--check").out
    for words in ("all figures show what they claim", "holds for the defaults only"):
        assert words in shown
    name = "figure_3_num_classes=6,eta_Z=0.2"
    assert f"{name}.png" in shown
    (figure,) = write("3", tmp_path / "python", parameters={"3": {"num_classes": 6, "eta_Z": 0.2}})
    assert figure.data.read_bytes() == (out / f"{name}.nc").read_bytes()


def test_check_fails_on_data_that_show_something_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    """Assert exit code 1, naming the figure, when the data do not show what the figure claims; else wrong theories."""
    arguments = ("figures", "8", "--out", tmp_path, "--check")
    assert "rejected, as it must be" in command(*arguments).out
    data = sd.figures.compute("8")
    monkeypatch.setattr("snapdyn.figures.gallery.compute", lambda *_, **__: data.assign(h=data.h * 1.2))
    assert "data contradict the claims of: 8" in command(*arguments, code=1).out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["3", "8", "--set", "num_classes=6"], ["figure 8", "'num_classes'"]),
        (["3", "--set", "eta_Y=1,1"], ["eta_Y", "figure 3", "different values, received 1 more"]),
        (["3", "--set", "eta_Y"], ["expected --set NAME=VALUE"]),
        (["3", "--set", "=1"], ["expected --set NAME=VALUE"]),
        (["3", "--set", "eta_Y=fast words"], ["received 'fast words'"]),
        (["3", "--format", "png,,svg"], ["a format to be one of png, pdf, svg", "received ''"]),
    ],
)
def test_bad_settings_are_bad_input(arguments: list[str], words: list[str], tmp_path: Path, command: Command) -> None:
    """Assert exit code 2 and one sentence, before anything is drawn."""
    error = command("figures", *arguments, "--out", tmp_path / "out", code=2).err
    assert all(word in error for word in words), error
    assert not (tmp_path / "out").exists()


def test_the_list_names_parameters(command: Command) -> None:
    """Assert ids, titles, parameters with defaults, that nothing is drawn, and the ids that the shell completes."""
    shown = command("figures", "--list").out
    assert "num_classes = 10: classes K; whole number, at least 2" in shown
    assert all(entry.title in shown for entry in FIGURES.values())
    assert complete_figures("") == list(FIGURES)
    assert complete_figures("1") == ["10", "11", "12"]
