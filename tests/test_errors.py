"""Checks of input: one sentence that says what was expected, received, and what to do."""

from typing import Any

import numpy as np
import pytest

from snapdyn import errors
from snapdyn.errors import InputError

REFUSED: dict[str, tuple[Any, ...]] = {
    "choice": ("rows", ("row", "column")),
    "positive": (0.0,),
    "whole": (2.5, 1),
    "flag": ("no",),
    "real_array": ([[1.0], [1.0, 2.0]],),
    "whole_array": ([0.5],),
    "finite_array": ([np.nan],),
    "positive_array": ([1.0, 0.0],),
    "time_array": ([-1.0],),
    "count_array": ([1.0, 2.5], 1),
}
TAKEN: dict[str, tuple[Any, ...]] = {
    "choice": ("row", ("row", "column")),
    "positive": (1e-300,),
    "whole": (2.0, 2),
    "flag": (np.True_,),
    "real_array": ([[1], [2]],),
    "whole_array": ([2.0**53 - 1],),
    "finite_array": ([-1.0],),
    "positive_array": ([5e-324],),
    "time_array": ([0.0],),
    "count_array": ([1.0, 2.0], 1),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_one_sentence(name: str) -> None:
    """Assert a sentence of one line that names the argument, what was received, and ends with what to do."""
    with pytest.raises(InputError, match=r"^expected .*size.*") as error:
        getattr(errors, name)("size", *REFUSED[name])
    text = str(error.value)
    assert "\n" not in text
    assert "received" in text


@pytest.mark.parametrize("name", TAKEN)
def test_input_at_the_edge_is_taken(name: str) -> None:
    """Assert that the last value inside the bounds comes back unchanged."""
    assert np.array_equal(getattr(errors, name)("size", *TAKEN[name]), TAKEN[name][0])


def test_long_values_are_cut() -> None:
    """Assert that a long value does not fill the message."""
    with pytest.raises(InputError) as error:
        errors.real_array("size", ["x" * 1000])
    assert len(str(error.value)) < 200
