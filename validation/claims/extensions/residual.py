"""Residual connection: distinct and common tokens become local to a query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from snapdyn.dynamics import MeanField, Trajectory, log_times, sgd, whole_run
from snapdyn.dynamics.classes import Floats, Ints
from snapdyn.validation.assumptions import assumption_2
from snapdyn.validation.claims.extensions._shared import (
    ACROSS,
    LOCAL,
    SeparateQueriesFamily,
    across_drift,
    attention_vectors,
    balanced_share,
    drift_by_beta,
    exact_beta,
    full_residual_drift,
    residual_beta,
    run_error,
    same_query,
    two_queries,
)
from snapdyn.validation.dense_algebra import EPS, LINEAR_ALGEBRA
from snapdyn.validation.evidence import Evidence
from snapdyn.validation.pictures import Map, Picture
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
from snapdyn.validation.search import Instance, flow
from snapdyn.validation.statistics import DECISIVE, fit_order, standard_error

# A token's drift at the start, over the largest, from which its final logit follows the drift's sign.
CLEAR_PULL = 0.3
Beta = Callable[[Floats, Ints], Floats]


def _attended_queries(instance: Instance) -> float:
    attended = instance.P.max(axis=0)
    queries = np.unique(instance.query)
    return float(attended[queries[queries < attended.size]].max(initial=0.0))


def _strength(f: Floats) -> float:
    """|lambda_1(E)|."""
    return float(np.abs(np.linalg.eigvalsh(f @ f.T - np.eye(len(f)))).max())


def local_pull(instance: Instance) -> Floats:
    """Drift at the start over the largest |drift|, (S, M), of tokens that the residual connection turns round.

    By the modified flow with the residual connection. -inf for all tokens but those that are shared only with classes
    of other queries and whose drift without the residual connection is negative.
    """
    f, query = attention_vectors(instance), instance.query
    drift = drift_by_beta(f, exact_beta(residual_beta(f, query), instance.vocab_size))
    without = drift_by_beta(f, exact_beta(np.eye(len(f)) - np.linalg.inv(f @ f.T), instance.vocab_size))
    occurs = (instance.P > 0).astype(float)
    shared = (occurs > 0) & (occurs.sum(axis=0) > 1) & (same_query(query) @ occurs == 1)
    return np.where(shared & (without < 0), drift / max(float(np.abs(drift).max()), 1e-300), -np.inf)


def _largest_pull(instance: Instance) -> float:
    return max(float(local_pull(instance).max()), -1.0)


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
    "small overlap", "|lambda_1(E)| <= 0.99", lambda i: _strength(attention_vectors(i)), at_most=0.99, defining=True
)
TURNED = Requirement(
    "a token shared only between queries that the residual connection turns round",
    "its drift at the start by the modified flow: negative without, not negative with it",
    _largest_pull,
    at_least=0,
    defining=True,
)
CLEAR = Requirement(
    "a clear pull of the own query",
    f"drift of such a token at the start, by the modified flow with the residual, over the largest >= {CLEAR_PULL:g}",
    _largest_pull,
    at_least=CLEAR_PULL,
)
MODERATE_OVERLAP = Requirement(
    "moderate overlap", "|lambda_1(E)| <= 0.5", lambda i: _strength(attention_vectors(i)), at_most=0.5
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


def plain_beta(f: Floats, query: Ints) -> Floats:
    """E' of the decoder inputs without the term of the query, f_n.f_k/2 for n != k."""
    return np.asarray(np.eye(len(f)) - np.linalg.inv((f @ f.T + np.eye(len(f))) / 2))


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
        size = _strength(f)
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
        run = flow(instance, MeanField, residual=residual)
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
            if all(condition.on(instance).satisfied for condition in wanted):
                break
        return replace(instance, number=number)


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


def _across(run: Trajectory) -> float:
    """Mean logit at the last time of the tokens shared between queries of `two_queries`."""
    return float(run.z[-1][:, ACROSS].mean())


