"""Residual connection: distinct and common tokens become local to a query."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from snapdyn.analytic import speed_coefficients
from snapdyn.dynamics import SequenceClasses, Trajectory, log_times
from snapdyn.dynamics.classes import Floats, Ints
from snapdyn.validation.claims.extensions._shared import run_error
from snapdyn.validation.dense_algebra import EPS, LINEAR_ALGEBRA
from snapdyn.validation.measured import Measured
from snapdyn.validation.pictures import Map, Picture
from snapdyn.validation.properties import Property, Requirement
from snapdyn.validation.register import Claim
from snapdyn.validation.requirements import (
    INDEPENDENT,
    INDEPENDENT_ATTENTION,
    INFINITE_LENGTH,
    OWN_NEXT_TOKENS,
    SEVERAL_CLASSES,
    UNIFORM,
)
from snapdyn.validation.rungs.run import DESCENT, MEAN_FIELD, SGD, run_on_rung
from snapdyn.validation.search import Family, Instance, flow

# A token's drift at the start, over the largest, from which its final logit follows the drift's sign.
CLEAR_PULL = 0.3

# Gram matrix (S, S) that a theory gives the decoder inputs of attention vectors f (S, M) with queries (S,).
Gram = Callable[[Floats, Ints], Floats]


def attention_vectors(instance: Instance) -> Floats:
    """Unit vectors f_n at the start (S, M), by plain linear algebra."""
    weights = instance.P
    if instance.start is not None:
        weights = weights * np.exp(instance.start[instance.classes.query_index])
    return np.asarray(weights / np.linalg.norm(weights, axis=1, keepdims=True))


def same_query(query: Ints) -> Floats:
    """1 for classes of one query, else 0, (S, S)."""
    return np.asarray((query[:, None] == query).astype(float))


def with_residual(f: Floats, query: Ints) -> Floats:
    """Gram matrix of u_n = (f_n + e_psi(n))/sqrt(2) where query tokens are not attended."""
    return (f @ f.T + same_query(query)) / 2


def without_query_term(f: Floats, query: Ints) -> Floats:
    """Wrong theory: only a class with itself shares a query."""
    return (f @ f.T + np.eye(len(f))) / 2


def inverse_overlaps(gram: Floats) -> Floats:
    """E' = I - gram^-1: beta to leading order."""
    return np.asarray(np.eye(len(gram)) - np.linalg.inv(gram))


def drift_of(f: Floats, gram: Floats, vocab_size: int) -> Floats:
    """z' of each class over eta_Z p_n gamma/2, -f_n o sum_{k != n} beta_nk (f_k - f_n (f_n.f_k)), (S, M)."""
    _, beta = speed_coefficients(inverse_overlaps(gram), vocab_size)
    return f * (f * (beta * (f @ f.T)).sum(axis=1, keepdims=True) - beta @ f)


def full_residual_drift(f: Floats, query: Ints, vocab_size: int) -> Floats:
    """The same by full algebra of the modified flow: Y = F_u (I-E') W, f o (I - f f^T)(I - u u^T) g/|f + e|.

    u is over token and query rows. Since (I - f f^T) f = 0, u_n's own terms drop out of the result, and what is left is
    Eq. (10) with beta of the Gram matrix of u and a factor 1/2.
    """
    S, M = f.shape
    V = float(vocab_size)
    index = np.unique(query, return_inverse=True)[1]
    u = np.zeros((S, M + index.max() + 1))
    u[:, :M], u[np.arange(S), M + index] = f / np.sqrt(2), 1 / np.sqrt(2)
    # zeta_n . zeta_k; the factor gamma = (V-1)^2 h/(V-1+exp(V h)) of all terms is left out.
    products = np.where(np.eye(S) == 1, V / (V - 1), -V / (V - 1) ** 2)
    g = products @ np.linalg.solve(u @ u.T, u)
    g = (g - u * (u * g).sum(axis=1, keepdims=True))[:, :M] * np.sqrt(2)
    return np.asarray(f * (g - f * (f * g).sum(axis=1, keepdims=True)))


def local_pull(instance: Instance) -> Floats:
    """Drift at the start over the largest |drift|, (S, M), of tokens that the residual connection turns round.

    By the modified flow with the residual connection. -inf for all tokens but those that are shared only with classes
    of other queries and whose drift without the residual connection is negative.
    """
    f, query, V = attention_vectors(instance), instance.query, instance.vocab_size
    drift, without = drift_of(f, with_residual(f, query), V), drift_of(f, f @ f.T, V)
    occurs = (instance.P > 0).astype(float)
    shared = (occurs > 0) & (occurs.sum(axis=0) > 1) & (same_query(query) @ occurs == 1)
    return np.where(shared & (without < 0), drift / max(float(np.abs(drift).max()), 1e-300), -np.inf)


