"""Initial logits, positional bias, residual connection: formulas by routes of their own."""

from __future__ import annotations

import numpy as np
import pytest

from snapdyn.dynamics import SequenceClasses, random_classes, sgd
from snapdyn.validation.claims.extensions import (
    _initial_prior_settings,
    _positional_prior_settings,
    _residual_families,
    initial_prior,
)
from snapdyn.validation.claims.extensions import _shared as shared
from snapdyn.validation.claims.extensions._shared import StartedFamily
from snapdyn.validation.dense_algebra import dense_attention
from snapdyn.validation.rungs.run import MEAN_FIELD
from snapdyn.validation.search import Instance
from snapdyn.validation.search.shrinking import shrink

FREQUENCY = "wrong theory: frequency alone decides, whatever z(0)"


def test_reweighting_gives_the_attention_of_the_bias() -> None:
    """Assert c(P exp(z0)) at z equals c(P) at z + z0 by dense algebra, with several queries; another bias differs."""
    classes = random_classes(4, 2, 2, 2, 50, seed=3)
    rng = np.random.default_rng(0)
    z, z0 = rng.normal(size=(2, 2, classes.num_tokens))
    right, _ = dense_attention(shared.reweighted(classes, z0), z)
    expected, _ = dense_attention(classes, z + z0)
    np.testing.assert_allclose(right, expected, rtol=1e-12)
    wrong, _ = dense_attention(shared.reweighted(classes, 2 * z0), z)
    assert np.abs(wrong - expected).max() > 0.01


@pytest.mark.parametrize("seed", range(3))
def test_a_tie_stays_a_tie_under_sgd(seed: int) -> None:
    """Assert that at the crossing of P exp(z(0)) both rivals keep equal attention on every path of SGD."""
    classes = _initial_prior_settings.rivals()
    P = classes.P.toarray()[0]
    crossing = np.log(P[1] / P[2])
    for delta, sign in ((crossing - 0.01, 1), (crossing, 0), (crossing + 0.01, -1)):
        z = _initial_prior_settings.head_start(classes, delta)
        run = sgd(classes, 0.5, 0.5, 100, init={"z": z}, seed=seed, record=[100])
        assert np.sign(np.round(_initial_prior_settings.lead(run), 12)) == sign


def test_the_lead_counts_against_start_and_frequency() -> None:
    """Assert that a head start beyond the crossing keeps P exp(z(0))'s order and breaks that of the frequency."""
    classes = _initial_prior_settings.rivals()
    for delta, broken in ((None, False), (0.5, True)):
        start = None if delta is None else _initial_prior_settings.head_start(classes, delta)
        instance = Instance.of(classes, 1.0, 1.0, 10.0, start=start)
        kept = initial_prior.smallest_lead(MEAN_FIELD)(instance)
        by_frequency = initial_prior.smallest_lead(MEAN_FIELD, initial_prior.WRONG[FREQUENCY])(instance)
        assert kept is not None
        assert kept.holds
        assert by_frequency is not None
        assert by_frequency.holds is not broken


def test_a_start_is_drawn_with_the_classes_and_simplified_with_them() -> None:
    """Assert that a family with start logits draws them in the shape of z, and that shrinking keeps them in shape."""
    instance = StartedFamily("started", "any", num_classes=(4, 4)).draw(3, 0)
    assert instance.start is not None
    assert instance.start.shape == (instance.classes.queries.size, instance.P.shape[1])
    simpler = shrink(instance, lambda i: i.start is not None and bool(i.classes.check_z(i.start).any()))
    assert simpler.num_classes < 4


def test_effective_prior_of_positions_by_enumeration() -> None:
    """Assert P~ against a loop over positions; without dependence on the position the bias drops out."""
    positions = _positional_prior_settings.with_positions(6)
    expected = np.zeros((3, 7))
    for i in range(6):
        block = i // 3
        expected += np.exp(positions.bias[block]) * positions.P_block[block]
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(positions.effective, expected, rtol=1e-14)
    assert np.abs(positions.effective - positions.unbiased).max() > 0.05
    independent = _positional_prior_settings.with_positions(6, dependent=False)
    np.testing.assert_allclose(independent.effective, independent.unbiased, rtol=1e-14)


