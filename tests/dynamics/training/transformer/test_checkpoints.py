"""Checkpoints: an interrupted run goes on to the same bits. Needs torch."""

import hashlib
import io
from pathlib import Path

import pytest

from snapdyn.errors import InputError
from tests.dynamics.training.transformer.helpers import assert_same, torch, train

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("stop", [1, 7, 10, 11])
def test_an_interrupted_run_goes_on_to_the_same_bits(stop: int, tmp_path: Path) -> None:
    """Assert bit-identical results after Ctrl-C at different iterations, and from the finished checkpoint."""
    options = {"checkpoint": tmp_path / "run.pt", "checkpoint_every": 3, "num_layers": 2, "record": (0, 5, 6, 11)}

    def interrupt(done: float, total: float, label: str) -> None:
        if label == f"training, iteration {stop}":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(**options, progress=interrupt)
    whole = train(num_layers=2, record=(0, 5, 6, 11))
    assert_same(train(**options), whole)
    assert_same(train(**options), whole)
    assert [path.name for path in tmp_path.iterdir()] == ["run.pt"]


def test_checkpoints_that_cannot_be_used(tmp_path: Path) -> None:
    """Assert one sentence for a checkpoint that is cut short, altered, something else, or of another run."""
    path = tmp_path / "run.pt"
    train(checkpoint=path)
    whole = path.read_bytes()
    with pytest.raises(InputError, match=r"a run with learning_rate = 1\.0 where this one has 2\.0"):
        train(checkpoint=path, learning_rate=2.0)
    with pytest.raises(InputError, match="a run with text = "):
        train(checkpoint=path, max_vocab=20)
    altered = bytearray(whole)
    altered[len(whole) // 2] ^= 1
    for bad in (b"", b"no checkpoint", whole[:-100], bytes(altered)):
        path.write_bytes(bad)
        with pytest.raises(InputError, match="expected a checkpoint of a transformer's training") as caught:
            train(checkpoint=path)
        assert "\n" not in str(caught.value)
    buffer = io.BytesIO()
    torch.save({"format": "other"}, buffer)
    path.write_bytes(hashlib.sha256(buffer.getvalue()).digest() + buffer.getvalue())
    with pytest.raises(InputError, match="expected a checkpoint"):
        train(checkpoint=path)
