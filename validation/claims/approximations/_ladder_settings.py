"""The ladder at named settings: runs over V, and the laws of equal overlaps."""

from __future__ import annotations

import numpy as np

from snapdyn import analytic
from snapdyn.dynamics import log_times, single_common_token
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.evidence import Evidence
from snapdyn.validation.maps.common_logit import classes_of_overlap, overlap_coefficient
from snapdyn.validation.pictures import Picture
from snapdyn.validation.rungs.build import ladder
from snapdyn.validation.rungs.run import (
    CLOSED,
    DESCENT,
    EXACT,
    LEADING,
    MEAN_FIELD,
    MODIFIED,
    ORBIT,
    ORIGINAL,
    REDUCED,
    SGD,
)

TOLERANCE = 0.05


def ladder_of_runs(evidence: Evidence) -> None:
    """Add all rungs over V = 100..1e5, SGD and descent at V = 1000, and the laws of equal overlaps."""
    K, share = 10, 0.03
    sizes = np.unique(np.geomspace(100, 1e5, 49 if evidence.full else 13).round())
    modified, leading, rest = [], [], 0.0
    of_decoder: dict[str, list[float]] = {ORIGINAL: [], MODIFIED: [], CLOSED: []}
    for V in sizes:
        classes = single_common_token(K, 5, share, int(V))
        arguments = classes, 1.0, 1e-3, np.geomspace(1, 2 * K * np.log(V), 12), TOLERANCE
        flows = ladder(*arguments, seeds=0, max_steps=1)
        decoders = ladder(*arguments, seeds=0, max_steps=1, branch="decoder")
        for rung, gaps in of_decoder.items():
            gaps.append(float(decoders.gaps.gap.sel(rung=rung).max()))
        largest = flows.gaps.gap.sel(observable="z").max("t")
        modified.append(float(largest.sel(rung=EXACT)))
        leading.append(float(largest.sel(rung=LEADING)))
        rest = max(rest, float(largest.sel(rung=[ORBIT, REDUCED, CLOSED]).max()))
    worst = np.maximum(modified, leading)
    rho = float(single_common_token(K, 5, share, 100).E()[0, 1])
    evidence.holds(
        f"smallest over V = 100..1e5 of the larger of the two gaps of z, K = {K}, rho = {rho:.2g}",
        MODIFIED,
        float(worst.min()),
        at_most=TOLERANCE,
    )
    evidence.corrected("all other rungs of flows, z, the same V", CLOSED, rest, at_most=TOLERANCE)
    evidence.corrected(
        "the decoder itself, attention frozen: original to modified flow, the same V",
        MODIFIED,
        max(of_decoder[MODIFIED]),
        # A class's logits are driven by all classes through its row of G, in place of by itself alone.
        at_most=(K - 1) * rho,
    )
    evidence.corrected(
        "decoder: freezing attention, and the closed form of h, the same V",
        ORIGINAL,
        max(of_decoder[ORIGINAL] + of_decoder[CLOSED]),
        at_most=TOLERANCE,
    )
    steps = ladder(
        single_common_token(K, 5, share, 1000),
        0.5,
        5e-4,
        log_times(10, 280, 15),
        TOLERANCE,
        seeds=100 if evidence.full else 20,
        batch_size=256,
    )
    broken = steps.first_break()
    stepped = float(steps.gaps.resolved.sel(rung=[DESCENT, MEAN_FIELD], observable="z").max())
    evidence.corrected(
        "SGD to descent and descent to mean field, V = 1000, z, beyond the seeds' noise",
        SGD,
        stepped,
        at_most=TOLERANCE,
    )
    evidence.corrected(
        "the first rung that breaks at V = 1000 is the modified decoder (1: yes)",
        MODIFIED,
        float(broken is not None and broken.rung == EXACT),
        at_least=1.0,
    )
    by_law = _gaps_of_equal_overlaps(evidence)
    evidence.conclusion = (
        f"First break at V = 1000: {broken} Over V = 100..1e5 the larger of the two gaps is at least {worst.min():.2f} "
        f"(K = {K}, rho = {rho:.2g}); all other rungs of flows stay below {rest:.1%}, and grow as (K-1) rho: "
        f"{by_law:.0%} at rho = 0.2. For the decoder itself the modified flow is a small change, "
        f"{max(of_decoder[MODIFIED]):.1%} at most."
    )
    x = sizes * overlap_coefficient(rho, K)
    of_leading = (1 + (1 - 1 / sizes) * rho) / (1 + (sizes - 1) * rho)
    evidence.picture = Picture(
        "V E'",
        "gap of z to the rung above",
        (
            Picture.line("modified decoder, t -> 0", x, _first_modified_gap(K, sizes, rho)),
            Picture.line("leading beta, every t", x, of_leading),
            Picture.line("mean field to exact beta", x, modified, "simulation"),
            Picture.line("exact to leading beta", x, leading, "simulation"),
            Picture.line("tolerance", x, np.full_like(x, TOLERANCE), "bound"),
        ),
        yscale="log",
    )


