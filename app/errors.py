"""Input errors: one sentence that says what was expected, what was received and what to do."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray


class InputError(ValueError):
    """A user's input cannot be used; the message is one plain sentence fit for a terminal."""


def suggest(name: str, known: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?`` for the known name nearest to `name`, or an empty string."""
    by_lower_case = {entry.lower(): entry for entry in known}
    near = difflib.get_close_matches(str(name).lower(), by_lower_case, n=1, cutoff=0.5)
    return f"; did you mean {by_lower_case[near[0]]!r}?" if near else ""


def unknown_name(what: str, name: str, known: Iterable[str]) -> InputError:
    """Build the error for a name that is not in a fixed list."""
    known = list(known)
    return InputError(f"expected {what} to be one of {', '.join(known)}, received {name!r}{suggest(name, known)}")


def positive(name: str, value: float) -> float:
    """Return `value` as a float after checking that it is a positive finite number."""
    try:
        number = math.nan if isinstance(value, (bool, str)) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise InputError(f"expected {name} to be a positive finite number, received {value!r}; give a value above 0")
    return number


def whole(name: str, value: int, at_least: int, at_most: int | None = None) -> int:
    """Return `value` as an int after checking that it is a whole number within the bounds."""
    if isinstance(value, bool) or (not isinstance(value, (int, float)) and not hasattr(value, "__index__")):
        raise InputError(f"expected {name} to be a whole number, received {value!r}")
    if not math.isfinite(value) or int(value) != value or value < at_least:
        raise InputError(f"expected {name} to be a whole number of at least {at_least}, received {value!r}")
    if at_most is not None and value > at_most:
        raise InputError(f"expected {name} to be at most {at_most}, received {value!r}")
    return int(value)


def flag(name: str, value: bool) -> bool:
    """Return `value` as a bool after checking that it is one: "no" and 0 are not False."""
    if not isinstance(value, (bool, np.bool_)):
        raise InputError(f"expected {name} to be true or false, received {value!r}; write it without quotes")
    return bool(value)


def real_array(name: str, values: Any) -> NDArray[np.float64]:
    """Return `values` as a fresh float64 array after checking that it holds real numbers in a regular shape."""
    try:
        array = np.asarray(values)
    except (TypeError, ValueError):
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in "iuf":
        raise InputError(f"expected {name} to be an array of real numbers, received {_shown(values)}")
    return array.astype(np.float64)


def whole_array(name: str, values: Any) -> NDArray[np.int64]:
    """Return `values` as a fresh int64 array after checking that it holds whole numbers in a regular shape."""
    array = real_array(name, values)
    # Beyond 2**53 a float no longer tells one whole number from the next.
    if not (np.isfinite(array) & (np.abs(array) < 2.0**53) & (array == np.floor(array))).all():
        raise InputError(f"expected {name} to hold whole numbers, received {_shown(values)}")
    return array.astype(np.int64)


def _shown(values: Any) -> str:
    text = " ".join(repr(values).split())
    return text if len(text) <= 60 else text[:57] + "..."
