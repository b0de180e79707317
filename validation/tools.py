"""Pieces that several claims share: instances, symbolic checks, plain linear algebra without the kernels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from snapdyn.dynamics import SequenceClasses, Trajectory, random_classes
from snapdyn.validation.results import Check

Floats = NDArray[np.float64]


def symbolic(*ids: str) -> Check:
    """Check that sympy leaves no residual of the derivations `ids`."""
    from snapdyn.analytic.symbolic import derivations

    known = {derivation.id: derivation for derivation in derivations()}
    open_residuals = sum(value != 0 for id_ in ids for value in known[id_].verify().values())
    return Check(f"residuals sympy cannot bring to zero ({', '.join(ids)})", "symbolic", open_residuals, 0)


def symbolic_printed(id_: str, name: str) -> Check:
    """Control: the printed right-hand side in the same derivation must leave a residual."""
    from snapdyn.analytic.symbolic import derivations

    derivation = next(d for d in derivations() if d.id == id_)
    if derivation.printed is None:
        raise ValueError(f"expected derivation {id_!r} to carry a printed form, received none")
    open_residuals = sum(value != 0 for value in derivation.verify(derivation.printed).values())
    return Check(name, "symbolic", open_residuals, 0, role="control")


def weak_instances(
    count: int, vocab_size: int = 1000, num_common: int = 1, first_seed: int = 0
) -> list[SequenceClasses]:
    """Random weakly correlated classes of one query, K cycling through 3, 5, 8; seeds first_seed, ..."""
    return [
        random_classes(
            num_classes=(3, 5, 8)[i % 3],
            num_common=num_common,
            num_distinct=4,
            vocab_size=vocab_size,
            seed=first_seed + i,
        )
        for i in range(count)
    ]


def dense_attention(classes: SequenceClasses, z: Floats) -> tuple[Floats, Floats]:
    """Plain dense c_n and f_n = c_n/|c_n|, (S, M) each, from logits z (Q, M)."""
    weights = classes.P.toarray() * np.exp(z[classes.query_index])
    c = weights / weights.sum(axis=1, keepdims=True)
    return c, c / np.linalg.norm(c, axis=1, keepdims=True)


def softmax(logits: Floats) -> Floats:
    """Plain softmax along the last axis."""
    e = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def largest_relative(measured: Floats, reference: Floats) -> float:
    """Largest |measured - reference| over the largest |reference|."""
    return float(np.max(np.abs(measured - reference)) / np.max(np.abs(reference)))


def modified_decoder_gradient(classes: SequenceClasses, z: Floats, h: Floats) -> Floats:
    """g_n = Y (e_n - alpha_n) under the modified flow by dense linear algebra, (S, M).

    Y = F (I - E') W with rows (V-1) h_n zeta_n of W (Lemmas 3, 5), e_n - alpha_n = (V-1)/(V-1+exp(V h_n)) zeta_n.
    """
    S, V = classes.num_classes, classes.vocab_size
    _, f = dense_attention(classes, z)
    zeta = np.full((S, V), -1.0 / (V - 1))
    zeta[np.arange(S), classes.next_token] = 1.0
    W = (V - 1) * h[:, None] * zeta
    Y = f.T @ np.linalg.solve(f @ f.T, W)
    error = ((V - 1) * np.exp(-V * h) / ((V - 1) * np.exp(-V * h) + 1))[:, None] * zeta
    return error @ Y.T


def attention_drift(classes: SequenceClasses, z: Floats, g: Floats, eta_Z: float) -> Floats:
    """z_m' = eta_Z sum_{n: psi(n)=m} p_n f_n o (g_n - f_n (f_n . g_n)) by dense linear algebra, (Q, M)."""
    _, f = dense_attention(classes, z)
    per_class = classes.prior[:, None] * f * (g - f * (f * g).sum(axis=1, keepdims=True))
    drift = np.zeros_like(z)
    np.add.at(drift, classes.query_index, eta_Z * per_class)
    return drift


def growth_rate(classes: SequenceClasses, z: Floats, h: Floats, form: str = "exact") -> Floats:
    """xi_n = gamma sum_{k != n} beta_nk f_n.f_k (S,), uniform classes, beta by `analytic.speed_coefficients`."""
    from snapdyn import analytic

    V = classes.vocab_size
    G = classes.gram(z)
    _, beta = analytic.speed_coefficients(np.eye(classes.num_classes) - np.linalg.inv(G), V, form=form)
    decay = np.exp(-V * h)
    gamma = (V - 1) ** 2 * h * decay / ((V - 1) * decay + 1)
    return gamma * (beta * G).sum(axis=1)


def growth_integral(trajectory: Trajectory, eta_Z: float, every: int = 1) -> Floats:
    """B_n(t) = eta_Z int_0^t p_n xi_n (N, S) along a ModifiedDecoder trajectory, by Simpson's rule in ln t.

    `every` takes every so many of the saved times only, which tells the quadrature's error.
    Below the first saved time xi grows like t (gamma does), which gives the first piece.
    """
    from scipy.integrate import cumulative_simpson

    classes, t = trajectory.classes, trajectory.t[::every]
    assert classes is not None
    z, h, beta = trajectory.z[::every], trajectory.extra["h"][::every], trajectory.parameters["beta"]
    xi = np.array([growth_rate(classes, z[i], h[i], beta) for i in range(t.size)])
    rate = eta_Z * classes.prior * xi * t[:, None]
    return rate[0] / 2 + cumulative_simpson(rate, x=np.log(t), axis=0, initial=0)


def largest_fall(trajectory: Trajectory, tokens: NDArray[np.int64], query: int = 0) -> float:
    """Largest drop of a token's logit below its running maximum, over the largest |z| of the run."""
    z = trajectory.z[:, query]
    with_start = np.vstack([trajectory.z_initial[query], z])[:, tokens]
    drop = np.maximum.accumulate(with_start, axis=0) - with_start
    return float(drop.max() / np.abs(z).max())


class SingleCommonProfile(NamedTuple):
    """Profile shared by symmetric classes: distinct probabilities (d,) falling, and the common token's.

    `position` (nz,) says for every logit of classes.z_coordinates which distinct probability is its token's, -1
    for the common token.
    """

    distinct_probabilities: Floats
    common_probability: float
    position: NDArray[np.int64]


def single_common_profile(classes: SequenceClasses) -> SingleCommonProfile | None:
    """Profile of classes of one query with one common token and equal profiles; None for other classes."""
    K = classes.num_classes
    common = classes.common_tokens()
    symmetric = (
        classes.queries.size == 1
        and classes.next_tokens.size == K >= 2
        and common.size == 1
        and np.ptp(classes.prior) == 0
        and all(common[0] in classes.support(n) for n in range(K))
    )
    if not symmetric:
        return None
    P = classes.P.toarray()
    position = np.full(classes.num_tokens, -1)
    profiles = []
    for n in range(K):
        tokens = classes.distinct_tokens(n)
        tokens = tokens[np.argsort(-P[n, tokens], kind="stable")]
        position[tokens] = np.arange(tokens.size)
        profiles.append(np.append(P[n, tokens], P[n, common[0]]))
    if any(p.shape != profiles[0].shape or not np.allclose(p, profiles[0], rtol=1e-12, atol=0) for p in profiles):
        return None
    return SingleCommonProfile(profiles[0][:-1], float(profiles[0][-1]), position[classes.z_coordinates[1]])
