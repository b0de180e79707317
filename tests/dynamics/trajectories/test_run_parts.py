"""The dataset and the file of a trajectory, as xarray and `load` see them."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy
import xarray

from snapdyn.core.errors import InputError
from snapdyn.dynamics import (
    ClassKind,
    Event,
    FrozenDecoder,
    MeanField,
    SingleCommonToken,
    SymmetricClasses,
    System,
    from_text,
    integrate,
    load,
    observables,
    sgd,
    single_common_token,
    symmetric_classes,
    syn_small,
)
from snapdyn.dynamics.integration.driver import run as run_request
from snapdyn.dynamics.integration.request import Request
from snapdyn.dynamics.trajectories import run_parts
from snapdyn.dynamics.trajectories.trajectory import Trajectory
from tests.helpers import FABLE


def opened(run: Trajectory, folder: Path) -> xarray.Dataset:
    return xarray.load_dataset(run.save(folder / "run.nc"), engine="h5netcdf")


def many_classes() -> SymmetricClasses:
    """Two kinds of more classes than are listed."""
    kinds = [ClassKind([0.3], [0.2, 0.5], 10**6), ClassKind([0.3], [0.7], 10**6)]
    return symmetric_classes(kinds, vocab_size=10**8)


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
    symmetric = MeanField(many_classes(), 1.0, 1e-6)
    half = {"half": Event(lambda t, state: state.loss - 1.7)}
    text = from_text(FABLE, window=2, min_count=2, min_token_count=4)
    return {
        "mean field": integrate(MeanField(classes, 1.0, 0.5), times, save_decoder=True, events=half),
        "z only": integrate(MeanField(classes, 1.0, 0.5), times, z_only=True),
        "frozen decoder": integrate(FrozenDecoder(classes, 1.0), times),
        "sgd": sgd(classes, 1.0, 0.5, steps=20, seed=3),
        "text": integrate(MeanField(text, 1.0, 0.1), times),
        "one class": integrate(SingleCommonToken(5, 100, 1.0, 0.5, 3.0), times),
        "own": integrate(circle, times),
        "symmetric": integrate(MeanField(single_common_token(4, 3, 0.3, 50), 1.0, 0.5), times, reduce=True),
        "many symmetric": integrate(symmetric, times),
    }


KINDS = ["mean field", "z only", "frozen decoder", "sgd", "text", "one class", "own", "symmetric", "many symmetric"]


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
    dims = [name for name in data.dims if name not in dense.dims]
    assert all(str(name).startswith("snapdyn_") for name in [*beside, *dims])
    same = data.drop_vars(beside)
    same.attrs = {name: data.attrs[name] for name in dense.attrs}
    assert {"format", "snapdyn"} == data.attrs.keys() - dense.attrs.keys()
    xarray.testing.assert_identical(same, dense)
    assert all({"long_name", "units"} <= variable.attrs.keys() for variable in data.variables.values())


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_run_is_read_back(kind: str, saved: dict[str, Trajectory], tmp_path: Path) -> None:
    """Assert that `load` gives every field of the run, and that saving again gives the same bytes."""
    assert_read_back(saved[kind], tmp_path)
    assert load(tmp_path / "run.nc").classes == saved[kind].classes
    assert saved[kind].save(tmp_path / "again.nc").read_bytes() == (tmp_path / "run.nc").read_bytes()


def test_a_large_run_is_saved_on_its_supports(
    saved: dict[str, Trajectory], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Assert that above the limit, not at it, z, attention and entropy are left out and come back by `load`."""
    run = saved["mean field"]
    dense = run.to_xarray()
    size = dense.z.size + dense.attention.size
    monkeypatch.setattr(run_parts, "LARGEST_DENSE", size)
    assert "z" in opened(run, tmp_path)
    monkeypatch.setattr(run_parts, "LARGEST_DENSE", size - 1)
    data = opened(run, tmp_path)
    assert {name for name in dense.variables if name not in data.variables} == {"z", "attention", "entropy"}
    for name in data.variables.keys() & dense.variables.keys():
        xarray.testing.assert_identical(data[name].variable, dense[name].variable)
    places = zip(data.snapdyn_logit_query.values, data.snapdyn_logit_token.values, strict=True)
    found = [dense.z.sel(query=q, token=l) for q, l in places]
    np.testing.assert_array_equal(np.transpose(found), data.snapdyn_z_support)
    xarray.testing.assert_identical(load(tmp_path / "run.nc").to_xarray(), dense)


# Names that netCDF cannot hold, that its libraries mark, and that join others.
ODD = {"", ".", "..", "a/b", "a\0b", "x" * 257, "_nc4_non_coord_Y", "Y", "violation of u", "violation of row sum of Y"}
ODD |= {"class_prior", "class_next_token", "z_query", "invariant:u", "extra:Y", "observable:Y"}
ODD |= {"both", "both_row", "both_index", "snapdyn", "snapdyn_Y", "x:y", " ", "é", "e\u0301", "format", "coordinates"}


