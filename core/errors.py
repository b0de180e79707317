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
"""Numbers of any shape; functions with scalar arguments return a numpy float instead of an array."""

FORGOTTEN = "; did you forget --load FILE.py?"  # where the name may be that of an entry of a user's file
# Rows of P are probabilities; a single-precision table still sums to 1 within this.
ROW_SUM_TOLERANCE = 1e-6
LARGEST_WHOLE = 2**63 - 1  # of the 64 bits in which arrays and files hold whole numbers
# Control characters besides line ends and tabs, line separators, halves of pairs, embeddings and isolates of
# bidirectional text.
HARMFUL = re.compile(r"[\0-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class InputError(ValueError):
    """A user's input cannot be used; the message is one plain sentence fit for a terminal.

    Whatever text the message quotes, the message is one line without control characters.
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
    terminal shows, and is an error in HTML and LaTeX; half a surrogate pair of UTF-16 cannot be written to any file;
    embeddings and isolates of bidirectional text show what follows in another order.
    """
    return text if text.isprintable() else HARMFUL.sub(lambda found: escaped(found[0]), text)


def shown(value: Any, most: int = 60) -> str:
    """Return what error messages show of a received value: one line of at most `most` characters."""
    text = printable(repr(value))
    return text if len(text) <= most else text[: most - 3] + "..."


def shown_path(path: Any) -> str:
    """Return what error messages show of a path: all of it, unless no file can have such a path."""
    return shown(str(path), 600)


def suggest(name: str, known: Iterable[str]) -> str:
    """Return ``; did you mean 'x' or 'y'?``, with at most three similar known names, or an empty string."""
    if not isinstance(name, str):
        return ""
    by_lower_case = {entry.lower(): entry for entry in known}
    cutoff = 0.62 if len(name) > 3 else 0.5  # one wrong letter of two still counts
    near = difflib.get_close_matches(name[:100].lower(), by_lower_case, n=3, cutoff=cutoff)
    return f"; did you mean {' or '.join(repr(by_lower_case[each]) for each in near)}?" if near else ""


def unknown_name(what: str, name: str, known: Iterable[str], advice: str = "") -> InputError:
    """Build the InputError for a `name` that is not one of `known`; `what` says what is named."""
    known = list(known)
    end = suggest(name, known) or advice
    return InputError(f"expected {what} to be one of {', '.join(known)}, received {shown(name)}{end}")


def require_arguments(function: str, given: Iterable[str], known: Collection[str]) -> None:
    """Raise Python's TypeError, with a suggestion, if a function that passes `given` arguments on has no such one."""
    for name in given:
        if name not in known:
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}{suggest(name, known)}")


def choice(name: str, value: str, options: Collection[str]) -> str:
    """Return `value` after checking that it is one of `options`."""
    if not isinstance(value, str) or value not in options:
        raise unknown_name(name, value, options)
    return value


def text(name: str, value: str, at_least: int = 0) -> str:
    """Return `value` after checking that it is text of at least `at_least` characters."""
    if not isinstance(value, str) or len(value) < at_least:
        raise InputError(f"expected {name} to be text, received {shown(value)}; write it in quotes")
    return value


def function(name: str, value: Any, form: str = "") -> Any:
    """Return `value` after checking that it can be called; `form` shows its arguments: (t, state)."""
    if not callable(value):
        spoken = f" {form}" if form else ""
        raise InputError(
            f"expected {name} to be a function{spoken}, received {shown(value)}; give the function, without calling it"
        )
    return value


def optional_function(name: str, value: Any, form: str = "") -> Any:
    """Return `value` after checking that it is None or can be called."""
    return None if value is None else function(name, value, form)


def instance(name: str, value: Any, kind: type, advice: str) -> Any:
    """Return `value` after checking that it is of the type `kind`; `advice` says what to give."""
    if not isinstance(value, kind):
        spoken = kind.__name__ if kind.__name__ != "Mapping" else "mapping"
        article = "an" if spoken[0] in "AEIOU" else "a"
        raise InputError(f"expected {name} to be {article} {spoken}, received {shown(value)}; {advice}")
    return value


