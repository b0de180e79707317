"""TensorBoard's event files: the arrays of their scalars, and one sentence for a file that is damaged."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import snapdyn as sd

STEPS = [0, 10, 50]
RNG = np.random.default_rng(1)
ATTENTION = RNG.dirichlet(np.ones(3), size=(3, 2))  # (step, class, token)


def write_events(folder: Path, scalars: list[tuple[str, int, float]]) -> Path:
    """Write scalars (tag, step, value) as PyTorch's SummaryWriter does; returns the file."""
    pytest.importorskip("tensorboard")
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter(str(folder))
    for tag, step, value in scalars:
        writer.add_event(Event(step=step, summary=Summary(value=[Summary.Value(tag=tag, simple_value=value)])))
    writer.close()
    return next(folder.glob("*.tfevents.*"))


def all_scalars() -> list[tuple[str, int, float]]:
    found = []
    for i, step in enumerate(STEPS):
        found += [
            ("loss", step, 2.0 - i),
            ("rate/decoder", step, 0.1),
            ("entropy/0", step, 0.5),
            ("entropy/1", step, 1.0),
        ]
        found += [(f"attention/{n}/{l}", step, ATTENTION[i, n, l]) for n in range(2) for l in range(3)]
    return found


def test_scalars(tmp_path: Path) -> None:
    """Assert loss, entropy and attention in single precision, and that other tags are left aside."""
    trace = sd.read_trace(write_events(tmp_path, all_scalars()), batch_size=4)
    assert trace.steps.tolist() == STEPS
    assert trace.loss is not None
    assert trace.attention is not None
    assert trace.entropy is not None
    assert trace.loss.tolist() == [[2.0, 1.0, 0.0]]
    assert trace.entropy.shape == (1, 3, 2)
    np.testing.assert_allclose(trace.attention[0], ATTENTION, rtol=1e-7)


@pytest.mark.parametrize(
    ("scalars", "sentence"),
    [
        ([("rate", 0, 1.0)], "rows with values"),
        ([("loss", 0, 1.0), ("loss", 0, 2.0)], "once per seed, step"),
        ([("loss", 0, float("nan"))], "finite values of loss .* received nan at step 0"),
    ],
)
def test_wrong_scalars_are_refused(tmp_path: Path, scalars: Any, sentence: str) -> None:
    """Assert one sentence for files without scalars of a trace, with two values for one, and with NaN."""
    with pytest.raises(sd.InputError, match=sentence) as error:
        sd.read_trace(write_events(tmp_path, scalars))
    assert "\n" not in str(error.value)


def test_damaged_file(tmp_path: Path) -> None:
    """Assert one sentence for a file of other bytes."""
    pytest.importorskip("tensorboard")
    path = tmp_path / "events.out.tfevents.1.host"
    path.write_bytes(bytes(range(256)) * 4)
    with pytest.raises(sd.InputError, match=r"expected .* received") as error:
        sd.read_trace(path)
    assert "\n" not in str(error.value)


def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert the sentence that says what to install."""
    path = tmp_path / "events.out.tfevents.1.host"
    path.write_bytes(b"")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(sd.InputError, match=r"pip install 'snapdyn\[tensorboard\]'"):
        sd.read_trace(path)
