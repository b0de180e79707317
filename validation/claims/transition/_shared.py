"""What the chapter shares: equal classes in any number and bounds of their growth, domains, conditions, entropies.

The growth chi is that of the dominant token under Eq. (10); times are batch-size-1 steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import NamedTuple

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
    Measured,
    Requirement,
    flow,
    properties_on,
)
from snapdyn.validation.claims.published import distinct_entropy, figure_6_runs, published_cells
from snapdyn.validation.claims.sample_classes import dominant_token
from snapdyn.validation.rungs.run import single_common_profile

# Solution of x exp(x) = 1: u >= eta_Y s (1 - OMEGA/ln V) as long as eta_Y s <= ln V, see `lower_bound`.
OMEGA = 0.5671432904097838


class Overlap(NamedTuple):
    """Overlap of the classes at z = 0, by plain numpy.

    `least` and `most` bound A in (K-1) f_n.f_k E'_nk = A (f_n.f_k/x)^2 while f_n.f_k = y falls from x: with E'_nk =
    y/((1-y) (1+(K-1)y)), A is (K-1) x^2 over g(y) = 1 + (K-2) y - (K-1) y^2, which is concave.
    """

    rho0: float  # |c~|/P(common)
    x: float  # f_n.f_k = 1/rho0^2
    f0: float  # f of the dominant distinct token
    least: float
    most: float


@dataclass(frozen=True)
class EqualClasses:
    """Equal classes of one query with one common token and zero start; their number can be arbitrarily large."""

    num_classes: int
    vocab_size: int
    distinct: Floats  # probabilities of a class's distinct tokens, (d,)
    common: float  # probability of the common token
    flow_rates: tuple[float, float] = (1.0, 1.0)  # eta_Y and eta_Z

    @staticmethod
    def of(instance: Instance) -> EqualClasses:
        """The classes of an instance, which must be symmetric."""
        profile = single_common_profile(instance.classes)
        assert profile is not None
        return EqualClasses(instance.num_classes, instance.vocab_size, *profile[:2], instance.flow_rates)

    @cached_property
    def overlap(self) -> Overlap:
        """Overlap of two classes."""
        K, norm = self.num_classes, float(np.linalg.norm([self.common, *self.distinct]))
        x = (self.common / norm) ** 2

        def g(x: float) -> float:
            return 1 + (K - 2) * x - (K - 1) * x**2

        scale = (K - 1) * x**2
        top = min(x, (K - 2) / (2 * (K - 1)))
        return Overlap(norm / self.common, x, self.distinct.max() / norm, scale / g(top), scale / min(1.0, g(x)))

    def orbit(self, t: Floats, beta: str = "leading") -> analytic.Orbit:
        """Logits at the times `t` (N,), by one quadrature."""
        sizes = self.num_classes, self.vocab_size
        return analytic.single_common_token_orbit(t, self.distinct, self.common, *sizes, *self.flow_rates, beta=beta)

    def growth(self, t: Floats, beta: str = "leading") -> Floats:
        """ln chi of the dominant token at the times `t` (N,)."""
        return 2 * self.orbit(t, beta).z_distinct[:, np.argmax(self.distinct)]


def common_growth(classes: EqualClasses, t: Floats) -> Floats:
    """Gamma = eta_Z int gamma dt at the times `t`."""
    eta_Y, eta_Z = classes.flow_rates
    return eta_Z * analytic.gamma_integral(t, eta_Y, classes.vocab_size, classes.num_classes)


def lower_bound(classes: EqualClasses, t: Floats) -> Floats:
    """Lower bound of ln chi for t <= t0', derived here.

    With x = f_n.f_k: B' = (eta_Z/K) gamma (K-1) x beta and, by conservation, z_c' = -K (1-x) B'. The norms of the
    distinct parts grow by (ln |c~|^2)' <= 2 B', so x falls no faster than exp(-2 (K+1) B), and (K-1) x beta >= (K-1) x
    E' >= A exp(-4 (K+1) B), A = `Overlap.least`: B >= ln(1 + 4 (K+1)/K A Gamma)/(4 (K+1)); then chi >= exp(2 f0^2 B),
    Eq. (12). For the bound of Gamma = eta_Z (K/(2 eta_Y)) ((V-1)/V)^2 u^2: u/(eta_Y s) falls in s, and u >= ln V -
    OMEGA at eta_Y s = ln V, since there u = ln V - d with d <= exp(-d), by (45).
    """
    K, start = classes.num_classes, classes.overlap
    x = 4 * (K + 1) / K * start.least * least_common_growth(classes, t)
    return start.f0**2 / (2 * (K + 1)) * np.log1p(x)


def least_common_growth(classes: EqualClasses, t: Floats) -> Floats:
    """Lower bound of Gamma for t <= t0', derived in `lower_bound`."""
    V, (eta_Y, eta_Z) = classes.vocab_size, classes.flow_rates
    slowest = ((1 - 1 / V) * (1 - OMEGA / np.log(V))) ** 2
    return slowest * eta_Y * eta_Z * t**2 / (2 * classes.num_classes)


def upper_bound(classes: EqualClasses, t: Floats, too_large: float = 1.0) -> Floats:
    """Upper bound of ln chi with leading beta, derived here; A is `Overlap.most` over `too_large`.

    It is derived like `lower_bound`: f_n.f_k falls at least as fast as exp(-2 K (1-x)^2 B), so B <= ln(1 + 4 a
    A Gamma)/(4 a K), a = (1-x)^2, and chi <= exp(2 B), Eq. (12).
    """
    a = (1 - classes.overlap.x) ** 2
    x = 4 * a * classes.overlap.most / too_large * common_growth(classes, t)
    return np.log1p(x) / (2 * a * classes.num_classes)


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


# Of symmetric classes under Eq. (10), with exact beta.
symmetric_property = properties_on(
    "modified decoder", SYMMETRIC_FAMILY, *SYMMETRIC, evaluations=(60, 2000), corrected=True
)
LEADING_BETA = "modified decoder, leading beta"


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