def list_of(name: str, values: Any, *kinds: type, at_least: int = 0, different: bool = False) -> list[Any]:
    """Return the entries of an iterable as a list after checking that each is of one of the types.

    `at_least` is the smallest number of entries; with `different` no entry may come twice.
    """
    try:
        found = list(values)
        repeated = different and len(set(found)) < len(found)
    except TypeError:  # one number in place of a list, or lists as entries, which cannot be told apart
        found, repeated = [None], False
    if isinstance(values, (str, bytes)) or not all(isinstance(value, kinds) for value in found):
        expected = " or ".join(kind.__name__ for kind in kinds)
        raise InputError(f"expected {name} to be a list of {expected}, received {shown(values)}; write [...]")
    if len(found) < at_least:
        entries = "entry" if at_least == 1 else "entries"
        raise InputError(f"expected {name} with at least {at_least} {entries}, received {shown(values)}; add one")
    if repeated:
        raise InputError(f"expected {name} without repetition, received {shown(values)}; name each once")
    return found


def chosen_ids(what: str, only: Iterable[str] | None, known: Iterable[str]) -> list[str]:
    """Return the ids of a register that are asked for (None: all; a string: that one), in the register's order."""
    known = list(known)
    wanted = known if only is None else [only] if isinstance(only, str) else list_of(f"{what} ids", only, str)
    if not wanted:
        raise InputError(f"expected at least one {what} id, received none; leave the ids out to get all")
    for id_ in wanted:
        if id_ not in known:
            raise unknown_name(what, id_, known, FORGOTTEN)
    return [id_ for id_ in known if id_ in wanted]


def pair(name: str, values: Any) -> tuple[Any, Any]:
    """Return the two entries of a list, a tuple or an array after checking that there are two."""
    listed = values.tolist() if isinstance(values, np.ndarray) else values
    if not isinstance(listed, (list, tuple)) or len(listed) != 2:
        raise InputError(f"expected {name} to be two numbers, received {shown(values)}; write (first, second)")
    return listed[0], listed[1]


def file_path(name: str, value: Any) -> Path:
    """Return a path after checking that `value` is text or a path."""
    if not isinstance(value, (str, os.PathLike)) or not str(value) or "\0" in str(value):
        raise InputError(f"expected {name} to be the path of a file, received {shown(value)}; write it in quotes")
    return Path(value)


def existing_file(what: str, value: Any) -> Path:
    """Return a path after checking that it leads to a regular file: opening a named pipe would wait for a writer."""
    path = file_path(f"the path of {what}", value)
    if not os.path.isfile(path):
        raise InputError(
            f"expected the path of {what}, received {shown_path(path)}, which is not a file; check the path"
        )
    return path


def number(name: str, value: float) -> float:
    """Return `value` as a float after checking that it is a real number; NaN and infinity pass, true counts as 1."""
    converted = float(value) if isinstance(value, (bool, np.bool_)) else _float(value)
    if converted is None:
        raise InputError(f"expected {name} to be a number, received {shown(value)}; give one real number")
    return converted


def real(
    name: str,
    value: float,
    *,
    at_least: float = -math.inf,
    above: float = -math.inf,
    at_most: float = math.inf,
    below: float = math.inf,
    advice: str = "",
) -> float:
    """Return `value` as a float after checking that it is a finite number within the bounds."""
    converted = _float(value)
    if converted is None or not (at_least <= converted <= at_most and above < converted < below):
        kind = "positive finite" if above == 0 else "finite"
        bounds = _spoken_bounds(_bounds_in_words(at_least, above, at_most, below))
        raise InputError(
            f"expected {name} to be a {kind} number{bounds}, received {shown(value)}; {advice or 'give such a number'}"
        )
    return converted


def _bounds_in_words(at_least: float, above: float, at_most: float, below: float) -> list[str]:
    """Return words such as ["at least 0", "below 1"]; "above 0" is left out, which is "positive"."""
    if at_least > -math.inf and at_most < math.inf:
        return [f"from {at_least:g} to {at_most:g}"]
    bounds = {"above": above or -math.inf, "at least": at_least, "at most": at_most, "below": below}
    return [f"{word} {bound:g}" for word, bound in bounds.items() if math.isfinite(bound)]


