"""InputError and the checks that raise it: one sentence with what was expected, what was received, what to do.

Every check takes the name of an argument, for the message, and its value; it returns the value in the type that the
program computes with, or raises InputError.
"""

from __future__ import annotations

import difflib
import inspect
import math
import operator
import os
import re
from collections.abc import Callable, Collection, Iterable
from functools import wraps
from numbers import Real
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

FloatArray = NDArray[np.float64]
"""Numbers of any shape; a function that returns one for scalar arguments returns a numpy float."""

MOST_LISTED = 10**6  # entries of a list that a user gives; an iterable may be endless
LARGEST_WHOLE = 2**63 - 1  # of the 64 bits in which arrays and files hold whole numbers
# Bytes of a path and of a name in it, on Linux; macOS takes less of a path and says so.
LONGEST_PATH, LONGEST_NAME = 4096, 255
# Control characters besides line ends and tabs, line separators, halves of pairs, embeddings and isolates of
# bidirectional text.
HARMFUL = re.compile(r"[\0-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class InputError(ValueError):
    """A user's input cannot be used; the message is one plain sentence fit for a terminal.

    Whatever the message quotes, it is one line without control characters.
    """

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


def printable(text: str) -> str:
    """Return `text` in one line, control characters escaped: a title or a word may hold commands of the terminal."""
    return text if text.isprintable() else escaped(" ".join(text.split()))


def escaped(text: object) -> str:
    """Return a text or path with line ends and all other characters escaped that could make it look like another."""
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in str(text))


def visible(text: str) -> str:
    """Return `text` with its lines, and other control characters escaped, for a page, a table or a terminal.

    Titles, words and statements come from users' files and texts. A control character in them could change what the
    terminal shows, and is an error in HTML and LaTeX; half a pair of UTF-16 can be written nowhere; embeddings and
    isolates of bidirectional text show what follows in another order.
    """
    return text if text.isprintable() else HARMFUL.sub(lambda found: escaped(found[0]), text)


def shown(value: Any) -> str:
    """Return what error messages show of a received value: one line of at most 60 characters."""
    try:
        text = printable(repr(value))
    except Exception:  # numbers beyond the limit of digits, objects of other libraries
        text = f"a value of type {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."


def suggest(name: str, known: Iterable[str]) -> str:
    """Return ``; did you mean 'x', 'y' or 'z'?``, the at most three known names most similar, or an empty string."""
    if not isinstance(name, str):
        return ""
    by_lower_case = {entry.lower(): entry for entry in known}
    cutoff = 0.62 if len(name) > 3 else 0.5  # one wrong letter of two still counts
    near = difflib.get_close_matches(name[:100].lower(), by_lower_case, n=3, cutoff=cutoff)
    *others, last = [repr(by_lower_case[each]) for each in near] or [""]
    return f"; did you mean {', '.join(others) + ' or ' if others else ''}{last}?" if last else ""


def unknown_name(what: str, name: str, known: Iterable[str]) -> InputError:
    """Build the InputError for a `name` that is not one of `known`; `what` says what is named."""
    known = list(known)
    return InputError(f"expected {what} to be one of {', '.join(known)}, received {shown(name)}{suggest(name, known)}")


def choice(name: str, value: str, options: Collection[str]) -> str:
    """Return `value` after checking that it is one of `options`."""
    if not isinstance(value, str) or value not in options:
        raise unknown_name(name, value, options)
    return value


def text(name: str, value: str) -> str:
    """Return `value` after checking that it is text."""
    if not isinstance(value, str):
        raise InputError(f"expected {name} to be text, received {shown(value)}; write it in quotes")
    return value


def function(name: str, value: Any) -> Any:
    """Return `value` after checking that it can be called."""
    if not callable(value):
        raise InputError(f"expected {name} to be a function, received {shown(value)}; give one, without calling it")
    return value


def optional_function(name: str, value: Any) -> Any:
    """Return `value` after checking that it is None or can be called."""
    return None if value is None else function(name, value)


