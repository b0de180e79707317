"""Sections that train: transformers in a sweep, and schedules."""

from pathlib import Path

import numpy as np
import pytest

import snapdyn
from snapdyn.commands.main import main
from snapdyn.dynamics.training.transformer.runs import load_transformer_runs
from snapdyn.experiments.run_files import read_comparison
from tests.experiments.sweep.helpers import dataset, swept
from tests.helpers import FABLE


@pytest.mark.usefixtures("instant_training")
def test_transformers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert the entropies, saved runs that figure 10 draws, a failing cell, text in the identity, and the defaults."""
    text = """
[transformer]
paths = "a.txt"
[sweep]
design = "grid"
observables = ["entropy", "loss", "entropy_series"]
"transformer.learning_rate" = [1, 2.0, 9.0]
"transformer.seed" = [0, 1]
"""
    (tmp_path / "a.txt").write_text("some words")
    assert swept(text, tmp_path) == 1
    data = dataset(tmp_path)
    np.testing.assert_allclose(data.entropy, [[2.9, 2.91], [2.8, 2.81], [np.nan, np.nan]])
    assert data.entropy_series.dims == ("learning_rate", "seed", "time")
    runs = load_transformer_runs(tmp_path / "out" / "runs")
    assert {(run.learning_rate, run.seed) for run in runs} == {(1, 0), (1, 1), (2, 0), (2, 1)}
    assert main(["figures", "10", "--runs", str(tmp_path / "out" / "runs"), "--out", str(tmp_path / "pictures")]) == 0
    assert (tmp_path / "pictures" / "figure_10.png").is_file()
    capsys.readouterr()
    next((tmp_path / "out" / "runs").iterdir()).unlink()
    assert swept(text.replace(", 9.0]", "]"), tmp_path) == 0
    assert "1 computed, 3 taken over" in capsys.readouterr().out
    (tmp_path / "a.txt").write_text("other words")
    text = text.replace(", 9.0]", "]")
    assert swept(text.replace('observables = ["entropy", "loss", "entropy_series"]\n', ""), tmp_path) == 0
    assert "4 computed, 0 taken over" in capsys.readouterr().out
    assert {"entropy", "loss"} <= set(dataset(tmp_path).data_vars)


def test_transformers_are_trained(tmp_path: Path) -> None:
    """Assert that a sweep over small transformers on a real text gives what the function itself gives."""
    pytest.importorskip("torch", reason="trains transformers, which need the extra text (torch)")
    text = FABLE
    options = {"iterations": 3, "window": 6, "embedding": 8, "batch_size": 2, "min_token_count": 1}
    section = "\n".join(f"{name} = {value}" for name, value in options.items())
    assert swept(f"""
[transformer]
paths = '{text}'
{section}
[sweep]
design = "grid"
"transformer.learning_rate" = [0.5, 1.0]
""", tmp_path) == 0  # fmt: skip
    run = snapdyn.train_transformer(text, learning_rate=1.0, **options)
    last = dataset(tmp_path).isel(learning_rate=1)
    assert (float(last.entropy), float(last.loss)) == (run.entropy[-1], run.loss[-1])


SCHEDULED = """
[classes]
kind = "syn_small"
[sgd]
eta_Y = 0.5
eta_Z = 0.5
steps = 3
seeds = 1
record = [0, 3]
schedule = [0.0, 0.5, 1]
[compare]
loss = true
"""


def test_a_schedule_in_a_run_file(tmp_path: Path) -> None:
    """Assert its clock for SGD and for a trace, and one sentence for a word or another length."""
    file = tmp_path / "run.toml"
    file.write_text(SCHEDULED)
    assert read_comparison(file).compute().t.values.tolist() == [0.0, 1.5]
    np.savez(tmp_path / "trace.npz", steps=[0, 2, 3], loss=[3.0, 2.9, 2.8])
    of_trace = SCHEDULED.replace("[sgd]", "[trace]").replace("steps = 3\nseeds = 1\nrecord = [0, 3]\n", "")
    file.write_text(of_trace)
    data = read_comparison(file, tmp_path / "trace.npz").compute()
    assert data.t.sel(step=[0, 2, 3]).values.tolist() == [0.0, 0.5, 1.5]
    for wrong, sentence in (
        ('"cosine"', "schedule"),
        ("[1.0, 2.0]", r"schedule of shape \(3,\)"),
        ("[1.0, -1, 1]", "at least 0"),
    ):
        file.write_text(SCHEDULED.replace("[0.0, 0.5, 1]", wrong))
        with pytest.raises(snapdyn.InputError, match=sentence) as error:
            read_comparison(file).compute()
        assert "\n" not in str(error.value)
