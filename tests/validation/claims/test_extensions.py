"""Claims on what is left out of the theory: initial logits, positional bias, residual connection, embeddings."""

from dataclasses import replace

import numpy as np

from snapdyn.dynamics import random_classes
from snapdyn.validation.claims.extensions import positional_prior, reparameterisation as claim, residual
from snapdyn.validation.claims.extensions._shared import StartedFamily
from snapdyn.validation.dense_algebra import dense_attention
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


def test_a_start_is_drawn_with_the_classes_and_simplified_with_them() -> None:
    """Assert that a family with start logits draws them in the shape of z, and that shrinking keeps them in shape."""
    family = StartedFamily("started", "any", num_classes=(4, 4))
    instance = family.draw(3, 0)
    assert instance.start.shape == (instance.classes.queries.size, instance.P.shape[1])
    simpler = shrink(instance, lambda i: i.start is not None and bool(i.classes.check_z(i.start).any()), family.simpler)
    assert simpler.num_classes < 4


def test_the_residual_gram_matrix_is_that_of_the_classes() -> None:
    """Assert the Gram matrix of the decoder inputs against that of the package; without the residual it differs."""
    instance = residual.two_queries(0.2, 0.1)
    gram = residual.gram_of_inputs(instance)
    np.testing.assert_allclose(instance.classes.gram(residual=True), gram, atol=1e-14)
    assert np.abs(instance.classes.gram() - gram).max() > 0.1


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


def test_only_gram_matrices_matter_while_U_is_fixed() -> None:
    """Assert that short factors of the same Gram matrices follow the full model, and those of another width do not."""
    rng, d = np.random.default_rng(3), 80
    U, W_Q, W_K = rng.standard_normal((34, d)) / np.sqrt(d), *(0.3 * rng.standard_normal((2, d, d)))
    root = np.linalg.cholesky(U @ U.T)
    short = [np.linalg.solve(root, U @ W) for W in (W_Q, W_K)]
    full, same, other = (
        claim.Start(width, *given, s2=40.0).reached
        for width, given in ((d, (U, W_Q, W_K)), (d, (root, *short)), (2 * d, (root, *short)))
    )
    np.testing.assert_allclose(same, full, atol=1e-10)
    assert np.abs(other - full).max() > 1e-3
