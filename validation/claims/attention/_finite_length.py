"""What finite sequences add to the early rate of a distinct token, and where it is small beside the overlaps."""

import numpy as np

from snapdyn import analytic
from snapdyn.dynamics.classes.table import SequenceClasses
from snapdyn.dynamics.systems.base import System
from snapdyn.validation.claims.language import Floats, Instance, Requirement, attention_vectors

EARLY = 1e-7  # eta_Y t at which an early rate is read


def early_terms(instance: Instance) -> tuple[Floats, Floats, Floats]:
    """Terms of the early rate of each distinct token, (tokens,) each: of the overlaps, of the length, its parts' size.

    With f = f_n and F = E[f] of drawn sequences, Y(t) is eta_Y t sum_n p_n F_n (e_n - 1/V) at first, and the mean of
    f o (I - f f^T) F is taken to first order in 1/(T-1). With w_k = f_k^2/P_k the term of the length is
    (sum w - 2 sum w f^2 + 2 w_l - 1/P_l)/(T-1), in units of p_n f_l^2 (V-1)/V, as is sum_k (p_k/p_n) f_n.f_k/(V-1).
    """
    P, p, f = instance.P / instance.P.sum(axis=1, keepdims=True), instance.prior, attention_vectors(instance)
    tokens = SequenceClasses.distinct_tokens(instance.classes)
    of = P[:, tokens].argmax(axis=0)
    w = np.divide(f**2, P, out=np.zeros_like(P), where=P > 0)
    overlaps = ((f @ f.T - np.eye(len(p))) @ p)[of] / p[of] / (instance.vocab_size - 1)
    parts = np.array([w.sum(axis=1)[of], -2 * (w * f**2).sum(axis=1)[of], 2 * w[of, tokens], -1 / P[of, tokens]])
    parts /= instance.seq_len or np.inf
    return overlaps, parts.sum(axis=0), np.abs(parts).sum(axis=0)


def least_overlaps(instance: Instance) -> Floats:
    """The term of the overlaps where it is least in a run, (tokens,): h_k/h_n in place of p_k/p_n.

    For a class k that is more frequent than n the ratio falls from p_k/p_n, since h_k grows like a logarithm after its
    transition; for a rarer one it rises. So each summand is least at the start or at the end.
    """
    P, f, p = instance.P / instance.P.sum(axis=1, keepdims=True), attention_vectors(instance), instance.prior
    tokens = SequenceClasses.distinct_tokens(instance.classes)
    of = P[:, tokens].argmax(axis=0)
    h = analytic.h(p * instance.t_end, instance.eta_Y, instance.vocab_size)
    ratio = np.minimum(p / p[:, None], h / h[:, None])
    return (((f @ f.T - np.eye(len(p))) * ratio).sum(axis=1) / (instance.vocab_size - 1))[of]


def early_rates(system: System) -> tuple[Floats, float]:
    """Rates of the logits after a step of the decoder from a start Y = 0, and its length: its errors are below 1e-7.

    The rates grow like the time. The step gives the leading term of Y as long as eta_Y t V is below 1.
    """
    start, rate = system.initial_state(), np.empty(system.size)
    system.write_rate(start, rate)
    step = EARLY / max(1.0, np.abs(rate).max())
    system.write_rate(start + step * rate, rate)
    return system.z_support(rate), step


def counts_over_overlaps(instance: Instance) -> float:
    """Largest share of the least term of the overlaps that the term of the length takes off; 0 for T infinite."""
    if instance.seq_len is None:
        return 0.0
    overlaps, length = least_overlaps(instance), early_terms(instance)[1]
    worst = np.divide(-length, overlaps, out=np.where(length < 0, np.inf, 0.0), where=overlaps > 0)
    return worst.max(initial=0.0)


def counts_between_tokens(instance: Instance) -> float:
    """Largest difference of the terms of the length of two distinct tokens of a class, over that of the overlaps."""
    if instance.seq_len is None:
        return 0.0
    overlaps, length = least_overlaps(instance), early_terms(instance)[1]
    of = instance.P[:, SequenceClasses.distinct_tokens(instance.classes)].argmax(axis=0)
    spread = np.array([np.ptp(length[of == n]) for n in of])
    return np.divide(spread, overlaps, out=np.where(spread > 0, np.inf, 0.0), where=overlaps > 0).max(initial=0)


def rare_counts(instance: Instance) -> float:
    """Largest 1/((T-1) P) over the tokens of all classes: the expansion is in this number."""
    return 1.0 / ((instance.seq_len or np.inf) * instance.P[instance.P > 0].min())


COUNTED = Requirement(
    "every token is counted", "1/((T-1) P) <= 0.05 for all tokens, or T infinite", rare_counts, at_most=0.05
)
LONG_ENOUGH = Requirement(
    "sequences long enough for the overlaps",
    "term of the length (early-sign) over that of the overlaps, the less of start and end, <= 0.5",
    counts_over_overlaps,
    at_most=0.5,
)
EQUAL_COUNTS = Requirement(
    "the length acts on the tokens of a class alike",
    "difference of the terms of the length (early-sign) of two distinct tokens over that of the overlaps, the less of "
    "start and end, <= 0.005",
    counts_between_tokens,
    at_most=0.005,
)
