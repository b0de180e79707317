"""Lemma 9 at named settings: gamma of the integrated decoders and of SGD."""

from __future__ import annotations

import numpy as np
from scipy.special import stdtrit

from snapdyn import analytic
from snapdyn.dynamics import Trajectory, sgd, single_common_token
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.claims.decoder._shared import LATE_CONSTANT, LATE_SHARE
from snapdyn.validation.evidence import Evidence
from snapdyn.validation.rungs.run import MODIFIED, ORIGINAL, run_on_rung
from snapdyn.validation.statistics import standard_error
from snapdyn.validation.visits import FROZEN, own_lead, single_token_classes

SEEDS = tuple(range(20))


def by_flows(evidence: Evidence) -> None:
    """Add gamma of both integrated decoders over its orders, K = 10, V = 1000."""
    for rung, (early, late, distance) in _flow_constants(1000).items():
        evidence.holds("largest gamma/(eta_Y t/K), t <= t0', K = 10, V = 1000", rung, early, at_most=1.0)
        name = "largest gamma (eta_Y t/K)/ln(V eta_Y t/K), t0 <= t <= 1e12, K = 10, V = 1000"
        evidence.holds(name, rung, late, at_most=LATE_CONSTANT)
        if rung == "modified decoder":
            # Solver tolerance 1e-10 per step over some hundred steps.
            name = "gamma of the integrated decoder, from its logits and errors, against (85), t to 1e12, relative"
            evidence.holds(name, rung, distance, at_most=1e-7)


def by_sgd(evidence: Evidence) -> tuple[float, float]:
    """Add gamma of SGD over its orders, K = 5, V = 100; returns the smallest and largest late constant."""
    excess, allowed, trained, bare = _trained_constants(200_000 if evidence.full else 20_000)
    name = "mean gamma of SGD above eta_Y t/K, t <= t0', K = 5, V = 100, in standard errors: largest"
    evidence.holds(name, "SGD", excess, at_most=allowed)
    name = "mean gamma of SGD over K ln(V eta_Y t/K)/(eta_Y t), t >= t0: largest"
    evidence.holds(name, "SGD", trained[1], at_most=LATE_CONSTANT)
    evidence.holds("the same: smallest", "SGD", trained[0], at_least=LATE_SHARE)
    evidence.control(
        "wrong theory: without any logarithm late, gamma = O(K/(eta_Y t))", "SGD", bare, at_most=LATE_CONSTANT
    )
    evidence.seeds.extend(SEEDS)
    return trained


def _speed(run: Trajectory) -> Floats:
    """gamma = w_n[n] (1 - alpha_n[n]) of classes with equal profiles, whose loss is -ln alpha_n[n]."""
    return np.asarray(run.extra["own_logit"][:, 0] * -np.expm1(-run.loss))


def _flow_constants(vocab_size: int) -> dict[str, tuple[float, float, float]]:
    """Largest early and late gamma over its order, and its largest relative distance from (85), by rung.

    K = 10, eta_Y = 1.
    """
    K, V = 10, vocab_size
    start, end = (float(analytic.transition_time(K, V, 1.0, kind=kind)) for kind in ("start", "end"))
    t = np.concatenate([np.geomspace(1e-3 * start, start, 40), np.geomspace(end, 1e12, 60)])
    s, late = t / K, t >= end
    order = np.where(late, np.log(V * s) / s, s)
    found = {}
    for rung, flow in (("modified decoder", MODIFIED), ("original flow", ORIGINAL)):
        classes = single_common_token(K, 4, 0.05, V)
        run = run_on_rung(flow, classes, 1.0, 0.0, t, rtol=1e-10, atol=1e-13, method="LSODA")
        speed = _speed(run)
        distance = float(np.max(np.abs(speed / analytic.gamma(t, 1.0, V, K) - 1)))
        found[rung] = float((speed / order)[~late].max()), float((speed / order)[late].max()), distance
    return found


def _trained_constants(steps: int) -> tuple[float, float, tuple[float, float], float]:
    """gamma of SGD on single-token classes: early excess and its quantile, late constants, late gamma eta_Y t/K."""
    K, V = 5, 100
    start, end = (float(analytic.transition_time(K, V, 1.0, kind=kind)) for kind in ("start", "end"))
    t = np.unique(np.geomspace(1, steps, 60).round().astype(np.int64))
    runs = sgd(single_token_classes(K, V), 1.0, FROZEN, steps, record=t, save_decoder=True, seed=SEEDS)
    u = np.array([own_lead(run) for run in runs])
    # Classes of one run share its draws: the mean over them is one value per seed.
    speed = ((V - 1) ** 2 / V * u / (V - 1 + np.exp(u))).mean(axis=2)
    s, early, late = t / K, t <= start, t >= end
    error = standard_error(speed)
    # The mean over classes of N_n is t/K without noise; what noise there is comes from gamma's curvature.
    excess = (speed.mean(axis=0) - s)[early] / np.where(error > 0, error, np.inf)[early]
    ratio = (speed.mean(axis=0) * s)[late]
    log = np.log(V * s[late])
    allowed = float(stdtrit(len(SEEDS) - 1, 1 - 1e-4 / int(early.sum())))
    return float(excess.max()), allowed, (float((ratio / log).min()), float((ratio / log).max())), float(ratio.max())
