"""The file of a trajectory, as xarray and later versions see it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import sympy
import xarray

from snapdyn.dynamics import Event, MeanField, System, from_text, integrate, load, syn_small
from snapdyn.dynamics.trajectory import Trajectory

OLD = Path(__file__).parents[1] / "data" / "trajectory_1.nc"  # of format 1, written by version 0.1.0


def opened(run: Trajectory, folder: Path) -> xarray.Dataset:
    return xarray.load_dataset(run.save(folder / "run.nc"), engine="h5netcdf")


def test_a_saved_run_is_labelled_as_to_xarray_is(tmp_path: Path) -> None:
    """Assert coordinates, units, long names and settings, and logits that equal those of `to_xarray`."""
    run = integrate(MeanField(syn_small(), 1.0, 0.5), [0.0, 1.0, 10.0], save_decoder=True)
    data, dense = opened(run, tmp_path), run.to_xarray()
    for name in ("time", "query", "class_query", "next_token", "prior", "loss"):
        xarray.testing.assert_identical(data[name].variable, dense[name].variable)
    assert data.loss.sel(time=1.0).item() == run.loss[1]
    assert {name: data.attrs[name] for name in dense.attrs} == dense.attrs
    assert all({"long_name", "units"} <= variable.attrs.keys() for variable in data.variables.values())
    found = [
        dense.z.sel(query=q, token=l) for q, l in zip(data.logit_query.values, data.logit_token.values, strict=True)
    ]
    np.testing.assert_array_equal(np.transpose(found), data.z_support)


def test_a_saved_run_of_a_text_has_its_words(tmp_path: Path) -> None:
    """Assert the word of each token; the file is read back without a change."""
    (tmp_path / "a.txt").write_text("the cat saw the dog and the cat saw the bird and the dog saw the bird " * 3)
    classes = from_text(tmp_path / "a.txt", window=2, min_count=2, min_token_count=1)
    run = integrate(MeanField(classes, 1.0, 0.1), [1.0])
    data = opened(run, tmp_path)
    assert data.word.dims == ("token",)
    assert data.word.values.tolist() == list(classes.words)
    np.testing.assert_array_equal(load(tmp_path / "run.nc").z, run.z)


def test_names_of_own_parameters_do_not_disturb_the_file(tmp_path: Path) -> None:
    """Assert that parameters with the names of the header's entries, and one in Greek, are read back."""
    u, names = sympy.Symbol("u"), ("format", "snapdyn", "value_names", "state_shapes", "symmetric_classes", "λ")
    symbols = [sympy.Symbol(name) for name in names]
    system = System.from_sympy("Odd", {u: 1.0}, {u: -u * sum(symbols)}, dict(zip(symbols, range(1, 7), strict=True)))
    run = integrate(system, [0.0, 0.1])
    again = load(run.save(tmp_path / "odd.nc"))
    assert again.parameters == run.parameters
    assert again.value_names == tuple(run.value_names)
    np.testing.assert_array_equal(again.observable("u"), run.observable("u"))


def test_a_file_of_format_1_is_read() -> None:
    """Assert the run that version 0.1.0 saved: its values are those of the run of today, to the tolerance."""
    old = load(OLD)
    half = Event(lambda t, state: state.loss - 1.7)
    new = integrate(
        MeanField(syn_small(), 1.0, 0.5), [0.0, 1.0, 10.0], save_decoder=True, events={"half": half}
    )  # fmt: skip
    np.testing.assert_array_equal(old.t, new.t)
    for name in ("z", "loss", "Y"):
        np.testing.assert_allclose(getattr(old, name), getattr(new, name), rtol=1e-7, atol=1e-9)
    assert old.parameters == new.parameters
    np.testing.assert_allclose(old.events[0].t, new.events[0].t, rtol=1e-6)
    np.testing.assert_array_equal(old.require_classes().next_token, new.require_classes().next_token)
