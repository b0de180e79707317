"""Conditions that several statements share."""

from __future__ import annotations

import numpy as np

from snapdyn.validation.properties import Requirement
from snapdyn.validation.search.instance import Instance

# A Gram matrix with a smaller eigenvalue loses more than half of the digits when it is inverted.
INDEPENDENT = 1e-6


def _largest_overlap_least(instance: Instance) -> float:
    """Smallest over classes of the largest overlap with another class; 0 with one class."""
    E = instance.gram - np.eye(instance.num_classes)
    return float(E.max(axis=1).min())


def _shared_next_tokens(instance: Instance) -> float:
    return 0.0 if instance.next_token is None else instance.num_classes - np.unique(instance.next_token).size


def _prior_spread(instance: Instance) -> float:
    return float(instance.prior.max() / instance.prior.min() - 1)


def _common_tokens(instance: Instance) -> float:
    return float((np.count_nonzero(instance.P, axis=0) > 1).sum())


OWN_NEXT_TOKENS = Requirement(
    "one class per next token", "no two classes share a next token", _shared_next_tokens, at_most=0, defining=True
)
UNIFORM = Requirement("equal priors", "max p_n/min p_n - 1 <= 1e-12", _prior_spread, at_most=1e-12)
INDEPENDENT_ATTENTION = Requirement(
    "independent attention vectors",
    f"smallest eigenvalue of G >= {INDEPENDENT:g}",
    lambda instance: float(instance.eigenvalues[0]),
    at_least=INDEPENDENT,
    defining=True,
)
WEAK_CORRELATION = Requirement(
    "weak correlation", "|lambda_1(E)| K < 1", lambda instance: instance.correlation, at_most=float(np.nextafter(1, 0))
)
OVERLAPPING = Requirement(
    "every class overlaps another",
    f"largest overlap of every class >= {INDEPENDENT:g}",
    _largest_overlap_least,
    at_least=INDEPENDENT,
    defining=True,
)
SEVERAL_CLASSES = Requirement(
    "two or more classes", "K >= 2", lambda instance: float(instance.num_classes), at_least=2, defining=True
)
ONE_QUERY = Requirement("one query", "Q = 1", lambda instance: float(np.unique(instance.query).size), at_most=1)
ONE_COMMON_TOKEN = Requirement("one common token", "tokens of two or more classes: 1", _common_tokens, at_most=1)
LARGE_VOCABULARY = Requirement(
    "two roots of exp(u) = (V-1) u", "V >= 4", lambda instance: float(instance.vocab_size), at_least=4, defining=True
)
ZERO_START = Requirement(
    "zero start",
    "largest |z(0)| = 0",
    lambda instance: 0.0 if instance.start is None else float(np.abs(instance.start).max()),
    at_most=0,
)
INFINITE_LENGTH = Requirement(
    "infinitely long sequences",
    "1/(T-1) = 0",
    lambda instance: 0.0 if instance.seq_len is None else 1 / instance.seq_len,
    at_most=0,
)
