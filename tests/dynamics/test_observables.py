"""Labels of datasets: every variable has a long name and a unit, and settings can be stored."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import xarray

from snapdyn.dynamics import MeanField, from_text, integrate
from snapdyn.dynamics.observables import labelled


def test_every_variable_is_labelled_and_settings_are_stored(tmp_path: Path) -> None:
    """Assert long names, units and settings of any type, also after writing and reading by xarray."""
    settings = {"eta_Y": 0.5, "residual": True, "start": None, "common": [0.1, 0.2], "system": "MeanField"}
    dataset = labelled({"loss": ("time", [1.0]), "own_logit": ("time", [2.0])}, {"time": [0.5]}, settings)
    dataset.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    with xarray.open_dataset(tmp_path / "a.nc", engine="h5netcdf") as read:
        assert read.loss.attrs == {"long_name": "loss", "units": "nats"}
        assert read.own_logit.attrs == {"long_name": "own logit", "units": "1"}
        assert read.time.attrs["units"] == "steps"
        assert (read.attrs["eta_Y"], read.attrs["residual"], read.attrs["start"]) == (0.5, "True", "None")
        np.testing.assert_array_equal(read.attrs["common"], [0.1, 0.2])


def test_a_text_has_words(tmp_path: Path) -> None:
    """Assert that the tokens of a text carry its words."""
    (tmp_path / "a.txt").write_text("the cat saw the dog and the cat saw the bird and the dog saw the bird " * 3)
    classes = from_text(tmp_path / "a.txt", window=2, min_count=2, min_token_count=1)
    dataset = integrate(MeanField(classes, 1.0, 0.1), [1.0]).to_xarray()
    assert dataset.word.dims == ("token",)
    assert dataset.word.values.tolist() == list(classes.words)