def _spoken_bounds(words: list[str]) -> str:
    """Return bounds as they follow "a number": " of at least 0", " above 1" or nothing."""
    bounds = _joined(words)
    return f" of {bounds}" if bounds.startswith("at") else f" {bounds}" if bounds else ""


def _joined(words: list[str]) -> str:
    *others, last = words or [""]
    return f"{', '.join(others)} and {last}" if others else last


def positive(name: str, value: float, below: float = math.inf, advice: str = "") -> float:
    """Return `value` as a float after checking that it is a positive finite number below the bound."""
    advice = advice or ("give a value above 0" if math.isinf(below) else "give a value in between")
    return real(name, value, above=0.0, below=below, advice=advice)


def fraction(name: str, value: float) -> float:
    """Return `value` as a float after checking 0 <= value < 1."""
    return real(name, value, at_least=0.0, below=1.0, advice="give 0.0 to leave it out")


def _float(value: Any) -> float | None:
    """Return the float of a number, of a numpy scalar or of an array of one number without axes; None for all else."""
    if isinstance(value, (bool, str, bytes)):
        return None
    if isinstance(value, (np.generic, np.ndarray)) and (value.ndim > 0 or value.dtype.kind not in "iuf"):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):  # no number, or an integer beyond all floats
        return None


def whole(name: str, value: float, at_least: int, at_most: int | None = None, advice: str = "") -> int:
    """Return `value` as an int after checking that it is a whole number within the bounds and fits into 64 bits."""
    converted, most = _whole(value), LARGEST_WHOLE if at_most is None else at_most
    if converted is not None and at_least <= converted <= most:
        return converted
    bounds = f"of at least {at_least}" if at_most is None else f"in {at_least}..{at_most}"
    nearest = f"{at_least} or more" if converted is not None and converted < at_least else f"{most} or less"
    advice = advice or ("give one" if converted is None else f"give {nearest}")
    raise InputError(f"expected {name} to be a whole number {bounds}, received {shown(value)}; {advice}")


def _whole(value: Any) -> int | None:
    """Return the whole number that `value` is, or None."""
    if isinstance(value, (bool, np.bool_)) or (isinstance(value, np.ndarray) and value.ndim > 0):
        return None
    if isinstance(value, float | np.floating):
        return int(value) if value.is_integer() else None
    try:
        return operator.index(value)
    except TypeError:  # no number
        return None


def flag(name: str, value: bool) -> bool:
    """Return `value` as a bool after checking that it is one; "no" and 0 are refused."""
    if not isinstance(value, (bool, np.bool_)):
        raise InputError(f"expected {name} to be true or false, received {shown(value)}; write it without quotes")
    return bool(value)


def flag_or(name: str, value: bool | str, word: str) -> bool | str:
    """Return `value` after checking that it is true, false or `word`."""
    if isinstance(value, str) and value != word:
        raise InputError(f"expected {name} to be true, false or {word!r}, received {shown(value)}; write one of these")
    return value if isinstance(value, str) else flag(name, value)


def real_array(name: str, values: Any) -> FloatArray:
    """Return a float64 copy of `values` after checking that they are real numbers in an array of regular shape.

    True and false do not count as numbers.
    """
    try:
        array = np.asarray(values)
        # Python's integers beyond 64 bits, and fractions, arrive as objects.
        if array.dtype == object and all(isinstance(x, Real) for x in array.flat):
            array = array.astype(np.float64)
    except (ValueError, TypeError, OverflowError):  # ragged lists, integers beyond all floats
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in "iuf" or _has_bools(values):
        raise InputError(f"expected {name} to be an array of real numbers, received {shown(values)}; give numbers")
    return array.astype(np.float64)


