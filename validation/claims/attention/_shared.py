"""What the claims on attention share: domains, logits that reverse their direction, the speed xi_n, wrong theories."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.integrate import cumulative_trapezoid

from snapdyn import analytic
from snapdyn.dynamics.classes.table import SequenceClasses
from snapdyn.dynamics.trajectories.trajectory import Trajectory
from snapdyn.validation.claims.attention._finite_length import COUNTED, LONG_ENOUGH
from snapdyn.validation.claims.attention._linear_response import (
    FROZEN_SPEED,
    LITTLE_MEMORY,
    LITTLE_MEMORY_COMMON,
)
from snapdyn.validation.claims.decoder._shared import outputs
from snapdyn.validation.claims.language import (
    EPS,
    EXACT,
    INDEPENDENT_ATTENTION,
    INFINITE_LENGTH,
    MEAN_FIELD,
    OVERLAPPING,
    OWN_NEXT_TOKENS,
    SEVERAL_CLASSES,
    WIDEST,
    Family,
    Floats,
    Instance,
    Ints,
    Measure,
    Measured,
    Property,
    Requirement,
    attention_drift,
    by_query,
    dense_attention,
    flow,
    modified_decoder_gradient,
    noise,
    output_errors,
    start_of,
)
from snapdyn.validation.phases import FALL, drop_below_maximum

Tokens = Callable[[SequenceClasses], Ints]
WORDS = {MEAN_FIELD: "mean field", EXACT: "modified decoder"}
MODIFIED_FLOW = (OWN_NEXT_TOKENS, SEVERAL_CLASSES, INDEPENDENT_ATTENTION, OVERLAPPING)
# The mean field exists for classes that share next tokens, too.
OWN = replace(OWN_NEXT_TOKENS, defining=False)

# Rates and times of flows, as wide as float64 and the solvers allow.
RANGES: dict[str, Any] = {"vocab_size": (2, 10**12), "ratio": (1e-6, 1e2), "horizon": (1e-2, 1e6), "eta_Y": (1e-6, 1e6)}
FLOWS = replace(WIDEST, num_classes=(1, 12), num_common=(0, 4), num_distinct=(0, 5), **RANGES)
SCALARS = replace(WIDEST, name="any state of Eq. (10)", num_distinct=(0, 10))


# At T - 1 = 300 the noise of the counts moves the logits by 6 to 8 % of their changes, although attention moves little.
SHORT_SEQUENCES = {
    "two classes, T - 1 = 300": Instance.of(
        SequenceClasses([[0.3, 0.4, 0.3, 0, 0], [0.3, 0, 0, 0.5, 0.2]], [0, 0], vocab_size=60),
        1.0, 1e-3, 50.0, seq_len=300,
    )
}  # fmt: skip


@dataclass(frozen=True)
class Reshaped(Family):
    """Family in which `reshape` changes the columns (S, c) of the common tokens of every draw."""

    reshape: Callable[[np.random.Generator, Floats], Floats] = lambda rng, common: common

    def _draw(self, rng: np.random.Generator, seed: int, number: int) -> Instance | None:
        instance = super()._draw(rng, seed, number)
        if instance is None:
            return None
        P, common = instance.P.copy(), common_tokens(instance.classes)
        P[:, common] = self.reshape(rng, P[:, common])
        return replace(instance, P=P)


distinct_tokens, common_tokens = SequenceClasses.distinct_tokens, SequenceClasses.common_tokens
# Distinct logits should rise, common ones fall.
SIGNS: dict[Tokens, float] = {distinct_tokens: 1.0, common_tokens: -1.0}


def row_sum(instance: Instance) -> float:
    """Largest sum_{j != k, n} E_kj max(1, p_j/p_k) over k and n, 0 for one common token; where <= 1, xi_n > 0 at all t.

    xi_n is w.((V-1) h_n E_n + h) with w = (I+E_o)^{-1} E_n, o the other classes, h_k = h(p_k t). If E_o h <= h, entry
    by entry, the spectral radius of E_o is at most 1 (Collatz and Wielandt), so (I - E_o^2)^{-1} has no negative entry
    and h.w = ((I - E_o) h).(I - E_o^2)^{-1} E_n >= 0; the term with w.E_n is positive since I + E_o is positive
    definite. h is concave in p_k t, so h_j/h_k <= max(1, p_j/p_k). For equal priors |lambda_1(E)| <= 1/sqrt(K-2) is
    enough (Cauchy and Schwarz). With a single common token every entry of w is positive without a condition.
    """
    K = instance.num_classes
    if K < 3 or common_tokens(instance.classes).size == 1:
        return 0.0
    p = instance.prior
    terms = (instance.gram * np.maximum(1.0, p / p[:, None]))[~np.eye(K, dtype=bool)].reshape(K, K - 1)
    return (terms.sum(axis=1) - terms.min(axis=1)).max()


SMALL_OVERLAPS = Requirement(
    "small overlaps or one common token",
    "sum_{j != k, n} f_k.f_j max(1, p_j/p_k) <= 1 for all k and n, or one common token",
    row_sum,
    at_most=1.0,
)


def some(kind: str, tokens: Tokens) -> Requirement:
    """Requirement that there are `tokens` of a kind, distinct or common."""
    return Requirement(
        f"a {kind} token", f"{kind} tokens >= 1", lambda i: tokens(i.classes).size, at_least=1, defining=True
    )


A_DISTINCT_TOKEN = some("distinct", distinct_tokens)
A_COMMON_TOKEN = some("common", common_tokens)


def logits_of(classes: SequenceClasses, tokens: Tokens) -> tuple[Ints, Ints]:
    """(query rows, token numbers) of those logits of `tokens` that the dynamics can change."""
    query, token = classes.z_coordinates
    kept = np.isin(token, tokens(classes))
    return query[kept], token[kept]


def falls(instance: Instance, rung: str, tokens: Tokens = distinct_tokens) -> Measured:
    """Largest fall of a distinct logit below its maximum so far, or rise of a common one, over the largest |z - z(0)|.

    A fall is a number above FALL. Without a fall, the number is minus the smallest gain after the steepest part of a
    path, over the path's largest value, so that a search can follow it towards a fall. Moves below rounding do not
    count, and logits of classes that overlap no other class do not move.
    """
    run = flow(instance, rung)
    classes = instance.classes
    query, token = logits_of(classes, tokens)
    overlaps = instance.overlaps.max(axis=1, keepdims=True) > 0
    owners = overlaps & (classes.query_index[:, None] == query) & (instance.P[:, token] > 0)
    moved = owners.any(axis=0)
    query, token = query[moved], token[moved]
    rounding = noise(instance, rung)
    change = run.z - run.z_initial
    paths = SIGNS[tokens] * change[:, query, token]
    drop = drop_below_maximum(np.vstack([np.zeros(token.size), paths]))[1:] - rounding
    if drop.max(initial=0.0) > 0:
        i, j = np.unravel_index(drop.argmax(), drop.shape)
        where = f"token {token[j]} of query {query[j]}, t = {run.t[i]:.3g}"
        return Measured(drop[i, j] / max(np.abs(change).max(), rounding), at_most=FALL, where=where)
    paths = paths[:, paths.max(axis=0) > rounding]
    if not paths.size:
        return Measured(-1.0, at_most=FALL, where="no logit moves by more than rounding")
    gains = np.diff(paths, axis=0, prepend=0.0)
    late = np.arange(len(gains))[:, None] >= gains.argmax(axis=0)
    least = np.where(late, gains, np.inf).min(axis=0) / paths.max(axis=0)
    return Measured(min(-least.min(), 0.0), at_most=FALL)


def along(run: Trajectory, instance: Instance, rung: str) -> Iterator[tuple[Floats, Floats, Floats]]:
    """Attention c_n and f_n and gradients g_n = Y (e_n - alpha_n), (S, M) each, at the saved times of a run."""
    classes = instance.classes
    if rung == EXACT:
        for z, h in zip(run.z, run.extra["h"], strict=True):
            yield *dense_attention(classes, z), modified_decoder_gradient(classes, z, h)
        return
    Y, rows, _ = run.require_decoder()
    _, copies = outputs(instance)
    for z, at in zip(run.z, Y, strict=True):
        c, f = dense_attention(classes, z)
        of_tokens = at[rows]  # equal tokens share a row
        yield c, f, output_errors(f @ of_tokens, copies, classes.next_index) @ of_tokens.T


def rates_without_normalisation(instance: Instance, c: Floats, g: Floats) -> Floats:
    """Wrong theory: rates (Q, M) of z' = c o (g - c.g) over eta_Z, without the division by |q|."""
    return by_query(instance, instance.prior[:, None] * c * (g - (c * g).sum(axis=1, keepdims=True)))


