"""Checks of input: one sentence that says what was expected, received, and what to do."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from snapdyn.core import errors
from snapdyn.core.errors import InputError
from tests.fuzz.odd_values import ODD

# Name of the check, what is refused, the last that is taken, options, and words of the message.
CHECKS: list[tuple[str, Any, Any, dict[str, Any], str]] = [
    (
        "choice",
        "rows",
        "row",
        {"options": ("row", "column")},
        "one of row, column, received 'rows'; did you mean 'row'",
    ),
    ("text", "", "a", {"at_least": 1}, "to be text, received ''; write it in quotes"),
    ("function", 3, len, {"form": "(t, state)"}, r"a function \(t, state\), received 3; give the function, without"),
    ("instance", 3, "x", {"kind": str, "advice": "give one"}, "to be a str, received 3; give one"),
    ("pair", (1.0,), (1.0, 2.0), {}, r"two numbers, received \(1.0,\); write \(first, second\)"),
    ("number", "1", np.inf, {}, "to be a number, received '1'; give one real number"),
    ("positive", 0.0, 1e-300, {}, "to be a positive finite number, received 0.0; give a value above 0"),
    ("fraction", 1.0, 0.0, {}, "to be a finite number of at least 0 and below 1, received 1.0; give 0.0 to leave"),
    ("real", -2.0, -1.0, {"at_least": -1.0, "at_most": 1.0}, "a finite number from -1 to 1, received -2.0; give such"),
    ("real", 1.5, 1.0, {"at_most": 1.0, "advice": "so"}, "a finite number of at most 1, received 1.5; so$"),
    ("real", 1.0, 1.5, {"above": 1.0}, "a finite number above 1, received 1.0"),
    ("whole", 2.5, 2.0, {"at_least": 1}, "a whole number of at least 1, received 2.5; give one"),
    ("whole", 5, 4, {"at_least": 1, "at_most": 4}, r"a whole number in 1\.\.4, received 5; give 4 or less"),
    ("whole", 5, 4, {"at_least": 1, "at_most": 4, "advice": "so"}, r"in 1\.\.4, received 5; so$"),
    ("flag", "no", np.True_, {}, "to be true or false, received 'no'; write it without quotes"),
    ("flag_or", "no", "auto", {"word": "auto"}, "to be true, false or 'auto', received 'no'; write one of these"),
    ("real_array", [[1.0], [1.0, 2.0]], [[1], [2]], {}, "to be an array of real numbers, received .*; give numbers"),
    ("finite_array", [np.nan], [-1.0], {}, "to be finite, received nan; correct this value"),
    ("finite_array", [1.0, 5.0], [1.0, 4.0], {"at_least": 1, "at_most": 4}, "to be finite and from 1 to 4, received 5"),
    ("finite_array", [0.0], [0.5], {"above": 0.0, "below": 1.0}, "to be positive, finite and below 1, received 0"),
    (
        "finite_array",
        [1.0, 1.0],
        [1.0, 2.0],
        {"shape": ("N",), "increasing": True},
        "to increase, received 1 before 1; sort",
    ),
    ("finite_array", [1.0], [[1.0]], {"shape": (1, 1)}, r"of shape \(1, 1\), received shape \(1,\); give an array of"),
    ("finite_array", [[1.0, 2.0]], [[1.0]], {"shape": ("K", "K")}, r"of shape \(K, K\), received shape \(1, 2\)"),
    ("finite_array", [], [1.0], {"shape": ("K",), "advice": "so"}, r"of shape \(K,\), received shape \(0,\); so$"),
    ("whole_array", [0.5], [2.0**53 - 1], {}, "to be a whole number, received 0.5; round it"),
    ("whole_array", [2.0**53], [0], {}, r"to hold whole numbers below 2\^53"),
    ("positive_array", [1.0, 0.0], [5e-324], {}, "to be positive and finite, received 0; give values above 0"),
    ("time_array", [-1.0], [0.0], {}, "to be finite and at least 0, received -1; count from the start of training"),
    ("count_array", [1.0, 2.5], [1.0, 2.0], {"at_least": 1}, "a whole number of at least 1, received 2.5; give 1 or"),
]


@pytest.mark.parametrize(("check", "refused", "taken", "options", "message"), CHECKS)
def test_each_check(check: str, refused: Any, taken: Any, options: dict[str, Any], message: str) -> None:
    """Assert a sentence with the argument, what was received and what to do; the last value inside comes back."""
    with pytest.raises(InputError, match=rf"^expected size .*{message}"):
        getattr(errors, check)("size", refused, **options)
    assert np.array_equal(getattr(errors, check)("size", taken, **options), taken)


@pytest.mark.parametrize("value", ODD)
def test_odd_values_end_in_one_sentence(value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that each check takes an odd value, or refuses it in one line of less than 300 signs."""
    monkeypatch.chdir(tmp_path)
    messages = []
    for check, *_, options, _ in CHECKS:
        try:
            getattr(errors, check)("size", ODD[value](), **options)
        except InputError as error:
            messages.append(str(error))
    assert messages
    for message in messages:
        assert message.isprintable()
        assert message.startswith("expected size ")
        assert len(message) < 300


@pytest.mark.parametrize(
    "value",
    [True, np.True_, "1", b"1", np.array("1"), np.array([1]), 1j, None, "", -(2**63), 10**400],
    ids=range(11),
)
def test_other_values_are_no_whole_numbers(value: Any) -> None:
    """Assert that true, text, arrays with axes and integers beyond 64 bits, also too long to print, are refused."""
    with pytest.raises(InputError, match=r"^expected size to be .*, received .*; give"):
        errors.whole("size", value, 0)


@pytest.mark.parametrize("name", ["a\0b", "", 3, None, b"x"], ids=range(5))
def test_what_is_no_path_is_refused(name: Any) -> None:
    """Assert one sentence for text that no file name can hold, and for other values."""
    with pytest.raises(InputError, match=r"^expected file to be the path of a file, received .*; write"):
        errors.file_path("file", name)


def test_lists_are_checked_entry_by_entry() -> None:
    """Assert the sentences for a wrong entry, too few and repeated ones, and that a text is no list of texts."""
    for values in ("abc", 3, None, [["a"]], ["a", 0.5]):
        with pytest.raises(InputError, match=r"^expected names to be a list of str, received .*; write"):
            errors.list_of("names", values, str)
    assert errors.list_of("names", ("a", "b"), str, at_least=2, different=True) == ["a", "b"]
    with pytest.raises(InputError, match=r"^expected names with at least 1 entry, received \[\]; add one"):
        errors.list_of("names", [], str, at_least=1)
    with pytest.raises(InputError, match=r"^expected names without repetition, received .*; name each once"):
        errors.list_of("names", ["a", "b", "a"], str, different=True)


def test_shapes_that_do_not_broadcast_are_refused() -> None:
    """Assert that the message names the arguments with their shapes."""
    from snapdyn import analytic

    with pytest.raises(InputError, match=r"shapes that broadcast, received s of shape \(2,\), vocab_size of shape \(3"):
        analytic.h([1.0, 2.0], 1.0, [10, 20, 30])
