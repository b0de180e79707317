"""Initial logits, positional bias, residual connection: formulas by routes of their own."""

from __future__ import annotations

import numpy as np
import pytest

from snapdyn.dynamics import MeanField, random_classes, sgd, whole_run
from snapdyn.validation.claims.extensions import old_priors as priors
from snapdyn.validation.dense_algebra import dense_attention


def test_reweighting_gives_the_attention_of_the_bias() -> None:
    """Assert c(P exp(z0)) at z equals c(P) at z + z0 by dense algebra, with several queries; another bias differs."""
    classes = random_classes(4, 2, 2, 2, 50, seed=3)
    rng = np.random.default_rng(0)
    z, z0 = rng.normal(size=(2, 2, classes.num_tokens))
    right, _ = dense_attention(priors.reweighted(classes, z0), z)
    expected, _ = dense_attention(classes, z + z0)
    np.testing.assert_allclose(right, expected, rtol=1e-12)
    wrong, _ = dense_attention(priors.reweighted(classes, 2 * z0), z)
    assert np.abs(wrong - expected).max() > 0.01


@pytest.mark.parametrize("seed", range(3))
def test_a_tie_stays_a_tie_under_sgd(seed: int) -> None:
    """Assert that at the crossing of P exp(z(0)) both rivals keep equal attention on every path of SGD."""
    classes = priors.rivals()
    P = classes.P.toarray()[0]
    crossing = np.log(P[1] / P[2])
    for delta, sign in ((crossing - 0.01, 1), (crossing, 0), (crossing + 0.01, -1)):
        z = priors.head_start(classes, delta)
        run = sgd(classes, 0.5, 0.5, 100, init={"z": z}, seed=seed, record=[100])
        assert np.sign(np.round(priors.lead(run), 12)) == sign


def test_dominant_changes_counts_against_start_and_frequency() -> None:
    """Assert no change from zero start, and one class against its frequency with a head start beyond the crossing."""
    classes = priors.rivals()
    plain = whole_run(MeanField(classes, 1.0, 1.0), [10.0])
    assert priors.dominant_changes(plain) == (0, 0, 3)
    ahead = whole_run(MeanField(classes, 1.0, 1.0, z_initial=priors.head_start(classes, 0.5)), [10.0])
    assert priors.dominant_changes(ahead) == (0, 1, 3)


def test_effective_prior_of_positions_by_enumeration() -> None:
    """Assert P~ against a loop over positions; without dependence on the position the bias drops out."""
    positions = priors.with_positions(6)
    expected = np.zeros((3, 7))
    for i in range(6):
        block = i // 3
        expected += np.exp(positions.bias[block]) * positions.P_block[block]
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(positions.effective, expected, rtol=1e-14)
    assert np.abs(positions.effective - positions.unbiased).max() > 0.05
    independent = priors.with_positions(6, dependent=False)
    np.testing.assert_allclose(independent.effective, independent.unbiased, rtol=1e-14)


def test_weighted_counts_have_the_mean_and_spread_of_positions() -> None:
    """Assert mean and variance of the weighted counts against sum_i exp(b_i) P_i and sum_i exp(2 b_i) P_i (1 - P_i)."""
    positions, draws = priors.with_positions(10), 20_000
    counts = positions.counts(np.zeros(draws, int), np.random.default_rng(1))
    w, P = np.exp(positions.bias)[:, None], positions.P_block[:, 0]
    mean, variance = (5 * w * P).sum(axis=0), (5 * w**2 * P * (1 - P)).sum(axis=0)
    present = mean > 0
    z = np.abs(counts.mean(axis=0) - mean)[present] / np.sqrt(variance[present] / draws)
    assert z.max() < 4
    # The variance of a variance of a sum of ten bounded draws: relative sqrt(2/draws) up to its kurtosis.
    np.testing.assert_allclose(counts.var(axis=0)[present], variance[present], rtol=5 * np.sqrt(2 / draws))


def test_training_with_positions_takes_the_step_of_the_gradient() -> None:
    """Assert that two steps on long sequences move z as two steps of descent on P~ do, and not as on plain P."""
    positions = priors.with_positions(2_000_000)
    z = positions.train(0.5, 3, 3000, 7, np.random.default_rng(2))
    classes = priors.SequenceClasses(positions.effective, [0, 0, 0], vocab_size=7)
    descent, plain = (
        sgd(c, 0.5, 0.5, 3, None, record=[3]).z[0, 0]
        for c in (classes, priors.SequenceClasses(positions.unbiased, [0, 0, 0], vocab_size=7))
    )
    # Class counts of 3000 draws scatter by 1/sqrt(1000) = 3 % per class and step; two steps move z.
    scale = np.abs(descent[1:]).max()  # the common token falls alike in both
    assert np.abs(z - descent)[1:].max() < 0.15 * scale
    assert np.abs(z - plain)[1:].max() > 0.3 * scale


def test_residual_beta_of_two_classes_by_hand() -> None:
    """Assert E' = -c... = c/(1 - c^2) of two classes with u.u = c: c = (x + 1)/2 with one query, x/2 with two."""
    f = np.array([[0.6, 0.8, 0.0], [0.6, 0.0, 0.8]])
    x = 0.36
    for query, c in ((np.array([0, 0]), (x + 1) / 2), (np.array([0, 1]), x / 2)):
        assert priors.residual_beta(f, query)[0, 1] == pytest.approx(c / (1 - c**2), rel=1e-12)


@pytest.mark.parametrize("h", [0.1, 3.0, 12.0])
def test_residual_drift_by_beta_is_the_full_one(h: float) -> None:
    """Assert both routes agree at early, middle and late h; without the factor 1/2 they do not."""
    full, by_beta = priors.residual_drift(priors.two_queries(0.2, 0.1, 40), h / 40)
    # Two solves with a Gram matrix of condition about 10, terms of order 1 that cancel to the drift.
    scale = np.abs(full).max()
    np.testing.assert_allclose(by_beta, full, atol=1e-10 * scale)
    assert np.abs(2 * by_beta - full).max() > 0.5 * scale


def test_residual_drift_is_the_mean_fields_own_at_late_times() -> None:
    """Assert that beta -> 2/(m+1): with m classes of one query and vanishing overlap the inverse is known."""
    for m in (2, 3, 5):
        f = np.eye(m)
        beta = priors.residual_beta(f, np.zeros(m, int))
        np.testing.assert_allclose(beta[~np.eye(m, dtype=bool)], 2 / (m + 1), rtol=1e-12)


def test_balanced_share_separates_growth_from_fall() -> None:
    """Assert that the drift of tokens shared between queries is positive below the balanced share, negative above."""
    balanced = priors._balanced(0.1)
    below, above = (priors._relative_drift(priors.two_queries(0.1, c * balanced, 1000), True) for c in (0.9, 1.1))
    assert below > 0 > above
