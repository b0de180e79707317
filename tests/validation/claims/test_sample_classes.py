"""Classes of a given correlation."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from snapdyn.validation.claims.sample_classes import correlated_classes, random_attention
from snapdyn.validation.dense_algebra import overlap, spectral_norm


@given(
    K=st.integers(2, 12), common=st.integers(1, 5), queries=st.integers(1, 3), seed=st.integers(0, 10**6),
    largest=st.floats(1e-3, 5),
)  # fmt: skip
@settings(max_examples=20, deadline=None)
def test_random_attention_is_what_it_says(K: int, common: int, queries: int, seed: int, largest: float) -> None:
    """Assert vectors that are non-negative and of norm 1, |lambda_1| under its ceiling, every fifth class 0 alone."""
    f = random_attention(np.random.default_rng(seed), K, common, queries, np.full(10, largest))
    assert f.min() >= 0
    np.testing.assert_allclose((f**2).sum(axis=2), 1, rtol=1e-12)
    assert (spectral_norm(overlap(f)) <= largest * (1 + 1e-9)).all()
    assert not overlap(f)[::5, 0].any()


@pytest.mark.parametrize("correlation", [0.03, 10.0])
def test_classes_have_the_correlation_asked_for(correlation: float) -> None:
    """Assert |lambda_1| K by dense eigenvalues, one common token and different profiles."""
    classes = correlated_classes(correlation, seed=3)
    f = classes.P.toarray()
    f /= np.linalg.norm(f, axis=1, keepdims=True)
    eigenvalues = np.linalg.eigvalsh(f @ f.T - np.eye(5))
    assert np.abs(eigenvalues).max() * 5 == pytest.approx(correlation, rel=1e-9)
    assert classes.common_tokens().tolist() == [0]
    assert np.ptp(classes.P[:, [0]].toarray()) > 0
