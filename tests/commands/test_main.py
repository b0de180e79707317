"""The command line as a whole: help, version, wrong usage."""

import os
from pathlib import Path

import pytest

import snapdyn
from snapdyn.commands.main import app
from tests.helpers import EXAMPLES, FABLE, Command


@pytest.mark.parametrize("name", [each.callback.__name__ for each in app.registered_commands if each.callback])
def test_help(name: str, command: Command) -> None:
    """Assert that each command's help shows how to call it, and that the help of all names it, after the version."""
    assert f"Example: snapdyn {name}" in command(name, "--help").out
    assert name in command("--help").out
    assert command("--version").out == f"snapdyn {snapdyn.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "hints"),
    [
        ([], ["Missing command", "`snapdyn --help`"]),
        (["valdate"], ["'valdate'", "did you mean 'validate'"]),
        (["validate", "--levl", "full"], ["--levl", "--level"]),
        (["simulate"], ["FILE.toml", "`snapdyn simulate --help`"]),
        (["figures", "--out", __file__], ["expected a folder", "test_main.py"]),
        (["validate", "--jobs", "0"], ["expected jobs to be a whole number of at least 1, received 0; give 1 or more"]),
        # Paths that no file can have.
        *(([*command, "x" * 300], ["expected a "]) for command in (["text"], ["report", "--register"], ["examples"])),
    ],
)
def test_wrong_usage(arguments: list[str], hints: list[str], command: Command) -> None:
    """Assert that wrong usage gives exit code 2 and one sentence with what was received and what to do."""
    said = command(*arguments, code=2).err
    assert all(hint in said for hint in hints), said


OUTPUTS = [
    (
        f"simulate {EXAMPLES}/single_common_token.toml --out OUT/run.nc",
        "run.nc",
        "experiments.run_sections.integrate",
    ),
    ("validate lemma6 --json OUT/a.json", "a.json", "validation.verdicts.checked"),
    (
        f"compare {EXAMPLES}/compare_syn_small.toml --out OUT",
        "compare_syn_small.png",
        "experiments.run_files.Comparison.compute",
    ),
    (f"text {FABLE} --min-count 1 --out OUT", "words.csv", "dynamics.text.text_classes.from_text"),
    (f"sweep {EXAMPLES}/sweep_rates.toml --out OUT", "sweep_rates.nc", "experiments.sweep.execution.Cells"),
    ("figures 3 --set eta_Z=0.2 --out OUT", "figure_3_eta_Z=0.2.pdf", "figures.gallery.compute"),
    ("report --out OUT", "index.html", "report.page.checked"),
]


@pytest.mark.parametrize(("arguments", "name", "work"), OUTPUTS, ids=[each[0].split()[0] for each in OUTPUTS])
def test_an_output_that_is_no_file_is_refused_at_once(
    arguments: str, name: str, work: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    """Assert one sentence and exit code 2, that the pipe stays, and that nothing is computed, shown or written."""

    def compute(*_: object, **__: object) -> None:
        pytest.fail("outputs must be checked before work begins")

    monkeypatch.setattr(f"snapdyn.{work}", compute)
    pipe = tmp_path / name
    os.mkfifo(pipe)
    said = command(*arguments.replace("OUT", str(tmp_path)).split(), code=2).err
    assert f"expected a file to write to, received the named pipe {str(pipe)!r}; choose" in said
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]
