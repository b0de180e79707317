"""The assumptions of the paper, measured on classes."""

import math

import numpy as np
import pytest

from snapdyn.dynamics import SequenceClasses
from snapdyn.validation.requirements import assumption_2


def identical_overlaps(K: int, rho: float, vocab_size: int) -> SequenceClasses:
    """K classes with one common token and a single distinct one each, f_n . f_k = rho."""
    c = math.sqrt(rho / (1 - rho))  # common weight against distinct weight 1: rho = c^2/(1 + c^2)
    P = np.hstack([np.full((K, 1), c), np.eye(K)]) / (1 + c)
    return SequenceClasses(P, np.zeros(K, int), vocab_size=vocab_size)


def test_assumptions_report_what_is_measured() -> None:
    """Assert bounds and measured values against the definition, each condition able to fail and to hold."""
    classes = identical_overlaps(3, 0.1, 400)
    measured = {c.name: (c.value, c.bound, c.holds) for c in assumption_2(classes)}
    assert measured == {
        "large vocabulary": (pytest.approx(400 / 9), 10.0, True),
        "weak correlation": (pytest.approx(0.2), pytest.approx(1 / 3), True),
        "lower bound on overlap": (pytest.approx(0.1), pytest.approx(0.3), False),
    }
    assert [c.holds for c in assumption_2(identical_overlaps(3, 0.2, 40))][:2] == [False, False]


def test_assumptions_follow_the_logits() -> None:
    """Assert that assumptions are evaluated at the given attention: a suppressed common token weakens correlation."""
    classes = identical_overlaps(3, 0.2, 400)
    z = np.zeros((1, 4))
    z[0, 0] = -1.0
    at = {c.name: c.value for c in assumption_2(classes, z)}["weak correlation"]
    squared = 0.25 * math.exp(-2)  # c^2 against distinct weight 1
    assert math.isclose(at, 2 * squared / (1 + squared), rel_tol=1e-12)
