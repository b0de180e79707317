"""InputError and the checks that raise it: one sentence with what was expected, what was received, what to do.

Every check takes the name of an argument, for the message, and its value; it returns the value in the type that the
program computes with, or raises InputError.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
"""Numbers of any shape; a function that returns one for scalar arguments returns a numpy float."""


class InputError(ValueError):
    """A user's input cannot be used; the message is one plain sentence fit for a terminal.

    Whatever the message quotes, it is one line without control characters.
    """

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


def printable(text: str) -> str:
    """Return `text` in one line, control characters escaped: a title or a word may hold commands of the terminal."""
    if text.isprintable():
        return text
    line = " ".join(text.split())
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in line)


def shown(value: Any) -> str:
    """Return what error messages show of a received value: one line of at most 60 characters."""
    try:
        text = printable(repr(value))
    except Exception:  # numbers beyond the limit of digits, objects of other libraries
        text = f"a value of type {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."


def suggest(name: str, known: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?``, x the known name most similar to `name`, or an empty string."""
    by_lower_case = {entry.lower(): entry for entry in known}
    near = difflib.get_close_matches(str(name).lower(), by_lower_case, n=1, cutoff=0.5)
    return f"; did you mean {by_lower_case[near[0]]!r}?" if near else ""


def unknown_name(what: str, name: str, known: Iterable[str]) -> InputError:
    """Build the InputError for a `name` that is not one of `known`; `what` says what is named."""
    known = list(known)
    return InputError(f"expected {what} to be one of {', '.join(known)}, received {shown(name)}{suggest(name, known)}")


def choice(name: str, value: str, options: tuple[str, ...]) -> str:
    """Return `value` after checking that it is one of `options`."""
    if not isinstance(value, str) or value not in options:
        raise unknown_name(name, value, options)
    return value


def positive(name: str, value: float) -> float:
    """Return `value` as a float after checking that it is a positive finite number."""
    try:
        number = math.nan if isinstance(value, (bool, str)) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise InputError(
            f"expected {name} to be a positive finite number, received {shown(value)}; give a value above 0"
        )
    return number


def whole(name: str, value: int, at_least: int, at_most: int | None = None) -> int:
    """Return `value` as an int after checking that it is a whole number within the bounds."""
    if (
        isinstance(value, bool)
        or (not isinstance(value, (int, float)) and not hasattr(value, "__index__"))
        or np.ndim(value) > 0
    ):
        raise InputError(f"expected {name} to be a whole number, received {shown(value)}; give one whole number")
    if not math.isfinite(value) or int(value) != value or value < at_least:
        raise InputError(
            f"expected {name} to be a whole number of at least {at_least}, received {value!r}; give {at_least} or more"
        )
    if at_most is not None and value > at_most:
        raise InputError(f"expected {name} to be at most {at_most}, received {value!r}; give {at_most} or less")
    return int(value)


def flag(name: str, value: bool) -> bool:
    """Return `value` as a bool after checking that it is one; "no" and 0 are refused."""
    if not isinstance(value, (bool, np.bool_)):
        raise InputError(f"expected {name} to be true or false, received {shown(value)}; write it without quotes")
    return bool(value)


def real_array(name: str, values: Any) -> NDArray[np.float64]:
    """Return a float64 copy of `values` after checking that they are real numbers in an array of regular shape."""
    try:
        array = np.asarray(values)
        # Python's integers beyond 64 bits, and fractions, arrive as objects.
        if array.dtype == object and all(isinstance(x, Real) and not isinstance(x, bool) for x in array.flat):
            array = array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in "iuf":
        raise InputError(f"expected {name} to be an array of real numbers, received {shown(values)}; give numbers")
    return array.astype(np.float64)


def whole_array(name: str, values: Any) -> NDArray[np.int64]:
    """Return an int64 copy of `values` after checking that they are whole numbers in an array of regular shape."""
    array = real_array(name, values)
    # Beyond 2**53 neighbouring whole numbers are the same float.
    if not (np.isfinite(array) & (np.abs(array) < 2.0**53) & (array == np.floor(array))).all():
        raise InputError(f"expected {name} to hold whole numbers, received {shown(values)}; round them")
    return array.astype(np.int64)


def finite_array(name: str, values: ArrayLike) -> FloatArray:
    """Return `values` as a float64 array after checking that all are finite."""
    array = real_array(name, values)
    return _require_all(name, array, np.isfinite(array), "finite", f"check how {name} was computed")


def positive_array(name: str, values: ArrayLike) -> FloatArray:
    """Return `values` as a float64 array after checking that all are positive and finite."""
    array = real_array(name, values)
    return _require_all(name, array, np.isfinite(array) & (array > 0), "positive and finite", "give values above 0")


def time_array(name: str, values: ArrayLike) -> FloatArray:
    """Return times or visits as a float64 array after checking that all are finite and at least 0."""
    array = real_array(name, values)
    remedy = "count from the start of training"
    return _require_all(name, array, np.isfinite(array) & (array >= 0), "finite and at least 0", remedy)


def count_array(name: str, values: ArrayLike, at_least: int) -> FloatArray:
    """Return counts as a float64 array after checking that all are whole numbers within the bound."""
    array = real_array(name, values)
    valid = np.isfinite(array) & (array >= at_least) & (array == np.floor(array))
    return _require_all(name, array, valid, f"a whole number of at least {at_least}", f"give {at_least} or more")


def _require_all(name: str, array: FloatArray, valid: NDArray[np.bool_], expected: str, remedy: str) -> FloatArray:
    """Return `array` if all its entries are valid; the error shows the first one that is not."""
    if not np.all(valid):
        raise InputError(f"expected {name} to be {expected}, received {array[~valid].flat[0]:g}; {remedy}")
    return array
