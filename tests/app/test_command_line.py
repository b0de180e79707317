"""The command line: help, usage errors, exit codes, verdicts."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import snapdyn
from snapdyn.cli import main
from snapdyn.validation import CLAIMS, Check
from snapdyn.validation.register import Claim, Evidence
from snapdyn.validation.results import Verdict

COMMANDS = ("validate", "figures", "simulate", "report")


def invented_claim(id: str, measured: float, expected: Verdict = "holds") -> Claim:
    """A claim whose statement passes up to 1, with a control that fails."""
    checks = [
        Check("statement", "closed form", measured, 1.0),
        Check("wrong theory", "closed form", 5.0, 1.0, role="control"),
    ]
    return Claim(id, "[own]", f"Title of {id}", "", "", expected, lambda level: Evidence(checks))


@pytest.fixture
def register() -> Iterator[Callable[..., None]]:
    """Put invented claims in place of the register's."""
    from snapdyn.validation import claims  # noqa: F401  (else the first use would add the real ones)

    def replace(*invented: Claim) -> None:
        CLAIMS.clear()
        CLAIMS.update({claim.id: claim for claim in invented})

    real = dict(CLAIMS)
    yield replace
    CLAIMS.clear()
    CLAIMS.update(real)  # in the register's order


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert that each command's help shows how to call it."""
    assert main([command, "--help"]) == 0
    assert f"Example: snapdyn {command}" in capsys.readouterr().out


def test_help_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    """Assert that the help names every command."""
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(command in out for command in COMMANDS)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    """Assert that --version prints the package's version."""
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"snapdyn {snapdyn.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "hints"),
    [
        ([], ["Missing command", "`snapdyn --help`"]),
        (["valdate"], ["'valdate'", "did you mean 'validate'"]),
        (["validate", "--levl", "full"], ["--levl", "--level"]),
        (["validate", "--level", "ful"], ["'ful'", "'full'"]),
        (["validate", "lema6"], ["'lema6'", "did you mean 'lemma6'"]),
        (["figures", "33"], ["'33'", "did you mean '3'"]),
        (["simulate"], ["FILE.toml", "`snapdyn simulate --help`"]),
        (["simulate", "a.toml", "b.toml"], ["b.toml"]),
        (["simulate", "no_such_file.toml"], ["no_such_file.toml", "No such file"]),
        (["report", "--out"], ["--out"]),
    ],
    ids=lambda value: " ".join(value) if value and not value[0].startswith("'") else None,
)
def test_wrong_usage(arguments: list[str], hints: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Assert that wrong usage gives exit code 2 and one sentence with what was received and what to do."""
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("snapdyn: ")
    assert captured.err.count("\n") == 1
    for hint in hints:
        assert hint in captured.err


@pytest.mark.parametrize("arguments", [["figures", "--out"], ["report", "--out"]])
def test_folder_that_is_a_file(arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert that an output folder that cannot be made is refused before any work, and the file there kept."""
    (tmp_path / "taken").write_text("mine")
    assert main([*arguments, str(tmp_path / "taken")]) == 2
    assert "expected a folder" in capsys.readouterr().err
    assert (tmp_path / "taken").read_text() == "mine"


@pytest.mark.parametrize("target", [".", "taken/verdicts.json"])
def test_json_target_that_cannot_be_written(target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert that a target that is a folder, or lies in a file, is refused before any claim is checked."""
    (tmp_path / "taken").write_text("mine")
    assert main(["validate", "--json", str(tmp_path / target)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("snapdyn: expected a f")
    assert (tmp_path / "taken").read_text() == "mine"


def test_verdicts_of_the_register(register: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    """Assert that verdicts as registered give exit code 0, disagreements with print listed first, then counts."""
    register(invented_claim("agrees", 0.5), invented_claim("disagrees", 2.0, expected="refuted"))
    assert main(["validate"]) == 0
    header, first, second, counts = capsys.readouterr().out.splitlines()
    assert header.split() == ["id", "source", "title", "verdict", "worst", "check"]
    assert first.startswith("disagrees")
    assert "statement: 2 <= 1 fails" in first
    assert "[own]" in second
    assert counts == "2 claims: 1 refuted, 1 holds; 0 differ from the register"


def test_verdict_that_differs(register: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    """Assert that a verdict other than the register's gives exit code 1 and leads the table."""
    register(invented_claim("refuted", 2.0, expected="refuted"), invented_claim("news", 2.0))
    assert main(["validate"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("news")
    assert "refuted (register: holds)" in lines[1]
    assert lines[-1].endswith("1 differ from the register")


def test_only_the_named_claims(
    register: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Assert that ids select claims, and that --json writes the documented form."""
    register(invented_claim("one", 0.5), invented_claim("two", 0.5), invented_claim("three", 0.5))
    target = tmp_path / "new folder" / "verdicts.json"
    assert main(["validate", "three", "one", "--json", str(target)]) == 0
    written = json.loads(target.read_text())
    assert [claim["id"] for claim in written["claims"]] == ["one", "three"]
    assert {"id", "source", "title", "verdict", "checks"} <= written["claims"][0].keys()
    assert {"name", "rung", "measured", "bound", "passed"} <= written["claims"][0]["checks"][0].keys()
    assert list(target.parent.iterdir()) == [target]
    assert "two" not in capsys.readouterr().out


def test_interrupt_keeps_finished_claims(
    register: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Assert that Ctrl-C gives exit code 130, one sentence, and the claims that were finished."""

    def interrupted(level: str) -> Evidence:
        raise KeyboardInterrupt

    stopped = Claim("stopped", "", "", "", "", "holds", interrupted)
    register(invented_claim("finished", 0.5), stopped, invented_claim("never", 0.5))
    assert main(["validate", "--json", str(tmp_path / "verdicts.json")]) == 130
    captured = capsys.readouterr()
    assert "1 claims: 1 holds" in captured.out
    assert captured.err.startswith("snapdyn: interrupted")
    assert captured.err.count("\n") == 1
    assert [claim["id"] for claim in json.loads((tmp_path / "verdicts.json").read_text())["claims"]] == ["finished"]


def test_interrupt_of_figures(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Assert that Ctrl-C in any other command gives exit code 130 and one sentence."""

    def interrupted(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("snapdyn.figures.draw", interrupted)
    assert main(["figures", "--out", str(tmp_path)]) == 130
    assert capsys.readouterr().err.startswith("snapdyn: interrupted")


def test_bug_is_not_dressed_as_a_mistake(register: Callable[..., None]) -> None:
    """Assert that an error which is not the user's comes through with its traceback."""

    def faulty(level: str) -> Evidence:
        raise ZeroDivisionError

    register(Claim("faulty", "", "", "", "", "holds", faulty))
    with pytest.raises(ZeroDivisionError):
        main(["validate"])


def test_figures_are_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert that a named figure is drawn into the folder, and where is said."""
    assert main(["figures", "9", "--out", str(tmp_path / "pictures")]) == 0
    picture = tmp_path / "pictures" / "figure_9.png"
    assert picture.is_file()
    assert str(picture) in capsys.readouterr().out
