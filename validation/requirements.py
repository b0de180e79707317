"""Conditions that several statements share, and those of Assumption 2 on a user's classes."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.dynamics.classes.table import SequenceClasses
from snapdyn.validation.measured import Measured
from snapdyn.validation.properties import Requirement

# A Gram matrix with a smaller eigenvalue loses more than half of the digits when it is inverted.
INDEPENDENT = 1e-6
# "V >> K^2" is read as a factor of at least 10.
MUCH_LARGER = 10.0

OWN_NEXT_TOKENS = Requirement(
    "one class per next token",
    "no two classes share a next token",
    lambda i: 0 if i.next_token is None else i.num_classes - np.unique(i.next_token).size,
    at_most=0,
    defining=True,
)
UNIFORM = Requirement(
    "equal priors", "max p_n/min p_n - 1 <= 1e-12", lambda i: i.prior.max() / i.prior.min() - 1, at_most=1e-12
)
INDEPENDENT_ATTENTION = Requirement(
    "independent attention vectors",
    f"smallest eigenvalue of G >= {INDEPENDENT:g}",
    lambda i: i.eigenvalues[0],
    at_least=INDEPENDENT,
    defining=True,
)
WEAK_CORRELATION = Requirement(
    "weak correlation", "|lambda_1(E)| K < 1", lambda i: i.correlation, at_most=float(np.nextafter(1, 0))
)
OVERLAPPING = Requirement(
    "every class overlaps another",
    f"largest overlap of every class >= {INDEPENDENT:g}",
    lambda i: (i.gram - np.eye(i.num_classes)).max(axis=1).min(),
    at_least=INDEPENDENT,
    defining=True,
)
SEVERAL_CLASSES = Requirement("two or more classes", "K >= 2", lambda i: i.num_classes, at_least=2, defining=True)
ONE_QUERY = Requirement("one query", "Q = 1", lambda i: np.unique(i.query).size, at_most=1)
ONE_COMMON_TOKEN = Requirement(
    "one common token",
    "tokens of two or more classes: 1",
    lambda i: (np.count_nonzero(i.P, axis=0) > 1).sum(),
    at_most=1,
)
LARGE_VOCABULARY = Requirement(
    "two roots of exp(u) = (V-1) u", "V >= 4", lambda i: i.vocab_size, at_least=4, defining=True
)
ZERO_START = Requirement(
    "zero start",
    "largest |z(0)| = 0",
    lambda i: 0 if i.start is None else np.abs(i.start).max(),
    at_most=0,
)
INFINITE_LENGTH = Requirement(
    "infinitely long sequences",
    "1/(T-1) = 0",
    lambda i: 0 if i.seq_len is None else 1 / i.seq_len,
    at_most=0,
)


def assumption_2(classes: SequenceClasses, z: ArrayLike | None = None) -> list[Measured]:
    """Evaluate the conditions of Assumption 2 on `classes`.

    Weak correlation is |lambda_1(E)| < 1/K. Assumption 2 adds V >> K^2 (read as a factor 10) and
    |lambda_i(E)| >= 6/sqrt(V) for all i. With identical overlaps rho no classes with V below 36 K^2 (K-1)^2 satisfy
    all three (finding F6), so each condition is reported separately.

    Parameters
    ----------
    classes : SequenceClasses
        Classes of the sequences.
    z : (Q, M) array, optional
        Attention logits; default 0.

    Returns
    -------
    list of Measured
        Large vocabulary, weak correlation, lower bound on overlap.
    """
    K, V = classes.num_classes, classes.vocab_size
    values = abs(classes.eigenvalues(z))
    lower = 6.0 / math.sqrt(V)
    smallest = Measured(float(values[-1]), at_least=lower).labelled(
        "condition", "lower bound on overlap", required=f"min |lambda_i(E)| >= 6/sqrt(V) = {lower:.4g}"
    )
    return [large_vocabulary(K, V), weak_correlation(K, float(values[0])), smallest]


def large_vocabulary(num_classes: int, vocab_size: int) -> Measured:
    """Evaluate V >> K^2 of Assumption 2."""
    return Measured(vocab_size / num_classes**2, at_least=MUCH_LARGER).labelled(
        "condition", "large vocabulary", required=f"V/K^2 >= {MUCH_LARGER:g} (V >> K^2)"
    )


def weak_correlation(num_classes: int, largest: float) -> Measured:
    """Evaluate |lambda_1(E)| < 1/K of Assumption 2, `largest` the absolute value of lambda_1."""
    below = math.nextafter(1 / num_classes, 0)  # the condition is strict
    return Measured(largest, at_most=below).labelled(
        "condition", "weak correlation", required=f"|lambda_1(E)| < 1/K = {1 / num_classes:.4g}"
    )
