"""Where compiled code is kept, above all where no folder can be written to; the sentence about compilation."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import pytest

import snapdyn
from snapdyn.dynamics.kernels import compilation
from snapdyn.dynamics.kernels.compilation import COMPILATION, cache_folder

# One compiled run in this process, one in a worker, and where its code is kept.
CODE = """
import numpy as np
from snapdyn.dynamics.kernels.compilation import cache_of_kernels
from snapdyn.core.parallel import WorkerPool
from snapdyn.validation.claims.decoder._shared import recursion

def run():
    return float(recursion(10.0, 0.1, np.array([1]), 9.0, 1.0)[0]), cache_of_kernels()

if __name__ == "__main__":
    loss, folder = run()
    pool = WorkerPool(1)
    try:
        assert pool.submit(run).result(timeout=300) == (loss, folder)
    finally:
        pool.shutdown(kill_workers=True)
    print(folder)
"""


@pytest.fixture(scope="module")
def read_only(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package in which no cache can be made, by any user: a file stands where its folder would be."""
    folder = tmp_path_factory.mktemp("installed")
    package = Path(snapdyn.__file__).parent
    shutil.copytree(package, folder / "snapdyn", ignore=shutil.ignore_patterns("__pycache__"))
    for room in [folder / "snapdyn", *(folder / "snapdyn").rglob("*")]:
        if room.is_dir():
            (room / "__pycache__").touch()
    return folder


def environment(read_only: Path, **others: str) -> dict[str, str]:
    """Variables of a process that uses the copy and has no home: below a device no folder can be made."""
    left_out = ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "SNAPDYN_CACHE")
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    return kept | {"HOME": "/dev/null", "PYTHONPATH": str(read_only)} | others


@pytest.mark.slow
def test_a_temporary_cache(read_only: Path, tmp_path: Path) -> None:
    """Assert one note, compiled code in a temporary folder that a worker shares, and that it is removed at the end."""
    script = tmp_path / "run.py"
    script.write_text(CODE)
    variables = environment(read_only, TMPDIR=str(tmp_path), MPLCONFIGDIR=str(tmp_path))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=variables, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(tmp_path / "snapdyn-kernels-"))
    assert done.stderr.count("snapdyn: no folder for compiled code can be written to") == 1
    assert "NUMBA_CACHE_DIR" in done.stderr
    assert not list(tmp_path.glob("snapdyn-kernels-*"))


@pytest.mark.slow
def test_no_cache_at_all(read_only: Path) -> None:
    """Assert one note, and that a kernel runs, where not even a temporary folder can be made."""
    code = (
        "import tempfile; tempfile.tempdir = '/dev/null'\n"
        "from snapdyn.validation.claims.decoder._shared import recursion; import numpy as np\n"
        "print(recursion(10.0, 0.1, np.array([1]), 9.0, 1.0)[0])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(read_only), timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("snapdyn: no folder for compiled code can be written to; it is not kept") == 1
    assert float(done.stdout) == pytest.approx(0.1, rel=1e-15)


@pytest.mark.parametrize("terminal", [True, False])
def test_a_compilation_is_announced_once(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Assert one sentence on stderr for two compilations at a terminal, and none elsewhere."""
    monkeypatch.setattr(numba.config, "DISABLE_JIT", False)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    monkeypatch.setattr(COMPILATION, "said", False)
    for shift in (1.0, 2.0):
        assert numba.njit(lambda x, shift=shift: x + shift)(1.0) == 1.0 + shift
    assert capsys.readouterr().err.count("snapdyn: compiling") == terminal


@pytest.mark.parametrize(
    ("settings", "folder"),
    [
        ({"SNAPDYN_CACHE": "/own", "XDG_CACHE_HOME": "/xdg"}, "/own"),
        ({"SNAPDYN_CACHE": "", "XDG_CACHE_HOME": "/xdg"}, "/xdg/snapdyn"),
        ({"XDG_CACHE_HOME": "relative"}, "/home/me/.cache/snapdyn"),
        ({}, "/home/me/.cache/snapdyn"),
    ],
)
def test_cache_folder(settings: dict[str, str], folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that the folder is the user's choice, else XDG's, else ~/.cache/snapdyn."""
    for name in ("SNAPDYN_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/me")
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert cache_folder() == Path(folder)


def doubled(x: float) -> float:
    return 2.0 * x


@pytest.mark.parametrize("damage", [b"", b"\x80\x04", None])
def test_damaged_compiled_code_is_made_again(
    damage: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Assert the value and one line where the files are empty, cut off, or in place of them there are folders."""
    monkeypatch.setattr(compilation, "cache_of_kernels", lambda: str(tmp_path))
    monkeypatch.setattr(compilation, "WARNED", [])
    assert compilation.cached_njit()(doubled)(1.0) == 2.0
    files = sorted(tmp_path.rglob("*.nb?"))
    assert len(files) == 2
    for file in files:
        file.unlink()
        if damage is None:
            file.mkdir()
        else:
            file.write_bytes(damage)
    assert compilation.cached_njit()(doubled)(3.0) == 6.0
    said = capsys.readouterr().err
    assert said.startswith("snapdyn: compiled code in ")
    assert said.count("\n") == 1
    if damage is not None:
        compilation.WARNED.clear()
        assert compilation.cached_njit()(doubled)(3.0) == 6.0
        assert capsys.readouterr().err == ""
