"""Initial logits and positional bias as priors; the residual connection."""

from __future__ import annotations

import numpy as np

from snapdyn.dynamics import (
    MeanField,
    SequenceClasses,
    Trajectory,
    log_times,
    sgd,
    whole_run,
)
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.assumptions import assumption_2
from snapdyn.validation.checks import Check
from snapdyn.validation.dense_algebra import dense_attention, largest_relative
from snapdyn.validation.pictures import Map, Picture
from snapdyn.validation.register import Evidence, claim
from snapdyn.validation.statistics import standard_error

# -- residual connection -----------------------------------------------------------------------------------------

# Tokens 0 and 1 are shared by the two classes of query 0 and of query 1; 2 by classes 0 and 2, 3 by classes 1 and 3:
# common in the whole, distinct among the classes of their query.
LOCAL, ACROSS = (0, 1), (2, 3)


def two_queries(local: float, across: float, vocab_size: int, num_distinct: int = 3) -> SequenceClasses:
    """Two queries with two classes each; probability `local` of a token shared within the query, `across` between."""
    M = 4 + 4 * num_distinct
    P = np.zeros((4, M))
    weights = np.linspace(0.5, 1, num_distinct)
    for n in range(4):
        P[n, LOCAL[n // 2]], P[n, ACROSS[n % 2]] = local, across
        P[n, 4 + n * num_distinct : 4 + (n + 1) * num_distinct] = (1 - local - across) * weights / weights.sum()
    return SequenceClasses(P, [M, M, M + 1, M + 1], M + 2 + np.arange(4), vocab_size=vocab_size)


def residual_beta(f: Floats, query: np.ndarray) -> Floats:
    """E' of the decoder inputs (f_n + e_psi(n))/sqrt(2), (S, S): beta to leading order, query tokens not attended."""
    same = query[:, None] == query[None, :]
    return np.asarray(np.eye(f.shape[0]) - np.linalg.inv((f @ f.T + same) / 2))


def residual_drift(classes: SequenceClasses, h: float) -> tuple[Floats, Floats]:
    """Drift of z (S, M) per class under the modified flow with the residual, z = 0: by full algebra, by beta.

    Full: Y = F_u (I-E') W, g = Y (e - alpha), f o (I - f f^T) (I - u u^T) g/|f + e|, u over token and query rows.
    By beta: since (I - f f^T) f = 0, u_n's own terms drop out and what is left is Eq. (10) with beta of the Gram
    matrix of u and a factor 1/2: -(gamma/2) f_n o sum_k beta_nk (f_k - f_n (f_n.f_k)).
    """
    S, V, M = classes.num_classes, classes.vocab_size, classes.num_tokens
    z = np.zeros((classes.queries.size, M))
    _, f = dense_attention(classes, z)
    u = np.zeros((S, M + classes.queries.size))
    u[:, :M], u[np.arange(S), M + classes.query_index] = f / np.sqrt(2), 1 / np.sqrt(2)
    zeta = np.full((S, V), -1 / (V - 1))
    zeta[np.arange(S), classes.next_token] = 1
    Y = u.T @ np.linalg.solve(u @ u.T, (V - 1) * h * zeta)
    scale = (V - 1) / (V - 1 + np.exp(V * h))
    g = scale * zeta @ Y.T
    g = ((g - u * (u * g).sum(axis=1, keepdims=True)) / np.sqrt(2))[:, :M]
    full = f * (g - f * (f * g).sum(axis=1, keepdims=True))
    # beta_nk = q1 E'_kn - q0 (1 - sum_{j != n} E'_kj), section 5's exact form, with E' of u.
    E_prime = residual_beta(f, classes.query)
    q1, q0 = V / (V - 1), -V / (V - 1) ** 2
    gamma = (V - 1) * h * scale
    by_beta = np.zeros_like(full)
    for n in range(S):
        for k in range(S):
            if k != n:
                beta = q1 * E_prime[k, n] - q0 * (1 - (E_prime[k].sum() - E_prime[k, n]))
                by_beta[n] -= gamma / 2 * beta * f[n] * (f[k] - f[n] * (f[n] @ f[k]))
    return full, by_beta


def _across(run: Trajectory) -> float:
    """Mean logit at the last time of the tokens shared between queries."""
    return float(run.z[-1][:, ACROSS].mean())


@claim(
    "residual",
    source="Section 7 (residual connection)",
    title="With a residual connection distinct and common become local to a query",
    statement="With decoder input LN(f_n + e_psi(n)) classes of other queries hardly act on each other: beta_nk ~ "
    "f_n.f_k + [psi(n) = psi(k)], so a token that is shared only with classes of other queries counts as distinct "
    "and gains attention, where without the residual it loses it.",
    latex=r"u_n=\frac{f_n+e_{\psi(n)}}{\|f_n+e_{\psi(n)}\|},\qquad \beta_{nk}\sim f_n^\top f_k+[\psi(n)=\psi(k)]",
    expected="conditional",
    assumptions=(
        "query tokens are not among the contextual ones, several classes per query that share a token",
        "late: in the original flow beta = 1/V for all pairs at first, and locality comes with the transition",
    ),
    findings=("F4",),
)
def residual(level: str) -> Evidence:
    V, share = 1000, 0.1
    classes = two_queries(share, share / 2, V)
    _, f = dense_attention(classes, np.zeros((2, classes.num_tokens)))
    gram = classes.gram(residual=True)
    same = classes.query[:, None] == classes.query[None, :]
    between = float(f[0] @ f[2])
    beta, plain = residual_beta(f, classes.query), np.eye(4) - np.linalg.inv(f @ f.T)
    others = ~same
    shares = share / 2.0 ** np.arange(6)
    limits = []
    for each in shares:
        _, weak = dense_attention(two_queries(each, each, V), np.zeros((2, classes.num_tokens)))
        limits.append(residual_beta(weak, classes.query)[0, 1])
    grams = np.array([float(s**2 / (np.sum(two_queries(s, s, V).P.toarray()[0] ** 2))) for s in shares])
    full, by_beta = residual_drift(classes, 5.0 / V)
    drift = {on: _relative_drift(classes, on) for on in (False, True)}
    times = log_times(1e-1, 1e6, 71)
    runs = {
        (ratio, on): whole_run(MeanField(classes, 1.0, ratio, residual=on), times, rtol=1e-9, atol=1e-14)
        for ratio in (1e-2, 1.0)
        for on in (False, True)
    }
    steps, seeds = 6000, tuple(range(4 if level == "quick" else 20))
    descents = {on: _across(sgd(classes, 1.0, 1.0, steps, None, residual=on, record=[steps])) for on in (False, True)}
    trained = {
        on: np.array([_across(r) for r in sgd(classes, 1.0, 1.0, steps, 4, residual=on, seed=seeds, record=[steps])])
        for on in (False, True)
    }
    t_of = {on: float(v.mean() / standard_error(v)) for on, v in trained.items()}
    local = max(float(run.z[-1, m, LOCAL[m]]) for run in runs.values() for m in (0, 1))
    tuned = runs[1.0, True]
    early = tuned.z[np.searchsorted(times, 1.0)][:, ACROSS].mean() / np.abs(tuned.z[np.searchsorted(times, 1.0)]).max()
    turn = float(times[np.argmax(tuned.z[:, 0, ACROSS[0]] > 0)])
    # A class that shares nothing within its query has no local push: the token falls with the residual as well.
    nothing_shared = whole_run(
        MeanField(two_queries(1e-9, share, V), 1.0, 1.0, residual=True), [1e6], rtol=1e-9, atol=1e-14
    )
    return Evidence(
        checks=[
            Check(
                "u_n.u_k against (f_n.f_k + [psi(n) = psi(k)])/2, largest difference",
                "closed form",
                float(np.abs(gram - (f @ f.T + same) / 2).max()),
                1e-14,
            ),
            Check(
                "drift by beta of the Gram matrix of u against full linear algebra, relative",
                "modified decoder",
                largest_relative(by_beta, full),
                1e-11,
            ),
            # G/2 with x -> 0: blocks (1, 1/2; 1/2, 1), whose inverse has E' = 2/3 = 2/(m+1), m = 2 classes per query.
            Check(
                "|beta_nk - 2/(m+1)| of a query's classes over f_n.f_k, m = 2, as the overlap falls: largest",
                "closed form",
                float(np.max(np.abs(np.array(limits) - 2 / 3) / grams)),
                4.0,
            ),
            Check(
                "largest |beta| between queries over that within one",
                "closed form",
                float(np.abs(beta[others]).max() / beta[0, 1]),
                2 * between,
            ),
            Check(
                "drift of the tokens shared between queries at z = 0 over the largest, with the residual",
                "modified decoder",
                drift[True],
                0.0,
                ">=",
            ),
            Check("the same without the residual (they fall)", "modified decoder", drift[False], 0.0),
            *(
                Check(
                    f"their logit at t = 1e6, eta_Z/eta_Y = {ratio:g}, with the residual",
                    "mean field",
                    _across(runs[ratio, True]),
                    0.0,
                    ">=",
                )
                for ratio in (1e-2, 1.0)
            ),
            *(
                Check(
                    f"their logit at t = 1e6, eta_Z/eta_Y = {ratio:g}, without the residual",
                    "mean field",
                    _across(runs[ratio, False]),
                    0.0,
                )
                for ratio in (1e-2, 1.0)
            ),
            Check("their logit after 6000 steps, with the residual", "descent", descents[True], 0.0, ">="),
            Check("the same without the residual", "descent", descents[False], 0.0),
            # One-sided at 1e-3 with 3 degrees of freedom.
            Check(
                f"t statistic of their logit over {len(seeds)} seeds, with the residual", "SGD", t_of[True], 10.2, ">="
            ),
            Check("the same without the residual", "SGD", t_of[False], -10.2),
            Check(
                "tokens shared within a query, largest logit at t = 1e6 (they fall with and without)",
                "mean field",
                local,
                0.0,
            ),
            Check(
                "before the transition, t = 1: their logit over the largest, with the residual",
                "mean field",
                float(early),
                0.0,
                ">=",
                role="outside",
            ),
            Check(
                "as frequent as the tokens shared within a query: their drift at z = 0 over the largest",
                "modified decoder",
                _relative_drift(two_queries(share, share, V), True),
                0.0,
                ">=",
                role="outside",
            ),
            Check(
                "nothing shared within the query: their logit at t = 1e6, with the residual",
                "mean field",
                _across(nothing_shared),
                0.0,
                ">=",
                role="outside",
            ),
            Check(
                "wrong theory: beta without the term of the query (f_n.f_k only): between over within",
                "closed form",
                float(np.abs(plain[others]).max() / plain[0, 1]),
                2 * between,
                role="control",
            ),
            Check(
                "wrong theory: beta = E' = (f_n.f_k + 1)/2 of a query's classes, |..-2/(m+1)| over f_n.f_k, smallest",
                "closed form",
                float(np.max(np.abs((grams + 1) / 2 - 2 / 3) / grams)),
                4.0,
                role="control",
            ),
            Check(
                "wrong theory: the residual changes nothing, difference of their logits at t = 1e6",
                "mean field",
                abs(_across(runs[1.0, True]) - _across(runs[1.0, False])),
                1e-6,
                role="control",
            ),
        ],
        conclusion=(
            f"beta within a query is {beta[0, 1]:.3f} (2/(m+1) for m classes as overlaps vanish, not the 1/2 of the "
            f"Gram matrix: the query's classes are strongly correlated), between queries at most "
            f"{np.abs(beta[others]).max():.3f}. Tokens shared only between queries end at "
            f"{_across(runs[1.0, True]):+.4f} with and {_across(runs[1.0, False]):+.4f} without the residual in the "
            f"mean field (t = 1e6), {trained[True].mean():+.4f} and {trained[False].mean():+.4f} under SGD. "
            f"Locality comes with the transition: until t = {turn:.0f} they fall with the residual as well, since "
            "beta = 1/V for all pairs at first (F4). And it needs a token shared within the query: under the modified "
            "flow beta_within x_within > beta_between (1 - x_between), x = f_n.f_k."
        ),
        picture=Picture(
            "t (batch-size-1 steps)",
            "logit of the tokens shared between queries",
            (
                Picture.line("with the residual", times, runs[1.0, True].z[:, 0, ACROSS[0]], "simulation"),
                Picture.line("without", times, runs[1.0, False].z[:, 0, ACROSS[0]], "control"),
            ),
        ),
        conditions=assumption_2(classes)[:2],
        maps=(_locality_map(level),),
        seeds=seeds,
    )


def _locality_map(level: str) -> Map:
    """Logit of the tokens shared between queries at t = 1e6 with the residual, over both shares; V = 1000."""
    V, count = 1000, 5 if level == "quick" else 15
    local, across = np.geomspace(0.01, 0.3, count), np.geomspace(0.005, 0.3, count)
    fall = np.empty((count, count))
    for i, a in enumerate(local):
        for j, b in enumerate(across):
            run = whole_run(MeanField(two_queries(a, b, V), 1.0, 1.0, residual=True), [1e6], rtol=1e-8, atol=1e-13)
            fall[i, j] = -_across(run) / np.abs(run.z).max()
    fine = np.geomspace(local[0], local[-1], 60)
    boundary = np.array([_balanced(float(a)) for a in fine])
    shown = (boundary >= across[0]) & (boundary <= across[-1])
    return Map(
        "Where a token shared only between queries gains attention with the residual: mean field, V = 1000, t = 1e6",
        "probability of the token shared between queries",
        "probability of the token shared within a query",
        "-(its logit)/(largest |logit|): it falls where positive",
        across,
        local,
        fall,
        0.0,
        (Picture.line("modified flow at z = 0: beta_w x_w = beta_b (1 - x_b)", boundary[shown], fine[shown]),),
        scale="linear",
    )


def _balanced(local: float) -> float:
    """Share between queries at which their token's drift at z = 0 changes sign; NaN if it does nowhere."""
    from scipy.optimize import brentq

    def drift(log_across: float) -> float:
        return _relative_drift(two_queries(local, float(np.exp(log_across)), 1000), True)

    low, high = np.log(1e-5), np.log(0.6 - local)
    return float(np.exp(brentq(drift, low, high))) if drift(low) * drift(high) < 0 else float("nan")


def _relative_drift(classes: SequenceClasses, on: bool) -> float:
    """Mean drift of tokens shared between queries over the largest |drift| at z = 0, leading beta."""
    _, f = dense_attention(classes, np.zeros((2, classes.num_tokens)))
    beta = residual_beta(f, classes.query) if on else np.eye(4) - np.linalg.inv(f @ f.T)
    drift = np.zeros_like(f)
    for n in range(4):
        for k in range(4):
            if k != n:
                drift[n] -= beta[n, k] * f[n] * (f[k] - f[n] * (f[n] @ f[k]))
    shared = [drift[n, ACROSS[n % 2]] for n in range(4)]
    return float(np.mean(shared) / np.abs(drift).max())
