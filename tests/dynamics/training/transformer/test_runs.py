"""Saved transformer runs: what is written is read back, and what cannot be one is refused."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xarray

from snapdyn.core.errors import InputError
from snapdyn.dynamics.training.transformer.runs import TransformerRun, load_transformer_run, load_transformer_runs


def run(seed: int = 0, length: int = 5) -> TransformerRun:
    """A made-up causal run of three iterations; the first position attends to nothing."""
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.1, 1, (3, length, length))
    weights[:, ~np.tri(length, k=-1, dtype=bool)] = 0
    total = weights.sum(axis=2, keepdims=True)
    attention = np.where(weights > 0, weights / np.where(total > 0, total, 1), np.nan)
    return TransformerRun(
        "text",
        1,
        5.0,
        seed,
        np.array([0, 10, 20]),
        attention,
        entropy=np.array([2.0, 1.5, 1.4]),
        tokens=("a",) * length,
        loss=np.array([3.0, 2.5, 2.4]),
        change=np.array([np.nan, 0.5, 0.1]),
        shuffled=True,
        settings={"embedding": 8, "clip": None},
    )


def test_round_trip_is_exact(tmp_path: Path) -> None:
    """Assert that every field comes back with every bit, from the file and from its folder."""
    saved = run()
    path = saved.save(tmp_path / "run.nc")
    (found,) = load_transformer_runs(tmp_path)
    for name in ("corpus", "num_layers", "learning_rate", "seed", "tokens", "shuffled", "settings"):
        assert getattr(found, name) == getattr(saved, name)
    for name in ("iteration", "attention", "entropy", "loss", "change"):
        np.testing.assert_array_equal(getattr(load_transformer_run(path), name), getattr(saved, name))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"iteration": np.array([0, 10, 10])}, "iteration to increase"),
        ({"attention": np.full((3, 5, 5), 0.5)}, "sum to 1"),
        ({"loss": np.ones(2)}, r"loss of shape \(3,\) for 3 iterations"),
        ({"loss": np.array([1.0, np.inf, 1.0])}, "finite losses"),
        ({"change": np.array([np.nan, 1.5, 0.1])}, "changes of attention between 0 and 1"),
    ],
)
def test_what_cannot_be_a_run_is_refused(changes: dict[str, object], message: str) -> None:
    """Assert one sentence for each field that cannot be."""
    with pytest.raises(InputError, match=message):
        replace(run(), **changes)  # type: ignore[arg-type]


def test_files_that_are_no_runs_are_refused(tmp_path: Path) -> None:
    """Assert one sentence for a missing file, one of something else, and an empty folder."""
    other = tmp_path / "other.nc"
    xarray.Dataset({"x": 1.0}).to_netcdf(other, engine="h5netcdf")
    for bad in (tmp_path / "missing.nc", other):
        with pytest.raises(InputError, match=r"^expected (a whole|the path of a) transformer run file"):
            load_transformer_run(bad)
    other.unlink()
    with pytest.raises(InputError, match="which has none"):
        load_transformer_runs(tmp_path)
