"""What the claims of this chapter share: symmetric classes in any number, growth of dominant tokens, entropies."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import numpy as np

from snapdyn import analytic
from snapdyn.dynamics.classes.synthetic import syn_medium
from snapdyn.dynamics.classes.table import SequenceClasses
from snapdyn.dynamics.trajectories.trajectory import Trajectory
from snapdyn.validation.claims.language import (
    EXACT,
    FROM_ZERO,
    INDEPENDENT_ATTENTION,
    INFINITE_LENGTH,
    ONE_COMMON_TOKEN,
    ONE_QUERY,
    OVERLAPPING,
    OWN_NEXT_TOKENS,
    SEVERAL_CLASSES,
    UNIFORM,
    WEAK_CORRELATION,
    WIDEST,
    Box,
    Family,
    Floats,
    Instance,
    Measure,
    Measured,
    Property,
    Requirement,
    flow,
)
from snapdyn.validation.claims.published import distinct_entropy, figure_6_runs, published_cells
from snapdyn.validation.claims.sample_classes import dominant_token
from snapdyn.validation.claims.transition._growth_bounds import EqualClasses

# A relative rounding error below which two profiles are the same.
SAME_PROFILE = 1e-12
# Attention's way is counted to this many t0: B grows like ln ln t without bound, so a share needs a horizon.
WHOLE = 1e6


def _profile_spread(instance: Instance) -> float:
    """Largest difference between classes of the common token's probability, or of the sorted distinct ones."""
    P, common = instance.P / instance.P.sum(axis=1, keepdims=True), instance.classes.common_tokens()
    profiles = np.hstack([P[:, common], np.sort(np.delete(P, common, axis=1), axis=1)])
    return np.ptp(profiles, axis=0).max()


EQUAL_PROFILES = Requirement(
    "equal profiles",
    f"largest difference of sorted probabilities between classes <= {SAME_PROFILE:g}",
    _profile_spread,
    at_most=SAME_PROFILE,
    defining=True,
)
NOT_FASTER = Requirement("attention not faster than the decoder", "eta_Z/eta_Y <= 1", lambda i: i.ratio, at_most=1)
DISTINCT_TOKENS = Requirement(
    "distinct tokens",
    "every class has a token of its own",
    lambda instance: min(instance.classes.distinct_tokens(n).size for n in range(instance.num_classes)),
    at_least=1,
    defining=True,
)
# What scanning and the readings speak of.
SCANNING = (SEVERAL_CLASSES, OWN_NEXT_TOKENS, DISTINCT_TOKENS, OVERLAPPING)
ONE_COMMON = (*SCANNING, FROM_ZERO, replace(INFINITE_LENGTH, defining=True), ONE_COMMON_TOKEN)
# Set-up of Theorem 4.
SYMMETRIC = (
    *SCANNING,
    *(replace(each, defining=True) for each in (ONE_QUERY, ONE_COMMON_TOKEN, UNIFORM)),
    FROM_ZERO,
    EQUAL_PROFILES,
    INDEPENDENT_ATTENTION,
)
SYMMETRIC_FAMILY = replace(
    WIDEST,
    name="symmetric classes",
    uniform=True,
    num_classes=(2, 20),
    num_common=(1, 1),
    num_distinct=(1, 6),
    num_queries=(1, 1),
    vocab_size=(4, 10**12),
    equal_profiles=True,
)

# Equal classes with more of them than a table could hold: probability of the common token, K eta_Z/eta_Y, and shares of
# the distinct tokens that fall by the factor `steepness` from one to the next, V = factor K.
MANY_CLASSES = Box(
    K=(20.0, 1e9, "log"), factor=(2.0, 1e6, "log"), common=(1e-4, 0.7, "log"), ratio=(1e-3, 1e6, "log"),
    tokens=(1, 6), steepness=(1.0, 100.0, "log"),
)  # fmt: skip
Given = Instance | Mapping[str, float]


def symmetric_property(
    name: str,
    measure: Measure,
    controls: dict[str, Measure],
    *more: Requirement,
    leading: bool = False,
    domain: Family = SYMMETRIC_FAMILY,
    corrected: bool = True,
) -> Property:
    """Property of symmetric classes under Eq. (10), with exact or `leading` beta; `more` conditions."""
    rung = "modified decoder, leading beta" if leading else "modified decoder"
    conditions = (*SYMMETRIC, *more)
    return Property(name, rung, measure, domain, conditions, controls, (60, 2000), corrected)


def equal_classes(given: Given) -> EqualClasses:
    """Equal classes of an instance, or of parameters of `MANY_CLASSES` at eta_Y = 1."""
    if isinstance(given, Instance):
        return EqualClasses.of(given)
    K, common = round(given["K"]), given["common"]
    shares = given["steepness"] ** -np.arange(given["tokens"])
    distinct = (1 - common) * shares / shares.sum()
    return EqualClasses(K, round(K * given["factor"]), distinct, common, (1.0, given["ratio"] / K))