def largest_pull(instance: Instance) -> float:
    return max(float(local_pull(instance).max()), -1.0)


def strength(instance: Instance) -> float:
    """|lambda_1(E)|."""
    return instance.correlation / instance.num_classes


def _attended_queries(instance: Instance) -> float:
    attended = instance.P.max(axis=0)
    queries = np.unique(instance.query)
    return float(attended[queries[queries < attended.size]].max(initial=0.0))


QUERIES_APART = Requirement(
    "query tokens outside the context", "largest P(query token|n) = 0", _attended_queries, at_most=0, defining=True
)
INDEPENDENT_INPUTS = Requirement(
    "independent decoder inputs",
    f"smallest eigenvalue of the Gram matrix of f_n + e_psi(n), halved, >= {INDEPENDENT:g}",
    lambda i: float(np.linalg.eigvalsh((i.gram + same_query(i.query)) / 2)[0]),
    at_least=INDEPENDENT,
    defining=True,
)
SMALL_OVERLAP = Requirement("small overlap", "|lambda_1(E)| <= 0.99", strength, at_most=0.99, defining=True)
MODERATE_OVERLAP = Requirement("moderate overlap", "|lambda_1(E)| <= 0.5", strength, at_most=0.5)
TURNED = Requirement(
    "a token shared only between queries that the residual connection turns round",
    "its drift at the start by the modified flow: negative without, not negative with it",
    largest_pull,
    at_least=0,
    defining=True,
)
CLEAR = Requirement(
    "a clear pull of the own query",
    f"drift of such a token at the start, by the modified flow with the residual, over the largest >= {CLEAR_PULL:g}",
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


@dataclass(frozen=True)
class SeparateQueriesFamily(Family):
    """A family whose query tokens are not among the contextual tokens."""

    def __str__(self) -> str:
        return f"{super().__str__()}, query tokens outside the context"

    def draw(self, seed: int, number: int) -> Instance:
        """Instance `number` of the sequence of draws with root `seed`."""
        instance = super().draw(seed, number)
        return replace(instance, query=instance.query + instance.P.shape[1])


class TurnedFamily(SeparateQueriesFamily):
    """Instances with a token that the residual connection turns round, as far as DRAWS draws give one.

    Two of three have a moderate overlap, which is rare otherwise.
    """

    DRAWS = 500

    def draw(self, seed: int, number: int) -> Instance:
        """Instance `number` of the sequence of draws with root `seed`."""
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


def algebra_gap(gram_of: Gram, factor: float = 1.0) -> Callable[[Instance], Measured]:
    """Largest difference of the drift by beta from the full one, over what rounding of the inverses allows."""

    def measure(instance: Instance) -> Measured:
        f, query, V = attention_vectors(instance), instance.query, instance.vocab_size
        gap = np.abs(full_residual_drift(f, query, V) - factor * drift_of(f, gram_of(f, query), V)).max()
        inverse = 1 / np.linalg.eigvalsh(with_residual(f, query))[0]
        # An inverse errs by eps times condition (at most S/lowest eigenvalue) times its own size.
        allowed = 16 * EPS * len(f) ** 2 * max(inverse, 1.0) ** 2
        return Measured(float(gap) / allowed, at_most=1.0)

    return measure


def distance_from_limit(
    limit: Callable[[Floats], Floats], gram_of: Gram = with_residual
) -> Callable[[Instance], Measured]:
    """Largest |E'_nk - limit [psi(n) = psi(k)]|, n != k, over 2 lambda/(1 - lambda), lambda = |lambda_1(E)|.

    Derivation: the Gram matrix of u is A + E/2, A = (I + B)/2 with blocks B of ones. |A^-1| = 2, and
    A^-1 = 2 (I - B/(m+1)), so |(A + E/2)^-1 - A^-1| <= |A^-1|^2 |E/2|/(1 - |A^-1| |E/2|) = 2 lambda/(1 - lambda).
    """

    def measure(instance: Instance) -> Measured:
        f, same = attention_vectors(instance), same_query(instance.query)
        bound = 2 * strength(instance) / (1 - strength(instance))
        rounding = 16 * EPS * len(f) ** 2
        distance = inverse_overlaps(gram_of(f, instance.query)) - limit(same.sum(axis=1)) * same
        largest = float(np.abs(distance * (1 - np.eye(len(f)))).max())
        if bound < 1e4 * rounding:  # no overlap: both sides are rounding
            return Measured(largest / rounding, at_most=1.0)
        return Measured(largest / bound, at_most=1.0, error=rounding / bound)

    return measure


def final_logit(residual: bool) -> Callable[[Instance], Measured | None]:
    """Smallest change of the logit, over the largest |z|, of tokens that the residual connection turns round.

    With a clear pull, if there are such tokens, else with the largest.
    """

    def measure(instance: Instance) -> Measured | None:
        run = flow(instance, MEAN_FIELD, residual=residual)
        if run is None:
            return None
        pull = local_pull(instance)
        classes, token = np.nonzero(pull >= min(CLEAR_PULL, pull.max()))
        query = instance.classes.query_index[classes]
        moved = (run.z[-1] - run.z_initial)[query, token]
        least = int(np.argmin(moved))
        largest = max(float(np.abs(run.z).max()), 1e-300)
        where = f"token {token[least]} of class {classes[least]} at t = {run.t[-1]:.3g}"
        return Measured(moved[least] / largest, at_least=0.0, error=run_error(instance, 1.0), where=where)

    return measure


def two_queries(local: float, across: float) -> SequenceClasses:
    """Two queries with two classes each, V = 1000.

    Tokens 0 and 1, of probability `local`, are shared by the classes of query 0 and of query 1; tokens 2 and 3, of
    probability `across`, by classes 0 and 2 and by classes 1 and 3. Each class has three distinct tokens.
    """
    pair, own = np.eye(2), np.kron(np.eye(4), np.linspace(0.5, 1, 3) / 2.25)
    P = np.hstack([local * np.repeat(pair, 2, axis=0), across * np.tile(pair, (2, 1)), (1 - local - across) * own])
    return SequenceClasses(P, [16, 16, 17, 17], vocab_size=1000)


CLASSES = two_queries(0.1, 0.05)
MEAN: dict[str, Any] = {"rung": MEAN_FIELD, "times": [1e6], "rtol": 1e-9, "atol": 1e-14}


def run_with(residual: bool, classes: SequenceClasses = CLASSES, **setting: Any) -> Trajectory:
    """Run or train two queries of two classes at eta_Y = eta_Z = 1, with or without the residual connection."""
    return run_on_rung(classes=classes, eta_Y=1.0, eta_Z=1.0, residual=residual, **setting)


def between(run: Trajectory) -> Floats:
    """Mean logit (N,) of the tokens shared between queries of `two_queries`."""
    return np.asarray(run.z[:, :, 2:4].mean(axis=(1, 2)))


def final_between(residual: bool) -> Callable[[Mapping[str, Any]], Measured]:
    """Their logit at the end of a setting; over seeds of SGD it scatters by 1e-6."""
    return lambda setting: Measured(between(run_with(residual, **setting))[-1], at_least=0.0)


def picture() -> Picture:
    times = log_times(1e-1, 1e6, 71)
    lines = [
        Picture.line(label, times, between(run_with(on, **MEAN | {"times": times})), kind)
        for label, on, kind in (("with the residual", True, "simulation"), ("without", False, "control"))
    ]
    return Picture("t (batch-size-1 steps)", "logit of the tokens shared between queries", tuple(lines))


def locality_map(level: str) -> Map:
    """Logit of the tokens shared between queries at t = 1e6 with the residual, over both shares."""
    count = 15 if level == "full" else 5
    local, across = np.geomspace(0.01, 0.3, count), np.geomspace(0.005, 0.3, count)
    fall = np.empty((count, count))
    for i, j in np.ndindex(fall.shape):
        run = run_with(True, two_queries(local[i], across[j]), **MEAN)
        fall[i, j] = -between(run)[-1] / np.abs(run.z).max()
    return Map(
        "Where a token shared only between queries gains attention with the residual: mean field, V = 1000, t = 1e6",
        "probability of the token shared between queries",
        "probability of the token shared within a query",
        "-(its logit)/(largest |logit|): it falls where positive",
        across,
        local,
        fall,
        0.0,
        scale="linear",
    )


CLAIM = Claim(
    "residual",
    source="Section 7 (residual connection)",
    title="With a residual connection distinct and common become local to a query",
    statement="With decoder input LN(f_n + e_psi(n)) classes of other queries hardly act on each other: as overlaps "
    "vanish beta_nk is 2/(m+1) for the m classes of one query and 0 between queries, to 2 lambda/(1-lambda), lambda = "
    "|lambda_1(E)|. So a token that is shared only with classes of other queries counts as distinct and gains "
    "attention where the pull of its own query is clear, though its drift without the residual is negative.",
    latex=r"u_n=\frac{f_n+e_{\psi(n)}}{\|f_n+e_{\psi(n)}\|},\qquad u_n^\top u_k=\frac{f_n^\top f_k+"
    r"[\psi(n)=\psi(k)]}{2},\qquad \left|\beta_{nk}-\frac{2[\psi(n)=\psi(k)]}{m+1}\right|\le\frac{2\lambda}{1-\lambda}",
    conditions=(
        "query tokens are not among the contextual ones, several classes per query that share a token",
        "late: in the original flow beta = 1/V for all pairs at first, and locality comes with the transition",
        f"the pull at the start, by the modified flow, is at least {CLEAR_PULL:g} of the largest drift, |lambda_1(E)| "
        "<= 0.5, eta_Z/eta_Y <= 0.01, equal priors: measured, not derived",
    ),
    conclusion="Holds from the transition on, for tokens whose own query pulls clearly; before it they fall as without "
    "the residual. The limit 2/(m+1) is not the 1/2 of the Gram matrix: the classes of a query are strongly "
    "correlated. Two queries of two classes: tokens shared between the queries end at {mean field:+.4f} with the "
    "residual, at {SGD:+.4f} by SGD. Locality comes with the transition: at t = 1 they stand at {two queries of two classes, t = 1:.0%} of the largest logit, since "
    "beta = 1/V for all pairs at first (F4). It needs a token shared within the query.",
    expected="conditional",
    properties=(
        Property(
            "|drift by beta of the Gram matrix of u - full linear algebra| over what rounding allows",
            LINEAR_ALGEBRA,
            algebra_gap(with_residual),
            ANY_OVERLAP,
            conditions=(SEVERAL_CLASSES, OWN_NEXT_TOKENS, QUERIES_APART, INDEPENDENT_INPUTS),
            controls={
                "wrong theory: beta without the term of the query": algebra_gap(without_query_term),
                "wrong theory: no factor 1/2 of the norm of f + e": algebra_gap(with_residual, 2.0),
            },
            evaluations=(200, 10_000),
            directed=False,
        ),
        Property(
            "|beta_nk - 2/(m+1) [one query of m classes]| over 2 lambda/(1-lambda), lambda = |lambda_1(E)|",
            LINEAR_ALGEBRA,
            distance_from_limit(lambda m: 2 / (m + 1)),
            ANY_OVERLAP,
            conditions=(SEVERAL_CLASSES, QUERIES_APART, INDEPENDENT_INPUTS, SMALL_OVERLAP),
            controls={
                "wrong theory: the Gram matrix's 1/2 for classes of one query": distance_from_limit(lambda m: 0 * m + 0.5),
                "wrong theory: beta without the term of the query": distance_from_limit(
                    lambda m: 2 / (m + 1), without_query_term
                ),
            },
            evaluations=(300, 10_000),
        ),
        Property(
            "logit of tokens shared only between queries with the residual, over the largest",
            "mean field",
            final_logit(True),
            TURNED_TOKENS,
            conditions=(
                SEVERAL_CLASSES, OWN_NEXT_TOKENS, QUERIES_APART, INDEPENDENT_ATTENTION, TURNED, CLEAR, MODERATE_OVERLAP,
                SLOW_ATTENTION, LATE, UNIFORM, INFINITE_LENGTH,
            ),
            controls={"wrong theory: the residual changes nothing": final_logit(False)},
            evaluations=(60, 2000),
            beyond={"two queries of two classes, t = 1": Instance.of(CLASSES, 1.0, 1.0, 1.0)},
        ),
        Property(
            "two queries of two classes: logit of the tokens shared between queries",
            "flow and training",
            final_between(True),
            controls={"wrong theory: the residual changes nothing": final_between(False)},
            cases={
                "mean field": MEAN,
                "descent": {"rung": DESCENT, "times": [6000]},
                "SGD": {"rung": SGD, "times": [6000], "batch_size": 4},
            },
        ),
    ),
    findings=("F4",),
    picture=picture,
    map=locality_map,
)  # fmt: skip
