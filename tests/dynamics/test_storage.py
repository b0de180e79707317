"""Files appear whole or not at all; targets are checked before a computation starts."""

from pathlib import Path

import pytest

from snapdyn.dynamics.storage import check_target, output_folder, provenance, replacing, write_text
from snapdyn.errors import InputError


def test_a_stopped_write_leaves_the_old_file(tmp_path: Path) -> None:
    """Assert that an interrupt inside the block keeps the old content and removes the temporary file."""
    file = tmp_path / "a.txt"
    write_text(file, "old")
    with pytest.raises(KeyboardInterrupt), replacing(file) as temporary:  # noqa: PT012
        temporary.write_text("new")
        raise KeyboardInterrupt
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_a_target_in_a_missing_folder_is_refused(tmp_path: Path) -> None:
    """Assert one sentence for a folder that does not exist, and for a target that is a folder."""
    with pytest.raises(InputError, match="to exist"), replacing(tmp_path / "none" / "a.txt"):
        pass
    with pytest.raises(InputError, match="received the folder"):
        check_target(tmp_path)


def test_folders_are_made_or_refused(tmp_path: Path) -> None:
    """Assert that missing folders are made, and that a file in the way is one sentence."""
    assert output_folder(tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="choose another folder"):
        output_folder(tmp_path / "file" / "b")


def test_provenance_names_versions() -> None:
    """Assert that code and libraries are named beside what the caller adds."""
    facts = provenance(seed=3)
    assert facts["seed"] == 3
    assert {"numpy", "scipy", "numba"} <= set(facts["versions"])
    assert facts["snapdyn"]