def _first_modified_gap(K: int, V: Floats, rho: float) -> Floats:
    return np.asarray(overlap_coefficient(rho, K) * (V - K + 1 + (K - 1) * rho))


def _gaps_of_equal_overlaps(evidence: Evidence) -> float:
    """Check the laws of equal overlaps on runs; return the largest gap of the other rungs at rho = 0.2, K = 10."""
    first, leading_error, old, at_end, bare, rest = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    sizes = (100, 1000, 100_000)
    for K in (2, 5, 10) if evidence.full else (2, 10):
        for rho in (0.0035, 0.044, 0.2, 0.5, 0.8):
            for V in sizes:
                classes = classes_of_overlap(rho, K, V)
                # A time at which alpha is still 1/V: eta_Y t/K = 1e-5.
                t = np.append(1e-5 * K, np.geomspace(1, 2 * K * np.log(V), 12))
                runs = ladder(classes, 1.0, 1e-6, t, TOLERANCE, seeds=0, max_steps=1)
                z = {rung: runs[rung].observables["z"] for rung in (MEAN_FIELD, EXACT, LEADING)}
                law = float(_first_modified_gap(K, np.array(float(V)), rho))
                early = float((z[EXACT][0] / z[MEAN_FIELD][0] - 1)[0])
                first = max(first, abs((1 + early) / (1 + law) - 1))
                of_leading = (1 + (1 - 1 / V) * rho) / (1 + (V - 1) * rho)
                lost = 1 - float((z[LEADING][-1] / z[EXACT][-1])[0])
                leading_error = max(leading_error, abs(lost / of_leading - 1))
                x = V * overlap_coefficient(rho, K)
                old = max(old, abs(lost * (1 + x) - 1))
                if rho <= 0.044 and V >= 1000:
                    X = rho * V * float(analytic.h(t[-1] / K, 1.0, V))
                    late = float((z[EXACT][-1] / z[MEAN_FIELD][-1])[0])
                    at_end = max(at_end, abs(late * (2 * np.expm1(X) / X - 1) / (1 + x) - 1))
                    bare = max(bare, abs(late / (1 + x) - 1))
                if rho == 0.2 and K == 10:
                    gaps = runs.gaps.gap.sel(observable="z", rung=[ORBIT, REDUCED, CLOSED])
                    rest = max(rest, float(gaps.max()))
    where = "equal overlaps 0.0035 to 0.8, V = 100 to 1e5"
    evidence.corrected(
        f"exact beta over mean field, common logit at eta_Y t/K = 1e-5, over 1 + E' (V-K+1+(K-1) rho), {where}: error",
        MODIFIED,
        first,
        at_most=1e-3,  # (alpha V - 1) is of the order of eta_Y t/K times V/V, the solver's error is smaller
    )
    evidence.corrected(
        f"leading beta's gap at the end against (1+(1-1/V) rho)/(1+(V-1) rho), {where}: relative error",
        LEADING,
        leading_error,
        at_most=1e-3,
    )
    evidence.control(
        "wrong theory: the leading beta's gap is 1/(1 + V E') at any overlap: relative error",
        LEADING,
        old,
        at_most=1e-3,
    )
    evidence.corrected(
        "exact beta over mean field at t = 2 K ln V, against (1+V E')/(2 (exp(X)-1)/X - 1), rho <= 0.044, V >= 1000: "
        "relative error",
        MODIFIED,
        at_end,
        at_most=0.02,
    )
    evidence.control(
        "wrong theory: that ratio is 1 + V E' at the end as well: relative error", MODIFIED, bare, at_most=0.02
    )
    evidence.outside("other rungs of flows at rho = 0.2, K = 10, z", CLOSED, rest, at_most=TOLERANCE)
    return rest
