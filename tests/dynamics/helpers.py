"""What tests of several modules of the dynamics share."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from snapdyn.dynamics import SequenceClasses
from snapdyn.dynamics.files.netcdf import BLOCK
from snapdyn.errors import InputError

EPS = 2.3e-16  # just above the machine epsilon of float64
ROUNDING = 1e-13  # a few dozen operations (exp, log, short sums, a small inverse), relative
# Sums of at most a few hundred products, each accurate to a few EPS: thousands of EPS of the largest value, and ten
# orders of magnitude below any wrong term.
ROUNDING_OF_SUMS = 1e-12


def sentence(error: pytest.ExceptionInfo[InputError]) -> str:
    """Assert that the message is one line saying what was expected and what was received; return it."""
    text = str(error.value)
    assert "\n" not in text
    assert text.startswith("expected ")
    return text


def gram_by_hand(classes: SequenceClasses, z: np.ndarray) -> np.ndarray:
    """G by plain dense numpy from the definition."""
    c = classes.P.toarray() * np.exp(z[np.searchsorted(np.unique(classes.query), classes.query)])
    c /= c.sum(axis=1, keepdims=True)
    f = c / np.linalg.norm(c, axis=1, keepdims=True)
    return f @ f.T


def trailer_of(data: bytes) -> bytes:
    """Trailer by the words of the documentation."""
    digests = [hashlib.sha256(data[i : i + BLOCK]).digest() for i in range(0, len(data), BLOCK)]
    return b"snapdyn-digest-1 " + hashlib.sha256(b"".join(digests)).hexdigest().encode() + b"\n"
