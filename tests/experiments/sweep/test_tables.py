"""The dataset of a sweep: its dimensions and series."""

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