def test_weighted_counts_have_the_mean_and_spread_of_positions() -> None:
    """Assert mean and variance of the weighted counts against sum_i exp(b_i) P_i and sum_i exp(2 b_i) P_i (1 - P_i)."""
    positions, draws = _positional_prior_settings.with_positions(10), 20_000
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
    positions = _positional_prior_settings.with_positions(2_000_000)
    z = positions.train(0.5, 3, 3000, 7, np.random.default_rng(2))
    classes = SequenceClasses(positions.effective, [0, 0, 0], vocab_size=7)
    descent, plain = (
        sgd(c, 0.5, 0.5, 3, None, record=[3]).z[0, 0]
        for c in (classes, SequenceClasses(positions.unbiased, [0, 0, 0], vocab_size=7))
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
        assert shared.residual_beta(f, query)[0, 1] == pytest.approx(c / (1 - c**2), rel=1e-12)


@pytest.mark.parametrize("vocab_size", [4, 40, 10**12])
def test_residual_drift_by_beta_is_the_full_one(vocab_size: int) -> None:
    """Assert both routes agree at small and large V; without the factor 1/2 they do not."""
    classes = shared.two_queries(0.2, 0.1, 40)
    _, f = dense_attention(classes, np.zeros((2, classes.num_tokens)))
    full = shared.full_residual_drift(f, classes.query, vocab_size)
    beta = shared.exact_beta(shared.residual_beta(f, classes.query), vocab_size)
    by_beta = shared.drift_by_beta(f, beta)
    # Two solves with a Gram matrix of condition about 10, terms of order 1 that cancel to the drift.
    scale = np.abs(full).max()
    np.testing.assert_allclose(by_beta, full, atol=1e-10 * scale)
    assert np.abs(2 * by_beta - full).max() > 0.5 * scale


def test_residual_drift_is_that_of_outputs_of_full_length() -> None:
    """Assert the drift against Y (M + Q, V) written out, at three h: the factor gamma/2 of all terms is right."""
    V, classes = 40, shared.two_queries(0.2, 0.1, 40)
    _, f = dense_attention(classes, np.zeros((2, classes.num_tokens)))
    S, M = f.shape
    u = np.zeros((S, M + 2))
    u[:, :M], u[np.arange(S), M + classes.query_index] = f / np.sqrt(2), 1 / np.sqrt(2)
    zeta = np.full((S, V), -1 / (V - 1))
    zeta[np.arange(S), classes.next_token] = 1
    for h in (0.1 / V, 3.0 / V, 12.0 / V):
        Y = u.T @ np.linalg.solve(u @ u.T, (V - 1) * h * zeta)
        scale = (V - 1) / (V - 1 + np.exp(V * h))
        g = scale * zeta @ Y.T
        g = ((g - u * (u * g).sum(axis=1, keepdims=True)) / np.sqrt(2))[:, :M]
        drift = f * (g - f * (f * g).sum(axis=1, keepdims=True))
        found = (V - 1) * h * scale / 2 * shared.full_residual_drift(f, classes.query, V)
        np.testing.assert_allclose(found, drift, atol=1e-10 * np.abs(drift).max())


def test_a_token_shared_between_queries_only_is_turned_round() -> None:
    """Assert that exactly the tokens shared between the queries have a pull, of the size of their drift."""
    instance = Instance.of(shared.two_queries(0.1, 0.05, 10**6), 1.0, 1e-3, 1e4)
    pull = _residual_families.local_pull(instance)
    assert set(np.nonzero(np.isfinite(pull))[1]) == set(shared.ACROSS)
    assert pull.max() == pytest.approx(shared.across_drift(instance.classes, True), rel=1e-3)  # 1/V from exact beta


def test_residual_drift_is_the_mean_fields_own_at_late_times() -> None:
    """Assert that beta -> 2/(m+1): with m classes of one query and vanishing overlap the inverse is known."""
    for m in (2, 3, 5):
        f = np.eye(m)
        beta = shared.residual_beta(f, np.zeros(m, int))
        np.testing.assert_allclose(beta[~np.eye(m, dtype=bool)], 2 / (m + 1), rtol=1e-12)


def test_balanced_share_separates_growth_from_fall() -> None:
    """Assert that the drift of tokens shared between queries is positive below the balanced share, negative above."""
    balanced = shared.balanced_share(0.1)
    below, above = (shared.across_drift(shared.two_queries(0.1, c * balanced, 1000), True) for c in (0.9, 1.1))
    assert below > 0 > above
