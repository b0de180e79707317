"""netCDF files with a digest against xarray alone: time to save and load 12 MB (a run, 17 variables) and 100 MB."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray

from snapdyn.dynamics import MeanField, integrate, syn_small
from snapdyn.dynamics.files.netcdf import read_dataset, write_netcdf
from snapdyn.dynamics.files.storage import replacing

FORMAT = "benchmark 1"


def dataset(case: str, folder: Path) -> xarray.Dataset:
    """What `Trajectory.save` writes for a run of 14,000 times, or one array of 100 MB."""
    if case == "100 MB":
        return xarray.Dataset({"z": (("time", "logit"), np.random.default_rng(0).normal(size=(12_500, 1000)))})
    run = integrate(MeanField(syn_small(), 1.0, 1.0), np.geomspace(1.0, 1e4, 14_000), save_decoder=True)
    return xarray.load_dataset(run.save(folder / "run.nc"), engine="h5netcdf")


def save_without(content: xarray.Dataset, path: Path) -> None:
    """Save by xarray alone."""
    with replacing(path) as temporary:
        content.assign_attrs(format=FORMAT).to_netcdf(temporary, engine="h5netcdf")


def load_without(path: Path) -> xarray.Dataset:
    """Load by xarray alone."""
    return xarray.load_dataset(path, engine="h5netcdf")


@pytest.mark.benchmark(group="save")
@pytest.mark.parametrize("case", ["12 MB", "100 MB"])
@pytest.mark.parametrize("route", ["xarray", "digest"])
def test_save(benchmark: Any, case: str, route: str, tmp_path: Path) -> None:
    """Time of one save."""
    content, path = dataset(case, tmp_path), tmp_path / "a.nc"
    if route == "digest":
        benchmark.pedantic(write_netcdf, (content, path, FORMAT), rounds=30, warmup_rounds=2)
    else:
        benchmark.pedantic(save_without, (content, path), rounds=30, warmup_rounds=2)
    xarray.testing.assert_equal(load_without(path), content)
    assert path.stat().st_size > 10e6


@pytest.mark.benchmark(group="load")
@pytest.mark.parametrize("case", ["12 MB", "100 MB"])
@pytest.mark.parametrize("route", ["xarray", "digest"])
def test_load(benchmark: Any, case: str, route: str, tmp_path: Path) -> None:
    """Time of one load."""
    content, path = dataset(case, tmp_path), tmp_path / "a.nc"
    write_netcdf(content, path, FORMAT)
    if route == "xarray":
        loaded = benchmark.pedantic(load_without, (path,), rounds=30, warmup_rounds=2)
    else:
        loaded = benchmark.pedantic(read_dataset, (path, "benchmark", FORMAT, ""), rounds=30, warmup_rounds=2)
    xarray.testing.assert_equal(loaded, content)
