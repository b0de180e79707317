"""Corollary 1 at named settings: SGD, the integrated decoders, and the time of the flow."""

from __future__ import annotations

import numpy as np

from snapdyn.dynamics import sgd, single_common_token
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.claims.concentration._shared import hoeffding, many_draws
from snapdyn.validation.dense_algebra import softmax
from snapdyn.validation.evidence import Evidence
from snapdyn.validation.pictures import Picture
from snapdyn.validation.rungs.run import MODIFIED, ORIGINAL, run_on_rung
from snapdyn.validation.visits import FROZEN, own_lead, single_token_classes, visits_to


def time_to_error(evidence: Evidence) -> None:
    """Add the time of the flow and its order over V = 2..1e7, of SGD, and of both decoders integrated."""
    taken, seeds = _by_sgd(evidence)
    overlap, off, by_flow = _by_flows(evidence)

    # The time of the flow, K/eta_Y left out, and its orders.
    levels = 0.5 * 10.0 ** -np.arange(0, 12.1, 0.25)
    eps, V = (a.ravel() for a in np.meshgrid(levels, [2, 3, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7]))
    visits = visits_to(eps, 1.0, V)
    # visits_to loses digits where sqrt(V(V-1))/eps - (V-1) cancels: a factor 3 at eps = 1/2.
    evidence.holds(
        f"error at the closed time against eps, Newton at 50 digits, {eps.size} points, V = 2..1e7, eps = 5e-13..1/2",
        "closed form",
        _newton_error(eps, V, visits),
        at_most=1e-13,
    )
    log = np.log(V / eps)
    printed, together = visits * eps / log, visits / (1 / eps + log)
    # For eps <= 1/2: at least 0.207/eps of the fast part, and the late part once V/eps >= 16.
    evidence.corrected(
        "time of the flow over (K/eta_Y) (1/eps + ln(V/eps)), the same points: smallest (the order is attained)",
        "closed form",
        together.min(),
        at_least=1 / 12,
    )
    late = (eps <= 1e-10) & (V >= 1e6)
    evidence.corrected(
        "the same for eps <= 1e-10, V >= 1e6: largest |ratio - 1|",
        "closed form",
        np.abs(together[late] - 1).max(),
        at_most=1e-5,  # 1/V and eps ln(V/eps)
    )
    evidence.conclusion = (
        f"The printed bound is loose: the time of the flow is {printed.min():.4f} of it at eps = 5e-13, V = 1e7. It is "
        f"(K/eta_Y) [sqrt(1-1/V)/eps - 1 + (1-1/V) V h], within [{together.min():.3f}, {together.max():.3f}] of the "
        "sum (K/eta_Y) (1/eps + ln(V/eps)). For eta_Y > 2 ln(2V) the bound at eps = 1/2 is below one visit, by the "
        "factor eta_Y/(2 ln(2V)): 361 at V = 2, eta_Y = 1000. SGD, K = 5, V = 50, eps = 0.02: all classes below after "
        f"{np.median(taken):.0f} batch-size-1 steps (median; K times the visits of one class: "
        f"{5 * float(visits_to(0.02, 1.0, 50)):.0f}). On the original flow the error at that time is within {off:.1%} "
        f"of eps (overlaps to {overlap:.2f})."
    )
    shown, flow_levels = 0.5 * 10.0 ** -np.arange(0, 12.1, 0.5), 10.0 ** -np.arange(1, 13)
    evidence.picture = Picture(
        "eps",
        "time to eps over its order",
        (
            *(
                Picture.line(
                    f"over 1/eps + ln(V/eps), V = {size:g}",
                    shown,
                    visits_to(shown, 1.0, size) / (1 / shown + np.log(size / shown)),
                )
                for size in (2, 1000, 1e7)
            ),
            *(
                Picture.line(
                    f"over ln(V/eps)/eps, as printed, V = {size:g}",
                    shown,
                    visits_to(shown, 1.0, size) * shown / np.log(size / shown),
                    "printed",
                )
                for size in (2, 1000, 1e7)
            ),
            Picture.line(
                f"original flow, V = 1000, overlap {overlap:.2f}, over 1/eps + ln(V/eps)",
                by_flow,
                visits_to(flow_levels, 1.0, 1000) / (1 / by_flow + np.log(1000 / by_flow)),
                "simulation",
            ),
        ),
        yscale="log",
    )
    evidence.conditions = [many_draws(5, 5 * float(visits_to(0.02, 1.0, 50)))]
    evidence.seeds = list(seeds)


