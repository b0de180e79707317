"""`snapdyn simulate`: results, failures, interruptions, targets."""

import signal
from pathlib import Path

import numpy as np
import pytest

import snapdyn
from snapdyn.dynamics.training.transformer.runs import load_transformer_runs
from tests.experiments.helpers import TABLE, refusal
from tests.experiments.sweep.helpers import fake_training
from tests.helpers import Command


def test_a_transformer_is_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    """Assert that a run file with [transformer] gives a saved run, and that its keys are the function's."""
    monkeypatch.setattr("snapdyn.experiments.run_sections.train_transformer", fake_training)
    file = tmp_path / "run.toml"
    (tmp_path / "a.txt").write_text("some words")
    file.write_text('[transformer]\npaths = ["a.txt"]\nlearning_rate = 2.0\nseed = 3\n')
    command("simulate", file)
    assert load_transformer_runs(tmp_path)[0].seed == 3
    for wrong, hint in (("sed = 3", "did you mean 'seed'"), ("seed = 3.5", "seed in [transformer]")):
        file.write_text(f'[transformer]\npaths = ["a.txt"]\nlearning_rate = 2.0\n{wrong}\n')
        assert hint in command("simulate", file, code=2).err


@pytest.mark.parametrize("file", ["../a.nc", "sub/../../a.nc", "/OUTSIDE/a.nc", "out/a.nc", "link.nc", "loop.nc"])
def test_a_run_file_writes_below_its_own_folder_only(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Assert one sentence for a place outside, by name or by a link, and that nothing is written there or computed."""
    monkeypatch.setattr("snapdyn.experiments.run_sections.integrate", lambda *_, **__: pytest.fail("computed"))
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "mine.nc").write_text("mine")
    (inside / "out").symlink_to(outside)
    (inside / "link.nc").symlink_to(outside / "mine.nc")
    (inside / "loop.nc").symlink_to("loop.nc")
    place = file.replace("/OUTSIDE", str(outside))
    refused = refusal(TABLE + f'[output]\nfile = "{place}"\n', inside, capsys)
    said = "the link" if file == "loop.nc" else "leads out of it; if you trust the file"
    assert said in refused
    assert [path.name for path in outside.iterdir()] == ["mine.nc"]
    assert (outside / "mine.nc").read_text() == "mine"


@pytest.mark.parametrize("target", ["run.toml", "taken/run.nc", "."])
def test_target_that_cannot_be_written(target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert that neither the run file, a path through a file, nor a folder is written to."""
    (tmp_path / "taken").write_text("mine")
    refusal(TABLE, tmp_path, capsys, "--out", str(tmp_path / target))
    assert (tmp_path / "taken").read_text() == "mine"


def test_result_is_that_of_the_library(tmp_path: Path, command: Command) -> None:
    """Assert that the saved trajectory equals the same run through the library, and what is printed about it."""
    file = tmp_path / "run.toml"
    file.write_text(TABLE)
    out = command("simulate", file).out
    saved = snapdyn.load(tmp_path / "run.nc")
    classes = snapdyn.SequenceClasses([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]], [3, 3], [4, 5], vocab_size=6)
    own = snapdyn.integrate(snapdyn.MeanField(classes, 1.0, 0.5), [0.5, 1.0], rtol=1e-6)
    np.testing.assert_array_equal(saved.z_support, own.z_support)
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
"""


def test_the_transition_of_many_classes_is_shown(tmp_path: Path, command: Command) -> None:
    """Assert the time of the kinds whose transition is within the saved times: Lemma 9's t*."""
    file = tmp_path / "run.toml"
    times = str(np.linspace(2e10, 3e10, 200).tolist())
    file.write_text(MANY_CLASSES.replace("{times}", times))
    shown = " ".join(command("simulate", file).out.split())
    peak = snapdyn.analytic.transition_time(10**9 + 10**6, 10**12, 1.0)
    assert f"transition at t = {peak:.4g} in 1 of 2 kinds of classes" in shown


@pytest.mark.parametrize(
    ("sent", "code", "words"),
    [
        (signal.SIGINT, 130, "snapdyn: interrupted;"),
        (signal.SIGTERM, 143, "snapdyn: terminated;"),
        (None, 1, "snapdyn: failed at t = "),
    ],
    ids=["Ctrl-C", "SIGTERM", "failed"],
)
def test_an_integration_that_stops(
    sent: signal.Signals | None,
    code: int,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: Command,
) -> None:
    """Assert that Ctrl-C, SIGTERM and a failure give their exit code and one sentence, and save what there is."""
    derivative = snapdyn.MeanField.derivative

    def stopping(self: snapdyn.MeanField, t: float, state: np.ndarray) -> np.ndarray:
        if t > 5.0 and sent:
            signal.raise_signal(sent)
        return derivative(self, t, state) * (np.nan if t > 5.0 else 1.0)

    monkeypatch.setattr(snapdyn.MeanField, "derivative", stopping)
    file = tmp_path / "run.toml"
    # scipy's route, which asks the system for its derivative; the compiled one has it inside.
    table = TABLE.replace("times = [0.5, 1.0]", "times = [0.01, 50.0]").replace('"auto"', '"DOP853"')
    file.write_text(table)
    said = command("simulate", file, code=code).err
    assert said.startswith(words)
    assert said.count("\n") == 1
    saved = snapdyn.load(tmp_path / "run.nc")
    assert saved.t.tolist() == [0.01]
    assert saved.status == ("interrupted" if sent else "failed")


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


@pytest.mark.parametrize(
    ("last", "said"),
    [
        (3000.0, "noise drives training away from the path of this run"),
        (30.0, ""),
    ],
)
def test_an_unstable_path_is_named(last: float, said: str, tmp_path: Path, command: Command) -> None:
    """Assert one sentence where training leaves the path of a reduced run, and none elsewhere."""
    file = tmp_path / "run.toml"
    file.write_text(UNSTABLE.format(last=last))
    shown = command("simulate", file).err
    assert (tmp_path / "run.nc").exists()
    assert said in shown
    assert bool(shown) == bool(said)
