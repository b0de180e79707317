"""The early rate of a distinct token at finite length, against the exact expectation over all counts."""

import numpy as np
import pytest
from scipy.stats import multinomial

from snapdyn.dynamics import SequenceClasses
from snapdyn.validation import Instance
from snapdyn.validation.claims.attention._finite_length import early_terms


@pytest.mark.parametrize("P", [(0.5, 0.3, 0.2), (0.8, 0.15, 0.05), (0.6, 0.38, 0.02)])
def test_term_of_the_length_by_all_counts(P: tuple[float, ...]) -> None:
    """Assert that E[f_l F_l - f_l^2 f.F], F = E[f], is the term of the length to first order in 1/(T-1)."""
    p = np.array(P)
    instance = Instance.of(SequenceClasses([P], [0], vocab_size=5), 1.0, 1.0, 1.0, seq_len=1)
    law = early_terms(instance)[1] * p**2 / (p @ p)
    errors = []
    for n in (200, 400):
        counts = np.array([(a, b, n - a - b) for a in range(n + 1) for b in range(n + 1 - a)], dtype=float)
        f, weight = counts / np.linalg.norm(counts, axis=1, keepdims=True), multinomial.pmf(counts, n, p)
        mean = weight @ f
        exact = n * (weight @ (f * mean - f**2 * (f @ mean)[:, None]))
        errors.append(np.abs(exact - law).max() / np.abs(law).max())
    assert errors[1] < min(0.03, 0.75 * errors[0])
    other = (1 / (p @ p) - 1 - 1 / p) * p**2 / (p @ p)  # with -1 in place of the terms of order 1
    assert np.abs(exact - other).max() > 0.3 * np.abs(law).max()
