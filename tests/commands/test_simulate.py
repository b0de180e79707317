"""`snapdyn simulate`: results, failures, interruptions, targets."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import snapdyn
from snapdyn.commands.main import main
from snapdyn.dynamics.training.transformer.runs import load_transformer_runs
from tests.experiments.helpers import REDUCED, TABLE, refusal
from tests.experiments.sweep.helpers import fake_training


def test_a_transformer_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Assert that a run file with [transformer] gives a saved run, and that its keys are the function's."""
    monkeypatch.setattr("snapdyn.experiments.training_sections.train_transformer", fake_training)
    file = tmp_path / "run.toml"
    (tmp_path / "a.txt").write_text("some words")
    file.write_text('[transformer]\npaths = ["a.txt"]\nlearning_rate = 2.0\nseed = 3\n')
    assert main(["simulate", str(file)]) == 0
    assert load_transformer_runs(tmp_path)[0].seed == 3
    for wrong, hint in (("sed = 3", "did you mean 'seed'"), ("seed = 3.5", "seed in [transformer]"),
                        ('checkpoint = "x"', "expected only known keys")):  # fmt: skip
        file.write_text(f'[transformer]\npaths = ["a.txt"]\nlearning_rate = 2.0\n{wrong}\n')
        assert main(["simulate", str(file)]) == 2
        assert hint in capsys.readouterr().err


@pytest.mark.parametrize("target", ["run.toml", "taken/run.nc", "."])
def test_target_that_cannot_be_written(target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert that neither the run file, nor a path through a file, nor a folder is taken for the result."""
    (tmp_path / "taken").write_text("mine")
    refusal(TABLE, tmp_path, capsys, "--out", str(tmp_path / target))
    assert (tmp_path / "taken").read_text() == "mine"


@pytest.mark.parametrize("file", ["../a.nc", "sub/../../a.nc", "/OUTSIDE/a.nc", "out/a.nc", "link.nc", "loop.nc"])
def test_a_run_file_writes_below_its_own_folder_only(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Assert one sentence for a place outside, by name or by a link, and that nothing is written there or computed."""
    monkeypatch.setattr("snapdyn.experiments.system_sections.integrate", lambda *_, **__: pytest.fail("computed"))
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "mine.nc").write_text("mine")
    (inside / "out").symlink_to(outside)
    (inside / "link.nc").symlink_to(outside / "mine.nc")
    (inside / "loop.nc").symlink_to("loop.nc")
    place = file.replace("/OUTSIDE", str(outside))
    refused = refusal(TABLE + f'[output]\nfile = "{place}"\n', inside, capsys)
    assert "the link" in refused if file == "loop.nc" else "leads out of it; if you trust the file" in refused
    assert [path.name for path in outside.iterdir()] == ["mine.nc"]
    assert (outside / "mine.nc").read_text() == "mine"


def test_a_link_beside_the_run_file_does_not_lead_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert that the default place is held to the same, and that --out writes where it says."""
    (tmp_path / "inside").mkdir()
    file, result = tmp_path / "inside" / "run.toml", tmp_path / "mine.nc"
    file.write_text(TABLE)
    result.write_text("mine")
    file.with_suffix(".nc").symlink_to(result)
    assert main(["simulate", str(file)]) == 2
    assert "leads out of it" in capsys.readouterr().err
    assert result.read_text() == "mine"
    assert main(["simulate", str(file), "--out", str(result)]) == 0
    assert snapdyn.load(result).success


def test_result_is_that_of_the_library(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert that the saved trajectory equals the same run through the library, and what is printed about it."""
    file = tmp_path / "run.toml"
    file.write_text(TABLE)
    assert main(["simulate", str(file)]) == 0
    saved = snapdyn.load(tmp_path / "run.nc")
    classes = snapdyn.SequenceClasses([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]], [3, 3], [4, 5], vocab_size=6)
    own = snapdyn.integrate(snapdyn.MeanField(classes, 1.0, 0.5), [0.5, 1.0], rtol=1e-6)
    np.testing.assert_array_equal(saved.z_support, own.z_support)
    out = capsys.readouterr().out
    for part in ("MeanField", "DOP853", "evaluations", "row sum of Z", "nats", str(tmp_path / "run.nc")):
        assert part in out


MANY_CLASSES = """
[classes]
kind = "symmetric_classes"
vocab_size = 1000000000000
[[classes.kinds]]
common = []
distinct = [1.0]
classes_per_query = 1000000000
[[classes.kinds]]
common = []
distinct = [1.0]
weight = 1e6
[system]
kind = "MeanField"
eta_Y = 1.0
eta_Z = 1e-9
[run]
times = {times}
save_decoder = {save_decoder}
"""