def instance(name: str, value: Any, kind: type, advice: str) -> Any:
    """Return `value` after checking that it is of the type `kind`; `advice` says what to give."""
    if not isinstance(value, kind):
        raise InputError(f"expected {name} to be {kind.__name__}, received {shown(value)}; {advice}")
    return value


def list_of(name: str, values: Any, *kinds: type) -> list[Any]:
    """Return the entries of an iterable as a list, each checked to be of one of the types when its turn comes."""
    found: list[Any] = []
    try:
        if not isinstance(values, (str, bytes)):
            for value in values:
                if not isinstance(value, kinds) or len(found) == MOST_LISTED:
                    break
                found.append(value)
            else:
                return found
    except InputError:  # of what makes the entries
        raise
    except Exception:  # not iterable, beyond the memory, or an object of another library with an error of its own
        pass
    many = f" of at most {MOST_LISTED}" if len(found) == MOST_LISTED else ""
    expected = " or ".join(kind.__name__ for kind in kinds)
    raise InputError(f"expected {name} to be a list{many} of {expected}, received {shown(values)}; write [...]")


def chosen_ids(what: str, only: Iterable[str] | None, known: Iterable[str]) -> list[str]:
    """Return the ids of a register that are asked for (None: all; a string: that one), in the register's order."""
    known = list(known)
    wanted = known if only is None else [only] if isinstance(only, str) else list_of(f"{what} ids", only, str)
    if not wanted:
        raise InputError(f"expected at least one {what} id, received none; leave them out for all")
    for id_ in wanted:
        choice(what, id_, known)
    return [id_ for id_ in known if id_ in wanted]


def pair(name: str, values: Any) -> tuple[Any, Any]:
    """Return the two entries of a list, a tuple or an array after checking that there are two."""
    if isinstance(values, (list, tuple)) and len(values) == 2:
        return values[0], values[1]
    if isinstance(values, np.ndarray) and values.shape == (2,):
        return values[0], values[1]
    raise InputError(f"expected {name} to be two numbers, received {shown(values)}; write (first, second)")


def file_path(name: str, value: Any) -> Path:
    """Return a path after checking that `value` is text or a path that a file can have."""
    try:
        path = os.fspath(value)
        if (
            isinstance(path, str)
            and "\0" not in path
            and 0 < len(os.fsencode(path)) < LONGEST_PATH
            and all(len(os.fsencode(part)) <= LONGEST_NAME for part in Path(path).parts)
        ):
            return Path(path)
    except Exception:  # no path, or text that no file name can hold
        pass
    raise InputError(f"expected {name} to be the path of a file, received {shown(value)}; write it in quotes")


def existing_file(what: str, value: Any) -> Path:
    """Return a path after checking that it is that of a regular file: to open a named pipe would wait for a writer."""
    path = file_path(f"the path of {what}", value)
    if not os.path.isfile(path):
        raise InputError(f"expected the path of {what}, received {str(path)!r}, which is not a file; check the path")
    return path


def number(name: str, value: float) -> float:
    """Return `value` as a float after checking that it is a real number: NaN and infinity too, true as 1."""
    converted = float(value) if isinstance(value, (bool, np.bool_)) else _float(value)
    if converted is None:
        raise InputError(f"expected {name} to be a number, received {shown(value)}; give one real number")
    return converted


def fraction(name: str, value: float, below: float = 1.0) -> float:
    """Return `value` as a float after checking 0 <= value < below."""
    converted = _float(value)
    if converted is None or not 0.0 <= converted < below:
        limit = "" if math.isinf(below) else f" and below {below:g}"
        raise InputError(
            f"expected {name} to be a number of at least 0{limit}, received {shown(value)}; 0.0 leaves it out"
        )
    return converted


def _float(value: Any) -> float | None:
    """Return the float of a number, of a numpy scalar or of an array of one number without axes; None for all else."""
    if isinstance(value, (bool, str, bytes, bytearray, np.ma.MaskedArray)):
        return None
    if isinstance(value, (np.generic, np.ndarray)) and (value.ndim > 0 or value.dtype.kind not in "iuf"):
        return None
    try:
        return float(value)
    except Exception:  # whatever the object of another library raises
        return None


