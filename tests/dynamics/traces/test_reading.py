"""Reading traces: the three formats give the same arrays, and damaged or strange files one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray

from snapdyn.dynamics import Trace, read_trace
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
        ("a.csv", "step,los\n0,1", "columns step, seed, loss"),
        ("a.csv", "step,loss\n0,x", "line 2"),
        ("a.csv", "step,loss\n0,1\n0,2", "once per seed"),
        ("a.csv", "step,seed,loss\n0,0,1\n1,0,1\n0,1,1", "gaps"),
        ("a.csv", "step,loss", "rows with values"),
        ("a.csv", "step,quantity,value,extra\n0,loss,1,2", "extra"),
        ("a.csv", "step,quantity,value\n0,accuracy,1", "one of attention"),
        ("a.csv", "step,quantity,value,class\n0,entropy,1,x", "whole number"),
        ("a.csv", b"\xff\xfe\x00", "UTF-8"),
        ("a.npz", b"PK no zip", "npz file of plain arrays"),
        ("a.nc", b"no HDF5", "netCDF"),
        ("a.txt", "1", "csv, npz or netCDF"),
    ],
)
def test_strange_files_are_refused(tmp_path: Path, name: str, content: Any, sentence: str) -> None:
    """Assert one sentence per fault."""
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=sentence):
        read_trace(path)


def test_no_pickle_is_loaded(tmp_path: Path) -> None:
    """Assert that an array of objects is refused before any of its code runs, and a missing file is named."""

    class Bomb:
        def __reduce__(self) -> Any:
            return (open, (str(tmp_path / "written"), "w"))

    np.savez(tmp_path / "run.npz", steps=np.array([Bomb()]), loss=[1.0])
    with pytest.raises(InputError, match="pickled objects"):
        read_trace(tmp_path / "run.npz")
    assert not (tmp_path / "written").exists()
    with pytest.raises(InputError, match="not a file"):
        read_trace(tmp_path / "none.npz")
