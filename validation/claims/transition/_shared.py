"""What the claims of this chapter share: symmetric classes with one common token, and growth of dominant tokens."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from snapdyn import analytic
from snapdyn.dynamics import SequenceClasses, Trajectory
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.properties import Requirement
from snapdyn.validation.requirements import (
    INDEPENDENT_ATTENTION,
    ONE_COMMON_TOKEN,
    ONE_QUERY,
    OVERLAPPING,
    OWN_NEXT_TOKENS,
    SEVERAL_CLASSES,
    UNIFORM,
    ZERO_START,
)
from snapdyn.validation.sample_classes import dominant_token
from snapdyn.validation.search import Family, Instance

# A relative rounding error below which two profiles are the same.
SAME_PROFILE = 1e-12
# Attention's way is counted to this many t0: B grows like ln ln t without bound, so a share needs a horizon.
WHOLE = 1e6


def _profile_spread(instance: Instance) -> float:
    """Largest difference between classes of the common token's probability, or of the sorted distinct ones."""
    classes = instance.classes
    P = instance.P / instance.P.sum(axis=1, keepdims=True)
    common = classes.common_tokens()
    profiles = np.zeros((instance.num_classes, P.shape[1]))
    for n in range(instance.num_classes):
        profiles[n] = np.sort(np.where(np.isin(np.arange(P.shape[1]), common), 0.0, P[n]))
    return float(max(np.ptp(profiles, axis=0).max(), np.ptp(P[:, common], axis=0).max(initial=0.0)))


def _fewest_distinct_tokens(instance: Instance) -> float:
    return float(min(instance.classes.distinct_tokens(n).size for n in range(instance.num_classes)))


EQUAL_PROFILES = Requirement(
    "equal profiles",
    f"largest difference of sorted probabilities between classes <= {SAME_PROFILE:g}",
    _profile_spread,
    at_most=SAME_PROFILE,
    defining=True,
)
DISTINCT_TOKENS = Requirement(
    "distinct tokens",
    "every class has a token of its own",
    _fewest_distinct_tokens,
    at_least=1,
    defining=True,
)
# Set-up of Theorem 4.
SYMMETRIC = (
    SEVERAL_CLASSES,
    OWN_NEXT_TOKENS,
    replace(ONE_QUERY, defining=True),
    replace(ONE_COMMON_TOKEN, defining=True),
    DISTINCT_TOKENS,
    replace(UNIFORM, defining=True),
    replace(ZERO_START, defining=True),
    EQUAL_PROFILES,
    OVERLAPPING,
    INDEPENDENT_ATTENTION,
)
SYMMETRIC_FAMILY = Family(
    "symmetric classes",
    "any",
    num_classes=(2, 20),
    num_common=(1, 1),
    num_distinct=(1, 6),
    num_queries=(1, 1),
    vocab_size=(4, 10**12),
    ratio=(1e-6, 1e6),
    horizon=(1e-2, 1e12),
    eta_Y=(1e-6, 1e6),
    equal_profiles=True,
)


def log_growth(trajectory: Trajectory, n: int = 0) -> Floats:
    """ln chi = 2 (z(t) - z(0)) of the dominant token of class n, without the detour over exp, (N,)."""
    classes = trajectory.require_classes()
    m, token = classes.query_index[n], dominant_token(classes, n)
    return np.asarray(2 * (trajectory.z[:, m, token] - trajectory.z_initial[m, token]))


def transition(classes: SequenceClasses, eta_Y: float) -> tuple[float, float]:
    """Printed times t0' = K ln V/eta_Y and t0 = 2 (1+omega_1) K ln V/eta_Y, batch-size-1 steps."""
    K, V = classes.num_classes, classes.vocab_size
    start, end = (float(analytic.transition_time(K, V, eta_Y, kind=kind)) for kind in ("start", "end"))
    return start, end


def entropies(runs: list[list[Trajectory]]) -> Floats:
    """Entropy over distinct tokens at the last time (nats), mean over classes: (settings, seeds)."""
    return np.array([[float(r.entropy(distinct_only=True)[-1].mean()) for r in each] for each in runs])


def welch(lower: Floats, higher: Floats) -> float:
    """Difference of two means over its standard error: positive when `lower` is lower."""
    error = np.sqrt(lower.var(ddof=1) / lower.size + higher.var(ddof=1) / higher.size)
    return float((higher.mean() - lower.mean()) / error)
