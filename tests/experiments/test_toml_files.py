"""Reading TOML files and their sections."""

from pathlib import Path

import pytest

from snapdyn.commands.main import main


def test_not_a_text_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert that a binary file is refused as such."""
    (tmp_path / "run.toml").write_bytes(b"\xff\xfe\x00")
    assert main(["simulate", str(tmp_path / "run.toml")]) == 2
    assert "UTF-8" in capsys.readouterr().err
