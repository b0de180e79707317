"""xi_n and the coefficients of g_n on an instance: by closed form, by the decoder itself, and with the printed sign."""

from __future__ import annotations

import numpy as np

from snapdyn import analytic
from snapdyn.dynamics import SequenceClasses
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.claims.correlation._shared import UNITS, attention, inverse_rounding, overlaps
from snapdyn.validation.dense_algebra import EPS, e_prime, growth_over_gamma, leading_growth, overlap
from snapdyn.validation.instances import star
from snapdyn.validation.properties import Measured
from snapdyn.validation.search import Instance


def decoder_coefficients(f: Floats, vocab_size: int, h: Floats) -> Floats:
    """a[n, k] of g_n = sum_k a[n, k] f_k for attention vectors f (K, M) and h (K,): gamma_n times iota_n, or -beta_nk.

    From the decoder itself, by least squares: Y with F^T Y = W, rows (V-1) h_n zeta_n of W; softmax;
    g_n = Y (e_n - alpha_n). The V - K outputs that are no next token are one column with a multiplicity.
    """
    K = f.shape[0]
    W = np.concatenate([vocab_size * np.diag(h), np.zeros((K, 1))], axis=1) - h[:, None]
    Y = np.linalg.lstsq(f, W, rcond=None)[0]
    logits = f @ Y
    weight = np.append(np.ones(K), vocab_size - K) * np.exp(logits - logits.max(axis=1, keepdims=True))
    error = -weight / weight.sum(axis=1, keepdims=True)
    own = np.arange(K)
    error[own, own] = 0.0
    error[own, own] = -error.sum(axis=1)  # 1 - alpha_n without cancellation
    return np.asarray(np.linalg.lstsq(f.T, Y @ error.T, rcond=None)[0].T)


def printed_growth(E: Floats, vocab_size: Floats | float) -> Floats:
    """xi_n/gamma with the printed sign of (88): sum_{k != n} E_nk (q1 E'_kn + q0 (1 + sum_{j != n} E'_kj)), (B, K)."""
    V = np.reshape(np.asarray(vocab_size, dtype=float), (-1, 1, 1))
    Ep = e_prime(E)
    beta = V / (V - 1) * (Ep - (1 + Ep.sum(axis=2)[:, None, :] - Ep) / (V - 1))
    return np.asarray((beta * E).sum(axis=2))


def strong_counterexample() -> SequenceClasses:
    """Four classes of one query, V = 8, in which xi of class 3 is negative (|lambda_1| K = 3.76, own, by construction).

    Class 0 overlaps classes 1 and 2 (a token each), and class 3 a little. Tokens 0-2 are common, 3-6 distinct.
    """
    P = np.zeros((4, 7))
    P[0, [0, 1, 2, 3]] = (0.42, 0.42, 0.01, 0.15)
    P[1, [0, 4]] = (0.8, 0.2)
    P[2, [1, 5]] = (0.8, 0.2)
    P[3, [2, 6]] = (0.3, 0.7)
    return SequenceClasses(P, np.zeros(4, dtype=int), vocab_size=8)


def prior_counterexample() -> SequenceClasses:
    """Three weakly correlated classes of one query, V = 20, priors 1:1:18, in which xi of class 0 is negative at first.

    Class 1 overlaps class 0 a little and the frequent class 2 more. Tokens 0, 1 are common, 2-4 distinct (own).
    """
    P = np.array([[0.1, 0, 0.9, 0, 0], [0.1, 0.3, 0, 0.6, 0], [0, 0.45, 0, 0, 0.55]])
    return SequenceClasses(P, [0, 0, 0], prior=[1, 1, 18], vocab_size=20)


def star_growth(num_classes: int, largest: float) -> float:
    """xi_n/(-gamma E'_nn) at V = K of a class that overlaps the centre of a star a little; |lambda_1| = `largest`.

    Class 0 overlaps K-2 others by r each, |lambda_1| = sqrt(K-2) r, and the last class n by little: there
    G_{-n}^{-1} 1 is negative at class 0 as soon as (K-2) r > 1.
    """
    K = num_classes
    r = largest / np.sqrt(K - 2)
    outer = max(0.5 * abs((K - 2) * r - 1) / (K - 1), 1e-4)
    E = overlap(star(K, r, outer))[None]
    return float(growth_over_gamma(E, float(K))[0, -1] / leading_growth(E)[0, -1])


