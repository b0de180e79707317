"""Trajectories: observables against their definitions, files that round-trip, refuse damage and lose nothing."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray

from snapdyn.dynamics import (
    Event,
    FrozenDecoder,
    MeanField,
    ModifiedDecoder,
    SingleCommonToken,
    System,
    Trajectory,
    integrate,
    load,
    random_classes,
)
from snapdyn.dynamics.files.netcdf import write_netcdf
from snapdyn.dynamics.trajectories.run_parts import FORMAT
from snapdyn.errors import InputError
from tests.dynamics.dense_reference import Array, Instance, attention
from tests.dynamics.helpers import ROUNDING

# Token 3 is distinct to class 0 and token 6 to class 1; classes 2 and 3 have none; 5 and 7 are equal columns.
INSTANCE = Instance(
    P=np.array(
        [
            [0.25, 0.00, 0.00, 0.31, 0.28, 0.080, 0.00, 0.080, 0.00],
            [0.10, 0.14, 0.14, 0.00, 0.07, 0.110, 0.24, 0.110, 0.09],
            [0.20, 0.10, 0.20, 0.00, 0.00, 0.125, 0.00, 0.125, 0.25],
            [0.05, 0.15, 0.15, 0.00, 0.15, 0.180, 0.00, 0.180, 0.14],
        ]
    ),
    query=np.array([5, 2, 5, 2]),
    next_token=np.arange(4),
    prior=np.array([0.1, 0.2, 0.3, 0.4]),
    vocab_size=12,
)
START = np.random.default_rng(3).integers(-1, 2, (2, 9)).astype(float)
TIMES = [0.0, 0.5, 10.0, 200.0]


@pytest.fixture(scope="module")
def run() -> Trajectory:
    return integrate(MeanField(INSTANCE.classes(), 1.0, 1.0, z_initial=START), TIMES)


def test_rows_of_z_follow_increasing_query_id(run: Trajectory) -> None:
    """Assert that row 0 is query 2 and row 1 query 5, and logits no class can move keep their start."""
    assert run.z.shape == (4, 2, 9)
    np.testing.assert_array_equal(run.z[0], START)
    of_query_2 = (INSTANCE.P[[1, 3]] > 0).any(axis=0)
    of_query_5 = (INSTANCE.P[[0, 2]] > 0).any(axis=0)
    assert not of_query_2.all() or not of_query_5.all()
    for row, moves in enumerate((of_query_2, of_query_5)):
        np.testing.assert_array_equal((run.z[-1, row] != START[row])[~moves], False)
        assert (run.z[-1, row] != START[row])[moves].all()


def test_attention_is_the_softmax_over_the_support(run: Trajectory) -> None:
    """Assert c_n[l] = P(l|n) exp(z) / sum at every time, zero outside the support."""
    for i in range(4):
        expected = attention(INSTANCE.P, run.z[i][INSTANCE.query_row])
        np.testing.assert_allclose(run.attention[i], expected, rtol=ROUNDING, atol=0)
    assert run.attention_entries.shape == (4, (INSTANCE.P > 0).sum())


def entropy_of(c: Array) -> float:
    c = c[c > 0] / c.sum()
    return float(-(c * np.log(c)).sum())


def test_entropy_by_definition(run: Trajectory) -> None:
    """Assert -sum c ln c, and over renormalised distinct tokens with NaN where a class has none."""
    next_tokens_with = np.array([[(INSTANCE.P[n] > 0)[l] for n in range(4)] for l in range(9)])
    distinct = next_tokens_with.sum(axis=1) == 1
    plain, restricted = run.entropy(), run.entropy(distinct_only=True)
    without = [n for n in range(4) if not (distinct & (INSTANCE.P[n] > 0)).any()]
    assert 0 < len(without) < 4
    for i in range(4):
        for n in range(4):
            assert plain[i, n] == pytest.approx(entropy_of(run.attention[i, n]), rel=ROUNDING)
            if n in without:
                assert np.isnan(restricted[i, n])
            else:
                own = np.where(distinct, run.attention[i, n], 0.0)
                assert restricted[i, n] == pytest.approx(entropy_of(own), rel=ROUNDING, abs=ROUNDING)


def test_relative_gain_and_growth_factor_by_definition(run: Trajectory) -> None:
    """Assert r = f_l^2/f_l0^2 - 1 with its sign, and chi = exp(2 (z(t) - z(0))), including initial logits."""
    for n in range(4):
        tokens = np.flatnonzero(INSTANCE.P[n])
        row = INSTANCE.query_row[n]
        for l, l0 in zip(tokens, np.roll(tokens, 1), strict=True):
            c = run.attention[:, n]
            gain = run.relative_gain(n, int(l), int(l0))
            ratio = c[:, l] ** 2 / c[:, l0] ** 2
            assert (np.abs(gain - (ratio - 1)) <= 10 * ROUNDING * (1 + ratio)).all()
            np.testing.assert_array_equal(gain > 0, c[:, l] > c[:, l0])
            growth = run.growth_factor(n, int(l))
            np.testing.assert_allclose(growth, np.exp(2 * (run.z[:, row, l] - START[row, l])), rtol=ROUNDING)
            assert growth[0] == 1.0


@pytest.mark.parametrize("n", [-1, 4, 0.5, "first"])
def test_class_that_does_not_exist_is_refused(run: Trajectory, n: Any) -> None:
    """Assert that observables of a class that is no class raise one sentence."""
    with pytest.raises(InputError, match=r"^expected "):
        run.growth_factor(n, 0)
    with pytest.raises(InputError, match=r"^expected "):
        run.relative_gain(n, 0, 1)


@pytest.mark.parametrize("token", [-1, 9, 1000])
def test_token_outside_the_support_is_refused(run: Trajectory, token: int) -> None:
    """Assert that a token that class 0 does not contain raises one sentence."""
    own = int(np.flatnonzero(INSTANCE.P[0])[0])
    with pytest.raises(InputError, match=f"received token {token}"):
        run.relative_gain(0, token, own)
    with pytest.raises(InputError, match=f"received token {token}"):
        run.relative_gain(0, own, token)


def test_loss_is_the_expected_cross_entropy() -> None:
    """Assert traj.loss against a softmax over all V outputs of the saved decoder."""
    run = integrate(MeanField(INSTANCE.classes(), 1.0, 1.0, z_initial=START), TIMES, save_decoder=True)
    decoder = run.require_decoder()
    outputs = list(decoder.outputs)
    columns = [outputs.index(v) if v in outputs else outputs.index(-1) for v in range(12)]
    for i in range(4):
        c = run.attention[i]
        f = c / np.linalg.norm(c, axis=1, keepdims=True)
        rows = np.where(decoder.rows >= 0, decoder.rows, 0)  # tokens that never occur have f = 0
        logits = f @ decoder.Y[i][rows][:, columns]
        own = logits[np.arange(4), INSTANCE.next_token]
        expected = INSTANCE.prior @ (np.log(np.exp(logits).sum(axis=1)) - own)
        assert run.loss[i] == pytest.approx(expected, rel=1e-11)


def test_reduced_system_has_no_class_observables() -> None:
    """Assert that attention and entropy of Eq. (13), which has no classes, raise one sentence."""
    reduced = integrate(SingleCommonToken(5, 100, 1.0, 0.5, 3.0), [1.0])
    assert reduced.z.shape == (1, 1, 1)
    for ask in (lambda: reduced.attention, reduced.entropy, lambda: reduced.growth_factor(0, 0)):
        with pytest.raises(InputError, match=r"^expected a trajectory with sequence classes"):
            ask()


@pytest.mark.parametrize("name", [[], {}, 3, None, np.ones(2), "entropi"])
def test_what_is_no_name_of_an_observable_is_refused(name: Any, run: Trajectory) -> None:
    """Assert one sentence with the known names, also for what cannot be looked up."""
    with pytest.raises(InputError, match=r"^expected an observable of .* to be one of .*entropy.*, received"):
        run.observable(name)


EVENTS = {"rise": Event(lambda t, s: t - 3.0), "later": Event(lambda t, s: t - 7.0)}
RUNS: dict[str, tuple[Callable[[], System], dict[str, Any]]] = {
    "MeanField": (
        lambda: MeanField(INSTANCE.classes(), 1.0, 1.0, z_initial=START),
        {"save_decoder": True, "events": EVENTS},
    ),
    "MeanField with residual": (lambda: MeanField(INSTANCE.classes(), 1.0, 1.0, residual=True), {"save_decoder": True}),
    "FrozenDecoder": (lambda: FrozenDecoder(INSTANCE.classes(), 1.0), {"save_decoder": True}),
    "modified FrozenDecoder": (lambda: FrozenDecoder(INSTANCE.classes(), 1.0, modified=True), {"events": EVENTS}),
    "ModifiedDecoder": (lambda: ModifiedDecoder(INSTANCE.classes(), 1.0, 1.0, beta="leading"), {"events": EVENTS}),
    "SingleCommonToken": (lambda: SingleCommonToken(5, 100, 1.0, 0.5, 3.0), {"events": EVENTS}),
    "stiff": (lambda: MeanField(INSTANCE.classes(), 1.0, 100.0), {}),
}


def make(name: str) -> Trajectory:
    build, options = RUNS[name]
    return integrate(build(), TIMES, **options)


def assert_same(first: Trajectory, second: Trajectory) -> None:
    """Assert equality bit by bit of every field but the wall time and dense output, which are not stored."""
    for field in dataclasses.fields(Trajectory):
        a, b = getattr(first, field.name), getattr(second, field.name)
        if field.name in ("wall_time", "events") or field.name.startswith("_"):
            continue
        if isinstance(a, np.ndarray):
            np.testing.assert_array_equal(a, b, err_msg=field.name, strict=True)
        elif field.name in ("invariants", "extra"):
            assert sorted(a) == sorted(b)
            for key in a:
                np.testing.assert_array_equal(a[key], b[key], err_msg=key, strict=True)
        else:
            assert a == b, field.name
    assert [(e.name, e.t) for e in first.events] == [(e.name, e.t) for e in second.events]
    for one, other in zip(first.events, second.events, strict=True):
        np.testing.assert_array_equal(one.z_support, other.z_support)


@pytest.mark.parametrize("name", RUNS)
def test_save_and_load_are_exact(name: str, tmp_path: Path) -> None:
    """Assert that every field of every kind of run comes back bit by bit."""
    run = make(name)
    path = run.save(tmp_path / "run.nc")
    again = load(path)
    assert_same(run, again)
    np.testing.assert_array_equal(run.z, again.z)
    assert [p.name for p in tmp_path.iterdir()] == ["run.nc"]


@pytest.mark.slow
def test_every_prior_comes_back_exactly(tmp_path: Path) -> None:
    """Assert that classes with 8 random priors are equal after a round trip (normalising twice moves some)."""
    unequal = []
    for seed in range(8):
        classes = random_classes(7, uniform_prior=False, seed=seed)
        path = integrate(MeanField(classes, 1.0, 1.0), [0.0]).save(tmp_path / "run.nc")
        if load(path).classes != classes:
            unequal.append(seed)
    assert unequal == []


def test_run_without_saves_round_trips(tmp_path: Path) -> None:
    """Assert that a run interrupted before its first save is written and read back."""

    class Stopping(SingleCommonToken):
        def derivative(self, t: float, state: Array) -> Array:
            raise KeyboardInterrupt

    run = integrate(Stopping(5, 100, 1.0, 0.5, 3.0), [1.0])
    assert (run.status, run.t.size) == ("interrupted", 0)
    assert_same(run, load(run.save(tmp_path / "empty.nc")))
    assert "no saved times" in repr(run)


@pytest.mark.parametrize("name", ["MeanField", "SingleCommonToken"])
def test_same_run_same_bytes(name: str, tmp_path: Path) -> None:
    """Assert that a run and its repetition give identical files, and a different one does not."""
    first, second = (make(name).save(tmp_path / file).read_bytes() for file in ("a.nc", "b.nc"))
    assert first == second
    build, _ = RUNS[name]
    other = integrate(build(), TIMES, rtol=1e-9).save(tmp_path / "c.nc").read_bytes()
    assert first != other


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.99])
def test_cut_file_is_refused(share: float, tmp_path: Path) -> None:
    """Assert that a file cut short raises one sentence, wherever it was cut."""
    path = make("MeanField").save(tmp_path / "run.nc")
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(InputError, match=r"^expected a whole trajectory file") as error:
        load(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("content", ["text", "netcdf"])
def test_a_file_without_a_digest_is_refused(content: str, tmp_path: Path) -> None:
    """Assert one sentence for text, and for the netCDF file of a run that another program wrote again."""
    path = tmp_path / "foreign.nc"
    if content == "text":
        path.write_text("t,z\n0,0\n")
    else:
        xarray.load_dataset(make("MeanField").save(path), engine="h5netcdf").to_netcdf(path, engine="h5netcdf")
    with pytest.raises(InputError, match=r"^expected a whole trajectory file.*no digest.*choose another") as error:
        load(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("file_format", "header", "sentence"),
    [
        ("snapdyn trajectory 2", "{}", r"of another kind \('snapdyn trajectory 2'\)"),
        (FORMAT, 3, r"damaged or of another kind \(TypeError\)"),
        (FORMAT, "{}", r"damaged or of another kind \(KeyError\)"),
    ],
)
def test_a_file_of_another_kind_is_refused(file_format: str, header: Any, sentence: str, tmp_path: Path) -> None:
    """Assert one sentence for another format, for a header that is none, and for one without its entries."""
    path = write_netcdf(xarray.Dataset({"x": 1.0}, attrs={"snapdyn": header}), tmp_path / "a.nc", file_format)
    with pytest.raises(InputError, match=f"^expected a whole trajectory file.*which is {sentence}; run the simulation"):
        load(path)


def test_missing_file_is_refused(tmp_path: Path) -> None:
    """Assert that a path that does not exist, or is a folder, raises one sentence."""
    for path in (tmp_path / "none.nc", tmp_path):
        with pytest.raises(InputError, match=r"^expected (the path of )?a trajectory file"):
            load(path)


def test_unwritable_places_are_refused(tmp_path: Path) -> None:
    """Assert that a missing folder, a folder in place of the file, and a file in place of the folder raise."""
    run = make("SingleCommonToken")
    occupied = tmp_path / "occupied.nc"
    occupied.mkdir()
    (tmp_path / "plain").write_text("kept")
    for path in (tmp_path / "missing" / "run.nc", occupied, tmp_path / "plain" / "run.nc"):
        with pytest.raises(InputError, match=r"^expected "):
            run.save(path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["occupied.nc", "plain"]
    assert (tmp_path / "plain").read_text() == "kept"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_read_only_folder_is_refused(tmp_path: Path) -> None:
    """Assert that a folder without write permission raises one sentence."""
    folder = tmp_path / "closed"
    folder.mkdir()
    folder.chmod(0o500)
    try:
        with pytest.raises(InputError, match="writable"):
            make("SingleCommonToken").save(folder / "run.nc")
    finally:
        folder.chmod(0o700)


@pytest.mark.parametrize(
    "trouble", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=["disk", "Ctrl-C"]
)
def test_failed_write_keeps_the_old_file(
    trouble: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Assert that a write that breaks half-way leaves the old file as it was and no half file beside it."""
    run = make("SingleCommonToken")
    path = run.save(tmp_path / "run.nc")
    before = path.read_bytes()

    def fails(*_: Any) -> bytes:
        raise trouble

    monkeypatch.setattr("snapdyn.dynamics.files.netcdf._trailer", fails)  # after the content is written
    with pytest.raises((InputError, KeyboardInterrupt)) as error:
        run.save(path)
    if isinstance(trouble, OSError):
        assert "No space left" in str(error.value)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["run.nc"]


