"""Residual connection: whether a token is distinct or common is decided within each query."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from snapdyn.analytic import speed_coefficients
from snapdyn.validation.claims.extensions._shared import SeparateQueriesFamily, run_error, run_of
from snapdyn.validation.claims.language import (
    DESCENT,
    EPS,
    INDEPENDENT,
    INDEPENDENT_ATTENTION,
    INFINITE_LENGTH,
    LINEAR_ALGEBRA,
    MEAN_FIELD,
    OWN_NEXT_TOKENS,
    SEVERAL_CLASSES,
    SGD,
    UNIFORM,
    Claim,
    Floats,
    Grid,
    Instance,
    Map,
    Measured,
    Property,
    Requirement,
    attention_vectors,
    e_prime,
    flow,
    load,
    zeta_products,
)

# A token's drift at the start, over the largest, from which its final logit follows the drift's sign.
CLEAR_PULL = 0.3


def same_query(instance: Instance) -> Floats:
    """1 for two classes of the same query, else 0, (S, S)."""
    return (instance.query[:, None] == instance.query).astype(float)


def gram_of_inputs(instance: Instance, shared: bool = True) -> Floats:
    """Gram matrix of u_n = (f_n + e_psi(n))/sqrt(2); wrong theory without `shared`: no class shares its query."""
    return (instance.gram + (same_query(instance) if shared else np.eye(instance.num_classes))) / 2


def drift_by(gram: Floats, instance: Instance, of: Floats | float = 1.0) -> Floats:
    """z' of each class over eta_Z p_n gamma/2, -f_n o sum_{k != n} beta_nk (f_k - f_n (f_n.f_k)), (S, M).

    `of` (S, S) is 1 for the pairs (n, k) whose terms count, 0 for others.
    """
    f = attention_vectors(instance)
    beta = of * speed_coefficients(e_prime(gram - np.eye(len(gram))), instance.vocab_size)[1]
    return f * (f * (beta * instance.gram).sum(axis=1, keepdims=True) - beta @ f)


def full_residual_drift(instance: Instance) -> Floats:
    """`drift_by` by full algebra of the modified flow: Y = F_u (I-E') W, f o (I - f f^T)(I - u u^T) g/|f + e|.

    Since (I - f f^T) f = 0, what is left is Eq. (10) with beta of the Gram matrix of u and a factor 1/2.
    """
    f = attention_vectors(instance)
    u = np.hstack([f, instance.query[:, None] == np.unique(instance.query)]) / np.sqrt(2)
    g = zeta_products(len(f), float(instance.vocab_size)) @ np.linalg.solve(u @ u.T, u)
    g = (g - u * (u * g).sum(axis=1, keepdims=True))[:, : f.shape[1]] * np.sqrt(2)
    return f * (g - f * (f * g).sum(axis=1, keepdims=True))


def local_pull(instance: Instance) -> Floats:
    """Drift at the start, by classes of the own query or by all: the smaller, over the largest |drift| by all, (S, M).

    It is that of tokens that the residual connection turns round: they are shared with classes of other queries only,
    and their drift without the residual connection is negative. For others the value is -inf. The drift is that of the
    modified flow.
    """
    inputs = gram_of_inputs(instance)
    drift, without = drift_by(inputs, instance), drift_by(instance.gram, instance)
    smaller = np.minimum(drift, drift_by(inputs, instance, same_query(instance)))
    occurs = (instance.P > 0).astype(float)
    shared = (occurs > 0) & (occurs.sum(axis=0) > 1) & (same_query(instance) @ occurs == 1)
    return np.where(shared & (without < 0), smaller / max(float(np.abs(drift).max()), 1e-300), -np.inf)


def largest_pull(instance: Instance) -> float:
    return max(float(local_pull(instance).max()), -1.0)


def strength(instance: Instance) -> float:
    """|lambda_1(E)|."""
    return instance.correlation / instance.num_classes


QUERIES_APART = Requirement(
    "query tokens outside the context",
    "largest P(query token|n) = 0",
    lambda i: float(i.P[:, i.query[i.query < i.P.shape[1]]].max(initial=0.0)),
    at_most=0,
    defining=True,
)
INDEPENDENT_INPUTS = Requirement(
    "independent decoder inputs",
    f"smallest eigenvalue of the Gram matrix of f_n + e_psi(n), halved, >= {INDEPENDENT:g}",
    lambda i: float(np.linalg.eigvalsh(gram_of_inputs(i))[0]),
    at_least=INDEPENDENT,
    defining=True,
)
SMALL_OVERLAP = Requirement("small overlap", "|lambda_1(E)| <= 0.99", strength, at_most=0.99, defining=True)
MODERATE_OVERLAP = Requirement("moderate overlap", "|lambda_1(E)| <= 0.5", strength, at_most=0.5)
TURNED = Requirement(
    "a token shared only between queries, whose drift the residual connection turns round",
    "drift at the start by the modified flow, by all classes and by those of its query: >= 0, negative without",
    largest_pull,
    at_least=0,
    defining=True,
)
CLEAR = Requirement(
    "a clear pull, also by the classes of its own query",
    f"the smaller of these two drifts over the largest drift of a token >= {CLEAR_PULL:g}",
    largest_pull,
    at_least=CLEAR_PULL,
)
SLOW_ATTENTION = Requirement("slow attention", "eta_Z/eta_Y <= 0.01", lambda i: i.ratio, at_most=0.01)
LATE = Requirement(
    "after the transition",
    "eta_Y p_n t >= 100 ln V",
    lambda i: float(i.flow_rates[0] * i.t_end * i.prior.min() / np.log(max(i.vocab_size, 3))),
    at_least=100,
)


class TurnedFamily(SeparateQueriesFamily):
    """Instances with a token that is turned round, if DRAWS draws have one; two of three have a moderate overlap."""

    DRAWS = 500

    def draw(self, seed: int, number: int) -> Instance:
        wanted = (INDEPENDENT_ATTENTION, CLEAR, *((MODERATE_OVERLAP,) if number % 3 else ()))
        for k in range(self.DRAWS):
            instance = super().draw(seed, self.DRAWS * number + k)
            if all(condition.on(instance).holds for condition in wanted):
                break
        return replace(instance, number=number)


ANY_OVERLAP = SeparateQueriesFamily(
    "any overlap", "any", uniform=False, num_classes=(2, 8), num_common=(0, 4), num_queries=(1, 4),
    vocab_size=(8, 10**12),
)  # fmt: skip
TURNED_TOKENS = TurnedFamily(
    "several queries, some token turned round", "any", num_classes=(3, 6), num_common=(2, 4), num_queries=(2, 3),
    num_distinct=(0, 3), vocab_size=(40, 10**6), ratio=(1e-5, 1.0), horizon=(1e2, 1e6), eta_Y=(1e-6, 1e6),
)  # fmt: skip


def algebra_gap(instance: Instance, shared: bool = True, factor: float = 1.0) -> Measured:
    """Largest difference of the drift by beta from the full one, over what rounding of the inverses allows."""
    gap = np.abs(full_residual_drift(instance) - factor * drift_by(gram_of_inputs(instance, shared), instance)).max()
    # An inverse errs by eps times condition (at most S/lowest eigenvalue) times its own size.
    allowed = 16 * EPS * instance.num_classes**2 * max(1 / INDEPENDENT_INPUTS.measure(instance), 1.0) ** 2
    return Measured(gap / allowed, at_most=1.0)


def distance_from_limit(
    instance: Instance, shared: bool = True, limit: Callable[[Floats], Floats | float] = lambda m: 2 / (m + 1)
) -> Measured:
    """Largest |E'_nk - limit [psi(n) = psi(k)]|, n != k, over 2 lambda/(1 - lambda), lambda = |lambda_1(E)|.

    Derivation: the Gram matrix of u is A + E/2, A = (I + B)/2 with blocks B of ones. |A^-1| = 2, and
    A^-1 = 2 (I - B/(m+1)), so |(A + E/2)^-1 - A^-1| <= |A^-1|^2 |E/2|/(1 - |A^-1| |E/2|) = 2 lambda/(1 - lambda).
    """
    same, size, K = same_query(instance), strength(instance), instance.num_classes
    bound, rounding = 2 * size / (1 - size), 16 * EPS * K**2
    leading = e_prime(gram_of_inputs(instance, shared) - np.eye(K))
    largest = np.abs((leading - limit(same.sum(axis=1)) * same) * (1 - np.eye(K))).max()
    return Measured(largest / (bound + rounding), at_most=1.0)


def late_rise(instance: Instance, residual: bool = True) -> Measured:
    """Smallest rise of a logit from t_end/10 on, over the largest |z|, of tokens with a clear `local_pull`.

    Before the transition such a token may fall, since beta is the same for all pairs at first. Where no pull is clear,
    the token is that of the largest.
    """
    run, pull = flow(instance, MEAN_FIELD, residual=residual), local_pull(instance)
    classes, token = np.nonzero(pull >= min(CLEAR_PULL, pull.max()))
    tenth = min(int(np.searchsorted(run.t, 0.1 * instance.t_end)), run.t.size - 2)
    moved = (run.z[-1] - run.z[tenth])[instance.classes.query_index[classes], token].min()
    largest = max(float(np.abs(run.z).max()), 1e-300)
    return Measured(moved / largest, at_least=0.0, error=run_error(instance, 1.0))


def two_queries(local: float = 0.1, across: float = 0.05, end: float = 1e6) -> Instance:
    """Two queries with two classes each, V = 1000, eta_Y = eta_Z = 1.

    Tokens 0 and 1, of probability `local`, are shared within a query, tokens 2 and 3, of probability `across`, between
    the queries. Each class has three distinct tokens.
    """
    pair, own = np.eye(2), np.kron(np.eye(4), np.linspace(0.5, 1, 3) / 2.25)
    P = np.hstack([local * np.repeat(pair, 2, axis=0), across * np.tile(pair, (2, 1)), (1 - local - across) * own])
    return Instance(P, np.array([16, 16, 17, 17]), np.ones(4), 1000, 1.0, 1.0, end)


def between(instance: Instance, rung: str, residual: bool = True, **options: Any) -> float:
    """Final mean logit of the tokens shared between queries in `two_queries`, over the largest |logit|."""
    z = run_of(instance, rung, residual=residual, **options).z
    return z[-1, :, 2:4].mean() / np.abs(z).max()


def final_between(setting: dict[str, Any], residual: bool = True) -> Measured:
    """`between` of a setting; it varies little between seeds of SGD."""
    return Measured(between(two_queries(end=6000), residual=residual, **setting), at_least=0.0)


def locality_map(level: str) -> Map:
    """Minus the logit of tokens shared between queries at t = 1e6 over the largest |logit|, over both probabilities."""
    count = 15 if level == "full" else 5
    local, across = np.geomspace(0.01, 0.3, count), np.geomspace(0.005, 0.3, count)
    grid = Grid({"local": local, "across": across}, two_queries, lambda instance: -between(instance, MEAN_FIELD))
    return Map.over(
        "Where a token shared only between queries gains attention with the residual: mean field, V = 1000, t = 1e6",
        ("probability of the token shared between queries", "probability of the token shared within a query"),
        "-(its logit)/(largest |logit|)", grid, 0.0, scale="linear",
    )  # fmt: skip


CLAIM = Claim(
    "residual",
    source="Section 7 (residual connection)",
    title="With a residual connection, a token is distinct or common within each query alone",
    statement=(
        "With decoder input LN(f_n + e_psi(n)) classes of different queries hardly act on each other: beta_nk tends "
        "to 2/(m+1) for the m classes of one query and to 0 between queries, with an error of at most 2 "
        "lambda/(1-lambda), lambda = |lambda_1(E)|. So a token that is shared only with classes of other queries "
        "counts as distinct, and after the transition gains attention, where its drift at the start by the classes of "
        "its own query, and by all, is clearly positive, although its drift without the residual is negative."
    ),
    latex=r"u_n=\frac{f_n+e_{\psi(n)}}{\|f_n+e_{\psi(n)}\|},\qquad u_n^\top u_k=\frac{f_n^\top f_k+"
    r"[\psi(n)=\psi(k)]}{2},\qquad \left|\beta_{nk}-\frac{2[\psi(n)=\psi(k)]}{m+1}\right|\le\frac{2\lambda}{1-\lambda}",
    conditions=(
        "each query has several classes, which share a token",
        "late, with clearly positive drifts at the start, moderate overlaps and slow attention: measured, not derived",
    ),
    conclusion=(
        "Holds late, for tokens that their own query clearly pulls up: they rise from a tenth of the time on. A token "
        "that only classes of other queries pull up may fall. Before the transition tokens may fall, as without the "
        "residual. With two queries of two classes "
        "the logit of tokens that the queries share is {two queries of two classes, t = 1:+.0%} of the largest logit "
        "at t = 1, since beta = 1/V for all pairs at first (F4). At the "
        "end this logit is {mean field:+.0%} of the largest in the mean field, and {SGD:+.0%} in SGD."
    ),
    expected="conditional",
    properties=(
        Property(
            "|drift by beta of the Gram matrix of u - full linear algebra| over what rounding allows",
            LINEAR_ALGEBRA,
            algebra_gap,
            ANY_OVERLAP,
            conditions=(SEVERAL_CLASSES, OWN_NEXT_TOKENS, QUERIES_APART, INDEPENDENT_INPUTS),
            controls={
                "wrong theory: beta without the term of the query": partial(algebra_gap, shared=False),
                "wrong theory: no factor 1/2 of the norm of f + e": partial(algebra_gap, factor=2.0),
            },
            directed=False,
        ),
        Property(
            "|beta_nk - 2/(m+1) [one query of m classes]| over 2 lambda/(1-lambda), lambda = |lambda_1(E)|",
            LINEAR_ALGEBRA,
            distance_from_limit,
            ANY_OVERLAP,
            conditions=(SEVERAL_CLASSES, QUERIES_APART, INDEPENDENT_INPUTS, SMALL_OVERLAP),
            controls={
                "wrong theory: 1/2, the overlap, for one query": partial(distance_from_limit, limit=lambda m: 0.5),
                "wrong theory: beta without the term of the query": partial(distance_from_limit, shared=False),
            },
            evaluations=(300, 10_000),
        ),
        Property(
            "rise over the last decade of the logit of tokens shared only between queries, over the largest logit",
            "mean field",
            late_rise,
            TURNED_TOKENS,
            conditions=(
                SEVERAL_CLASSES, OWN_NEXT_TOKENS, QUERIES_APART, INDEPENDENT_ATTENTION, TURNED, CLEAR, MODERATE_OVERLAP,
                SLOW_ATTENTION, LATE, UNIFORM, INFINITE_LENGTH,
            ),
            controls={"wrong theory: the residual changes nothing": partial(late_rise, residual=False)},
            evaluations=(20, 1000),
            beyond={
                "two queries of two classes, t = 1": two_queries(end=1.0),
                "pulled up by other queries": load("residual-other-queries").instance,
            },
        ),
        Property(
            "two queries of two classes, t = 6000: logit of the tokens shared between queries over the largest",
            "flow and training",
            final_between,
            controls={"wrong theory: the residual changes nothing": partial(final_between, residual=False)},
            cases={
                "mean field": {"rung": MEAN_FIELD},
                "descent": {"rung": DESCENT},
                "SGD": {"rung": SGD, "batch_size": 4},
            },
        ),
    ),
    findings=("F4",),
    map=locality_map,
)  # fmt: skip