def positive(name: str, value: float) -> float:
    """Return `value` as a float after checking that it is a positive finite number."""
    converted = _float(value)
    if converted is None or not (math.isfinite(converted) and converted > 0):
        raise InputError(
            f"expected {name} to be a positive finite number, received {shown(value)}; give a value above 0"
        )
    return converted


def whole(name: str, value: float, at_least: int, at_most: int | None = None) -> int:
    """Return `value` as an int after checking that it is a whole number within the bounds, and of 64 bits."""
    converted, most = _whole(value), LARGEST_WHOLE if at_most is None else at_most
    if converted is not None and at_least <= converted <= most:
        return converted
    bounds = f"of at least {at_least}" if at_most is None else f"in {at_least}..{at_most}"
    remedy = "give one"
    if converted is not None:
        remedy = f"give {at_least} or more" if converted < at_least else f"give {most} or less"
    raise InputError(f"expected {name} to be a whole number {bounds}, received {shown(value)}; {remedy}")


def _whole(value: Any) -> int | None:
    """Return the whole number that `value` is, or None."""
    if isinstance(value, (bool, np.bool_, np.ma.MaskedArray)) or (isinstance(value, np.ndarray) and value.ndim > 0):
        return None
    try:
        if isinstance(value, float | np.floating):
            return int(value) if value.is_integer() else None
        return operator.index(value)
    except Exception:  # no number, or an object of another library with an error of its own
        return None


def flag(name: str, value: bool) -> bool:
    """Return `value` as a bool after checking that it is one; "no" and 0 are refused."""
    if not isinstance(value, (bool, np.bool_)):
        raise InputError(f"expected {name} to be true or false, received {shown(value)}; write it without quotes")
    return bool(value)


def real_array(name: str, values: Any) -> NDArray[np.float64]:
    """Return a float64 copy of `values` after checking that they are real numbers in an array of regular shape.

    True and false are no numbers, and no entry may be masked.
    """
    try:
        masked, with_bools = _odd_entries(values)
        array = np.asarray(values)
        # Python's integers beyond 64 bits, and fractions, arrive as objects.
        if array.dtype == object and all(isinstance(x, Real) for x in array.flat):
            array = array.astype(np.float64)
    except Exception:  # ragged lists, numbers beyond all floats, whatever an object of another library raises
        masked, with_bools, array = False, False, np.empty(0, dtype=object)
    if masked:
        raise InputError(
            f"expected {name} without masked entries, received {shown(values)}; leave them out, or fill them"
        )
    if array.dtype.kind not in "iuf" or with_bools:
        raise InputError(f"expected {name} to be an array of real numbers, received {shown(values)}; give numbers")
    try:
        return array.astype(np.float64)
    except MemoryError as error:  # a view that repeats a few numbers
        raise InputError(
            f"expected {name} to fit into memory, received {array.size} numbers; give fewer of them"
        ) from error


def _odd_entries(values: Any) -> tuple[bool, bool]:
    """Whether masked entries, and whether true or false, are among the values; numpy's conversion counts both."""
    if not isinstance(values, (list, tuple)):
        return isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values), isinstance(values, (bool, np.bool_))
    found = [_odd_entries(entry) for entry in values if not isinstance(entry, (float, int)) or isinstance(entry, bool)]
    return any(masked for masked, _ in found), any(with_bools for _, with_bools in found)


def broadcasting(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Decorate a function whose arguments broadcast: shapes that do not, or do not fit into memory, are refused."""

    @wraps(function)
    def checked(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        try:
            return function(*args, **kwargs)
        except InputError:
            raise
        except (ValueError, MemoryError) as error:
            named = inspect.signature(function).bind(*args, **kwargs).arguments
            shapes = {name: np.shape(value) for name, value in named.items()}
            received = ", ".join(f"{name} of shape {shape}" for name, shape in shapes.items() if shape)
            expected = "broadcast" if isinstance(error, ValueError) else "broadcast to an array that fits into memory"
            raise InputError(
                f"expected arguments with shapes that {expected}, received {received or error}; give numbers, or "
                "arrays of one shape"
            ) from error

    return checked


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
