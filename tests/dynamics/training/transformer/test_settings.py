"""What transformers are trained with: the part of the text for validation, exchanged words."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from snapdyn.dynamics.training.transformer.trainer import TransformerSettings, split_text
from tests.helpers import FABLE


def test_validation_text_of_its_own_and_exchanged_words(tmp_path: Path) -> None:
    """Assert that given validation files are held back whole, and that exchanging words keeps their counts."""
    held = tmp_path / "held.txt"
    held.write_text("one two three four five six seven one two three")
    settings = TransformerSettings(FABLE, 1.0, validation=[held], window=6, min_token_count=1)
    text = split_text(settings, None)
    words = [text.words[i] for i in text.validation.stream if i >= 0]
    assert words == held.read_text().split()
    shuffled = split_text(replace(settings, shuffle=True), None)
    streams = [np.concatenate([t.training.stream, t.validation.stream]) for t in (text, shuffled)]
    assert not np.array_equal(*streams)
    np.testing.assert_array_equal(*map(np.sort, streams))
    np.testing.assert_array_equal(*(stream < 0 for stream in streams))
