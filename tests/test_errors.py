"""Checks of input: one sentence that says what was expected, received, and what to do."""

import itertools
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


@pytest.mark.parametrize(
    "values",
    [
        np.ma.masked_array([1.0, 2.0], mask=[False, True]),
        [np.ma.masked_array([1.0], mask=[True]), [1.0]],
        np.ma.masked,
    ],
)
def test_masked_entries_are_refused(values: Any) -> None:
    """Assert that a masked entry is never counted, whether in an array or in a list of them."""
    with pytest.raises(InputError, match=r"^expected size without masked entries, received .*; leave them out"):
        errors.real_array("size", values)
    with pytest.raises(InputError):
        errors.positive("size", values)


def test_masked_arrays_without_masked_entries_are_arrays() -> None:
    """Assert that an array that could mask, but does not, is taken."""
    assert errors.real_array("size", np.ma.masked_array([1.0, 2.0])).tolist() == [1.0, 2.0]


@pytest.mark.parametrize("value", [True, np.True_, "1", b"1", np.array("1"), np.array([1]), 1j, None, "", 1.5])
def test_other_values_are_no_whole_numbers(value: Any) -> None:
    """Assert that true, text, arrays with axes and fractions are no whole number."""
    with pytest.raises(InputError, match=r"^expected size to be .*, received .*; give"):
        errors.whole("size", value, 0)


@pytest.mark.parametrize(
    "value", [2**63, -(2**63), 10**400, 10**5000], ids=["2^63", "-2^63", "401 digits", "5001 digits"]
)
def test_whole_numbers_have_64_bits(value: int) -> None:
    """Assert that larger integers are refused in one line, even where Python does not print them."""
    with pytest.raises(InputError, match=r"^expected size to be .*, received .*; give"):
        errors.whole("size", value, 0)


@pytest.mark.parametrize(
    "name", ["x" * 5000, "a\0b", "", "x" * 300 + "/y", "\udfff\ud800", 3, None, b"x"], ids=range(8)
)
def test_paths_that_no_file_has_are_refused(name: Any) -> None:
    """Assert one sentence for a path with a zero byte, one that is too long, and what is no path."""
    with pytest.raises(InputError, match=r"^expected file to be the path of a file, received .*; write"):
        errors.file_path("file", name)


def test_lists_are_checked_entry_by_entry() -> None:
    """Assert that the first wrong entry of an endless list ends the check, and that a text is no list of texts."""
    endless = (number for number in iter(int, 1))
    for values in (endless, "abc", 3, None, [["a"]]):
        with pytest.raises(InputError, match=r"^expected names to be a list of str, received .*; write"):
            errors.list_of("names", values, str)
    with pytest.raises(InputError, match=r"^expected names to be a list of at most 1000000 of str, received repeat"):
        errors.list_of("names", itertools.repeat("a"), str)
    assert errors.list_of("names", ("a", "b"), str) == ["a", "b"]
    with pytest.raises(InputError, match="to be a list of str or int, received"):
        errors.list_of("names", ["a", 2, 0.5], str, int)
    with pytest.raises(InputError, match="expected a positive number"):  # the error of what makes the entries
        errors.list_of("names", (errors.positive("a positive number", each) for each in (1.0, -1.0)), float)


def test_shapes_that_do_not_broadcast_are_refused() -> None:
    """Assert that the message names the arguments with their shapes."""
    from snapdyn import analytic

    with pytest.raises(InputError, match=r"shapes that broadcast, received s of shape \(2,\), vocab_size of shape \(3"):
        analytic.h([1.0, 2.0], 1.0, [10, 20, 30])
    with pytest.raises(InputError, match="fits into memory"):
        analytic.growth_exponent(np.ones((10**7, 1)), 1.0, np.ones(10**7), 10, 2, 1.5)