def _has_bools(values: Any) -> bool:
    """Return whether an entry is true or false; numpy would convert these to numbers."""
    if isinstance(values, (list, tuple)):
        return any(not isinstance(entry, float) and _has_bools(entry) for entry in values)
    return isinstance(values, (bool, np.bool_)) or (isinstance(values, np.ndarray) and values.dtype == bool)


def broadcasting(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Decorate a function whose arguments broadcast: refuse shapes that do not."""

    @wraps(function)
    def checked(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        try:
            return function(*args, **kwargs)
        except InputError:
            raise
        except ValueError as error:
            named = inspect.signature(function).bind(*args, **kwargs).arguments
            shapes = [f"{name} of shape {np.shape(value)}" for name, value in named.items() if np.shape(value)]
            raise InputError(
                f"expected arguments with shapes that broadcast, received {', '.join(shapes) or error}; give numbers, "
                "or arrays of one shape"
            ) from error

    return checked


def finite_array(
    name: str,
    values: ArrayLike,
    shape: tuple[int | str, ...] | None = None,
    *,
    at_least: float = -math.inf,
    above: float = -math.inf,
    at_most: float = math.inf,
    below: float = math.inf,
    whole: bool = False,
    increasing: bool = False,
    advice: str = "",
) -> FloatArray:
    """Return `values` as a float64 array after checking that all are finite and within the bounds.

    An entry of `shape` is a length, or the name of a length that is not prescribed: at least 1, and the same wherever
    the name stands. With `increasing` each value along the only axis is above the one before it.
    """
    array = real_array(name, values)
    if shape is not None:
        _require_shape(name, array, shape, advice)
    valid = np.isfinite(array) & (array >= at_least) & (array > above) & (array <= at_most) & (array < below)
    if whole:
        valid &= array == np.floor(array)
    if not valid.all():
        bounds = _bounds_in_words(at_least, above, at_most, below)
        words = [*(["positive"] if above == 0 else []), "finite", *bounds]
        if whole:
            words = [f"a whole number{_spoken_bounds(bounds)}"]
        wrong = array[~valid].flat[0]
        usual = "give values above 0" if above == 0 and wrong <= 0 else "correct this value"
        advice = advice or ("round it" if whole and wrong != np.floor(wrong) else usual)
        raise InputError(f"expected {name} to be {_joined(words)}, received {wrong:g}; {advice}")
    if increasing and (falls := np.diff(array.ravel()) <= 0).any():
        i, array = int(np.flatnonzero(falls)[0]), array.ravel()
        raise InputError(
            f"expected {name} to increase, received {array[i]:g} before {array[i + 1]:g}; sort the values, each once"
        )
    return array


def _require_shape(name: str, array: FloatArray, shape: tuple[int | str, ...], advice: str) -> None:
    named: dict[int | str, int] = {
        axis: size for axis, size in zip(shape, array.shape, strict=False) if isinstance(axis, str)
    }
    if array.shape != tuple(named.get(axis, axis) for axis in shape) or 0 in named.values():
        spoken = f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"
        advice = advice or "give an array of this shape"
        raise InputError(f"expected {name} of shape {spoken}, received shape {array.shape}; {advice}")


def whole_array(
    name: str, values: Any, shape: tuple[int | str, ...] | None = None, at_least: float = -math.inf, advice: str = ""
) -> NDArray[np.int64]:
    """Return `values` as an int64 array after checking that they are whole numbers within the bound."""
    array = finite_array(name, values, shape, at_least=at_least, whole=True, advice=advice)
    # Beyond 2**53 neighbouring whole numbers are the same float.
    if (largest := np.abs(array).max(initial=0.0)) >= 2.0**53:
        raise InputError(
            f"expected {name} to hold whole numbers below 2^53 in size, received {largest:g}; give smaller ones"
        )
    return array.astype(np.int64)


def positive_array(
    name: str, values: ArrayLike, shape: tuple[int | str, ...] | None = None, **options: Any
) -> FloatArray:
    """Return `values` as `finite_array` does, with its other options, after checking that all are positive."""
    return finite_array(name, values, shape, above=0.0, **options)


def time_array(
    name: str,
    values: ArrayLike,
    shape: tuple[int | str, ...] | None = None,
    advice: str = "count from the start of training",
    **options: Any,
) -> FloatArray:
    """Return times or visits as `finite_array` does, with its other options, after checking that all are at least 0."""
    return finite_array(name, values, shape, at_least=0.0, advice=advice, **options)


def count_array(name: str, values: ArrayLike, at_least: int, advice: str = "") -> FloatArray:
    """Return counts as a float64 array after checking that all are whole numbers within the bound."""
    return finite_array(name, values, at_least=at_least, whole=True, advice=advice or f"give {at_least} or more")


def require_outputs(num_classes: FloatArray | float, vocab_size: FloatArray | float) -> None:
    """Raise InputError where there are fewer outputs V than classes K, each with a next token of its own."""
    if np.any(np.less(vocab_size, num_classes)):
        raise InputError(
            f"expected vocab_size of at least num_classes, received {np.min(vocab_size):g} for "
            f"{np.max(num_classes):g}; each class needs a next token of its own"
        )


def checked_probabilities(P: Any) -> Any:
    """P as a sparse table (S, M) without zeros, columns sorted; rows sum to 1."""
    from scipy import sparse

    is_sparse = sparse.issparse(P)
    if is_sparse and P.dtype.kind not in "iuf":
        raise InputError(f"expected P to be an array of real numbers, received dtype {P.dtype}")
    if is_sparse and (len(P.shape) != 2 or 0 in P.shape):
        raise InputError(f"expected P of shape (S, M), both at least 1, received shape {P.shape}; give a row per class")
    table = _sparse_rows(P) if is_sparse else sparse.csr_array(finite_array("P", P, ("S", "M")))
    table.sum_duplicates()
    row = np.repeat(np.arange(table.shape[0]), np.diff(table.indptr))
    for bad, what in ((~np.isfinite(table.data), "finite"), (table.data < 0, "non-negative")):
        if bad.any():
            k = int(np.flatnonzero(bad)[0])
            raise InputError(
                f"expected {what} probabilities in P, received {table.data[k]} at class {row[k]}, token "
                f"{table.indices[k]}; correct that entry"
            )
    table.eliminate_zeros()
    table.sort_indices()
    sums = np.asarray(table.sum(axis=1)).ravel()
    wrong = np.flatnonzero(~(np.abs(sums - 1.0) <= ROW_SUM_TOLERANCE))
    if wrong.size:
        n = int(wrong[0])
        raise InputError(
            f"expected every row of P to sum to 1, received {sums[n]:.9g} in row {n} ({wrong.size} rows are off); "
            "divide each row by its sum"
        )
    table.indices = table.indices.astype(np.int64)
    table.indptr = table.indptr.astype(np.int64)
    return table


def _sparse_rows(P: Any) -> Any:
    """Sparse P, copied into a csr array, after checking that no index points outside its arrays: kernels do not check.

    scipy checks coo, dia and dok arrays when it copies them, and csr, csc and bsr arrays on request. It does not check
    the lengths of rows in lil arrays, nor an indptr that falls so far that its differences overflow.
    """
    from scipy import sparse

    try:
        if P.format in ("csr", "csc", "bsr") and (
            P.indptr.dtype.kind != "i" or P.indptr[0] != 0 or (P.indptr[1:] < P.indptr[:-1]).any()
        ):
            raise ValueError("an indptr that falls, starts at another number than 0, or has another type than int")
        if P.format == "lil" and list(map(len, P.rows)) != list(map(len, P.data)):
            raise ValueError("rows whose numbers of indices and of values differ")
        if P.format in ("csr", "csc", "bsr"):
            P.copy().check_format()
        table = sparse.csr_array(P.astype(np.float64))
        table.check_format()
        return table
    except (ArithmeticError, AttributeError, IndexError, MemoryError, TypeError, ValueError) as error:
        raise InputError(
            f"expected indices of sparse P that fit its shape {P.shape}, received: {str(error).rstrip('.')}; build P "
            "anew from rows, columns and probabilities"
        ) from error
