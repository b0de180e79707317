"""netCDF files of other programs are read in a process that can be ended."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import xarray

from snapdyn.dynamics import netcdf_content
from snapdyn.dynamics.traces import netcdf_files
from snapdyn.dynamics.traces.netcdf_files import read_foreign
from snapdyn.errors import InputError

FOREVER = "import time\nwhile True: time.sleep(1)\n"
CONTENT = {"steps": ("step", np.arange(2)), "loss": (("step", "run"), np.arange(6.0).reshape(2, 3))}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    word = ("step", np.array(["ä", ""], dtype=object))
    xarray.Dataset({**CONTENT, "word": word}).to_netcdf(tmp_path / "trace.nc", engine="h5netcdf")
    return tmp_path / "trace.nc"


def test_the_numbers_asked_for_are_those_of_the_file(path: Path) -> None:
    """Assert names, types and values; texts and variables that the file lacks are left out."""
    found = read_foreign(path, ["steps", "loss", "word", "entropy"])
    assert list(found) == ["steps", "loss"]
    for name, (_, values) in CONTENT.items():
        assert found[name].dtype == values.dtype
        np.testing.assert_array_equal(found[name], values)


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    """Assert one sentence for text, for an empty file, for a folder and for no file."""
    (tmp_path / "text").write_text("t,z\n")
    (tmp_path / "empty").write_text("")
    for name in ("text", "empty", "none", "."):
        with pytest.raises(InputError, match="write the variables steps, loss as netCDF-4") as error:
            read_foreign(tmp_path / name, ["steps", "loss"])
        assert str(error.value).isprintable()


def test_the_limit_ends_the_process(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert one sentence after the limit where the process never answers, and where it dies."""
    program = tmp_path / "program.py"
    monkeypatch.setattr(netcdf_content, "__file__", str(program))
    program.write_text(FOREVER)
    started = time.perf_counter()
    with pytest.raises(InputError, match="could not be read within 1 s"):
        read_foreign(path, ["loss"], limit=1.0)
    assert time.perf_counter() - started < 30
    program.write_text("import os\nos.abort()\n")
    with pytest.raises(InputError, match="the library that reads HDF5 failed on it"):
        read_foreign(path, ["loss"])


WAITING = """
import sys
from snapdyn.dynamics import netcdf_content
from snapdyn.dynamics.traces.netcdf_files import read_foreign
netcdf_content.__file__ = sys.argv[1]
read_foreign(sys.argv[2], ["loss"])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks for the process in /proc")
def test_ctrl_c_ends_the_process(path: Path, tmp_path: Path) -> None:
    """Assert that an interrupt of the reader alone leaves no process behind."""
    program, told = tmp_path / "program.py", tmp_path / "pid"
    program.write_text(
        f"import os, signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nname = {str(told)!r}\n"
        f"open(name + '2', 'w').write(str(os.getpid()))\nos.rename(name + '2', name)\n{FOREVER}"
    )
    reader = subprocess.Popen([sys.executable, "-c", WAITING, str(program), str(path)], stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 100
        while not told.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        pid = int(told.read_text())
        assert Path(f"/proc/{pid}").exists()
        reader.send_signal(signal.SIGINT)
        reader.wait(60)
        assert not Path(f"/proc/{pid}").exists()
    finally:
        reader.kill()


@pytest.mark.skipif(not hasattr(signal, "alarm"), reason="needs an alarm of the system")
def test_the_process_ends_itself_when_its_parent_is_gone(tmp_path: Path) -> None:
    """Assert that the program is ended by the alarm of the system while it waits in a system call."""
    os.mkfifo(tmp_path / "fifo")
    ended = subprocess.run(
        [sys.executable, "-P", netcdf_content.__file__, str(tmp_path / "fifo"), "1e9", "2", "loss"],
        timeout=60,
        capture_output=True,
    )
    assert ended.returncode == -signal.SIGALRM


def test_the_default_limit_is_a_minute() -> None:
    """Assert what the documentation says."""
    assert netcdf_files.LIMIT == 60.0
