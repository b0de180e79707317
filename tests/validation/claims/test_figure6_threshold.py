"""The cause of the threshold of Fig. 6, against descent in plain numpy that trains Y itself."""

import numpy as np
import pytest

from snapdyn.dynamics import syn_medium
from snapdyn.validation.claims.reproduction import figure6

Array = np.ndarray


def attention(P: Array, z: Array, query: Array) -> Array:
    """Unit attention vectors, one row per class."""
    c = np.array([row * np.exp(z[q]) for row, q in zip(P, query, strict=True)])
    return c / np.linalg.norm(c, axis=1, keepdims=True)


def errors(f: Array, Y: Array, label: Array) -> Array:
    """e_n - alpha_n over all V outputs."""
    w = np.exp(f @ Y)
    return np.eye(Y.shape[1])[label] - w / w.sum(axis=1, keepdims=True)


def decoder(f: Array, label: Array, V: int, eta_Y: float, steps: int) -> Array:
    """Y after steps with momentum 0.9 from zero on fixed attention."""
    Y, v = np.zeros((f.shape[1], V)), np.zeros((f.shape[1], V))
    for _ in range(steps):
        v = 0.9 * v + f.T @ errors(f, Y, label) / len(f)
        Y = Y + eta_Y * v
    return Y


def entropy(num_queries: int, eta_Y: float, eta_Z: float, steps: int, retrained: bool) -> float:
    """Entropy over distinct tokens after steps; the decoder is retrained at each step, or trained along."""
    classes = syn_medium(num_queries)
    P, query, V = classes.P.toarray(), classes.query_index, classes.vocab_size
    label = classes.next_token
    z = v = np.zeros((num_queries, P.shape[1]))
    Y = u = np.zeros((P.shape[1], V))
    for k in range(steps):
        f = attention(P, z, query)
        if retrained:
            Y = decoder(f, label, V, eta_Y, k)
        error = errors(f, Y, label)
        g = error @ Y.T
        gradient = np.zeros_like(z)
        for n, q in enumerate(query):
            # dJ/dz = f o (g - f (f.g)): the norm of f is divided out.
            gradient[q] += f[n] * (g[n] - f[n] * (f[n] @ g[n])) / len(f)
        v = 0.9 * v + gradient
        u = 0.9 * u + f.T @ error / len(f)
        z, Y = z + eta_Z * v, Y + eta_Y * u
    found = []
    for n, q in enumerate(query):
        own = (P[n] > 0) & ((P > 0).sum(axis=0) == 1)
        c = P[n, own] * np.exp(z[q, own])
        c /= c.sum()
        found.append(-(c * np.log(c)).sum())
    return float(np.mean(found))


@pytest.mark.parametrize("num_queries", [1, 3])
def test_retrained_decoder_by_plain_descent(num_queries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert both columns of entropies against descent in Y over all V outputs, and that the two differ."""
    monkeypatch.setattr(figure6, "STEPS", 25)
    figure6.retrained.cache_clear()
    eta_Z, ratio = 3.0, 0.6
    found = [f(num_queries, eta_Z, (ratio,))[0] for f in (figure6.retrained, figure6.descended)]
    figure6.retrained.cache_clear()
    plain = [entropy(num_queries, ratio * eta_Z, eta_Z, 25, retrained) for retrained in (True, False)]
    np.testing.assert_allclose(found, plain, rtol=1e-9)
    assert abs(plain[0] - plain[1]) > 1e-3


def test_a_threshold_below_the_published_ratios_is_rejected() -> None:
    """Assert that entropies which rise everywhere fail, and those with a minimum at 2 pass."""
    ratios = np.array(figure6.RATIOS)
    assert not figure6.sparsest(ratios).holds
    assert figure6.sparsest(np.abs(np.log(ratios / 2))).holds
