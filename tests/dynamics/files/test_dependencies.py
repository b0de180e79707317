"""What results of a user's code depend on: what counts, what is noticed, and where nothing can be known."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# Loads a file, calls its `statement`, and prints what is known before and after. What the program itself imports counts
# only where the file uses it as well.
PROGRAM = """
import json, sys, early, program
from snapdyn.dynamics import SYSTEMS
from snapdyn.dynamics.files.dependencies import dependencies, watching
from snapdyn.dynamics.files.user_files import load_file
load_file(sys.argv[1])
before = dependencies()
with watching():
    SYSTEMS["Toy"].statement()
print(json.dumps([before, dependencies()]))
"""
TOY = """
import snapdyn as sd
{imports}

GIVEN = {{"clock": "sgd steps", "batch_size": 1, "seq_len": 9}}

@sd.register
class Toy(sd.System):
    @staticmethod
    def statement():
        {statement}
"""


def known(folder: Path, imports: str, statement: str) -> list[dict[str, str] | None]:
    """What is known before and after a statement of a file in a process of its own; names relative to the folder."""
    (folder / "beside").mkdir(exist_ok=True)
    file = folder / "beside" / "toy.py"
    file.write_text(TOY.format(imports=imports, statement=statement))
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, file], env=os.environ | {"PYTHONPATH": str(folder / "elsewhere")},
        cwd=folder / "beside", capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [
        each and {name[len(f"{folder}/") :]: each[name] for name in each if name.startswith(f"{folder}/")}
        for each in json.loads(ended.stdout)
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with modules and files beside a user's file, and elsewhere."""
    for name in ("beside/law.py", "beside/unused.py", "elsewhere/far.py", "elsewhere/later.py", "elsewhere/early.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("NUMBER = 1\n")
    (tmp_path / "elsewhere" / "program.py").write_text("import h5py\n")
    (tmp_path / "elsewhere" / "near.py").write_text("from early import NUMBER\n")
    for name in ("beside/register.toml", "data.csv", "table.txt", "a.nc"):
        (tmp_path / name).write_text("1\n")
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("imports", "statement", "more"),
    [
        ("import json", "import later", {"elsewhere/later.py"}),
        ("from near import NUMBER", "pass", {"elsewhere/early.py", "elsewhere/near.py"}),
        ("import os", "os.open('../data.csv', os.O_RDONLY)", {"data.csv"}),
        ("DATA = open('../data.csv').read()", "open('../table.txt', 'rb').read()", {"data.csv", "table.txt"}),
        ("import glob", "glob.glob('../elsewhere/*.csv')", {"elsewhere/"}),
        ("import contextlib as c", "with c.suppress(sd.InputError): sd.read_trace('../a.nc', **GIVEN)", {"a.nc"}),
        ("", "open('../new', 'w').close(); open('../new').read()", set()),
    ],
)  # fmt: skip
def test_what_counts(imports: str, statement: str, more: set[str], folder: Path) -> None:
    """Assert code beside the file, other modules that are no installed package, and what is opened or listed."""
    beside = {"beside/*.py", "beside/law.py", "beside/unused.py", "beside/register.toml"}
    _, after = known(folder, imports, statement)
    assert after is not None
    assert set(after) == beside | more


@pytest.mark.slow
def test_a_change_is_noticed(folder: Path) -> None:
    """Assert another digest of a module, of a file that was opened, and of names in a folder; else the same ones."""
    imports, statement = "import law, os", "open('../data.csv').read(); os.listdir('../elsewhere')"
    first = known(folder, imports, statement)
    assert known(folder, imports, statement) == first
    for name in ("beside/law.py", "data.csv", "elsewhere/new", "beside/new.py"):
        (folder / name).write_text("2\n")
    _, after = known(folder, imports, statement)
    assert after is not None
    assert first[1] is not None
    changed = {name for name, digest in after.items() if first[1].get(name) != digest}
    assert changed == {"beside/law.py", "data.csv", "elsewhere/", "beside/*.py", "beside/new.py"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("imports", "statement"),
    [
        ("import subprocess", "subprocess.run(['true'])"),
        ("import socket", "socket.socket().connect_ex(('127.0.0.1', 9))"),
        ("import h5py", "pass"),
        ("", "open('../data.csv').read(); open('../data.csv', 'w').write('2'); open('../data.csv').read()"),
        ("import program", "pass"),
    ],
)
def test_what_cannot_be_known(imports: str, statement: str, folder: Path) -> None:
    """Assert that nothing is known once code has read what no hook sees, or a file that has changed since."""
    assert known(folder, imports, statement)[1] is None