# Set-up of readings (b) and (c) under Eq. (10).
WEAKLY_CORRELATED = (*SCANNING, INDEPENDENT_ATTENTION, FROM_ZERO, WEAK_CORRELATION, UNIFORM)
WEAK_FAMILY = Family(
    "weak correlation", vocab_size=(2, 10**12), ratio=(1e-6, 1e3), horizon=(1e-2, 1e6), eta_Y=(1e-6, 1e6)
)


def log_growth(trajectory: Trajectory, n: int = 0) -> Floats:
    """ln chi = 2 (z(t) - z(0)) of the dominant token of class n, without computing exp, (N,)."""
    classes, gains = trajectory.require_classes(), trajectory.z - trajectory.z_initial
    return 2 * gains[:, classes.query_index[n], dominant_token(classes, n)]


def transition(classes: SequenceClasses | EqualClasses, eta_Y: float = 1.0) -> tuple[float, float]:
    """Printed times t0' = K ln V/eta_Y and t0 = 2 (1+omega_1) K ln V/eta_Y, batch-size-1 steps."""
    K, V = classes.num_classes, classes.vocab_size
    return K * float(np.log(V)) / eta_Y, 2 * K * float(analytic.u_plus(V)) / eta_Y


def transitions(instance: Instance) -> Floats:
    """t0 = 2 u_+/(p_n eta_Y) of every class (S,), batch-size-1 steps."""
    return 2 * analytic.u_plus(instance.vocab_size) / (instance.flow_rates[0] * instance.prior)


def five_tokens(num_classes: int, common: float, vocab_size: int, eta_Z: float = 1.0) -> EqualClasses:
    """Classes of `single_common_token` with five distinct tokens, eta_Y = 1."""
    shares = np.linspace(0.1, 1.0, 5)
    return EqualClasses(num_classes, vocab_size, (1 - common) * shares / shares.sum(), common, (1.0, eta_Z))


@cache
def trained_entropies(*rates: tuple[float, float]) -> Floats:
    """Entropies (nats) at pairs (eta_Y, eta_Z) of SGD as in Fig. 6, Syn-Medium Q = 3: (settings, 1, ten seeds)."""
    runs = figure_6_runs([(syn_medium(3), *each) for each in rates], range(10))
    return np.array([[[*map(distinct_entropy, each)]] for each in runs])


def published_entropies() -> Floats:
    """Published table of Fig. 6: (Q, eta_Z, eta_Y/eta_Z), with increasing values along each axis."""
    return np.array([cell["entropy_mean"] for cell in published_cells()]).reshape(4, 4, 4)


def largest_step(entropy: Floats) -> Measured:
    """Largest change of the mean over seeds from a setting to the next, `entropy` (settings, cells, seeds).

    The entropy must fall, by 3.1 standard errors if there are several seeds: a one-sided test of size 1e-3.
    """
    steps = np.diff(entropy.mean(axis=2), axis=0).ravel()
    error = entropy.std(axis=2) / np.sqrt(max(entropy.shape[2] - 1, 1))
    at_most = 0 - 3.1 * np.hypot(error[1:], error[:-1]).ravel()
    worst = np.argmax(steps - at_most)
    return Measured(steps[worst], at_most=at_most[worst])


def changed(instance: Instance, eta_Y: float, eta_Z: float, t_end: float = 1.0) -> Instance:
    """Instance with its rates and its last time multiplied by factors."""
    return replace(instance, eta_Y=instance.eta_Y * eta_Y, eta_Z=instance.eta_Z * eta_Z, t_end=instance.t_end * t_end)


def growth_at_other_rates(instance: Instance, eta_Y: float, eta_Z: float) -> Floats:
    """ln chi of the dominant tokens at t_end under Eq. (10), without and with factors of the rates, (2, S)."""
    run, other = flow(instance, EXACT), flow(changed(instance, eta_Y, eta_Z), EXACT)
    return np.array([[log_growth(each, n)[-1] for n in range(instance.num_classes)] for each in (run, other)])


def monotonicity_violation(path: Floats) -> float:
    """How far a path (N,) falls that should rise from 0.

    If the path falls, the violation is the largest drop below the running maximum. Otherwise it is minus the smallest
    gain after the steepest part, relative to the largest value, so that a search can follow it towards a fall.
    """
    path = np.append(0.0, path)
    drop = float((np.maximum.accumulate(path) - path).max())
    gains = np.diff(path)
    return drop if drop > 0 else -float(gains[gains.argmax() :].min() / path.max())
