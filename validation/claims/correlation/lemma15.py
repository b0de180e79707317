"""Lemma 15: size of the eigenvalues of E'."""

from collections.abc import Callable
from functools import partial

from snapdyn.validation.claims.correlation._shared import (
    FINITE_BOUND,
    UNITS,
    attained,
    equal_overlap_instance,
    fifty_classes,
    inverse_rounding,
    overlap_property,
    overlaps,
    root_mean_square,
)
from snapdyn.validation.claims.language import Claim, Floats, Instance, Measured, e_prime, spectral_norm


def largest_of_e_prime(
    instance: Instance,
    bound: Callable[[float], float] = lambda size: size / (1 - size),
    size: Callable[[Floats], Floats | float] = spectral_norm,
) -> Measured:
    """|lambda_1(E')| over `bound`(`size`(E)), at most 1 up to the rounding of the inverse; 0 without overlaps."""
    E = overlaps(instance)
    if not E.any():
        return Measured(0.0, at_most=1.0, where="no class overlaps another: E' = 0")
    limit = bound(float(size(E)))
    return Measured(float(spectral_norm(e_prime(E))) / limit, at_most=1 + UNITS * inverse_rounding(E) / limit)


CLAIM = Claim(
    "lemma15",
    of_rule="any",
    source="Lemma 15, Eqs. (78), (90)",
    title="The eigenvalues of I - (I+E)^-1, E the matrix of overlaps, are bounded by the largest of E",
    statement=(
        "If |lambda_1(E)| <= lambda < 1, then |lambda_i(E')| <= |lambda_1|/(1-lambda) <= lambda/(1-lambda): measured "
        "at lambda = |lambda_1|, where the bound is tightest."
    ),
    latex=r"|\lambda_i(E')|\le\frac{|\lambda_1|}{1-\lambda}\le\frac{\lambda}{1-\lambda}\quad(|\lambda_1|\le\lambda<1)",
    conditions=("|lambda_1(E)| <= lambda < 1",),
    conclusion=(
        "Holds; two classes that overlap only each other reach equality. The largest |lambda/(1+lambda)| is at "
        "lambda = -|lambda_1|, which is an eigenvalue of such classes."
    ),
    grade="proved",
    properties=(
        overlap_property(
            "largest |eigenvalue| of E' over |lambda_1|/(1-|lambda_1|)",
            largest_of_e_prime,
            FINITE_BOUND,
            controls={
                "wrong theory: |lambda_1|, as if E' = E": partial(largest_of_e_prime, bound=lambda size: size),
                "wrong theory: |lambda_1|/(1+|lambda_1|), as if all eigenvalues were positive": partial(
                    largest_of_e_prime, bound=lambda size: size / (1 + size)
                ),
                "wrong theory: the bound of the root mean square of the eigenvalues": partial(
                    largest_of_e_prime, size=root_mean_square
                ),
            },
            cases=fifty_classes,
        ),
        attained(
            "largest |eigenvalue| of E' over |lambda_1|/(1-|lambda_1|)",
            largest_of_e_prime,
            1 - 1e-12,
            {"two classes": equal_overlap_instance(2)},
        ),
    ),
    proved=("eigenvalue-map", "entry-bound"),
)
