"""No command runs a module that happens to lie in the working folder."""

import os
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

SNAPDYN = str(Path(sysconfig.get_path("scripts")) / "snapdyn")
# Modules of the standard library and of packages that the processes of snapdyn import, or try to import.
NAMES = (*sys.stdlib_module_names, "joblib", "loky", "numpy", "scipy", "cloudpickle", "numba", "marimo", "h5py", "dask")
HOSTILE = """
import os
file = os.open({ran!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.write(file, b"{name} ")
raise ImportError("a module of the working folder")
"""
SWEEP = """
[system]
kind = "Oscillator"
[run]
times = [1.0]
[sweep]
design = "grid"
"system.k" = [1.0, 2.0, 3.0, 4.0]
"""
PLUGIN = """
import snapdyn as sd
import sympy
from law import power

x, k = sympy.symbols("x k")
sd.register(sd.System.from_sympy("Oscillator", {x: 1.0}, {x: -k * x**power}, {k: 1.0}))
for number in range(2):
    @sd.claim(f"own-{number}", source="own", title="Own", statement="The power is 1.")
    def own(evidence):
        import law
        evidence.holds("power", "arithmetic", law.power, at_most=1.0)
        evidence.control("another", "arithmetic", law.power + 1.0, at_most=1.0)
        evidence.conclusion = "Done."
"""


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[Path]:
    """A working folder with a module of each name, and beside it a folder with a user's file and its neighbour."""
    folder, own = tmp_path / "hostile", tmp_path / "own"
    folder.mkdir()
    own.mkdir()
    for name in NAMES:
        (folder / f"{name}.py").write_text(HOSTILE.format(ran=str(tmp_path / "ran"), name=name))
    (own / "plugin.py").write_text(PLUGIN)
    (own / "law.py").write_text("power = 1\n")
    (own / "sweep.toml").write_text(SWEEP)
    yield folder
    assert not (tmp_path / "ran").exists(), (tmp_path / "ran").read_text()


LOAD = ["--load", "../own/plugin.py"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ["sweep", "../own/sweep.toml", *LOAD, "--jobs", "2", "--out", "out"],
        ["validate", "own-0", "own-1", *LOAD, "--jobs", "2"],
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_commands(command: list[str], hostile: Path) -> None:
    """Assert that a command ends well, with the neighbours of loaded files, and runs no module of the folder."""
    ended = subprocess.run([SNAPDYN, *command], cwd=hostile, capture_output=True, text=True, timeout=280)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.slow
@pytest.mark.skipif(find_spec("marimo") is None, reason="needs the extra explore")
def test_explore(hostile: Path) -> None:
    """Assert that the notebook's server starts, with neither the modules of the folder nor its settings."""
    (hostile / ".marimo.toml").write_text('[runtime]\npythonpath = ["."]\n')
    with subprocess.Popen(
        [SNAPDYN, "explore", "--no-browser"], cwd=hostile, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    ) as server:  # fmt: skip
        lines = []
        for line in server.stdout:
            lines.append(line)
            if "http://" in line:
                break
        os.killpg(server.pid, signal.SIGINT)
        server.stdout.read()
    assert "http://" in lines[-1], lines


@pytest.mark.slow
def test_python_runs_the_modules_of_the_folder(hostile: Path) -> None:
    """Assert that `python -m` does, by Python's own rule, which shows that these modules are able to; with -P not."""
    for options, runs in (([], True), (["-P"], False)):
        ended = subprocess.run([sys.executable, *options, "-m", "snapdyn", "--version"], cwd=hostile)
        assert (ended.returncode != 0) == runs
        ran = hostile.parent / "ran"
        assert ran.exists() == runs
        ran.unlink(missing_ok=True)
