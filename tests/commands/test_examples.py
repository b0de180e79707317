"""`snapdyn examples`: the example files, copied for the user."""

from pathlib import Path

from tests.helpers import EXAMPLES, Command


def copies(folder: Path) -> dict[str, bytes]:
    files = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in files.items() if "__pycache__" not in name}


def test_copies_are_the_examples(tmp_path: Path, command: Command) -> None:
    """Assert that every example is copied, to the byte, that a second run changes nothing, nor a changed copy."""
    for _ in range(2):
        command("examples", tmp_path)
        assert copies(tmp_path) == copies(EXAMPLES)
    (tmp_path / "syn_small.toml").write_text("# mine")
    before = copies(tmp_path)
    assert "syn_small.toml differs; choose another folder" in command("examples", tmp_path, code=2).err
    assert copies(tmp_path) == before
