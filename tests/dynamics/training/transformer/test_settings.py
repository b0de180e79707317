"""What transformers are trained with: the part of the text for validation, exchanged words."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from snapdyn.dynamics.training.transformer.settings import TransformerSettings, split_text
from snapdyn.errors import InputError
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


@pytest.mark.parametrize("name", ["paths", "validation"])
def test_what_is_no_list_of_paths_is_refused(name: str) -> None:
    """Assert one sentence, whichever of the two texts is given so."""
    for value in (np.array(1.0), []):
        given = {"paths": FABLE, "validation": [FABLE], name: value}
        with pytest.raises(InputError, match=r"^expected .*path.* received"):
            split_text(TransformerSettings(**given, learning_rate=1.0, window=6), None)
