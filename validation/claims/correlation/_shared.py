"""Helpers of the chapter: overlaps of an instance, their rounding, and instances with many classes."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache

import numpy as np

from snapdyn.validation.claims.language import (
    EPS,
    LINEAR_ALGEBRA,
    ONE_COMMON_TOKEN,
    WIDEST,
    Floats,
    Instance,
    Measured,
    Property,
    Requirement,
    properties_on,
    spectral_norm,
)
from snapdyn.validation.claims.sample_classes import equal_overlap, random_attention, star

# Units of rounding that dense factorisations of Gram matrices may need.
UNITS = 16.0
# Attention vectors c~_n = P(.|n) exp(z) are those of an instance with z = 0 and P proportional to c~_n, so that a
# search over P at z = 0 covers every attention.
ANY_OVERLAP = replace(
    WIDEST,
    name="any overlap, at any attention",
    num_classes=(1, 100),
    num_queries=(1, 4),
    shared_next_tokens=True,
)
OVERLAPPING_CLASSES = replace(
    ANY_OVERLAP, name="classes that overlap, at any attention", num_classes=(2, 100), num_common=(1, 10)
)
# Distance of |lambda_1| from 1 below which float64 cannot tell 1/(1-|lambda_1|).
NEAR_ONE = 1e-6


FINITE_BOUND = Requirement(
    "|lambda_1| below 1",
    f"|lambda_1(E)| <= 1 - {NEAR_ONE:g}",
    lambda instance: float(spectral_norm(instance.overlaps)),
    at_most=1 - NEAR_ONE,
    defining=True,
)


def correlation_over_limit(instance: Instance) -> float:
    """|lambda_1| sqrt(K-2) max p/min p; 0 for classes with xi_n > 0 at any overlaps."""
    K, prior = instance.num_classes, instance.prior
    if K <= 2 or ONE_COMMON_TOKEN.on(instance).holds or (K == 3 and instance.uniform):
        return 0.0
    return spectral_norm(instance.overlaps) * np.sqrt(K - 2) * prior.max() / prior.min()


CORRELATION = Requirement(
    "correlation",
    "|lambda_1(E)| sqrt(K-2) max p/min p <= 1 (any with K = 2, one common token, or K = 3 and equal priors)",
    correlation_over_limit,
    at_most=1.0,
)


def root_mean_square(E: Floats) -> float:
    """Root mean square of the eigenvalues of E."""
    return np.linalg.norm(E) / np.sqrt(len(E))


def leading_error(E: Floats) -> Floats:
    """E' - E = -E (I+E)^{-1} E, (K, K), without the cancellation in E' - E (derivation second-order)."""
    return -E @ np.linalg.solve(np.eye(len(E)) + E, E)


def inverse_rounding(E: Floats, columns: int = 0) -> float:
    """Rounding of the entries of a dense inverse of G = I+E, (K + columns) eps |G| |G^{-1}|^2.

    With M `columns` it is that of singular vectors, which err by K+M units of rounding where an inverse errs by K.
    """
    values = np.linalg.eigvalsh(E)
    return float((len(E) + columns) * EPS * (1 + values[-1]) / (1 + values[0]) ** 2)


def product_rounding(E: Floats, power: int = 1) -> float:
    """Rounding of products with G^{-1}, relative to their bound, K eps cond(G)^`power` times `UNITS`."""
    return UNITS * len(E) * EPS * float(np.linalg.cond(np.eye(len(E)) + E)) ** power


def with_attention(f: Floats, vocab_size: int | None = None) -> Instance:
    """Classes of one query with attention vectors proportional to the rows of `f` (K, M)."""
    K = len(f)
    return Instance(f, np.zeros(K, dtype=int), np.ones(K), vocab_size or K, 1.0, 1.0, 1.0)


def star_of(num_classes: int, largest: float) -> Instance:
    """Classes, V = K, of which the last overlaps the centre of a star a little; |lambda_1| = `largest`.

    Class 0 overlaps K-2 others by r each, |lambda_1| = sqrt(K-2) r, and the last class n by little. For n, the vector
    G_{-n}^{-1} 1 is negative at class 0 as soon as (K-2) r > 1.
    """
    r = largest / np.sqrt(num_classes - 2)
    outer = max(0.5 * abs((num_classes - 2) * r - 1) / (num_classes - 1), 1e-4)
    return with_attention(star(num_classes, r, outer))


def equal_overlap_instance(num_classes: int, vocab_size: int | None = None) -> Instance:
    """Classes of which every two have the overlap 0.3."""
    return Instance.of(equal_overlap(num_classes, vocab_size or num_classes, 0.3), 1.0, 1.0, 1.0)


@cache
def fifty_classes() -> dict[str, Instance]:
    """Fifty random classes with six common tokens; class 0 holds none of them."""
    rng = np.random.default_rng(13)
    return {
        f"50 classes, |lambda_1| = {largest:g}": with_attention(random_attention(rng, 50, 6, 3, np.array([largest]))[0])
        for largest in (1e-3, 0.9)
    }


# Of the overlaps of classes.
overlap_property = properties_on(LINEAR_ALGEBRA, ANY_OVERLAP, evaluations=(400, 40_000))


def attained(
    name: str, measure: Callable[[Instance], Measured], least: float, cases: Mapping[str, Instance]
) -> Property:
    """Property that a bound is reached at named settings: there the bounded number is at least `least`."""
    return Property(
        f"reached: {name}",
        LINEAR_ALGEBRA,
        lambda instance: Measured(measure(instance).value, at_least=least),
        cases=cases,
    )
