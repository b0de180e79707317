"""The residual connection at named settings: two queries of two classes, runs, training and the map of locality."""

from __future__ import annotations

import numpy as np

from snapdyn.dynamics import Trajectory, log_times, sgd
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.assumptions import assumption_2
from snapdyn.validation.claims.extensions._shared import (
    ACROSS,
    LOCAL,
    across_drift,
    balanced_share,
    plain_beta,
    residual_beta,
    same_query,
    two_queries,
)
from snapdyn.validation.evidence import Evidence
from snapdyn.validation.pictures import Map, Picture
from snapdyn.validation.rungs.run import MEAN_FIELD, run_on_rung
from snapdyn.validation.statistics import DECISIVE, fit_order, standard_error


def two_queries_of_two_classes(evidence: Evidence) -> None:
    """Add beta, runs and training of `two_queries` with and without the residual, and the map of locality."""
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
    _limits_order(evidence)
    between = f"two queries of two classes, overlap {f[0] @ f[2]:.2g} between: largest |beta| between over within"
    evidence.holds(between, "closed form", np.abs(beta[same == 0]).max() / beta[0, 1], at_most=2 * f[0] @ f[2])
    name = "wrong theory: beta without the term of the query: the same"
    evidence.control(name, "closed form", np.abs(plain[same == 0]).max() / plain[0, 1], at_most=2 * f[0] @ f[2])
    runs, times = _on_and_off(evidence, V, share)
    trained = _descents(evidence, V, share)
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


def _across(run: Trajectory) -> float:
    """Mean logit at the last time of the tokens shared between queries of `two_queries`."""
    return float(run.z[-1][:, ACROSS].mean())


def _limits_order(evidence: Evidence) -> None:
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


def _on_and_off(evidence: Evidence, V: int, share: float) -> tuple[dict[tuple[float, bool], Trajectory], Floats]:
    """Drift and mean field of two queries of two classes with and without the residual."""
    classes, times = two_queries(share, share / 2, V), log_times(1e-1, 1e6, 71)
    runs = {
        (ratio, on): run_on_rung(MEAN_FIELD, classes, 1.0, ratio, times, residual=on, rtol=1e-9, atol=1e-14)
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
    alone = run_on_rung(MEAN_FIELD, two_queries(1e-9, share, V), 1.0, 1.0, [1e6], residual=True, rtol=1e-9, atol=1e-14)
    what = "nothing shared within the query: their logit at t = 1e6, with the residual"
    evidence.outside(what, "mean field", _across(alone), at_least=0)
    return runs, times


def _descents(evidence: Evidence, V: int, share: float) -> dict[bool, float]:
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
            run = run_on_rung(MEAN_FIELD, two_queries(a, b, V), 1.0, 1.0, [1e6], residual=True, rtol=1e-8, atol=1e-13)
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