@claim(
    "residual",
    source="Section 7 (residual connection)",
    title="With a residual connection distinct and common become local to a query",
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
    V, share = 1000, 0.1
    classes = two_queries(share, share / 2, V)
    P = classes.P.toarray()
    f = P / np.linalg.norm(P, axis=1, keepdims=True)
    same = same_query(classes.query)
    gram = np.abs(classes.gram(residual=True) - (f @ f.T + same) / 2).max()
    evidence.holds(
        "u_n.u_k against (f_n.f_k + [psi(n) = psi(k)])/2, largest difference", "closed form", gram, at_most=1e-14
    )
    beta, plain = residual_beta(f, classes.query), plain_beta(f, classes.query)
    limits_order(evidence)
    between = f"two queries of two classes, overlap {f[0] @ f[2]:.2g} between: largest |beta| between over within"
    evidence.holds(between, "closed form", np.abs(beta[same == 0]).max() / beta[0, 1], at_most=2 * f[0] @ f[2])
    name = "wrong theory: beta without the term of the query: the same"
    evidence.control(name, "closed form", np.abs(plain[same == 0]).max() / plain[0, 1], at_most=2 * f[0] @ f[2])
    runs, times = on_and_off(evidence, V, share)
    trained = descents(evidence, V, share)
    tuned = runs[1.0, True]
    turn = float(times[np.argmax(tuned.z[:, 0, ACROSS[0]] > 0)])
    evidence.conclusion = (
        f"beta within a query is {beta[0, 1]:.3f} (2/(m+1) for m classes as overlaps vanish, not the 1/2 of the Gram "
        f"matrix: the query's classes are strongly correlated), between queries at most "
        f"{np.abs(beta[same == 0]).max():.3f}. Tokens shared only between queries end at {_across(tuned):+.4f} with "
        f"and {_across(runs[1.0, False]):+.4f} without the residual in the mean field (t = 1e6), {trained[True]:+.4f} "
        f"and {trained[False]:+.4f} under SGD. Locality comes with the transition: until t = {turn:.0f} they fall with "
        "the residual as well, since beta = 1/V for all pairs at first (F4). It needs a token shared within the query."
    )
    evidence.picture = Picture(
        "t (batch-size-1 steps)",
        "logit of the tokens shared between queries",
        (
            Picture.line("with the residual", times, tuned.z[:, 0, ACROSS[0]], "simulation"),
            Picture.line("without", times, runs[1.0, False].z[:, 0, ACROSS[0]], "control"),
        ),
    )
    evidence.conditions = assumption_2(classes)[:2]
    evidence.maps = [_locality_map(evidence.full)]


def limits_order(evidence: Evidence) -> None:
    """How beta of a query's two classes approaches 2/3 as the overlap falls: linearly; it does not approach 1/2."""
    overlaps, within = [], []
    for each in 0.05 / 2.0 ** np.arange(6):
        P = two_queries(each, each, 1000).P.toarray()
        f = P / np.linalg.norm(P, axis=1, keepdims=True)
        overlaps.append(float(f[0] @ f[1]))
        within.append(residual_beta(f, np.array([0, 0, 1, 1]))[0, 1])
    x, found = np.array(overlaps), np.array(within)
    order, wrong = (fit_order(x, np.abs(found - limit), next_order=1.0) for limit in (2 / 3, 1 / 2))
    name = "order in f_n.f_k of |beta_nk - {}|, two classes of a query, less 1"
    evidence.holds(name.format("2/3"), "closed form", abs(order.corrected - 1), at_most=order.margin())
    evidence.holds("margin of that order", "closed form", order.margin(), at_most=DECISIVE)
    evidence.control(
        "wrong theory: the limit is the Gram matrix's 1/2: " + name.format("1/2"),
        "closed form",
        abs(wrong.corrected - 1),
        at_most=max(wrong.margin(), order.margin()),
    )


def on_and_off(evidence: Evidence, V: int, share: float) -> tuple[dict[tuple[float, bool], Trajectory], Floats]:
    """Drift and mean field of two queries of two classes with and without the residual."""
    classes, times = two_queries(share, share / 2, V), log_times(1e-1, 1e6, 71)
    runs = {
        (ratio, on): whole_run(MeanField(classes, 1.0, ratio, residual=on), times, rtol=1e-9, atol=1e-14)
        for ratio in (1e-2, 1.0)
        for on in (False, True)
    }
    what = "drift of the tokens shared between queries at z = 0 over the largest, {} the residual"
    evidence.holds(what.format("with"), "modified decoder", across_drift(classes, True), at_least=0)
    evidence.holds(what.format("without"), "modified decoder", across_drift(classes, False), at_most=0)
    for ratio in (1e-2, 1.0):
        what = f"their logit at t = 1e6, eta_Z/eta_Y = {ratio:g}, "
        evidence.holds(what + "with the residual", "mean field", _across(runs[ratio, True]), at_least=0)
        evidence.holds(what + "without the residual", "mean field", _across(runs[ratio, False]), at_most=0)
    local = max(float(run.z[-1, m, LOCAL[m]]) for run in runs.values() for m in (0, 1))
    what = "tokens shared within a query, largest logit at t = 1e6 (they fall with and without)"
    evidence.holds(what, "mean field", local, at_most=0)
    z = runs[1.0, True].z[np.searchsorted(times, 1.0)]
    what = "before the transition, t = 1: their logit over the largest, with the residual"
    evidence.outside(what, "mean field", float(z[:, ACROSS].mean() / np.abs(z).max()), at_least=0)
    what = "as frequent as the tokens shared within a query: their drift at z = 0 over the largest"
    evidence.outside(what, "modified decoder", across_drift(two_queries(share, share, V), True), at_least=0)
    # A class that shares nothing within its query has no local push: the token falls with the residual as well.
    alone = MeanField(two_queries(1e-9, share, V), 1.0, 1.0, residual=True)
    what = "nothing shared within the query: their logit at t = 1e6, with the residual"
    evidence.outside(what, "mean field", _across(whole_run(alone, [1e6], rtol=1e-9, atol=1e-14)), at_least=0)
    return runs, times


def descents(evidence: Evidence, V: int, share: float) -> dict[bool, float]:
    """Descent and SGD with and without the residual; mean logit over the seeds of SGD."""
    classes, steps, seeds = two_queries(share, share / 2, V), 6000, tuple(range(20 if evidence.full else 4))
    mean = {}
    for on in (True, False):
        bound = {"at_least" if on else "at_most": 0.0}
        words = f"{'with' if on else 'without'} the residual"
        descent = _across(sgd(classes, 1.0, 1.0, steps, None, residual=on, record=[steps]))
        evidence.holds(f"their logit after {steps} steps, {words}", "descent", descent, **bound)
        runs = sgd(classes, 1.0, 1.0, steps, 4, residual=on, seed=seeds, record=[steps])
        logits = np.array([_across(run) for run in runs])
        # One-sided at 1e-3 with 3 degrees of freedom.
        bound = {"at_least": 10.2} if on else {"at_most": -10.2}
        statistic = float(logits.mean() / standard_error(logits))
        evidence.holds(f"t statistic of their logit over {len(seeds)} seeds, {words}", "SGD", statistic, **bound)
        mean[on] = float(logits.mean())
    evidence.seeds = list(seeds)
    return mean


def _locality_map(full: bool) -> Map:
    """Logit of the tokens shared between queries at t = 1e6 with the residual, over both shares; V = 1000."""
    V, count = 1000, 15 if full else 5
    local, across = np.geomspace(0.01, 0.3, count), np.geomspace(0.005, 0.3, count)
    fall = np.empty((count, count))
    for i, a in enumerate(local):
        for j, b in enumerate(across):
            run = whole_run(MeanField(two_queries(a, b, V), 1.0, 1.0, residual=True), [1e6], rtol=1e-8, atol=1e-13)
            fall[i, j] = -_across(run) / np.abs(run.z).max()
    fine = np.geomspace(local[0], local[-1], 60)
    boundary = np.array([balanced_share(float(a)) for a in fine])
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