def refused(action: Callable[..., Any], *arguments: Any) -> str:
    """The one line of the InputError that an action raises, or an empty text."""
    try:
        action(*arguments)
    except InputError as error:
        (line,) = str(error).splitlines()
        return line
    return ""


def assert_read_back(run: Trajectory, folder: Path) -> None:
    again = load(run.save(folder / "run.nc"))
    xarray.testing.assert_identical(again.to_xarray(), run.to_xarray())
    for field in ("extra", "observables", "invariants"):
        kept, given = getattr(again, field), getattr(run, field)
        assert list(kept) == list(given)
        for name, values in given.items():
            np.testing.assert_array_equal(kept[name], values)
    for field in ("parameters", "state_shapes", "value_names", "status", "message", "stats", "system"):
        assert getattr(again, field) == getattr(run, field)
    for field in ("Y", "decoder_rows", "decoder_outputs", "state"):
        kept, given = getattr(again, field), getattr(run, field)
        assert (kept is None) == (given is None)
        np.testing.assert_array_equal(kept, given)
    for one, other in zip(again.events, run.events, strict=True):
        assert (one.name, one.t) == (other.name, other.t)
        for part in ("z_support", "state", "z_values"):
            np.testing.assert_array_equal(getattr(one, part), getattr(other, part))


FIELDS = {"extra": (3, 2), "observables": (3, 2, 2), "invariants": (3,), "parameters": ()}


SETTINGS = [2.0, [20], [1, 2.5], [2**62 + 1, 0.5], [], 10**30, True, None, "text", [[1.0]]]


@pytest.mark.parametrize(
    ("kind", "field"),
    [("mean field", "extra"), ("own", "observables"), ("many symmetric", "invariants"), ("own", "parameters")],
)
def test_odd_names_are_refused_or_read_back(
    kind: str, field: str, saved: dict[str, Trajectory], tmp_path: Path
) -> None:
    """Assert it for odd names of an extra quantity, observable, conserved one or parameter: each, then all."""
    run, accepted = saved[kind], {}
    for i, name in enumerate(sorted(ODD)):
        values = SETTINGS[i % len(SETTINGS)] if field == "parameters" else np.full(FIELDS[field], float(i))
        named = run.changed(**{field: {**getattr(run, field), name: values}})
        refusal = refused(named.to_xarray)
        if refusal:
            assert refusal.startswith("expected names of extra quantities")
            assert refused(named.save, tmp_path / "refused.nc") == refusal
        else:
            accepted[name] = values
    assert not [*tmp_path.iterdir()]
    others = ODD - accepted.keys()
    assert (field == "parameters") != ({"_nc4_non_coord_Y", "a/b", "a\0b", "x" * 257} <= others)
    known = run.to_xarray()
    free = others - {*known.variables, *known.dims}
    assert all(
        not observables.is_storable(f"violation of {name}" if field == "invariants" else name)
        or name.startswith("snapdyn")
        for name in free
    )
    assert_read_back(run.changed(**{field: {**getattr(run, field), **accepted}}), tmp_path)


def test_one_name_twice_is_refused(saved: dict[str, Trajectory]) -> None:
    """Assert it for an observable with the name of an extra quantity, or of the variable of a conserved one."""
    run, values = saved["mean field"], np.zeros(3)
    for same in (
        run.changed(extra={"a": np.zeros((3, 1))}, observables={"a": values}),
        run.changed(invariants={"a": values}, observables={"violation of a": values}),
    ):
        with pytest.raises(InputError, match=r"no other variable has, received '(violation of )?a'"):
            same.to_xarray()


@pytest.mark.parametrize("kind", ["MeanField", "reduced", "symmetric", "many symmetric"])
def test_a_run_interrupted_before_its_first_save_is_read_back(kind: str, tmp_path: Path) -> None:
    """Assert that such a run with `save_decoder` has no decoder: neither Y nor its tokens and outputs."""
    classes = {"symmetric": single_common_token(4, 3, 0.3, 50), "many symmetric": many_classes()}.get(kind, syn_small())
    stop = threading.Event()
    stop.set()
    request = Request([1.0, 10.0], save_decoder=True, reduce=kind != "MeanField")
    stopped = run_request(MeanField(classes, 1.0, 0.5), request, stop)
    assert (stopped.status, stopped.t.size) == ("interrupted", 0)
    assert stopped.Y is stopped.decoder_rows is stopped.decoder_outputs is None
    assert_read_back(stopped, tmp_path)


def test_the_file_of_a_text_has_its_words(saved: dict[str, Trajectory], tmp_path: Path) -> None:
    """Assert the word of each token."""
    word = opened(saved["text"], tmp_path).word
    assert word.dims == ("token",)
    assert word.values.tolist() == list(saved["text"].require_classes().words)  # type: ignore[attr-defined]
