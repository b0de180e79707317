"""The registry of observables, and labels of datasets: long names, units, settings that can be stored."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import sympy
import xarray

from snapdyn.dynamics import MeanField, System, from_text, integrate, syn_small
from snapdyn.dynamics.observables import OBSERVABLES, Observable, labelled
from snapdyn.errors import InputError


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


def test_a_trajectory_reads_the_registry() -> None:
    """Assert that quantities over time are found by name, ours and a user's, and one sentence for other names."""
    run = integrate(MeanField(syn_small(), 1.0, 1.0), [1.0, 30.0], save_decoder=True)
    for name in ("loss", "z", "attention"):
        np.testing.assert_array_equal(run.observable(name), getattr(run, name))
    np.testing.assert_array_equal(run.observable("entropy"), run.entropy())
    np.testing.assert_allclose(run.observable("class_loss") @ syn_small().prior, run.loss, rtol=1e-12)
    OBSERVABLES.add(Observable("twice", "twice the loss", "nats", lambda run: 2 * run.loss))
    np.testing.assert_array_equal(run.observable("twice"), 2 * run.loss)
    with pytest.raises(InputError, match=r"'entropyy'.*'entropy'"):
        run.observable("entropyy")


def test_values_of_a_system_come_first() -> None:
    """Assert that an observable of an own system hides that of the registry, and does not get its label."""
    u = sympy.Symbol("u")
    run = integrate(System.from_sympy("Decay", {u: 1.0}, {u: -u}, observables={"speed": u}), [1.0])
    assert run.observable("speed") == pytest.approx(np.exp(-1.0), rel=1e-6)
    assert run.to_xarray().speed.attrs == {"long_name": "speed", "units": "1"}
    with pytest.raises(InputError, match="an observable of Decay"):
        run.observable("entropy")


@pytest.mark.parametrize(("name", "indices"), [("loss", ()), ("entropy", (1,)), ("attention", (1, 1)), ("z", None)])
def test_values_on_the_support(name: str, indices: tuple[int, ...] | None) -> None:
    """Assert that values on the support, (N, components), hold the curves and no more numbers than differ from 0."""
    run = integrate(MeanField(syn_small(), 1.0, 1.0), [1.0, 30.0])
    observable = OBSERVABLES[name]
    values = observable.values_on_support(run)
    assert values.shape[0] == 2
    assert values.size == np.count_nonzero(observable.values(run))
    if indices is not None:
        assert (values == observable.curve_of(run, *indices)[:, None]).all(axis=0).any()
