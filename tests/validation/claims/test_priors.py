"""Initial logits, positional bias, residual connection: formulas by routes of their own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from snapdyn.dynamics import SequenceClasses, random_classes
from snapdyn.validation.claims.extensions import initial_prior, positional_prior, residual
from snapdyn.validation.claims.extensions._shared import StartedFamily, alike
from snapdyn.validation.dense_algebra import dense_attention
from snapdyn.validation.rungs.run import MEAN_FIELD, SGD
from snapdyn.validation.search.counterexamples import shrink
from snapdyn.validation.search.instance import Instance


def test_reweighting_gives_the_attention_of_the_bias() -> None:
    """Assert c(P exp(z0)) at z equals c(P) at z + z0 by dense algebra, with several queries; another bias differs."""
    classes = random_classes(4, 2, 2, 2, 50, seed=3)
    rng = np.random.default_rng(0)
    z, z0 = rng.normal(size=(2, 2, classes.num_tokens))
    biased = Instance.of(classes, 1.0, 1.0, 1.0, start=z0)
    right, _ = dense_attention(positional_prior.reweighted(biased).classes, z)
    expected, _ = dense_attention(classes, z + z0)
    np.testing.assert_allclose(right, expected, rtol=1e-12)
    wrong, _ = dense_attention(positional_prior.reweighted(biased, 2.0).classes, z)
    assert np.abs(wrong - expected).max() > 0.01


@pytest.mark.parametrize("seed", range(3))
def test_a_tie_stays_a_tie_under_sgd(seed: int) -> None:
    """Assert that at the crossing of P exp(z(0)) both rivals keep equal attention on every path of SGD."""
    crossing = initial_prior.CROSSING
    for delta, sign in ((crossing - 0.01, 1), (crossing, 0), (crossing + 0.01, -1)):
        lead = initial_prior.final_lead({"rung": SGD, "seed": seed}, delta)
        assert np.sign(np.round(lead, 12)) == sign


def test_the_lead_counts_against_start_and_frequency() -> None:
    """Assert that a head start beyond the crossing keeps P exp(z(0))'s order and breaks that of the frequency."""
    classes = initial_prior.CLASSES
    for delta, broken in ((0.0, False), (0.5, True)):
        instance = Instance.of(classes, 1.0, 1.0, 10.0, start=delta * np.eye(1, 10, 2))
        kept = initial_prior.smallest_lead(instance, MEAN_FIELD)
        by_frequency = initial_prior.smallest_lead(instance, MEAN_FIELD, lambda log_P, start: log_P)
        assert kept is not None
        assert kept.holds
        assert by_frequency is not None
        assert by_frequency.holds is not broken


def test_a_start_is_drawn_with_the_classes_and_simplified_with_them() -> None:
    """Assert that a family with start logits draws them in the shape of z, and that shrinking keeps them in shape."""
    family = StartedFamily("started", "any", num_classes=(4, 4))
    instance = family.draw(3, 0)
    assert instance.start is not None
    assert instance.start.shape == (instance.classes.queries.size, instance.P.shape[1])
    simpler = shrink(instance, lambda i: i.start is not None and bool(i.classes.check_z(i.start).any()), family.simpler)
    assert simpler.num_classes < 4


def test_positions_score_their_own_prior_and_no_other() -> None:
    """Assert that a bias of positions counts by sum_i exp(b_i) P(l|n, i): half of its size or none is noticed."""
    halves = [alike(0.4, 0.45, 0.15), alike(0.4, 0.15, 0.45)]
    right, half, none = (positional_prior.score(halves, bias) for bias in (2.0, 1.0, 0.0))
    assert right.holds
    assert not half.holds
    assert none.value > half.value


def of_f(P: np.ndarray, query: list[int], vocab_size: int) -> Instance:
    """Instance of classes with next tokens of their own; only its attention vectors count."""
    return Instance.of(SequenceClasses(P, query, vocab_size=vocab_size), 1.0, 1.0, 1.0)


