"""What tests of several modules of the dynamics share."""

import hashlib

import numpy as np
import pytest

from snapdyn.core.errors import InputError
from snapdyn.dynamics import MeanField, SequenceClasses
from tests.dynamics.dense_reference import Array

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
    return b"snapdyn-sha-256 " + hashlib.sha256(data).hexdigest().encode() + b"\n"


def dense_decoder(Y: Array, rows: Array, outputs: Array, shape: tuple[int, int]) -> Array:
    """Y (..., tokens, V) of all tokens and outputs from the rows and columns that are kept; 0 for other tokens.

    Output -1, the last, stands for all that are not listed.
    """
    column = np.full(shape[1], len(outputs) - 1)
    column[outputs[outputs >= 0]] = np.flatnonzero(outputs >= 0)
    dense = np.zeros((*Y.shape[:-2], *shape), Y.dtype)
    tokens = np.flatnonzero(rows >= 0)
    dense[..., tokens, :] = Y[..., rows[tokens], :][..., column]
    return dense


def dense_state(system: MeanField, flat: Array, rest: Array | None = None) -> tuple[Array, Array]:
    """Dense Y (tokens, V) and z (Q, M) of a flat state or rate; `rest` holds the logits that cannot move, or 0."""
    L, classes = system.layout, system.classes
    z = np.zeros((classes.queries.size, classes.num_tokens), flat.dtype) if rest is None else rest.astype(flat.dtype)
    z[classes.z_coordinates] = flat[: L.num_slots][L.slot_of_z]
    Y = flat[L.num_slots :].reshape(L.num_rows, L.num_columns)
    num_rows = max(classes.num_tokens, int(classes.queries.max()) + 1)
    return dense_decoder(Y, L.row_of_token, L.output_token, (num_rows, classes.vocab_size)), z
