"""`snapdyn check`: formats, exit codes, bad input."""

import json
import re
from pathlib import Path

import pytest

import snapdyn as sd
from snapdyn.commands.main import main
from tests.helpers import EXAMPLES

TEXT = '[classes]\nkind = "syn_small"\n[check]\neta_Y = 1.0\neta_Z = 0.1\nt_end = 20.0\nonly = [{}]\n'


def run(folder: Path, *options: str, only: str = '"conservation"') -> int:
    """Exit code of the command on a small file."""
    file = folder / "instance.toml"
    file.write_text(TEXT.format(only), encoding="utf-8")
    return main(["check", str(file), *options])


def test_formats(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert a line of counts before the table, and the answers in each form that can be asked for."""
    assert run(tmp_path) == 0
    counts, *table = capsys.readouterr().out.splitlines()
    assert "1 holds" in counts
    assert re.search(r"^conservation .* holds", "\n".join(table), re.MULTILINE)
    for form in ("text", "latex", "json"):
        assert run(tmp_path, "--format", form) == 0
        assert "conservation" in (text := capsys.readouterr().out)
    assert json.loads(text)["claims"][0]["status"] == "holds"


def test_ctrl_c(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert exit code 130 when the check is interrupted, and the answers of before."""

    def stops(instance: sd.Instance) -> sd.Measured:
        raise KeyboardInterrupt

    endless = sd.Property("V", "closed form", stops, sd.Family("any"))
    sd.claim("endless", source="own", title="V", statement="V", properties=endless)(lambda evidence: None)
    assert run(tmp_path, only='"conservation", "endless"') == 130
    captured = capsys.readouterr()
    assert "1 holds" in captured.out
    assert "snapdyn: interrupted" in captured.err


def test_strict_fails_where_a_statement_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert exit code 1 with --strict, and the id, only where a statement fails."""
    wrong = sd.Property("V", "closed form", lambda i: sd.Measured(i.vocab_size, at_most=1), sd.Family("any"))
    sd.claim("small-v", source="own", title="V is 1", statement="V <= 1", properties=wrong)(lambda evidence: None)
    assert run(tmp_path, only='"small-v"') == 0
    assert run(tmp_path, "--strict", only='"small-v"') == 1
    assert "fails here: small-v" in capsys.readouterr().err
    assert run(tmp_path, "--strict") == 0


def test_bad_input_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert exit code 2 for an unknown claim and for a file that is missing."""
    assert run(tmp_path, only='"nothing"') == 2
    assert main(["check", str(tmp_path / "absent.toml")]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 2
    assert all("expected" in line for line in lines)


@pytest.mark.slow
def test_the_example_answers(capsys: pytest.CaptureFixture[str]) -> None:
    """Assert an answer for every claim of the register."""
    assert main(["check", str(EXAMPLES / "check_own_classes.toml"), "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert len(document["claims"]) == len(sd.validation.CLAIMS)