def run_without_normalisation(instance: Instance, rung: str, tokens: Tokens) -> Measured | None:
    """Fall of `tokens` by the rates without normalisation at the states of the run, as in `falls`."""
    run = flow(instance, rung, **({} if rung == EXACT else {"save_decoder": True}))
    rates = [rates_without_normalisation(instance, c, g) for c, _, g in along(run, instance, rung)]
    change = cumulative_trapezoid([rates[0] * 0, *rates], [0.0, *run.t], axis=0)
    query, token = logits_of(instance.classes, tokens)
    largest = np.abs(change).max()
    drop = drop_below_maximum(SIGNS[tokens] * change[:, query, token])
    return Measured(drop.max() / largest, at_most=FALL) if largest and token.size else None


def without_normalisation(instance: Instance, tokens: Tokens) -> Measured | None:
    """Largest fall of `tokens` by the rates without normalisation at z(0) and t_end, over the largest rate."""
    c, _ = dense_attention(instance.classes, start_of(instance))
    drift = rates_without_normalisation(instance, c, drift_at_end(instance)[1])
    largest = np.abs(drift).max()
    moved = SIGNS[tokens] * drift[logits_of(instance.classes, tokens)]
    return None if largest == 0 or not moved.size else Measured(-moved.min() / largest, at_most=FALL)


