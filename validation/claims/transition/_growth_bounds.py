"""Growth chi of the dominant token under Eq. (10): symmetric classes with one common token, zero start.

Two bounds of ln chi and its value on the orbit. Times are batch-size-1 steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from snapdyn import analytic
from snapdyn.validation.claims.language import Floats, Instance
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
