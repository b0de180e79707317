"""Small transformers."""

from typing import Any

import numpy as np

from snapdyn.dynamics import TransformerRun, train_transformer
from tests.helpers import FABLE

# Small enough that a run takes a fraction of a second.
SMALL: dict[str, Any] = {
    "learning_rate": 1.0,
    "iterations": 12,
    "embedding": 8,
    "window": 6,
    "batch_size": 4,
    "min_token_count": 1,
    "validation_share": 0.3,
    "device": "cpu",
}


def train(**changes: Any) -> TransformerRun:
    return train_transformer(FABLE, **{**SMALL, **changes})


def assert_same(a: TransformerRun, b: TransformerRun) -> None:
    for name in ("attention", "entropy", "loss", "change"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
