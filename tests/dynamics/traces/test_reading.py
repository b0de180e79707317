"""Reading traces: every format gives the same arrays, and damaged or strange files one sentence."""

import importlib.util
import math
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
from snapdyn.core.errors import InputError
from snapdyn.dynamics import Trace, read_trace
from snapdyn.dynamics.files import netcdf_content
from snapdyn.dynamics.traces.reading import read_foreign

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
        ("a.csv", "step,loss\n0,3.5\n\n1,x", "finite loss in line 4 of a.csv, received 'x'"),
        ("a.csv", "step,loss\n1,3.5\n0,3,5", "expected 2 cells in line 3 of a.csv, .* received 3"),
        ("a.csv", "step,entropy_1,entropy_2\n0,1,1", "every class from 1 to 2 and none of class 0"),
        ("a.csv", "step,loss,entropy_0\n0,1,\n1,1,\n", "expected entropy at one .* received none for seed 0, class 0"),
        ("a.csv", "step,loss\n,1", "finite step in line 2"),
        ("a.csv", "step,attention_0_0,attention_0_1\n0,.5,.5\n1,.5,", "all tokens of a class .* at step 1, class 0"),
        ("a.csv", "step,loss,accuracy\n0,1,1", "received 'accuracy'"),
        ("a.csv", "step,seed,a - loss\n0,0,1", "received both"),
        ("a.csv", "step,loss,a - loss\n0,1,1", "'loss' beside 'a - loss', of which one names a run"),
        ("a.csv", "step,a - loss,a - Loss\n0,1,1", r"'a - loss' beside 'a - Loss'"),
        ("a.csv", "step,a - loss,a - loss\n0,1,1", "different names"),
        ("a.csv", "step,a - train - entropy_0\n0,1", "at two places"),
        ("a.csv", "Wall time,Step,Value\n0,1,2", r"'Value'.*columns={'step': 'Step', 'loss': 'train/loss'}$"),
        ("a.jsonl", '{"step": 0, "loss": 1}\n{"step": 1, "loss": true}', "finite loss in line 2 of a.jsonl"),
        ("a.jsonl", '{"step": 0, "loss": 1}\n\n{"step": 1, "loss"}', "JSON object .* in line 3"),
        ("a.jsonl", '{"step": 0, "loss": 1, "loss": 2}', "different keys .*a key twice"),
        ("a.jsonl", '{"step": 0, "loss": 1}\n{"step": 0, "loss": 2}', "received two values at step 0"),
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


FIRST, SECOND = "fox - entropy_0,fox - entropy_0__MIN,fox - entropy_0__MAX", "fox - entropy_1,owl - entropy_1"
WANDB = f"""\ufeffStep,{FIRST},owl - entropy_0,{SECOND}

0,1.5,1.5,1.5,1.4,0.5,0.4
10,,,,1.2,,0.3
20,1.1,1,1.2,,0.2,
"""
NAN = np.nan
READ = [[[1.5, 0.5], [NAN, NAN], [1.1, 0.2]], [[1.4, 0.4], [1.2, 0.3], [NAN, NAN]]]


def test_exports_of_wandb(tmp_path: Path) -> None:
    """Assert runs by columns, blank cells as NaN, and every row with its step; without a map and with one."""
    path = tmp_path / "wandb.csv"
    path.write_text(WANDB, encoding="utf-8")
    trace = read_trace(path, seq_len=math.inf)
    assert trace.steps.tolist() == [0, 10, 20]
    np.testing.assert_array_equal(trace.entropy, READ)
    assert "; 4 values not recorded)" in repr(trace)
    text = WANDB.replace("Step", "trainer/global_step").replace(" - ", " - train/").replace("Step", "_step")
    path.write_text(text.replace("fox", "run-7").replace("owl", "run-3"), encoding="utf-8")
    columns = {"step": "trainer/global_step", "entropy": "run-{seed} - train/entropy_{n}"}
    mapped = read_trace(path, columns=columns)
    np.testing.assert_array_equal(mapped.entropy, READ)
    with pytest.raises(InputError, match="column step"):
        read_trace(path)
    only = read_trace(path, columns={**columns, "entropy": "run-3 - train/entropy_{n}"})
    np.testing.assert_array_equal(only.entropy, [READ[1]])