@pytest.mark.parametrize("save_decoder", ["true", "false"])
def test_the_transition_of_many_classes_is_shown(
    save_decoder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Assert the time of the kinds whose transition is within the saved times: Lemma 9's t*, with and without Y."""
    file = tmp_path / "run.toml"
    times = str(np.linspace(2e10, 3e10, 200).tolist())
    file.write_text(MANY_CLASSES.replace("{save_decoder}", save_decoder).replace("{times}", times))
    assert main(["simulate", str(file)]) == 0
    peak = snapdyn.analytic.transition_time(10**9 + 10**6, 10**12, 1.0)
    shown = " ".join(capsys.readouterr().out.split())
    assert f"transition at t = {peak:.4g} in 1 of 2 kinds of classes" in shown


def test_failed_integration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Assert that a failed integration gives exit code 1 and its message, and saves what there is."""
    derivative = snapdyn.MeanField.derivative

    def breaking(self: snapdyn.MeanField, t: float, state: np.ndarray) -> np.ndarray:
        return derivative(self, t, state) * (np.nan if t > 0.7 else 1.0)

    monkeypatch.setattr(snapdyn.MeanField, "derivative", breaking)
    file = tmp_path / "run.toml"
    # scipy's route, which asks the system for its derivative; the compiled one has it inside.
    table = TABLE.replace("times = [0.5, 1.0]", "times = [0.01, 50.0]").replace('"auto"', '"DOP853"')
    file.write_text(table)
    assert main(["simulate", str(file)]) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith("snapdyn: failed at t = ")
    assert captured.err.count("\n") == 1
    assert snapdyn.load(tmp_path / "run.nc").status == "failed"


@pytest.mark.parametrize(
    ("sent", "code", "words"),
    [(signal.SIGINT, 130, "snapdyn: interrupted;"), (signal.SIGTERM, 143, "snapdyn: terminated;")],
    ids=["Ctrl-C", "SIGTERM"],
)
def test_interrupted_integration(
    sent: signal.Signals,
    code: int,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Assert that Ctrl-C and SIGTERM give their exit code and one sentence, and save what there is."""
    derivative = snapdyn.MeanField.derivative

    def stopping(self: snapdyn.MeanField, t: float, state: np.ndarray) -> np.ndarray:
        if t > 5.0:
            signal.raise_signal(sent)
        return derivative(self, t, state)

    monkeypatch.setattr(snapdyn.MeanField, "derivative", stopping)
    file = tmp_path / "run.toml"
    # scipy's route, which asks the system for its derivative; the compiled one has it inside.
    table = TABLE.replace("times = [0.5, 1.0]", "times = [0.01, 50.0]").replace('"auto"', '"DOP853"')
    file.write_text(table)
    assert main(["simulate", str(file)]) == code
    assert capsys.readouterr().err.startswith(words)
    assert snapdyn.load(tmp_path / "run.nc").t.tolist() == [0.01]


def test_result_cut_short(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert that a trajectory file cut short is refused in one sentence."""
    file = tmp_path / "run.toml"
    file.write_text(REDUCED)
    assert main(["simulate", str(file)]) == 0
    whole = (tmp_path / "run.nc").read_bytes()
    (tmp_path / "run.nc").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(snapdyn.InputError, match=r"expected a whole trajectory file .* damaged"):
        snapdyn.load(tmp_path / "run.nc")


@pytest.mark.slow
def test_plain_text_in_a_pipe(tmp_path: Path) -> None:
    """Assert that a piped summary has no escape codes and no progress bar, and that no line is cut."""
    file = tmp_path / "run.toml"
    file.write_text(TABLE)
    done = subprocess.run(
        [sys.executable, "-m", "snapdyn", "simulate", str(file)], capture_output=True, text=True, check=True
    )
    assert "\x1b" not in done.stdout
    assert done.stderr == ""
    assert "most attended at the end" in done.stdout


UNSTABLE = """[system]
kind = "MeanField"
eta_Y = 1.0
eta_Z = 5.3594
[classes]
kind = "symmetric_classes"
num_queries = 40
[[classes.kinds]]
common = [0.38422, 0.19078, 0.41163]
distinct = [0.01337]
[run]
first = 1.0
last = {last}
"""


@pytest.mark.parametrize(("last", "warns"), [("3000.0", True), ("30.0", False)])
def test_an_unstable_path_is_named(last: str, warns: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert one sentence where training leaves the path of a reduced run, after the run is saved."""
    file = tmp_path / "run.toml"
    file.write_text(UNSTABLE.format(last=last))
    assert main(["simulate", str(file)]) == 0
    assert (tmp_path / "run.nc").exists()
    assert ("noise of training leaves its path" in capsys.readouterr().err) == warns


def test_an_unknown_growth_does_not_cost_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Assert a saved run and one sentence where the growth takes too many evaluations."""
    monkeypatch.setattr("snapdyn.dynamics.integration.stability.MOST_EVALUATIONS", 20)
    file = tmp_path / "run.toml"
    file.write_text(UNSTABLE.format(last="30.0"))
    assert main(["simulate", str(file)]) == 0
    assert (tmp_path / "run.nc").exists()
    assert "is not known: stopped after 20 evaluations" in capsys.readouterr().err
