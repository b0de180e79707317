"""`snapdyn check`: formats, exit codes, bad input."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

import snapdyn as sd
from tests.helpers import Command

TEXT = '[classes]\nkind = "syn_small"\n[check]\neta_Y = 1.0\neta_Z = 0.1\nt_end = 20.0\nonly = [{}]\n'


@pytest.fixture
def check(tmp_path: Path, command: Command) -> Command:
    """Check the claims `only` on a small file."""

    def run(*options: str, only: str = '"conservation"', code: int = 0) -> Any:
        (tmp_path / "instance.toml").write_text(TEXT.format(only), encoding="utf-8")
        return command("check", tmp_path / "instance.toml", *options, code=code)

    return run


def test_formats(check: Command) -> None:
    """Assert a line of counts before the table, and the answers in each form that can be asked for."""
    counts, *table = check().out.splitlines()
    assert "1 holds" in counts
    assert re.search(r"^conservation .* holds", "\n".join(table), re.MULTILINE)
    for form in ("text", "latex", "json"):
        assert "conservation" in (text := check("--format", form).out)
    assert json.loads(text)["claims"][0]["status"] == "holds"


def test_ctrl_c(check: Command) -> None:
    """Assert exit code 130 when the check is interrupted, and the answers of before."""

    def stops(instance: sd.Instance) -> sd.Measured:
        raise KeyboardInterrupt

    endless = sd.Property("V", "closed form", stops, sd.Family("any"))
    sd.claim("endless", source="own", title="V", statement="V", properties=endless)(lambda evidence: None)
    printed = check(only='"conservation", "endless"', code=130)
    assert "1 holds" in printed.out
    assert "snapdyn: interrupted" in printed.err


def test_strict_fails_where_a_statement_fails(check: Command) -> None:
    """Assert exit code 1 with --strict, and the id, only where a statement fails."""
    wrong = sd.Property("V", "closed form", lambda i: sd.Measured(i.vocab_size, at_most=1), sd.Family("any"))
    sd.claim("small-v", source="own", title="V is 1", statement="V <= 1", properties=wrong)(lambda evidence: None)
    check(only='"small-v"')
    assert "fails here: small-v" in check("--strict", only='"small-v"', code=1).err
    check("--strict")


def test_bad_input_is_one_sentence(tmp_path: Path, check: Command, command: Command) -> None:
    """Assert exit code 2 for an unknown claim and for a file that is missing."""
    assert "expected" in check(only='"nothing"', code=2).err
    assert "expected" in command("check", tmp_path / "absent.toml", code=2).err
