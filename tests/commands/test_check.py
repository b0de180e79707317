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


@pytest.mark.parametrize("ending", ["tex", "json", "txt"])
def test_output_files(tmp_path: Path, ending: str) -> None:
    target = tmp_path / f"answers.{ending}"
    assert run(tmp_path, "--output", str(target)) == 0
    text = target.read_text(encoding="utf-8")
    assert "conservation" in text
    if ending == "json":
        assert json.loads(text)["claims"][0]["status"] == "holds"


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
    assert run(tmp_path, "--output", str(tmp_path / "answers.pdf")) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 3
    assert all("expected" in line for line in lines)


def test_ctrl_c_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert exit code 130 and the file of an earlier run, whole, when the check is interrupted."""
    target = tmp_path / "answers.json"
    assert run(tmp_path, "--output", str(target)) == 0
    before = target.read_bytes()

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("snapdyn.experiments.run_files.CheckFile.run", interrupted)
    assert run(tmp_path, "--output", str(target)) == 130
    assert target.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["answers.json", "instance.toml"]


@pytest.mark.slow
def test_the_example_answers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(ROOT / "examples" / "check_own_classes.toml"), "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert len(document["claims"]) == len(sd.validation.CLAIMS)
