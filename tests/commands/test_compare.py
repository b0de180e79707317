"""`snapdyn compare`: examples run, data lies beside the picture, bad files are refused."""

import re
from pathlib import Path

import numpy as np
import pytest
import xarray

from tests.helpers import EXAMPLES, Command

SMALL = """
[classes]
kind = "single_common_token"
num_classes = 3
num_distinct = 2
common_probability = 0.3
[sgd]
eta_Y = 0.5
eta_Z = 0.5
steps = 10
seeds = 2
[compare]
loss = true
"""
TRACE = EXAMPLES / "trace_torch.npz"
TRACE_TEXT = (EXAMPLES / "trace_torch.toml").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    "example",
    [
        pytest.param(path, marks=[pytest.mark.long] * ("syn" in path.stem), id=path.stem)
        for path in sorted(EXAMPLES.glob("compare_*.toml"))
    ],
)
def test_examples_run(example: Path, tmp_path: Path, command: Command) -> None:
    """Assert that each example, with fewer steps and seeds, writes picture, data and provenance beside its file."""
    text = re.sub("^steps = .*", "steps = 12", example.read_text(), flags=re.MULTILINE)
    file = tmp_path / example.name
    file.write_text(re.sub("^seeds = .*", "seeds = 2", text, flags=re.MULTILINE))
    assert f"{example.stem}.png" in command("compare", file).out
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {f"{example.stem}.{end}" for end in ("toml", "png", "pdf", "nc", "provenance.json")}
    assert xarray.load_dataset(file.with_suffix(".nc"), engine="h5netcdf").sizes["seed"] == 2


def test_a_trace_of_pytorch_is_laid_under_theory(tmp_path: Path, command: Command) -> None:
    """Assert that the example draws the recorded trace, shows the conversion of its clock and lies within 0.2 %.

    The gap is that of steps of 0.05 and 0.1 and of 4 seeds; the observables change by 0.03 to 0.1.
    """
    printed = command("compare", EXAMPLES / "trace_torch.toml", "--trace", TRACE, "--out", tmp_path).out
    assert "t = [i - 0.5 (1 - 0.5^i)/0.5]/0.5 batch-size-1 steps" in printed
    assert "length     infinitely long sequences\n" in printed
    data = xarray.load_dataset(tmp_path / "trace_torch.nc", engine="h5netcdf")
    assert data.sizes["seed"] == 4
    assert float(abs(data.theory - data.sgd.median("seed")).max()) < 0.002
    assert (tmp_path / "trace_torch.png").is_file()


def test_an_export_of_wandb_is_laid_under_theory(tmp_path: Path, command: Command) -> None:
    """Assert the map of columns in the section trace, a blank record that enters nothing, and a run file with a BOM."""
    steps = np.arange(0.0, 200.0, 20.0)
    recorded = 3.0 - 0.01 * steps + np.array([[0.0], [0.1]])
    rows = [f"{step:g},{a},{b}" for step, a, b in zip(steps, *recorded.tolist(), strict=True)]
    rows[3] = f"{steps[3]:g},,"
    rows[5] = f"{steps[5]:g},,{recorded[1, 5]}"
    (tmp_path / "wandb.csv").write_text("\n".join(["Step,run-1 - train/loss,run-2 - train/loss", *rows]))
    text = re.sub("(?s)\\[compare\\].*", "[compare]\nloss = true\n", TRACE_TEXT)
    text += '[trace.columns]\nstep = "Step"\nloss = "run-{seed} - train/loss"\n'
    (tmp_path / "run.toml").write_text(text, encoding="utf-8-sig")
    assert "nan" not in command("compare", tmp_path / "run.toml", "--trace", tmp_path / "wandb.csv").out
    data = xarray.load_dataset(tmp_path / "run.nc", engine="h5netcdf")
    data = data.sel(step=steps)
    wanted = recorded.copy()
    wanted[:, 3], wanted[0, 5] = np.nan, np.nan
    np.testing.assert_allclose(data.sgd.values[:, 0], wanted, rtol=1e-15)
    assert np.isfinite(data.theory).all()


@pytest.mark.parametrize(
    ("text", "old", "new", "message"),
    [
        (SMALL, "loss = true", "", "at least 1 entry"),
        (SMALL, "loss = true", "attention = [[0]]", "2 numbers"),
        (SMALL, "steps = 10", "steps = 10\nrecord = [11]", "record"),
        (SMALL, "[compare]\nloss = true", "", r"section \[compare\]"),
        (TRACE_TEXT, 'clock = "updates"', 'clock = "epochs"', "clock to be one of updates, sequences, theory"),
        (TRACE_TEXT, "seq_len = inf", "seq_len = nan", "seq_len to be a whole number of at least 1, received nan"),
        (TRACE_TEXT, "eta_Z = 0.1", "", "expected eta_Z in"),
        (TRACE_TEXT, "query = [0, 0]", "query = [0, 0, 0]", "query"),
        (TRACE_TEXT, "attention = [[0, 0]]", "growth_factor = [[0, 0]]", "growth_factor from no trace"),
    ],
)
def test_bad_files_are_refused(text: str, old: str, new: str, message: str, tmp_path: Path, command: Command) -> None:
    """Assert exit code 2 and one sentence on stderr, and that nothing is written."""
    assert old in text
    file = tmp_path / "run.toml"
    file.write_text(text.replace(old, new))
    said = command("compare", file, *(["--trace", TRACE] if text == TRACE_TEXT else []), code=2).err
    assert re.search(message, said), said
    assert list(tmp_path.iterdir()) == [file]
