"""Theorem 3, Eq. (12): bounds on the growth of the dominant token."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from snapdyn.validation.claims.attention._shared import (
    A_DISTINCT_TOKEN,
    FLOWS,
    MODIFIED,
    SMALL_OVERLAPS,
    common_tokens,
    early_gradient,
    falls,
)
from snapdyn.validation.claims.attention._theorem3_bounds_settings import along_runs
from snapdyn.validation.dense_algebra import dense_attention, growth_over_gamma
from snapdyn.validation.evidence import Evidence
from snapdyn.validation.linear_response import response
from snapdyn.validation.observables import FALL, growth_exponents
from snapdyn.validation.properties import Measured, Property, Requirement
from snapdyn.validation.register import claim
from snapdyn.validation.requirements import UNIFORM
from snapdyn.validation.rungs.run import EXACT, MEAN_FIELD
from snapdyn.validation.sample_classes import dominant_token
from snapdyn.validation.search import Family, Instance, flow
from snapdyn.validation.search.flows import noise

# rtol 1e-8 per step over some hundred steps, on z and on h.
SOLVER = 1e-5
# In the mean field: difference of speeds at early times, and share of xi_n that memory takes. Together they lower
# 2 f(0)^2 B by 2 (1 - 0.95/1.05) B = 0.19 B.
SPEED_DIFFERENCE = 0.05
MISSED = 0.2
WITH_DISTINCT = replace(FLOWS, num_classes=(2, 6), num_distinct=(1, 4))


class SmallOverlaps(Family):
    """Family whose common tokens are up to a hundred times rarer: V f_n.f_k is small on many instances."""

    def _draw(self, rng: np.random.Generator, seed: int, number: int) -> Instance | None:
        instance = super()._draw(rng, seed, number)
        if instance is None:
            return None
        common = np.count_nonzero(instance.P, axis=0) > 1
        rarer = np.where(common, float(np.exp(rng.uniform(np.log(0.01), 0.0))), 1.0)
        return replace(instance, P=instance.P * rarer)


def leaves_bounds(
    rung: str, missed: float = 0.0, exponent: float = 2.0, clock: bool = True
) -> Callable[[Instance], Measured | None]:
    """How far ln chi of a dominant token leaves [2 f(0)^2 B, 2 B], over B, any class with a distinct token.

    `missed` is allowed; `exponent` replaces the power 2 of f(0); without `clock`, B lacks p_n.
    """

    def measure(instance: Instance) -> Measured | None:
        # Simpson's rule on half as many times, where attention moves within one save, errs by a quarter.
        run = flow(instance, rung, 121)
        if run is None:
            return None
        classes = instance.classes
        (B, xi_change), (coarse, _) = (
            growth_exponents(run, instance.flow_rates[0], instance.ratio, every) for every in (1, 2)
        )
        _, f = dense_attention(classes, np.asarray(run.z_initial))
        worst, where, error = -np.inf, "", 0.0
        for n in range(classes.num_classes):
            if classes.distinct_tokens(n).size == 0:
                continue
            l0, m = dominant_token(classes, n), classes.query_index[n]
            growth = run.z[:, m, l0] - np.asarray(run.z_initial)[m, l0]
            seen = np.abs(B[:, n]) > noise(instance, rung) / max(missed / 10, SOLVER)
            if not seen.any():
                continue
            size = B[seen, n] * (1.0 if clock else 1 / classes.prior[n])
            log_chi = 2 * growth[seen] / size
            out = np.maximum(2 * f[n, l0] ** exponent - log_chi, log_chi - 2)
            i = int(out.argmax())
            if out[i] > worst:
                worst, where = float(out[i]), f"token {l0} of class {n}, t = {run.t[seen][i]:.3g}"
                at = int(np.flatnonzero(seen)[i]) // 2
                near = slice(max(at - 1, 0), at + 3)
                error = 2 * float(np.abs(coarse[near, n] / B[::2, n][near] - 1).max()) + SOLVER
                # Until the first save attention may have moved: there Simpson's rule has one interval.
                early = float(xi_change[n] ** 2 * B[0, n] / B[seen, n][i])
                error += early
        if not where:
            return Measured(-1.0, at_most=missed, where="no logit moves by more than rounding")
        return Measured(worst, at_most=missed, error=error, where=where)

    return measure


def _rises(rung: str) -> Callable[[Instance], float]:
    def measure(instance: Instance) -> float:
        if not common_tokens(instance.classes).size:
            return 0.0
        found = falls(rung, common_tokens, -1.0)(instance)
        return np.inf if found is None else max(found.value, 0.0)

    return measure


def common_shrink(rung: str) -> Requirement:
    """Premise of the theorem, on the run."""
    return Requirement(
        "common tokens shrink",
        "largest rise of a common logit over the largest |z| <= 1e-5",
        _rises(rung),
        at_most=FALL,
    )


def share_taken(instance: Instance) -> float:
    """Largest share of xi_n that memory takes by linear response; at least 2 beyond its range."""
    found = response(instance)
    return max(found.lost, 0.0) if found.whole else max(found.lost, 2.0)


LITTLE_OF_SPEED = Requirement(
    "little memory",
    "share of xi_n that memory takes <= 0.05 (linear response)",
    share_taken,
    at_most=SPEED_DIFFERENCE,
)


def speed_difference(instance: Instance) -> float:
    """Largest |xi of Theorem 1/xi of the mean field - 1| at t -> 0, over classes (F4: 1 + V E' for equal overlaps).

    There the mean field has g_n = eta_Y t sum_k p_k (e_k - 1/V).(e_n - 1/V) f_k.
    """
    if instance.num_classes == 1 or instance.eigenvalues[0] < 1e-6:
        return np.inf
    f, g = early_gradient(instance)
    G, p = instance.gram, instance.prior
    # Of g_n, f_n itself drops out: -f_n.(g_n - own part) is the growth of distinct tokens.
    own = p * (1 - 1 / instance.vocab_size)
    mean_field = -(np.einsum("nm,nm->n", f, g) - own) / p
    E = G - np.eye(len(G))
    theorem = growth_over_gamma(E[None], float(instance.vocab_size), p[None])[0] * (1 - 1 / instance.vocab_size) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        difference = np.abs(theorem / mean_field - 1)
    return float(np.where(np.isfinite(difference), difference, np.inf).max())


SAME_SPEED = Requirement(
    "the modified decoder's speed is the mean field's",
    f"|xi_n of Theorem 1 / xi_n of the mean field - 1| at t -> 0 <= {SPEED_DIFFERENCE:g} (V f_n.f_k << 1)",
    speed_difference,
    at_most=SPEED_DIFFERENCE,
)


RARE_COMMON = SmallOverlaps(
    "rare common tokens",
    "any",
    num_common=(1, 2),
    vocab_size=(2, 1000),
    ratio=(1e-6, 1e2),
    horizon=(1e-2, 1e6),
    eta_Y=(1e-6, 1e6),
)


@claim(
    "theorem3-bounds",
    source="Theorem 3, Eq. (12)",
    title="The growth of the dominant token lies between exp(2 f^2 B) and exp(2 B)",
    answer="Holds under Eq. (10) while common tokens fall; in the full mean field only where V f_n.f_k is small and "
    "priors are equal.",
    statement="If l0 dominates the distinct tokens of class n and common tokens shrink, "
    "exp(2 f_nl0(0)^2 B_n(t)) <= chi_l0(t) <= exp(2 B_n(t)), B_n = eta_Z int [p_n] xi_n dt. (In the full mean field: "
    f"to {MISSED:.0%} of B_n, where the modified decoder's speed is the mean field's.)",
    expected="conditional",
    latex=r"e^{2f_{nl_0}^2(0)B_n(t)}\le\chi_{l_0}(t)\le e^{2B_n(t)},\quad B_n=\eta_Z\int_0^t[p_n]\,\xi_n\,dt'",
    assumptions=(
        "common tokens shrink",
        "small overlaps or one common token",
        "mean field: equal priors, V f_n.f_k << 1, and memory takes at most 5 % of xi_n",
        "one class per next token",
    ),
    properties=(
        Property(
            "how far ln chi leaves [2 f(0)^2 B, 2 B], over B",
            "mean field",
            leaves_bounds(MEAN_FIELD, MISSED),
            RARE_COMMON,
            conditions=(
                A_DISTINCT_TOKEN,
                *MODIFIED,
                UNIFORM,
                SMALL_OVERLAPS,
                SAME_SPEED,
                LITTLE_OF_SPEED,
                common_shrink(MEAN_FIELD),
            ),
            controls={
                "wrong theory: f(0) in place of f(0)^2": leaves_bounds(MEAN_FIELD, MISSED, exponent=1.0),
                "wrong theory: B without p_n on the per-step clock": leaves_bounds(MEAN_FIELD, MISSED, clock=False),
            },
            evaluations=(100, 4000),
        ),
        Property(
            "how far ln chi leaves [2 f(0)^2 B, 2 B], over B",
            "modified decoder",
            leaves_bounds(EXACT),
            WITH_DISTINCT,
            conditions=(A_DISTINCT_TOKEN, *MODIFIED, SMALL_OVERLAPS, common_shrink(EXACT)),
            controls={
                "wrong theory: f(0) in place of f(0)^2": leaves_bounds(EXACT, exponent=1.0),
                "wrong theory: B without p_n on the per-step clock, as (12) prints it": leaves_bounds(
                    EXACT, clock=False
                ),
            },
            evaluations=(40, 2000),
        ),
    ),
)
def theorem3_bounds(evidence: Evidence) -> None:
    along_runs(evidence, MISSED)
