"""The file of a trajectory, as xarray and later versions see it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import sympy
import xarray

from snapdyn.dynamics import (
    ClassKind,
    Event,
    FiniteLengthMeanField,
    FrozenDecoder,
    MeanField,
    ModifiedDecoder,
    SingleCommonToken,
    System,
    from_text,
    integrate,
    load,
    random_classes,
    sgd,
    single_common_token,
    symmetric_classes,
    syn_small,
    trajectory_dataset,
)
from snapdyn.dynamics.trajectory import Trajectory
from tests.helpers import FABLE

# Files of formats 1 and 2, written by version 0.1.0.
OLD = Path(__file__).parents[1] / "data"
START = np.random.default_rng(3).normal(size=(1, 8))


def opened(run: Trajectory, folder: Path) -> xarray.Dataset:
    return xarray.load_dataset(run.save(folder / "run.nc"), engine="h5netcdf")


def runs() -> dict[str, Trajectory]:
    """A run of each kind: what it saves differs."""
    classes, times = syn_small(), [0.0, 1.0, 10.0]
    x, y, w = sympy.symbols("x y w")
    circle = System.from_sympy(
        "Circle",
        {x: 1.0, y: 0.0},
        {x: -w * y, y: w * x},
        {w: 2.0},
        {"product": x * y, "both": sympy.Matrix([x, y])},
        conserved={"x^2 + y^2": x**2 + y**2},
    )
    kinds = [ClassKind([0.3], [0.2, 0.5], 10**6), ClassKind([0.3], [0.7], 10**6)]
    symmetric = MeanField(symmetric_classes(kinds, vocab_size=10**8), 1.0, 1e-6)
    half = {"half": Event(lambda t, state: state.loss - 1.7)}
    text = from_text(FABLE, window=2, min_count=2, min_token_count=4)
    return {
        "mean field": integrate(MeanField(classes, 1.0, 0.5), times, save_decoder=True, events=half),
        "start": integrate(MeanField(random_classes(3, 2, 2, seed=1), 1.0, 0.5, z_initial=START), times),
        "z only": integrate(MeanField(classes, 1.0, 0.5), times, z_only=True),
        "modified decoder": integrate(ModifiedDecoder(classes, 1.0, 0.5), times),
        "frozen decoder": integrate(FrozenDecoder(classes, 1.0), times),
        "finite length": integrate(FiniteLengthMeanField(classes, 0.1, 0.05, seq_len=200), times),
        "sgd": sgd(classes, 1.0, 0.5, steps=20, seed=3),
        "text": integrate(MeanField(text, 1.0, 0.1), times),
        "one class": integrate(SingleCommonToken(5, 100, 1.0, 0.5, 3.0), times),
        "own": integrate(circle, times),
        "symmetric": integrate(MeanField(single_common_token(4, 3, 0.3, 50), 1.0, 0.5), times, reduce=True),
        "many symmetric": integrate(symmetric, times),
    }


KINDS = """mean field, start, z only, modified decoder, frozen decoder, finite length, sgd, text, one class, own,
symmetric, many symmetric""".replace("\n", " ").split(", ")


@pytest.fixture(scope="module")
def saved() -> dict[str, Trajectory]:
    return runs()


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_run_opens_as_to_xarray_gives_it(kind: str, saved: dict[str, Trajectory], tmp_path: Path) -> None:
    """Assert that the file has every variable of `to_xarray`: content, dimensions, coordinates, labels and settings."""
    run = saved[kind]
    data, dense = opened(run, tmp_path), run.to_xarray()
    assert "z" in dense or kind in ("own", "one class", "frozen decoder")
    beside = [name for name in data.variables if name not in dense.variables]
    same = data.drop_vars(beside)
    same.attrs = {name: data.attrs[name] for name in dense.attrs}
    assert {"format", "snapdyn"} == data.attrs.keys() - dense.attrs.keys()
    xarray.testing.assert_identical(same, dense)
    assert all({"long_name", "units"} <= variable.attrs.keys() for variable in data.variables.values())


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_run_is_read_back(kind: str, saved: dict[str, Trajectory], tmp_path: Path) -> None:
    """Assert that what `load` gives has the dataset of the run, and so has the file that it writes."""
    run = saved[kind]
    again = load(run.save(tmp_path / "run.nc"))
    xarray.testing.assert_identical(again.to_xarray(), run.to_xarray())
    xarray.testing.assert_identical(load(again.save(tmp_path / "again.nc")).to_xarray(), run.to_xarray())


def test_a_large_run_is_saved_on_its_supports(
    saved: dict[str, Trajectory], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Assert that above the limit, not at it, z, attention and entropy are left out and come back by `load`."""
    run = saved["mean field"]
    dense = run.to_xarray()
    size = dense.z.size + dense.attention.size
    monkeypatch.setattr(trajectory_dataset, "LARGEST_DENSE", size)
    assert "z" in opened(run, tmp_path)
    monkeypatch.setattr(trajectory_dataset, "LARGEST_DENSE", size - 1)
    data = opened(run, tmp_path)
    assert {name for name in dense.variables if name not in data.variables} == {"z", "attention", "entropy"}
    for name in data.variables.keys() & dense.variables.keys():
        xarray.testing.assert_identical(data[name].variable, dense[name].variable)
    found = [
        dense.z.sel(query=q, token=l) for q, l in zip(data.logit_query.values, data.logit_token.values, strict=True)
    ]
    np.testing.assert_array_equal(np.transpose(found), data.z_support)
    xarray.testing.assert_identical(load(tmp_path / "run.nc").to_xarray(), dense)


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


@pytest.mark.parametrize("version", [1, 2])
def test_a_file_of_an_earlier_format_is_read(version: int) -> None:
    """Assert a run that was saved in formats 1 and 2: its values are those of the run of today, to the tolerance."""
    old = load(OLD / f"trajectory_{version}.nc")
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


def test_an_own_system_of_format_2_is_read(saved: dict[str, Trajectory]) -> None:
    """Assert state, observables and what is conserved, to the tolerance of the solver."""
    old, new = load(OLD / "trajectory_2_own.nc"), saved["own"]
    np.testing.assert_allclose(old.state[:2], new.state[:2], atol=1e-7)
    np.testing.assert_allclose(old.observable("both")[..., 0], old.state, rtol=1e-15)
    np.testing.assert_allclose(old.observable("product"), old.state.prod(axis=1), rtol=1e-12, atol=1e-15)
    assert list(old.invariants) == ["radius"]
    assert old.to_xarray()["violation of radius"].dims == ("time",)
