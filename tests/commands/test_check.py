"""`snapdyn check`: formats, exit codes, bad input."""

import json
from pathlib import Path

import pytest

import snapdyn as sd
from snapdyn.commands.main import main
from tests.helpers import ROOT

TEXT = '[classes]\nkind = "syn_small"\n[check]\neta_Y = 1.0\neta_Z = 0.1\nt_end = 20.0\nonly = ["{only}"]\n'


def run(folder: Path, *options: str, only: str = "conservation") -> int:
    """Exit code of the command on a small file."""
    file = folder / "instance.toml"
    file.write_text(TEXT.format(only=only), encoding="utf-8")
    return main(["check", str(file), *options])


def test_table_and_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path) == 0
    out = capsys.readouterr().out
    assert "conservation  holds" in out
    assert "1 holds" in out


@pytest.mark.parametrize("form", ["latex", "json", "text"])
def test_formats(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert that the answers are printed in the form that was asked for."""
    assert run(tmp_path, "--format", form) == 0
    text = capsys.readouterr().out
    assert "conservation" in text
    if form == "json":
        assert json.loads(text)["claims"][0]["status"] == "holds"


def test_ctrl_c(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert exit code 130 when the check is interrupted."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("snapdyn.experiments.run_files.CheckFile.run", interrupted)
    assert run(tmp_path) == 130


def test_strict_fails_where_a_statement_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = sd.Property("V", "closed form", lambda i: sd.Measured(i.vocab_size, at_most=1), sd.Family("any"))
    sd.claim("small-v", source="own", title="V is 1", statement="V <= 1", properties=wrong)(lambda evidence: None)
    try:
        assert run(tmp_path, only="small-v") == 0
        assert run(tmp_path, "--strict", only="small-v") == 1
        assert "fails here: small-v" in capsys.readouterr().err
        assert run(tmp_path, "--strict") == 0
    finally:
        del sd.validation.CLAIMS["small-v"]


def test_bad_input_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, only="nothing") == 2
    assert main(["check", str(tmp_path / "absent.toml")]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 2
    assert all("expected" in line for line in lines)


@pytest.mark.slow
def test_the_example_answers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(ROOT / "examples" / "check_own_classes.toml"), "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert len(document["claims"]) == len(sd.validation.CLAIMS)
