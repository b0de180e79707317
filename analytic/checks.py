"""Input checks of the numeric evaluators: each message says what was expected, what received, what to do."""

from difflib import get_close_matches

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
"""Result of an evaluator: an array of the broadcast shape, or a numpy float for scalar arguments."""


def _as_float(name: str, value: ArrayLike) -> FloatArray:
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"expected {name} to be a number or an array of numbers, received {value!r}; pass numbers"
        ) from None


def _require(valid: NDArray[np.bool_], name: str, value: FloatArray, expected: str, remedy: str) -> None:
    if not np.all(valid):
        offender = value[~valid].flat[0]
        raise ValueError(f"expected {name} to be {expected}, received {offender:g}; {remedy}")


def time(name: str, value: ArrayLike) -> FloatArray:
    """Return times as float64; raise ValueError unless all are finite and >= 0."""
    times = _as_float(name, value)
    remedy = "pass times counted from the start of training"
    _require(np.isfinite(times) & (times >= 0), name, times, "finite and >= 0", remedy)
    return times


def positive(name: str, value: ArrayLike) -> FloatArray:
    """Return rates or norms as float64; raise ValueError unless all are finite and > 0."""
    numbers = _as_float(name, value)
    _require(np.isfinite(numbers) & (numbers > 0), name, numbers, "finite and > 0", f"pass a positive {name}")
    return numbers


def finite(name: str, value: ArrayLike) -> FloatArray:
    """Return numbers as float64; raise ValueError unless all are finite."""
    numbers = _as_float(name, value)
    _require(np.isfinite(numbers), name, numbers, "finite", f"check where {name} was computed")
    return numbers


def whole(name: str, value: ArrayLike, least: int) -> FloatArray:
    """Return counts as float64; raise ValueError unless all are whole numbers >= `least`."""
    counts = _as_float(name, value)
    valid = np.isfinite(counts) & (counts >= least) & (counts == np.floor(counts))
    _require(valid, name, counts, f"a whole number >= {least}", f"pass {name} as a count")
    return counts


def choice(name: str, value: str, options: tuple[str, ...]) -> str:
    """Return `value` if it is one of `options`; otherwise raise ValueError with the nearest of them."""
    if value not in options:
        nearest = get_close_matches(str(value), options, n=1, cutoff=0.0)[0]
        listed = ", ".join(repr(option) for option in options)
        raise ValueError(f"expected {name} to be one of {listed}, received {value!r}; did you mean {nearest!r}?")
    return value