def heights(instance: Instance) -> Floats:
    """h(p_n t) at t_end, (S,)."""
    return analytic.h(instance.prior * instance.t_end, instance.eta_Y, instance.vocab_size)


def speed(instance: Instance) -> Measured:
    """Smallest xi_n of Eq. (10) at z(0) and t_end, over the size of its terms, from f_n regressed on the other f_k.

    Every state (z, t) is the start of another instance, so the start is no restriction.
    """
    G, h = instance.gram, heights(instance)
    # Coefficients of the regression from the inverse: w_nk = -(G^{-1})_nk/(G^{-1})_nn.
    H = np.linalg.inv(G)
    w = -H / H.diagonal()[:, None]
    np.fill_diagonal(w, 0.0)
    terms = np.stack([(instance.vocab_size - 1) * h[:, None] * G * w, h * w])
    shares = terms.sum(axis=(0, 2)) / np.abs(terms).sum(axis=(0, 2))
    n = int(shares.argmin())
    # An inverse loses eps times the condition number.
    error = 16 * len(G) * EPS / instance.eigenvalues[0]
    return Measured(shares[n], at_least=0.0, error=error, where=f"class {n}, t = {instance.t_end:.3g}")


def drift_at_end(instance: Instance) -> tuple[Floats, Floats]:
    """Rates of the logits (Q, M) and gradients g_n at z(0) and t_end, Eq. (10) by dense linear algebra, eta_Z = 1."""
    z = start_of(instance)
    g = modified_decoder_gradient(instance.classes, z, heights(instance))
    return attention_drift(instance.classes, z, g, 1.0), g


def common_rate(instance: Instance) -> Measured:
    """Largest rate of a common logit at z(0) and t_end under Eq. (10), over the largest rate."""
    drift, g = drift_at_end(instance)
    query, token = logits_of(instance.classes, common_tokens)
    largest = np.abs(drift).max()
    moved = drift[query, token] / largest
    # g_n loses digits where f_n.g_n is taken off, which is 1/overlap times larger, and in the solve.
    error = 1e3 * EPS * np.linalg.norm(g, axis=1).max() / instance.eigenvalues[0] / largest
    return Measured(moved.max(), at_most=0.0, error=error, where=f"token {token[moved.argmax()]}")


# What must not happen to the logits of tokens, conditions, and that of the mean field.
TURNS: dict[Tokens, Any] = {
    distinct_tokens: ("fall of a distinct", (A_DISTINCT_TOKEN,), LITTLE_MEMORY),
    common_tokens: ("rise of a common", (A_COMMON_TOKEN, A_DISTINCT_TOKEN), LITTLE_MEMORY_COMMON),
}


def one_way(rung: str, tokens: Tokens, domain: Family, *conditions: Requirement, **facts: Any) -> Property:
    """Property: on a rung no distinct logit falls, or no common one rises.

    In the mean field common tokens need T infinite, and distinct ones sequences that are long enough. With L = T-1
    tokens f of a sequence is f_n + d, Cov(d) of order 1/L, and the gradient g_n is near gamma_n f_n, which
    (I - f_n f_n^T) removes: what is left for infinite T is xi_n, of the order of the overlaps or of 1/V. The mean of
    f o (I - f f^T) g has a term -gamma_n E[d o d] beside it, of the order 1/L and of its own sign: it decides where
    xi_n/gamma_n is below 1/L.
    """
    turn, present, memory = TURNS[tokens]
    length = (COUNTED, LONG_ENOUGH) if tokens is distinct_tokens else (INFINITE_LENGTH,)
    of_rung = (OWN, *length, FROZEN_SPEED, memory) if rung == MEAN_FIELD else MODIFIED_FLOW
    wrong: dict[str, Measure] = {
        "wrong theory: no division by |q|, z' = c o (g - c.g), along the run": partial(
            run_without_normalisation, rung=rung, tokens=tokens
        )
    }
    return Property(
        f"largest {turn} logit over the largest |z|",
        WORDS[rung],
        partial(falls, rung=rung, tokens=tokens),
        domain,
        conditions=(*present, *of_rung, *conditions),
        **({"evaluations": (60, 2000), "controls": wrong} | facts),
    )


def common_under_eq_10(domain: Family, *conditions: Requirement, **facts: Any) -> tuple[Property, Property]:
    """Properties: no common logit has a positive rate, or rises, under Eq. (10)."""
    modified = one_way(EXACT, common_tokens, domain, *conditions, **facts)
    rates = replace(
        modified,
        name="largest rate of a common logit over the largest rate",
        measure=common_rate,
        domain=replace(domain, num_classes=(2, 100), ratio=WIDEST.ratio, horizon=WIDEST.horizon),
        controls={
            "wrong theory: no division by |q|, z' = c o (g - c.g)": partial(without_normalisation, tokens=common_tokens)
        },
        evaluations=(400, 40_000),
        beyond={},
    )
    return rates, modified