@pytest.mark.parametrize(
    ("name", "text", "options", "loss", "entropy"),
    [
        ("run-fox-tag-loss.csv", "Wall time,Step,Value\n1.5,0,3.5\n2.5,7,3\n", {}, 1, 0),
        ("a.csv", "global_step,loss,entropy/2,_runtime,Relative Time (Wall)\n0,3.5,3.5,1,1\n7,3,3,1,\n", {}, 1, 1),
        ("a.csv", "Step,a - _step,a - _step__MAX,a - Loss,a - Loss__STEP\n0,0,0,3.5,0\n7,7,7,3,7\n", {}, 1, 0),
        ("a.jsonl", '{"_step": 0, "loss": 3.5, "lr": [1]}\n{"_step": 7, "loss": 3, "entropy_2": null}\n', {}, 1, 0),
        (
            "a.json",
            '{"i": 0, "l": 3.5}\n\n{"note": {"l": 1}}\n{"i": 0, "t/2/h": 3.5}\n{"i": 7, "l": 3, "t/2/h": 3}\n',
            {"columns": {"step": "i", "loss": "l", "entropy": "t/{n}/h"}},
            1,
            1,
        ),
    ],
)
def test_names_of_other_programs(tmp_path: Path, name: str, text: str, options: Any, loss: bool, entropy: bool) -> None:
    """Assert steps, loss and the entropy of class 2 alone, as TensorBoard, wandb and logs of JSON lines name them."""
    (tmp_path / name).write_text(text)
    if "null" in text:  # a quantity that is blank throughout
        with pytest.raises(InputError, match="entropy at one recorded step or more"):
            read_trace(tmp_path / name)
        (tmp_path / name).write_text(text.replace(', "entropy_2": null', ""))
    trace = read_trace(tmp_path / name, **options)
    assert trace.steps.tolist() == [0, 7]
    np.testing.assert_array_equal(trace.loss, [[3.5, 3.0]] if loss else None)
    wanted = [[[NAN, NAN, 3.5], [NAN, NAN, 3.0]]]
    np.testing.assert_array_equal(trace.entropy, wanted if entropy else None)


def test_a_subset_of_the_classes_and_runs_of_unequal_length(tmp_path: Path) -> None:
    """Assert that classes 0 and 2 of five, of runs of which one is shorter, meet the classes; from an array not."""
    path = tmp_path / "a.csv"
    path.write_text("Step,a - entropy_0,a - entropy_2,b - entropy_0,b - entropy_2\n0,1,2,1,2\n5,.9,1.8,.8,\n9,,,.7,1\n")
    classes = sd.single_common_token(5, 5, 0.04, 5)
    trace = read_trace(path)
    fitted = trace.for_classes(classes).entropy
    assert fitted is not None
    assert fitted.shape == (2, 3, 5)
    np.testing.assert_array_equal(np.isnan(fitted).all(axis=(0, 1)), [False, True, False, True, True])
    np.testing.assert_array_equal(fitted[:, :, 0], [[1, 0.9, NAN], [1, 0.8, 0.7]])
    assert trace.entropy is not None
    with pytest.raises(InputError, match=r"entropy of 5 classes, received 3.* with NaN"):
        Trace(trace.steps, entropy=trace.entropy).for_classes(classes)
    with pytest.raises(InputError, match="entropy of 2 classes, received 3"):
        trace.for_classes(sd.single_common_token(2, 5, 0.04, 5))
    data = sd.compare(trace, classes, 0.1, 0.1)
    assert data.observable.values.tolist() == ["entropy 0", "entropy 2"]
    with pytest.raises(InputError, match="received entropy 3, of which the trace has no value; leave them out"):
        sd.compare(trace, classes, 0.1, 0.1, ["entropy 0", "entropy 3"])


def test_a_map_of_attention_and_of_seeds(tmp_path: Path) -> None:
    """Assert {n} and {l} in any order, a column of seeds of another name, and a blank class."""
    path = tmp_path / "a.csv"
    path.write_text("i,run,t1_c0,t0_c0,note\n0,5,.75,.25,x\n0,6,,,y\n2,5,.5,.5,\n2,6,1,0,\n")
    trace = read_trace(path, columns={"step": "i", "seed": "run", "attention": "t{l}_c{n}"})
    wanted = [[[[0.25, 0.75]], [[0.5, 0.5]]], [[[NAN, NAN]], [[0.0, 1.0]]]]
    np.testing.assert_array_equal(trace.attention, wanted)


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"los": "loss"}, "as a map"),
        ({"loss": "loss", "acc": "a"}, "each key of columns"),
        ({"loss": "loss_{n}"}, "no placeholder once"),
        ({"attention": "a_{n}"}, "{n} and {l} once"),
        ({"attention": "a_{n}{l}"}, "characters between the placeholders"),
        ({"step": "Step", "loss": "loss"}, "a column Step .step. in a.csv"),
    ],
)
def test_maps_that_do_not_fit(tmp_path: Path, columns: Any, sentence: str) -> None:
    """Assert one sentence for a wrong key or placeholder, and for a column that the file lacks."""
    path = tmp_path / "a.csv"
    path.write_text("step,loss\n0,1\n1,1\n")
    with pytest.raises(InputError, match=sentence) as error:
        read_trace(path, columns=columns)
    assert "\n" not in str(error.value)
    np.savez(tmp_path / "a.npz", steps=[0, 1], loss=[1, 1])
    with pytest.raises(InputError, match="columns"):
        read_trace(tmp_path / "a.npz", columns={"loss": "loss"})


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
    with pytest.raises(InputError, match=r"finite loss at step 0 of .* received nan"):
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


@pytest.mark.parametrize(
    ("content", "column"),
    [
        ("step,entropy_0,loss\n0,2.9,3.5\n1,-0.5,3.1\n", "entropy_0"),
        ("step,quantity,class,value\n0,entropy,0,2.9\n\n1,entropy,0,-2\n", "value"),
    ],
)
def test_a_value_out_of_range_is_named_by_line_and_column(content: str, column: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(content)
    line = 1 + content.splitlines().index(next(row for row in content.splitlines() if "-" in row))
    with pytest.raises(InputError, match=f"expected {column} of at least -0.001 in line {line} of trace.csv"):
        read_trace(path, seq_len=math.inf)
