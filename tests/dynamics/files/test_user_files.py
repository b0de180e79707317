"""Files of a user: what they register, and that a file that fails leaves no trace."""

import hashlib
import sys
from pathlib import Path
from typing import Any

import pytest

from snapdyn.core.errors import InputError
from snapdyn.core.registry import Registry, registries
from snapdyn.dynamics.files.user_files import file_being_loaded, load_file, loaded_files

HEADER = "from snapdyn.core.registry import registries\n"
TOY = "toy = next(r for r in reversed(registries()) if r.kind == '{kind}' and 'ours' in r)\n"


@pytest.fixture
def toys(request: Any, monkeypatch: pytest.MonkeyPatch) -> Registry[str]:
    """A registry of this test with one entry of ours."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    return Registry(f"toy of {request.node.originalname}", str.lower, ["Ours"])


def test_a_file_adds_entries_and_may_be_loaded_again(toys: Registry[str], tmp_path: Path) -> None:
    """Assert names by kind, the digest of the text that was run, and that loading again replaces the entries."""
    file = tmp_path / "mine.py"
    for name in ("Old", "New"):
        file.write_text(HEADER + TOY.format(kind=toys.kind) + f"toy.add('{name}')\n")
        assert load_file(file) == {toys.kind: [name.lower()]}
        assert list(toys) == ["ours", name.lower()]
        assert loaded_files()[file] == hashlib.sha256(file.read_bytes()).hexdigest()
    assert file_being_loaded() == ""


@pytest.mark.parametrize(
    ("ending", "sentence"),
    [
        ("1 / 0\n", "received ZeroDivisionError in line 6 of mine.py"),
        ("toy.add('OURS')\n", "line 6 of mine.py: expected a new name for a toy"),
        ("toy.pop('other'); toy.pop('theirs')\nregistries()[-1].pop('b')\n", "received none"),
    ],
)
def test_a_file_that_fails_is_taken_back(ending: str, sentence: str, toys: Registry[str], tmp_path: Path) -> None:
    """Assert that all registries are as before; one that the file itself made keeps the entries it was made with."""
    toys.add("Mine")
    before = [dict(registry) for registry in registries()]
    file = tmp_path / "mine.py"
    file.write_text(
        HEADER
        + TOY.format(kind=toys.kind)
        + "from snapdyn.core.registry import Registry\nnew = Registry('new kind', str.lower, ['A'])\n"
        + f"toy.add('Other'); toy.add('Theirs'); new.add('B')\n{ending}"
    )
    with pytest.raises(InputError, match=sentence):
        load_file(file)
    after = registries()
    assert [dict(registry) for registry in after[:-1]] == before
    assert dict(after[-1]) == {"a": "A"}
    assert file not in loaded_files()
    assert file_being_loaded() == ""
