"""Residual connection: distinct and common tokens become local to a query."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from snapdyn.dynamics.classes import Floats, Ints
from snapdyn.validation.claims.extensions._residual_families import (
    CLEAR,
    CLEAR_PULL,
    MODERATE_OVERLAP,
    SeparateQueriesFamily,
    TurnedFamily,
    largest_pull,
    local_pull,
    strength,
)
from snapdyn.validation.claims.extensions._residual_settings import two_queries_of_two_classes
from snapdyn.validation.claims.extensions._shared import (
    attention_vectors,
    drift_by_beta,
    exact_beta,
    full_residual_drift,
    plain_beta,
    residual_beta,
    run_error,
    same_query,
)
from snapdyn.validation.dense_algebra import EPS, LINEAR_ALGEBRA
from snapdyn.validation.evidence import Evidence
from snapdyn.validation.properties import Measured, Property, Requirement
from snapdyn.validation.register import claim
from snapdyn.validation.requirements import (
    INDEPENDENT,
    INDEPENDENT_ATTENTION,
    INFINITE_LENGTH,
    OWN_NEXT_TOKENS,
    SEVERAL_CLASSES,
    UNIFORM,
)
from snapdyn.validation.rungs.run import MEAN_FIELD
from snapdyn.validation.search import Instance, flow

Beta = Callable[[Floats, Ints], Floats]


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
SMALL_OVERLAP = Requirement(
    "small overlap", "|lambda_1(E)| <= 0.99", lambda i: strength(attention_vectors(i)), at_most=0.99, defining=True
)
TURNED = Requirement(
    "a token shared only between queries that the residual connection turns round",
    "its drift at the start by the modified flow: negative without, not negative with it",
    largest_pull,
    at_least=0,
    defining=True,
)
SLOW_ATTENTION = Requirement("slow attention", "eta_Z/eta_Y <= 0.01", lambda i: i.ratio, at_most=0.01)
LATE = Requirement(
    "after the transition",
    "eta_Y p_n t >= 100 ln V",
    lambda i: float(i.flow_rates[0] * i.t_end * i.prior.min() / np.log(max(i.vocab_size, 3))),
    at_least=100,
)


def algebra_gap(beta_of: Beta, factor: float = 1.0) -> Callable[[Instance], Measured | None]:
    """Largest difference of the drift by beta from the full one, over what rounding of the inverses allows."""

    def measure(instance: Instance) -> Measured | None:
        f, query = attention_vectors(instance), instance.query
        full = full_residual_drift(f, query, instance.vocab_size)
        by_beta = factor * drift_by_beta(f, exact_beta(beta_of(f, query), instance.vocab_size))
        inverse = 1 / np.linalg.eigvalsh((f @ f.T + same_query(query)) / 2)[0]
        # An inverse errs by eps times condition (at most S/lowest eigenvalue) times its own size.
        allowed = 16 * EPS * len(f) ** 2 * max(inverse, 1.0) ** 2
        return Measured(float(np.abs(full - by_beta).max()) / allowed, at_most=1.0)

    return measure


def distance_from_limit(limit: Callable[[Floats], Floats], beta_of: Beta = residual_beta) -> Callable[
    [Instance], Measured | None
]:  # fmt: skip
    """Largest |E'_nk - limit [psi(n) = psi(k)]|, n != k, over 2 lambda/(1 - lambda), lambda = |lambda_1(E)|.

    Derivation: the Gram matrix of u is A + E/2, A = (I + B)/2 with blocks B of ones. |A^-1| = 2, and
    A^-1 = 2 (I - B/(m+1)), so |(A + E/2)^-1 - A^-1| <= |A^-1|^2 |E/2|/(1 - |A^-1| |E/2|) = 2 lambda/(1 - lambda).
    """

    def measure(instance: Instance) -> Measured | None:
        f = attention_vectors(instance)
        same = same_query(instance.query)
        others = 1 - np.eye(len(f))
        size = strength(f)
        bound = 2 * size / (1 - size)
        rounding = 16 * EPS * len(f) ** 2
        distance = np.abs((beta_of(f, instance.query) - limit(same.sum(axis=1)) * same) * others).max()
        if bound < 1e4 * rounding:  # no overlap: both sides are rounding
            return Measured(float(distance) / rounding, at_most=1.0)
        return Measured(float(distance) / bound, at_most=1.0, error=rounding / bound)

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


ANY_OVERLAP = SeparateQueriesFamily(
    "any overlap", "any", uniform=False, num_classes=(2, 8), num_common=(0, 4), num_queries=(1, 4),
    vocab_size=(8, 10**12),
)  # fmt: skip
PROPERTIES = (
    Property(
        "|drift by beta of the Gram matrix of u - full linear algebra| over what rounding allows",
        LINEAR_ALGEBRA,
        algebra_gap(residual_beta),
        ANY_OVERLAP,
        conditions=(SEVERAL_CLASSES, OWN_NEXT_TOKENS, QUERIES_APART, INDEPENDENT_INPUTS),
        controls={
            "wrong theory: beta without the term of the query": algebra_gap(plain_beta),
            "wrong theory: no factor 1/2 of the norm of f + e": algebra_gap(residual_beta, 2.0),
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
            "wrong theory: beta without the term of the query": distance_from_limit(lambda m: 2 / (m + 1), plain_beta),
        },
        evaluations=(300, 10_000),
    ),
    Property(
        "logit of tokens shared only between queries with the residual, over the largest",
        "mean field",
        final_logit(True),
        TurnedFamily(
            "several queries, some token turned round",
            "any",
            num_classes=(3, 6),
            num_common=(2, 4),
            num_queries=(2, 3),
            num_distinct=(0, 3),
            vocab_size=(40, 10**6),
            ratio=(1e-5, 1.0),
            horizon=(1e2, 1e6),
            eta_Y=(1e-6, 1e6),
        ),
        conditions=(
            SEVERAL_CLASSES,
            OWN_NEXT_TOKENS,
            QUERIES_APART,
            INDEPENDENT_ATTENTION,
            TURNED,
            CLEAR,
            MODERATE_OVERLAP,
            SLOW_ATTENTION,
            LATE,
            UNIFORM,
            INFINITE_LENGTH,
        ),
        controls={"wrong theory: the residual changes nothing": final_logit(False)},
        evaluations=(60, 2000),
    ),
)


@claim(
    "residual",
    source="Section 7 (residual connection)",
    title="With a residual connection distinct and common become local to a query",
    answer="Holds from the transition on, for tokens whose own query pulls clearly; before it they fall as without "
    "the residual.",
    statement="With decoder input LN(f_n + e_psi(n)) classes of other queries hardly act on each other: as overlaps "
    "vanish beta_nk is 2/(m+1) for the m classes of one query and 0 between queries, to 2 lambda/(1-lambda), lambda = "
    "|lambda_1(E)|. So a token that is shared only with classes of other queries counts as distinct and gains "
    "attention where the pull of its own query is clear, though its drift without the residual is negative.",
    latex=r"u_n=\frac{f_n+e_{\psi(n)}}{\|f_n+e_{\psi(n)}\|},\qquad u_n^\top u_k=\frac{f_n^\top f_k+"
    r"[\psi(n)=\psi(k)]}{2},\qquad \left|\beta_{nk}-\frac{2[\psi(n)=\psi(k)]}{m+1}\right|\le\frac{2\lambda}{1-\lambda}",
    expected="conditional",
    assumptions=(
        "query tokens are not among the contextual ones, several classes per query that share a token",
        "late: in the original flow beta = 1/V for all pairs at first, and locality comes with the transition",
        f"the pull at the start, by the modified flow, is at least {CLEAR_PULL:g} of the largest drift, |lambda_1(E)| "
        "<= 0.5, eta_Z/eta_Y <= 0.01, equal priors: measured, not derived",
    ),
    findings=("F4",),
    properties=PROPERTIES,
)
def residual(evidence: Evidence) -> None:
    two_queries_of_two_classes(evidence)
