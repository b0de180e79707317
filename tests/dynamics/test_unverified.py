"""Files without a digest are read in a process that can be ended."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import xarray

from snapdyn.dynamics import netcdf_content, unverified
from snapdyn.dynamics.unverified import read_unverified
from snapdyn.errors import InputError

FOREVER = "import time\nwhile True: time.sleep(1)\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    content = xarray.Dataset(
        {"loss": (("step", "run"), np.arange(6.0).reshape(2, 3)), "word": ("step", np.array(["ä", ""], dtype=object))},
        attrs={"text": "a\nb", "numbers": np.array([1, 2]), "number": np.float32(0.1)},
    )
    content.to_netcdf(tmp_path / "trace.nc", engine="h5netcdf")
    return tmp_path / "trace.nc"


def test_the_content_is_that_of_the_file(path: Path) -> None:
    """Assert attributes, dimensions, attributes of variables and values, with their types, against xarray."""
    content = read_unverified(path)
    expected = xarray.load_dataset(path, engine="h5netcdf", decode_cf=False)
    assert list(content.variables) == list(expected.variables)
    np.testing.assert_equal(dict(content.attributes), expected.attrs)
    assert content.attributes["number"].dtype == np.float32
    for name, variable in content.variables.items():
        assert variable.dims == expected[name].dims
        assert variable.values.dtype == (object if name == "word" else np.float64)
        np.testing.assert_array_equal(variable.values, expected[name].values)
        np.testing.assert_equal(dict(variable.attributes), expected[name].attrs)


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    """Assert one sentence for text, for an empty file, for a folder and for no file."""
    (tmp_path / "text").write_text("t,z\n")
    (tmp_path / "empty").write_text("")
    for name in ("text", "empty", "none", "."):
        with pytest.raises(InputError, match="choose another file"):
            read_unverified(tmp_path / name)


def test_the_limit_ends_the_process(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert one sentence after the limit where the process never answers, and where it dies."""
    program = tmp_path / "program.py"
    monkeypatch.setattr(netcdf_content, "__file__", str(program))
    program.write_text(FOREVER)
    started = time.perf_counter()
    with pytest.raises(InputError, match="could not be read within 1 s"):
        read_unverified(path, limit=1.0)
    assert time.perf_counter() - started < 30
    program.write_text("import os\nos.abort()\n")
    with pytest.raises(InputError, match="the library that reads HDF5 failed on it"):
        read_unverified(path)


@pytest.mark.parametrize(
    "answer",
    [
        '{"attributes": {}, "variables": [{"name": "x", "dims": ["n"], "attributes": {}, "text": null, '
        '"dtype": "<f8", "shape": [1000000000000000]}]}',
        '{"attributes": {}, "variables": [{"name": "x", "dims": ["n"], "attributes": {}, "text": null, '
        '"dtype": "|O", "shape": [1]}]}',
        '{"attributes": {}, "variables": [{"name": "x", "dims": [], "attributes": {}, "text": null, '
        '"dtype": "<f8", "shape": [1]}]}',
        "[]",
        "{}",
    ],
)
def test_answers_of_the_process_are_checked(
    answer: str, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Assert one sentence for sizes beyond memory, objects, axes without a name and other answers."""
    program = tmp_path / "program.py"
    program.write_text(f"print({answer!r})")
    monkeypatch.setattr(netcdf_content, "__file__", str(program))
    with pytest.raises(InputError, match="is damaged"):
        read_unverified(path)


WAITING = """
import sys
from snapdyn.dynamics import netcdf_content
from snapdyn.dynamics.unverified import read_unverified
netcdf_content.__file__ = sys.argv[1]
read_unverified(sys.argv[2])
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


def test_the_default_limit_is_a_minute() -> None:
    """Assert what the documentation of the loaders says."""
    assert unverified.LIMIT == 60.0
