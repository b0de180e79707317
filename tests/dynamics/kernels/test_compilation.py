"""Where compiled code is kept, above all where no folder can be written to."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import snapdyn

# One compiled run in this process, one in a worker, and where its code is kept.
CODE = """
import os
import numba
import numpy as np
from snapdyn.parallel import WorkerPool
from snapdyn.validation.visits import recursion

def run():
    return float(recursion(10.0, 0.1, np.array([1]), 9.0, 1.0)[0]), numba.config.CACHE_DIR

if __name__ == "__main__":
    loss, folder = run()
    pool = WorkerPool(1)
    try:
        assert pool.submit(run).result(timeout=300) == (loss, folder)
    finally:
        pool.shutdown(kill_workers=True)
    print(folder)
"""
CLAIM = """
import snapdyn as sd

@sd.claim("mine", source="own", title="mine", statement="s")
def run(evidence):
    evidence.holds("statement", "closed form", 1 / 3, at_most=1.0)
    evidence.control("wrong theory", "closed form", 2.0, at_most=1.0)
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
def test_a_cache_of_the_user(read_only: Path, tmp_path: Path) -> None:
    """Assert that NUMBA_CACHE_DIR holds the compiled code, without a note."""
    code = "import snapdyn.dynamics.kernels.elementary, snapdyn.validation.visits, numba; print(numba.config.CACHE_DIR)"
    variables = environment(read_only, NUMBA_CACHE_DIR=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=variables, timeout=600)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, str(tmp_path), "")


@pytest.mark.slow
def test_no_cache_at_all(read_only: Path) -> None:
    """Assert one note, and that a kernel runs, where not even a temporary folder can be made."""
    code = (
        "import tempfile; tempfile.tempdir = '/dev/null'\n"
        "from snapdyn.validation.visits import recursion; import numpy as np\n"
        "print(recursion(10.0, 0.1, np.array([1]), 9.0, 1.0)[0])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(read_only), timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("snapdyn: no folder for compiled code can be written to; it is not kept") == 1
    assert float(done.stdout) == pytest.approx(0.1, rel=1e-15)


@pytest.mark.slow
def test_validate_without_home(read_only: Path, tmp_path: Path) -> None:
    """Assert that a claim is checked, and that what cannot be kept is said in one line each."""
    (tmp_path / "claim.py").write_text(CLAIM)
    variables = environment(read_only, TMPDIR=str(tmp_path), MPLCONFIGDIR=str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-m", "snapdyn", "validate", "mine", "--load", "claim.py"],
        capture_output=True, text=True, env=variables, cwd=tmp_path, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "1 claims: 1 holds" in done.stdout
    lines = done.stderr.splitlines()
    assert sum("no folder for compiled code" in line for line in lines) == 1
    assert sum("would lose its finished claims" in line for line in lines) == 1
    assert "Traceback" not in done.stderr