def test_residual_beta_of_two_classes_by_hand() -> None:
    """Assert E' = c/(1 - c^2) of two classes with u.u = c: c = (x + 1)/2 with one query, x/2 with two, x = 0.36."""
    P = np.array([[0.6, 0.8, 0.0], [0.6, 0.0, 0.8]]) / 1.4
    for query, c in (([3, 3], (0.36 + 1) / 2), ([3, 4], 0.36 / 2)):
        gram = residual.gram_of_inputs(of_f(P, query, 10))
        assert residual.inverse_overlaps(gram)[0, 1] == pytest.approx(c / (1 - c**2), rel=1e-12)


def test_the_residual_gram_matrix_is_that_of_the_classes() -> None:
    """Assert the Gram matrix of the decoder inputs against that of the package; without the residual it differs."""
    instance = residual.two_queries(0.2, 0.1)
    gram = residual.gram_of_inputs(instance)
    np.testing.assert_allclose(instance.classes.gram(residual=True), gram, atol=1e-14)
    assert np.abs(instance.classes.gram() - gram).max() > 0.1


@pytest.mark.parametrize("vocab_size", [4, 40, 10**12])
def test_residual_drift_by_beta_is_the_full_one(vocab_size: int) -> None:
    """Assert both routes agree at small and large V; without the factor 1/2 they do not."""
    instance = replace(residual.two_queries(0.2, 0.1), vocab_size=vocab_size)
    full = residual.full_residual_drift(instance)
    by_beta = residual.drift_by(residual.gram_of_inputs(instance), instance)
    # Two solves with a Gram matrix of condition about 10, terms of order 1 that cancel to the drift.
    scale = np.abs(full).max()
    np.testing.assert_allclose(by_beta, full, atol=1e-10 * scale)
    assert np.abs(2 * by_beta - full).max() > 0.5 * scale


def test_residual_drift_is_that_of_outputs_of_full_length() -> None:
    """Assert the drift against Y (M + Q, V) written out, at three h: the factor gamma/2 of all terms is right."""
    V, instance = 40, replace(residual.two_queries(0.2, 0.1), vocab_size=40)
    f = residual.attention_vectors(instance)
    S, M = f.shape
    u = np.zeros((S, M + 2))
    u[:, :M], u[np.arange(S), M + instance.classes.query_index] = f / np.sqrt(2), 1 / np.sqrt(2)
    zeta = np.full((S, V), -1 / (V - 1))
    zeta[np.arange(S), np.arange(S)] = 1
    for h in (0.1 / V, 3.0 / V, 12.0 / V):
        Y = u.T @ np.linalg.solve(u @ u.T, (V - 1) * h * zeta)
        scale = (V - 1) / (V - 1 + np.exp(V * h))
        g = scale * zeta @ Y.T
        g = ((g - u * (u * g).sum(axis=1, keepdims=True)) / np.sqrt(2))[:, :M]
        drift = f * (g - f * (f * g).sum(axis=1, keepdims=True))
        found = (V - 1) * h * scale / 2 * residual.full_residual_drift(instance)
        np.testing.assert_allclose(found, drift, atol=1e-10 * np.abs(drift).max())


def test_a_token_shared_between_queries_only_is_turned_round() -> None:
    """Assert that exactly the tokens shared between the queries have a pull, of the size of their drift."""
    instance = replace(residual.two_queries(), vocab_size=10**6)
    pull = residual.local_pull(instance)
    assert set(np.nonzero(np.isfinite(pull))[1]) == {2, 3}
    drift = residual.full_residual_drift(instance)
    assert pull.max() == pytest.approx(drift[0, 2] / np.abs(drift).max(), rel=1e-9)


def test_beta_of_classes_of_one_query_without_overlap() -> None:
    """Assert that beta is 2/(m+1): with m classes of one query that do not overlap the inverse is known."""
    for m in (2, 3, 5):
        instance = of_f(np.eye(m), [m] * m, 10)
        beta = residual.inverse_overlaps(residual.gram_of_inputs(instance))
        np.testing.assert_allclose(beta[~np.eye(m, dtype=bool)], 2 / (m + 1), rtol=1e-12)
