"""Lemma 13: every overlap is at most |lambda_1|."""

from collections.abc import Callable
from functools import partial

import numpy as np

from snapdyn.validation.claims.correlation._shared import (
    UNITS,
    attained,
    equal_overlap_instance,
    overlap_property,
    overlaps,
    root_mean_square,
    with_attention,
)
from snapdyn.validation.claims.language import EPS, Claim, Floats, Instance, Measured, spectral_norm

# Attention vectors of ten classes of which the first two share a token, and no others do.
ONE_PAIR = np.eye(10, 11)
ONE_PAIR[:2, -1] = 1.0


def largest_overlap(instance: Instance, bound: Callable[[Floats], Floats | float] = spectral_norm) -> Measured:
    """Largest overlap over `bound`(E), at most 1 up to the rounding of eigenvalues; 0 if no classes overlap."""
    E = overlaps(instance)
    i, j = np.unravel_index(E.argmax(), E.shape)
    quotient, where = (E[i, j] / bound(E), f"classes {i} and {j}") if E.any() else (0.0, "no class overlaps another")
    return Measured(quotient, at_most=1 + UNITS * len(E) * EPS, where=where)


CLAIM = Claim(
    "lemma13",
    of_rule="any",
    source="Lemma 13, Eq. (74)",
    title="No overlap of two classes exceeds the largest |eigenvalue| of the matrix of overlaps",
    statement="max |E_ij| <= |lambda_1(E)|.",
    latex=r"\max_{ij}|E_{ij}|\le|\lambda_1(E)|",
    conditions=("E symmetric",),
    conclusion=(
        "Holds, with equality for K = 2 and where only one pair of classes overlaps. With equal overlaps of 50 "
        "classes max |E_ij| is {50 classes, equal overlaps} |lambda_1|."
    ),
    properties=(
        overlap_property(
            "largest overlap over |lambda_1|",
            largest_overlap,
            controls={
                "wrong theory: |lambda_1|/(K-1), the value for equal overlaps, as a bound": partial(
                    largest_overlap, bound=lambda E: spectral_norm(E) / max(len(E) - 1, 1)
                ),
                "wrong theory: the root mean square of the eigenvalues as a bound": partial(
                    largest_overlap, bound=root_mean_square
                ),
            },
            cases={"50 classes, equal overlaps": equal_overlap_instance(50)},
        ),
        attained(
            "largest overlap over |lambda_1|",
            largest_overlap,
            1 - 1e-12,
            {"two classes": equal_overlap_instance(2), "one pair of ten classes": with_attention(ONE_PAIR)},
        ),
    ),
)
