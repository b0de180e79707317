"""Rates of common tokens under Eq. (10) by linear algebra on many instances at once."""

from __future__ import annotations

import numpy as np

from snapdyn.dynamics.classes import Floats
from snapdyn.validation.claims.attention._corollary2_instances import corollary_2_instance
from snapdyn.validation.dense_algebra import (
    EPS,
    attention_drift,
    dense_attention,
    modified_decoder_gradient,
    overlap,
    spectral_norm,
)


def common_rates(f: Floats, weight: Floats, vocab_size: Floats, h: Floats) -> tuple[Floats, Floats]:
    """Rates of Eq. (10) for one query, sum_n weight_n f_n o sum_k beta_nk (f_n (f_n.f_k) - f_k) (B, M), and xi_n/gamma.

    f (B, K, M), weight p_n gamma_n and h (B, K), V (B,). The coefficients -beta_nk are those of v_n G^{-1}, v_n with
    entries (h_k/h_n) zeta_k.zeta_n; compared with the decoder itself in the claim.
    """
    V = vocab_size[:, None, None]
    K = f.shape[1]
    E = overlap(f)
    v = -V / (V - 1) ** 2 * h[:, None, :] / h[:, :, None] * (1 - np.eye(K)) + V / (V - 1) * np.eye(K)
    others = (v @ np.linalg.inv(np.eye(K) + E)) * (1 - np.eye(K))
    xi = -(others * E).sum(axis=2)
    return np.einsum("bn,bnl->bl", weight, f * (f * xi[:, :, None] + others @ f)), xi


def proportional_attention(rng: np.random.Generator, count: int, K: int, c: int) -> tuple[Floats, Floats, Floats]:
    """Attention (B, K, c + K) with common parts proportional to one profile r (B, c), any sizes s (B, K)."""
    r = rng.dirichlet(np.full(c, 0.5), size=count) + 1e-3
    r /= np.linalg.norm(r, axis=1, keepdims=True)
    s = np.sqrt(10 ** rng.uniform(-3, -0.001, (count, K)))
    own = np.sqrt(1 - s**2)[:, :, None] * np.eye(K)
    return np.concatenate([s[:, :, None] * r[:, None, :], own], axis=2), r, s


def spread_attention(rng: np.random.Generator, count: int, K: int, c: int, alpha: float, largest: Floats) -> Floats:
    """Attention (B, K, c + K), common profiles of the classes drawn from Dirichlet(alpha), |lambda_1| <= largest."""
    common = rng.dirichlet(np.full(c, alpha), size=(count, K)) + 1e-12
    common *= np.sqrt(rng.uniform(0.1, 1, (count, K, 1))) / np.linalg.norm(common, axis=2, keepdims=True)
    strength = np.maximum(spectral_norm(overlap(common)), 1e-12)
    scale = np.minimum(largest / strength, 0.99 / (common**2).sum(axis=2).max(axis=1))
    common *= np.sqrt(scale)[:, None, None]
    own = np.sqrt(1 - (common**2).sum(axis=2))[:, :, None] * np.eye(K)
    return np.concatenate([common, own], axis=2)


def share_that_grows(count: int, seed: int) -> tuple[dict[tuple[int, str], Floats], Floats, int]:
    """Share of random instances with some common token of positive rate at once, by (K, correlation), over alpha."""
    rng = np.random.default_rng(seed)
    spread = np.geomspace(0.1, 100, 7)
    share = {}
    for K in (2, 3, 5):
        for correlation in ("weak", "strong"):
            found = []
            for alpha in spread:
                low, high = (0.0, 1 / K) if correlation == "weak" else (1 / K, 0.9 * (K - 1))
                f = spread_attention(rng, count, K, 3, float(alpha), rng.uniform(low, high, count))
                ones = np.ones((count, K))
                rates, _ = common_rates(f, ones, np.full(count, 100.0), ones)
                found.append(float((rates[:, :3].max(axis=1) > 1e-12).mean()))
            share[K, correlation] = np.array(found)
    return share, spread, 6 * spread.size * count


def kernel_error(count: int) -> float:
    """`common_rates` against the decoder itself by dense linear algebra: largest error in units of rounding.

    The unit is K eps |G^{-1}|^2 times the largest weight p_n gamma_n: terms of order |G^{-1}| cancel in a rate.
    """
    worst = 0.0
    for seed in range(count):
        classes = corollary_2_instance(seed)
        rng = np.random.default_rng(seed)
        z = rng.normal(size=(1, classes.num_tokens))
        V, K = classes.vocab_size, classes.num_classes
        h = rng.uniform(0.5, 3, K) / V
        weight = classes.prior * (V - 1) ** 2 * h / (V - 1 + np.exp(V * h))
        f = dense_attention(classes, z)[1]
        expected = attention_drift(classes, z, modified_decoder_gradient(classes, z, h), 1.0)[0]
        rates, _ = common_rates(f[None], weight[None], np.array([float(V)]), h[None])
        unit = K * EPS * float(np.linalg.norm(np.linalg.inv(f @ f.T), 2)) ** 2 * weight.max()
        worst = max(worst, float(np.abs(rates[0] - expected).max() / unit))
    return worst


def two_class_grid(size: int) -> tuple[Floats, Floats, Floats]:
    """(gain - loss)/(gain + loss) of a common token, K = 2, on a grid of r = f_1l/f_2l and e = f_1.f_2: r, e, (e, r).

    Gain is sum_n p_n f_nl^2 xi_n, loss the rest of Eq. (10), so that the rate is their difference.

    The token takes up half of the overlap at most; a second common token, equal in both classes, fills the rest.
    """
    r, e = np.geomspace(1, 1000, size), np.geomspace(0.01, 0.6, size)
    R, overlaps = np.meshgrid(r, e)
    f = np.zeros((R.size, 2, 4))
    f[:, 0, 0] = np.sqrt(overlaps.ravel() / 2)
    f[:, 1, 0] = f[:, 0, 0] / R.ravel()
    f[:, :, 1] = np.sqrt(overlaps.ravel() - f[:, 0, 0] * f[:, 1, 0])[:, None]
    f[:, [0, 1], [2, 3]] = np.sqrt(1 - (f**2).sum(axis=2))
    ones = np.ones((R.size, 2))
    rates, xi = common_rates(f, ones, np.full(R.size, 100.0), ones)
    gain = (f[:, :, 0] ** 2 * xi).sum(axis=1)
    return r, e, (rates[:, 0] / (2 * gain - rates[:, 0])).reshape(R.shape)


def formula_error(count: int, seed: int) -> float:
    """Largest relative error of the rate -(r_l^2) sum_n weight_n xi_n (1 - s_n^2) for proportional common parts."""
    rng = np.random.default_rng(seed)
    worst = 0.0
    for K, c in ((2, 2), (3, 5), (5, 3), (10, 10)):
        f, r, s = proportional_attention(rng, count, K, c)
        h, weight = 10 ** rng.uniform(-1, 1, (count, K)), rng.dirichlet(np.ones(K), size=count)
        V = np.floor(K + 10 ** rng.uniform(0, 4, count))
        rates, xi = common_rates(f, weight, V, h)
        own = -(r**2) * (weight * xi * (1 - s**2)).sum(axis=1)[:, None]
        worst = max(worst, float((np.abs(rates[:, :c] - own).max(axis=1) / np.abs(own).max(axis=1)).max()))
    return worst
