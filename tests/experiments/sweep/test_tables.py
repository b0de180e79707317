"""The dataset of a sweep: its dimensions and series."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import snapdyn
from tests.experiments.sweep.helpers import GOOD, GRID, dataset, swept


def test_seeds_of_sgd_are_a_dimension(tmp_path: Path) -> None:
    """Assert the values of each seed, and the transition time of descent against that of the flow at small rates."""
    text = GRID.replace('[system]\nkind = "MeanField"\neta_Y = 1.0', "[sgd]\neta_Y = 0.05\nsteps = 1500\nseeds = 2")
    text = re.sub(r"\[run\][^[]*", "", text).replace("system.eta_Z", "sgd.eta_Z").replace("[2, 3, 25]", "[3]")
    text = text.replace("[0.1, 0.5]", "[0.005, 0.01]").replace('"class_entropy"', '"t_end"')
    assert swept(text, tmp_path) == 0
    data = dataset(tmp_path)
    assert data.entropy.dims == ("eta_Z", "num_classes", "seed")
    assert data.seed.attrs["parameter"] == "sgd.seed"
    classes = snapdyn.single_common_token(3, 2, 0.3, 20)
    run = snapdyn.sgd(classes, 0.05, 0.01, 1500, seed=1)
    assert float(data.entropy[1, 0, 1]) == pytest.approx(run.entropy()[-1].mean(), rel=1e-12)
    # Batches of one: visits of the classes up to t* = 145, 48 each, scatter by their root.
    assert np.abs(data.transition_time / data.t_peak - 1).max() < 4 * np.sqrt(3 / data.t_peak.min())
    assert (data.transition_time / data.t_end < 0.6).all()
    assert swept(text.replace("steps = 1500", 'steps = 9\noptimizer = "adam"'), tmp_path, name="adam") == 0
    assert dataset(tmp_path, "adam").t_peak.isnull().all()


def test_seeds_of_classes_beside_those_of_sgd(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert two dimensions of different names where both seeds vary, a cell, and the diagram over them."""
    text = """
[classes]
kind = "random_classes"
[sgd]
eta_Y = 0.1
eta_Z = 0.1
steps = 9
seeds = [5, 7]
[sweep]
design = "grid"
observables = ["entropy"]
classes.seed = [0, 1, 2]
"""
    assert swept(text, tmp_path) == 0
    data = dataset(tmp_path)
    assert dict(data.sizes) == {"classes.seed": 3, "sgd.seed": 2}
    assert [data[name].attrs["parameter"] for name in data.dims] == list(data.dims)
    run = snapdyn.sgd(snapdyn.random_classes(seed=2), 0.1, 0.1, 9, seed=7)
    found = data.entropy.sel({"classes.seed": 2, "sgd.seed": 7})
    assert float(found) == pytest.approx(run.entropy()[-1].mean(), rel=1e-12)
    phase = '[phase]\nx = "classes.seed"\ny = "sgd.seed"\nvariable = "entropy"\n'
    assert swept(text + phase, tmp_path) == 0
    assert (tmp_path / "out" / "grid.png").is_file()
    assert swept((text + phase).replace('"grid"', '"list"'), tmp_path) == 2
    assert "received another design" in capsys.readouterr().err


def test_series_whose_times_differ(tmp_path: Path) -> None:
    """Assert that each cell keeps its own times where the end of the run is swept, and the kind of system may be."""
    text = GOOD.replace('"entropy"', '"loss_series"').replace("classes.num_classes = [2, 3]", "run.last = [10.0, 50.0]")
    text = text.replace("[0.1, 0.5]", "[0.1]") + '"system.kind" = ["MeanField", "ModifiedDecoder"]\n'
    assert swept(text, tmp_path) == 0
    data = dataset(tmp_path)
    assert data.times.dims == ("eta_Z", "last", "kind", "time")
    np.testing.assert_allclose(data.times.sel(last=50.0, kind="MeanField")[0], snapdyn.log_times(1, 50, 5))
    np.testing.assert_array_equal(data.loss_series.isel(time=-1), data.loss)
    assert data.loss.sel(kind="MeanField", last=50.0) != data.loss.sel(kind="ModifiedDecoder", last=50.0)