def growth_at(instance: Instance) -> Floats:
    """h_n at t_end, s = p_n t visits, (K,)."""
    return analytic.h(instance.prior * instance.t_end, instance.eta_Y, instance.vocab_size)


def coefficient_error(form: str, instance: Instance) -> Measured:
    """Coefficients of g_n/gamma_n at t_end against the decoder itself, in units of rounding.

    `form` is one of `analytic.speed_coefficients`, for equal priors; "own" is v_n^T G^{-1}, v_n = (h_k/h_n)
    (zeta_k . zeta_n), for any, with xi_n by `growth_over_gamma`, and at equal priors it includes "exact".

    The unit is (K+M) eps |G| |G^{-1}|^2 (1 + V h) max h/min h: an inverse, an exponential of V h, and quotients of h.
    """
    E, V, h = overlaps(instance), instance.vocab_size, growth_at(instance)
    f, K = attention(instance), instance.num_classes
    gamma = (V - 1) ** 2 * h / (V - 1 + np.exp(V * h))
    measured = decoder_coefficients(f, V, h) / gamma[:, None]
    unit = (1 + f.shape[1] / K) * inverse_rounding(E) * (1 + V * h.max()) * h.max() / h.min()
    error = 0.0
    if form == "own":
        zeta = np.where(np.eye(K) == 1, V / (V - 1), -V / (V - 1) ** 2)
        own = (zeta * h / h[:, None]) @ np.linalg.inv(np.eye(K) + E)
        xi = growth_over_gamma(E[None], float(V), h[None])[0]
        error = max(np.abs(measured - own).max(), np.abs((measured * E).sum(axis=1) + xi).max())
    if form != "own" or instance.uniform:
        Ep = e_prime(E)
        iota, beta = analytic.speed_coefficients((Ep + Ep.T) / 2, V, form="exact" if form == "own" else form)
        error = max(error, np.abs(measured - np.diag(iota) + beta).max())
    return Measured(float(error / unit), at_most=UNITS)


def growth(instance: Instance) -> Measured:
    """Smallest (xi_n/(gamma_n q1) + E'_nn) over what it is for small overlaps, 1 where no class overlaps another.

    Eliminating class n, xi_n/(gamma_n q1) = (G^{-1})_nn e^T G_{-n}^{-1} (e + r/(V-1)) with the overlaps e of n and r_k
    = h_k/h_n, and -E'_nn is the part of e; what is left is positive where e^T G_{-n}^{-1} r is, which is e^T r for
    small overlaps and -sum_{k != n} (G^{-1})_nk r_k/(G^{-1})_nn. r is taken at early times, where it is p_k/p_n and
    differs most from 1, and at t_end.
    """
    E, K = overlaps(instance), instance.num_classes
    G = np.eye(K) + E
    inverse = np.linalg.inv(G)
    own = np.diag(inverse)[:, None]
    overlapping = np.asarray(E.any(axis=1))
    if not overlapping.any():
        return Measured(1.0, at_least=0.0, where="no class overlaps another: xi = 0")
    h = np.column_stack([instance.prior, growth_at(instance)])
    scale = np.where(overlapping[:, None], own * (E @ h), 1.0)
    values = np.where(overlapping[:, None], -(inverse @ h - own * h) / scale, np.inf)
    n, late = (int(i) for i in np.unravel_index(values.argmin(), values.shape))
    rounding = np.asarray(UNITS * K * EPS * (np.abs(inverse) @ np.abs(G) @ np.abs(inverse) @ h) / scale)
    when = f"t = {instance.t_end:.3g}" if late else "early times"
    return Measured(values[n, late], at_least=0.0, error=rounding[n, late], where=f"class {n}, {when}")


def printed_sign(instance: Instance) -> Measured | None:
    """Wrong theory (F5): smallest xi_n/(-gamma q1 E'_nn) with the printed sign of (88), for equal priors."""
    E = overlaps(instance)[None]
    leading = leading_growth(E)[0]
    visible = leading > 1e4 * inverse_rounding(E)[0]
    if not visible.any() or not instance.uniform:
        return None
    V = float(instance.vocab_size)
    return Measured(
        float((printed_growth(E, V)[0, visible] * (V - 1) / V / leading[visible]).min()), at_least=0.0, where="xi_n"
    )
