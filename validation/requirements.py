"""Conditions that several statements share."""

from __future__ import annotations

import numpy as np

from snapdyn.validation.properties import Requirement

# A Gram matrix with a smaller eigenvalue loses more than half of the digits when it is inverted.
INDEPENDENT = 1e-6

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