def _by_sgd(evidence: Evidence) -> tuple[Floats, range]:
    """Norm over all V outputs of SGD, and the steps until all classes are below eps; returns those of each seed."""
    K, V, eta, steps = 5, 50, 1.0, 2000
    record = np.unique(np.geomspace(1, steps, 60).round().astype(np.int64))
    seeds = range(1000 if evidence.full else 100)
    runs = sgd(single_token_classes(K, V), eta, FROZEN, steps, record=record, save_decoder=True, seed=seeds)
    formula = np.sqrt(V * (V - 1)) / (V - 1 + np.exp([own_lead(run) for run in runs]))
    Y = runs[0].Y
    assert Y is not None
    assert runs[0].decoder_rows is not None
    W = Y[:, runs[0].decoder_rows]
    W = np.concatenate([W[:, :, :K], np.repeat(W[:, :, -1:], V - K, axis=2)], axis=2)
    own = np.arange(K)
    error = -softmax(W)
    error[:, own, own] = 0.0
    error[:, own, own] = -error.sum(axis=2)
    evidence.holds(
        "norm over all V outputs against the formula with h*, relative, K = 5, V = 50",
        "SGD",
        float(np.abs(np.linalg.norm(error, axis=2) / formula[0] - 1).max()),
        at_most=1e-11,
    )
    target, delta = 0.02, 0.1
    need = float(visits_to(target, eta, V))
    draws = np.arange(1, steps + 1)
    enough = int(draws[np.asarray(draws / K - hoeffding(draws, delta / K)) >= need][0])
    below = (formula[:, record == record[np.searchsorted(record, enough)]] <= target).all(axis=(1, 2))
    evidence.holds(
        f"share of the seeds of SGD with a class above eps = {target} once N/K - sqrt(N ln(2K/delta)/2) is the "
        f"time of h, delta = {delta}, over delta",
        "SGD",
        float(1 - below.mean()) / delta,
        at_most=1,
    )
    taken = record[np.argmax((formula <= target).all(axis=2), axis=1)]
    evidence.holds(
        "steps until all classes of SGD are below eps over the printed order: largest over seeds",
        "SGD",
        float(taken.max() / (K * np.log(V / target) / (target * eta))),
        at_most=1,
    )
    return taken, seeds


def _by_flows(evidence: Evidence) -> tuple[float, float, Floats]:
    """Error of the integrated decoders at the closed times; returns the largest overlap, how far the error of the
    original flow is off at most, and its error at V = 1000 with that overlap."""
    levels = 10.0 ** -np.arange(1, 13)
    reached = {"modified decoder": 0.0, "original flow": 0.0}
    overlap, by_flow = 0.0, np.asarray(levels, dtype=np.float64)
    for V in (10, 1000, 10_000_000):
        t = 5 * visits_to(levels, 1.0, V)
        for common in (0.03, 0.2) if evidence.full else (0.2,):
            classes = single_common_token(5, 4, common, V)
            overlap = float(classes.gram()[0, 1])
            for rung in reached:
                flow = ORIGINAL if rung == ORIGINAL else MODIFIED
                run = run_on_rung(flow, classes, 1.0, 0.0, t, rtol=1e-10, atol=1e-13, method="LSODA")
                # Equal profiles: the loss is -ln alpha_nn of each class; |e - alpha| = (1 - alpha_nn) |zeta|.
                ratio = -np.expm1(-run.loss) * np.sqrt(V / (V - 1)) / levels
                reached[rung] = max(reached[rung], float(np.abs(ratio - 1).max()))
                if (V, common, rung) == (1000, 0.2, "original flow"):
                    by_flow = np.asarray(ratio * levels, dtype=np.float64)
    # Solver tolerance 1e-10 per step over some hundred steps.
    evidence.holds(
        "error of the integrated decoder at those times against eps, t to 1e13, V = 10..1e7, relative",
        "modified decoder",
        reached["modified decoder"],
        at_most=1e-7,
    )
    # Late the error falls as 1/t: a factor 3/2 in the error is one in the time, and the order survives.
    evidence.holds(
        f"error of the original flow at those times over eps, overlaps to {overlap:.2f}: largest |ratio - 1|",
        "original flow",
        reached["original flow"],
        at_most=0.5,
    )
    return overlap, reached["original flow"], by_flow


def _newton_error(eps: Floats, vocab_size: Floats, visits: Floats) -> float:
    """Largest relative distance from eps of the error after `visits` at eta_Y = 1, V h by Newton at 50 digits."""
    import mpmath

    worst = 0.0
    with mpmath.workdps(50):
        for target, size, s in zip(eps, vocab_size, visits, strict=True):
            V, x = mpmath.mpf(float(size)), mpmath.mpf(float(size)) * mpmath.mpf(float(s))
            u = min(x / V, mpmath.log1p(x))  # below the root's convex function: Newton falls to it
            for _ in range(100):
                step = (mpmath.expm1(u) + (V - 1) * u - x) / (mpmath.exp(u) + V - 1)
                u -= step
                if abs(step) < abs(u) * mpmath.mpf(10) ** -40:
                    break
            error = mpmath.sqrt(V * (V - 1)) / (V - 1 + mpmath.exp(u))
            worst = max(worst, float(abs(error / mpmath.mpf(float(target)) - 1)))
    return worst
