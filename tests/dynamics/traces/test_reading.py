"""Reading traces: every format gives the same arrays, and damaged or strange files one sentence."""

import importlib.util
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray

import snapdyn as sd
from snapdyn.dynamics import Trace, read_trace
from snapdyn.dynamics.files import netcdf_content
from snapdyn.dynamics.traces.reading import read_foreign
from snapdyn.errors import InputError

STEPS = np.array([0.0, 5.0, 50.0])
RNG = np.random.default_rng(0)
ATTENTION = RNG.dirichlet(np.ones(3), size=(2, 3, 2))  # (seed, step, class, token)
LOSS = RNG.uniform(size=(2, 3))


def same(trace: Trace) -> bool:
    assert trace.attention is not None
    assert trace.loss is not None
    return bool(
        np.array_equal(trace.steps, STEPS)
        and np.allclose(trace.attention, ATTENTION, rtol=1e-15)
        and np.allclose(trace.loss, LOSS, rtol=1e-15)
    )


def test_npz_and_netcdf(tmp_path: Path) -> None:
    """Assert the arrays of both binary formats, beside settings that are left aside."""
    np.savez(tmp_path / "run.npz", steps=STEPS, attention=ATTENTION, loss=LOSS, seed=3, command="python x.py")
    assert same(read_trace(tmp_path / "run.npz"))
    dims = ("seed", "step", "class", "token")
    data = {"steps": ("step", STEPS), "attention": (dims, ATTENTION), "loss": (dims[:2], LOSS)}
    xarray.Dataset(data).to_netcdf(tmp_path / "run.nc", engine="h5netcdf")
    assert same(read_trace(tmp_path / "run.nc"))


def test_both_tables(tmp_path: Path) -> None:
    """Assert the arrays of a wide and of a long table, the rows of the long one in any order."""
    columns = ["step", "seed", "loss", *(f"attention_{n}_{l}" for n in range(2) for l in range(3))]
    wide, long = [",".join(columns)], []
    for seed in range(2):
        for i, step in enumerate(STEPS):
            values = [LOSS[seed, i], *ATTENTION[seed, i].ravel()]
            wide.append(",".join([str(step), str(seed), *(repr(float(value)) for value in values)]))
            long.append(f"{step},{seed},loss,,,{float(LOSS[seed, i])!r}")
            for n in range(2):
                long += [f"{step},{seed},attention,{n},{l},{float(ATTENTION[seed, i, n, l])!r}" for l in range(3)]
    (tmp_path / "wide.csv").write_text("\n".join(wide))
    first, *rest = long  # the first row numbers the seeds
    (tmp_path / "long.csv").write_text("\n".join(["step,seed,quantity,class,token,value", first, *rest[::-1]]))
    assert same(read_trace(tmp_path / "wide.csv"))
    assert same(read_trace(tmp_path / "long.csv"))


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.csv", "loss\n1", "column step"),
        ("a.csv", "step,seed,loss\n0,0,1\n1,0,1\n0,1,1", "gaps"),
        ("a.csv", "step,quantity,value,extra\n0,loss,1,2", "extra"),
        ("a.csv", b"\xff\xfe\x00", "UTF-8"),
        ("a.npz", b"PK no zip", "npz file of plain arrays"),
        ("a.nc", b"no HDF5", "netCDF"),
        ("events.out.tfevents.1.host", bytes(range(256)) * 4, "received"),
    ],
)
def test_strange_files_are_refused(tmp_path: Path, name: str, content: Any, sentence: str) -> None:
    """Assert one sentence per fault, and for a missing file."""
    if "tfevents" in name:
        pytest.importorskip("tensorboard")
    path = tmp_path / name
    with pytest.raises(InputError, match="not a file"):
        read_trace(path)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=sentence) as error:
        read_trace(path)
    assert "\n" not in str(error.value)


EVENT_STEPS = [0, 10, 50]
GENERATOR = np.random.default_rng(1)
EVENT_ATTENTION = GENERATOR.dirichlet(np.ones(3), size=(3, 2))  # (step, class, token)


def write_events(folder: Path, scalars: list[tuple[str, int, float]]) -> Path:
    """Write scalars (tag, step, value) as PyTorch's SummaryWriter does; returns the file."""
    pytest.importorskip("tensorboard")
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter(str(folder))
    for tag, step, value in scalars:
        writer.add_event(Event(step=step, summary=Summary(value=[Summary.Value(tag=tag, simple_value=value)])))
    writer.close()
    return next(folder.glob("*.tfevents.*"))


def all_scalars() -> list[tuple[str, int, float]]:
    found = []
    for i, step in enumerate(EVENT_STEPS):
        found += [
            ("loss", step, 2.0 - i),
            ("rate/decoder", step, 0.1),
            ("entropy/0", step, 0.5),
            ("entropy/1", step, 1.0),
        ]
        found += [(f"attention/{n}/{l}", step, EVENT_ATTENTION[i, n, l]) for n in range(2) for l in range(3)]
    return found


def test_scalars(tmp_path: Path) -> None:
    """Assert loss, entropy and attention in single precision, and that other tags are left aside; not a loss of NaN."""
    trace = read_trace(write_events(tmp_path, all_scalars()), batch_size=4)
    assert trace.steps.tolist() == EVENT_STEPS
    assert trace.loss is not None
    assert trace.attention is not None
    assert trace.entropy is not None
    assert trace.loss.tolist() == [[2.0, 1.0, 0.0]]
    assert trace.entropy.shape == (1, 3, 2)
    np.testing.assert_allclose(trace.attention[0], EVENT_ATTENTION, rtol=1e-7)
    (tmp_path / "other").mkdir()
    with pytest.raises(InputError, match=r"finite values of loss .* received nan at step 0"):
        read_trace(write_events(tmp_path / "other", [("loss", 0, float("nan"))]))


def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert the sentence that says what to install."""
    path = tmp_path / "events.out.tfevents.1.host"
    path.write_bytes(b"")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(sd.InputError, match=r"pip install 'snapdyn\[tensorboard\]'"):
        sd.read_trace(path)


FOREVER = "import time\nwhile True: time.sleep(1)\n"
CONTENT = {"steps": ("step", np.arange(2)), "loss": (("step", "run"), np.arange(6.0).reshape(2, 3))}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    word = ("step", np.array(["ä", ""], dtype=object))
    xarray.Dataset({**CONTENT, "word": word}).to_netcdf(tmp_path / "trace.nc", engine="h5netcdf")
    return tmp_path / "trace.nc"


def test_the_numbers_asked_for_are_those_of_the_file(path: Path, tmp_path: Path) -> None:
    """Assert names, types and values; texts and variables that the file lacks are left out; no text file."""
    found = read_foreign(path, ["steps", "loss", "word", "entropy"])
    assert list(found) == ["steps", "loss"]
    for name, (_, values) in CONTENT.items():
        assert found[name].dtype == values.dtype
        np.testing.assert_array_equal(found[name], values)
    (tmp_path / "text").write_text("t,z\n")
    with pytest.raises(InputError, match="write the variables steps, loss as netCDF-4"):
        read_foreign(tmp_path / "text", ["steps", "loss"])


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
from snapdyn.dynamics.files import netcdf_content
from snapdyn.dynamics.traces.reading import read_foreign
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
