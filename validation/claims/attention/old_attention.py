"""Lemma 4, Theorem 2 and conservation: which logits grow, which fall, and what stays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from snapdyn import analytic
from snapdyn.dynamics import (
    MeanField,
    ModifiedDecoder,
    SequenceClasses,
)
from snapdyn.validation.checks import Check
from snapdyn.validation.dense_algebra import (
    attention_drift,
    modified_decoder_gradient,
)
from snapdyn.validation.observables import FALL
from snapdyn.validation.search import (
    OUTSIDE,
    Family,
    Instance,
    Violation,
    flow,
    load,
    turned_back,
)


def counterexample() -> SequenceClasses:
    """Three classes of one query, V = 173, in which a distinct token falls in the mean field (finding F10)."""
    profiles = [
        (0.141, (0.301, 0.292, 0.131, 0.134)),
        (0.12, (0.227, 0.073, 0.272, 0.309)),
        (0.402, (0.041, 0.225, 0.268, 0.064)),
    ]
    P = np.zeros((3, 13))
    for n, (common, distinct) in enumerate(profiles):
        P[n, 0] = common
        P[n, 1 + 4 * n : 5 + 4 * n] = distinct
    return SequenceClasses(P / P.sum(axis=1, keepdims=True), [0, 0, 0], vocab_size=173)


# A Gram matrix with a smaller eigenvalue loses more than half of the digits when it is inverted.
INDEPENDENT = 1e-6
SEED = 2305
WEAK = Family("weak correlation, uniform")
ONE_COMMON = Family("one common token", num_common=(1, 1), shared_by_all=True)


def regular(instance: Instance) -> bool:
    """Whether attention vectors are independent and every class overlaps another (else xi_n = 0), in floats too."""
    G = instance.gram
    return bool(np.linalg.eigvalsh(G)[0] > INDEPENDENT and (G - np.eye(len(G))).max(axis=1).min() > INDEPENDENT)


def speed_shortfall(instance: Instance) -> float:
    """How negative xi_n gets at z = 0 and t_end under Eq. (10), over the size of its terms: a violation of xi_n > 0.

    Up to a positive factor xi_n = sum_k w_k ((V-1) h_n G_nk + h_k), k != n, for any priors: w are the coefficients of
    f_n regressed on the other f_k, h_k = h(p_k t). Own, from g_n = F G^{-1} W (e_n - alpha_n); the claim compares it
    with dense linear algebra. Every state (z, t) is the start of another instance, so z = 0 is no restriction.
    """
    G, V = instance.gram, instance.vocab_size
    if not regular(instance):
        return OUTSIDE
    prior = instance.weights / instance.weights.sum()
    h = np.asarray(analytic.h(prior * instance.t_end, instance.eta_Y, V))
    worst = OUTSIDE
    for n in range(h.size):
        others = np.delete(np.arange(h.size), n)
        w = np.linalg.solve(G[np.ix_(others, others)], G[n, others])
        terms = np.concatenate([w * (V - 1) * h[n] * G[n, others], w * h[others]])
        worst = max(worst, float(-terms.sum() / np.abs(terms).sum()))
    return worst


def distinct_rate(instance: Instance) -> float:
    """Lowest rate of a distinct logit at z = 0 and t_end under Eq. (10) by dense linear algebra, over the highest."""
    classes = instance.classes
    z = np.zeros((classes.queries.size, classes.num_tokens))
    h = np.asarray(analytic.h(classes.prior * instance.t_end, instance.eta_Y, classes.vocab_size))
    drift = attention_drift(classes, z, modified_decoder_gradient(classes, z, h), 1.0)
    query, token = _logits(classes, classes.distinct_tokens())
    return float(drift[query, token].min() / np.abs(drift).max())


def _logits(classes: SequenceClasses, tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(query rows, tokens) of the logits of `tokens` that can move."""
    query, token = classes.z_coordinates
    kept = np.isin(token, tokens)
    return query[kept], token[kept]


def distinct_fall(kind: type[MeanField] | type[ModifiedDecoder]) -> Violation:
    """Violation of Theorem 2(a): largest fall of a distinct logit to t_end, over the largest |z|."""
    return _turning(kind, 1.0, lambda classes: classes.distinct_tokens())


def common_rise(kind: type[MeanField] | type[ModifiedDecoder]) -> Violation:
    """Violation of Theorem 2(b): largest rise of a common logit to t_end, over the largest |z|."""
    return _turning(kind, -1.0, lambda classes: classes.common_tokens())


def _turning(
    kind: type[MeanField] | type[ModifiedDecoder], sign: float, tokens: Callable[[SequenceClasses], np.ndarray]
) -> Violation:
    def violation(instance: Instance) -> float:
        if not regular(instance):
            return OUTSIDE
        run = flow(instance, kind)
        if run is None:
            return OUTSIDE
        query, token = _logits(instance.classes, tokens(instance.classes))
        # Less than FALL is within the solver's error.
        back = turned_back(sign * run.z[:, query, token], float(np.abs(run.z).max()))
        return back - FALL if back > 0 else min(back, -FALL)

    return violation


def stored_check(violation: Violation, name: str) -> Check:
    """Outside its conditions the statement fails on a stored counterexample, measured again."""
    stored = load(name)
    return Check(
        f"violation on the stored counterexample {name}: {stored.statement}",
        stored.rung,
        violation(stored.instance),
        0.0,
        role="outside",
    )


def _largest_rise(path: np.ndarray, z: np.ndarray) -> float:
    path = np.concatenate([[0.0], path])
    return float((path - np.minimum.accumulate(path)).max() / np.abs(z).max())