def test_saving_over_a_file_replaces_it(tmp_path: Path) -> None:
    """Assert that a second save to the same path replaces the first."""
    path = make("SingleCommonToken").save(tmp_path / "run.nc")
    second = make("ModifiedDecoder")
    second.save(path)
    assert_same(second, load(path))


def test_to_xarray_is_labelled(run: Trajectory) -> None:
    """Assert dimensions, coordinates and values of the labelled dataset."""
    data = run.to_xarray()
    assert data["z"].dims == ("time", "query", "token")
    np.testing.assert_array_equal(data["query"], [2, 5])
    np.testing.assert_array_equal(data["token"], np.arange(9))
    np.testing.assert_array_equal(data["time"], TIMES)
    np.testing.assert_array_equal(data["next_token"], INSTANCE.next_token)
    np.testing.assert_array_equal(data["z"].sel(query=5, token=3).sel(time=10.0), run.z[2, 1, 3])
    np.testing.assert_array_equal(data["attention"].isel(sequence_class=2), run.attention[:, 2])
    np.testing.assert_array_equal(data["entropy"], run.entropy())
    np.testing.assert_array_equal(data["loss"], run.loss)
    assert data["loss"].attrs["units"] == "nats"
    assert "SGD steps" in data["time"].attrs["long_name"]
    assert all({"long_name", "units"} <= variable.attrs.keys() for variable in data.variables.values())
    np.testing.assert_array_equal(data["prior"], INSTANCE.prior)
    assert (data.attrs["system"], data.attrs["eta_Y"]) == (run.system, run.parameters["eta_Y"])
    assert "violation of row sum of Z" in data


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_to_xarray_of_every_run_can_be_written(name: str, tmp_path: Path) -> None:
    """Assert that the labelled dataset of every kind of run is one that xarray itself can store and read."""
    run = make(name)
    run.to_xarray().to_netcdf(tmp_path / "labelled.nc", engine="h5netcdf")
    with xarray.open_dataset(tmp_path / "labelled.nc", engine="h5netcdf") as data:
        np.testing.assert_array_equal(data["z"], run.z)
        for key, values in run.extra.items():
            np.testing.assert_array_equal(data[key], values)
