"""netCDF files: whole or refused, also on a full disk and for a file made to mislead."""

import json
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray

from snapdyn.core.errors import InputError
from snapdyn.dynamics.files.netcdf import BLOCK, TRAILER_SIZE, read_dataset, reading_netcdf, write_netcdf
from snapdyn.dynamics.files.netcdf_content import Content
from tests.dynamics.helpers import trailer_of

NUMBERS = np.array([0.1 + 0.2, np.nan, -np.inf, 5e-324])


def written(folder: Path, file_format: str = "test 1") -> Path:
    return write_netcdf(xarray.Dataset({"x": ("n", NUMBERS)}, attrs={"note": "a"}), folder / "a.nc", file_format)


def read(path: Path) -> Content:
    with reading_netcdf(path, "test", "test 1", "write it again") as content:
        return content


LABELLED = xarray.Dataset(
    {
        "a": (("t", "x"), np.arange(6.0).reshape(3, 2), {"units": "1"}),
        "b": ("t", np.array([True, False, True])),
        "w": ("k", np.array(["ä", "bb"], dtype=object)),
        "s": ((), 3.5),
    },
    {"t": [1.0, 2.0, 3.0], "label": ("x", np.array(["p", "q"], dtype=object))},
    {"text": "v", "number": 1.5, "numbers": [1.0, 2.0], "names": ["a", "b"]},
)


def test_xarray_opens_the_file_and_gives_the_same(tmp_path: Path) -> None:
    """Assert that xarray and our reader give one dataset, which gives the same bytes again, and nothing beside it."""
    path = write_netcdf(LABELLED, tmp_path / "a.nc", "test 1")
    assert [file.name for file in tmp_path.iterdir()] == ["a.nc"]
    opened = xarray.load_dataset(path, engine="h5netcdf")
    assert opened.attrs.pop("format") == "test 1"
    again = read_dataset(path, "test", "test 1", "")
    xarray.testing.assert_identical(again, opened)
    assert write_netcdf(again, tmp_path / "b.nc", "test 1").read_bytes() == path.read_bytes()
    xarray.testing.assert_equal(opened, LABELLED)
    assert read(written(tmp_path)).arrays["x"].tobytes() == NUMBERS.tobytes()


@pytest.mark.parametrize("size", [0, BLOCK, 9 * BLOCK + 5])
def test_the_trailer_is_as_documented(size: int, tmp_path: Path) -> None:
    """Assert the digest of files of less than a block and of more blocks than threads."""
    content = xarray.Dataset({"x": ("n", np.random.default_rng(0).integers(0, 256, size, dtype=np.uint8))})
    whole = write_netcdf(content, tmp_path / "a.nc", "test 1").read_bytes()
    assert whole[-TRAILER_SIZE:] == trailer_of(whole[:-TRAILER_SIZE])


def test_one_bit_is_enough(tmp_path: Path) -> None:
    """Assert the sentence about the digest for a changed bit in the numbers, in the attributes and in the digest."""
    path = written(tmp_path)
    whole = path.read_bytes()
    for place in (whole.index(NUMBERS.tobytes()), whole.index(b"note"), len(whole) - 2):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(InputError, match="is damaged: its SHA-256 digest differs; write it again"):
            read(path)


@pytest.mark.parametrize("change", ["cut", "half", "lengthened", "none"])
def test_a_file_without_a_digest_is_refused(change: str, tmp_path: Path) -> None:
    """Assert the sentence for a file without trailer, with a part of it, and with bytes behind it."""
    path = written(tmp_path)
    whole = path.read_bytes()
    ends = {"cut": whole[:-1], "half": whole[:300], "lengthened": whole + b"\n", "none": whole[:-TRAILER_SIZE]}
    path.write_bytes(ends[change])
    with pytest.raises(InputError, match=r"has no digest at its end: .* another program wrote it; write it again$"):
        read(path)


LIMITED = """
import json, resource, sys
from pathlib import Path
import numpy as np
import snapdyn as sd
from snapdyn.dynamics import Trajectory
path = Path(sys.argv[1])

def save():
    t = np.arange(3000.0)
    Trajectory(None, t, t[:, None], np.zeros((1, 1)), t, "system", {}).save(path)

save()
before, size = path.read_bytes(), path.stat().st_size
names = sorted(p.name for p in path.parent.iterdir())
for limit in (1, 2000, size // 2, size - 100, size - 50):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        save()
        print("written", limit)
    except sd.InputError as error:
        print(json.dumps(str(error)))
    assert path.read_bytes() == before and sorted(p.name for p in path.parent.iterdir()) == names
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
save()
assert path.read_bytes() == before
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit of the file size")
def test_a_full_disk_is_one_sentence(tmp_path: Path) -> None:
    """Assert, where a file may not grow: one sentence, the old file whole, nothing beside it, a process that goes on.

    The limits fall into the first write, the numbers, HDF5's own data and the trailer.
    """
    run = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path / "a.nc")], capture_output=True, text=True, timeout=300
    )
    assert (run.returncode, run.stderr) == (0, "")
    sentences = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(sentences) == 5
    for sentence in sentences:
        assert sentence.startswith("expected ")
        assert "File too large; choose another path" in sentence


def test_ctrl_c_acts_when_hdf5_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that Ctrl-C within a write comes after HDF5's last byte, that the old file stays, and who handles it."""
    path, whole, ended = written(tmp_path), xarray.Dataset.to_netcdf, []
    before, handler = path.read_bytes(), signal.getsignal(signal.SIGINT)

    def interrupted(self: xarray.Dataset, **options: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        made = whole(self, **options)
        ended.append(True)
        return made

    monkeypatch.setattr(xarray.Dataset, "to_netcdf", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_netcdf(LABELLED, path, "test 1")
    assert ended == [True]
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["a.nc"]
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_thread_writes_the_same_bytes(tmp_path: Path) -> None:
    """Assert it for a thread that is not the main one, which cannot handle signals."""
    with ThreadPoolExecutor(1) as pool:
        path = pool.submit(write_netcdf, LABELLED, tmp_path / "a.nc", "test 1").result()
    assert path.read_bytes() == write_netcdf(LABELLED, tmp_path / "b.nc", "test 1").read_bytes()


@pytest.mark.parametrize("damage", ["other format", "missing", "constructor"])
def test_damage_is_one_sentence(damage: str, tmp_path: Path) -> None:
    """Assert InputError for another format, no file, and values from which nothing can be built."""
    path = written(tmp_path, "test 2" if damage == "other format" else "test 1")
    if damage == "missing":
        path.unlink()
    with pytest.raises(InputError, match=r"^expected ") as error, reading_netcdf(path, "test", "test 1", "again"):
        np.zeros(3).reshape(2, 2)  # a constructor that fails
    assert "\n" not in str(error.value)
