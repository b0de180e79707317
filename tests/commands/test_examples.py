"""`snapdyn examples`: the example files, copied for the user."""

from pathlib import Path

import pytest

from snapdyn.commands.main import main
from tests.helpers import EXAMPLES


def copies(folder: Path) -> dict[str, bytes]:
    files = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in files.items() if "__pycache__" not in name}


def test_copies_are_the_examples(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert that every example is copied, to the byte, that a second run changes nothing, nor a changed copy."""
    for _ in range(2):
        assert main(["examples", str(tmp_path)]) == 0
        assert copies(tmp_path) == copies(EXAMPLES)
    (tmp_path / "syn_small.toml").write_text("# mine")
    before = copies(tmp_path)
    assert main(["examples", str(tmp_path)]) == 2
    assert copies(tmp_path) == before
    assert "syn_small.toml differs; choose another folder" in capsys.readouterr().err
