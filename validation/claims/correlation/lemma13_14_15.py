"""Lemmas 13 to 15: the overlaps are at most |lambda_1|; eigenvectors of E', and the size of its eigenvalues."""

from collections.abc import Callable
from functools import partial

import numpy as np

from snapdyn.validation.claims.correlation._shared import (
    FINITE_BOUND,
    UNITS,
    attained,
    equal_overlap_instance,
    fifty_classes,
    inverse_rounding,
    overlap_property,
    root_mean_square,
    with_attention,
)
from snapdyn.validation.claims.language import (
    EPS,
    INDEPENDENT_ATTENTION,
    Claim,
    Floats,
    Instance,
    Measured,
    attention_vectors,
    e_prime,
    spectral_norm,
)

# Attention vectors of ten classes of which the first two share a token, and no others do.
ONE_PAIR = np.eye(10, 11)
ONE_PAIR[:2, -1] = 1.0


def largest_overlap(instance: Instance, bound: Callable[[Floats], Floats | float] = spectral_norm) -> Measured:
    """Largest overlap over `bound`(E), at most 1 up to the rounding of eigenvalues; 0 if no classes overlap."""
    E = instance.overlaps
    i, j = np.unravel_index(E.argmax(), E.shape)
    quotient, where = (E[i, j] / bound(E), f"classes {i} and {j}") if E.any() else (0.0, "no class overlaps another")
    return Measured(quotient, at_most=1 + UNITS * len(E) * EPS, where=where)


LEMMA13 = Claim(
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


def residual(
    instance: Instance, form: Callable[[Floats], Floats] = lambda eigenvalue: eigenvalue / (1 + eigenvalue)
) -> Measured:
    """Largest entry of E' U - U diag(form(lambda)), in units of rounding (K+M) eps |G| |G^{-1}|^2.

    lambda and the eigenvectors U of E come from the singular values and vectors of the attention vectors, E' from a
    dense inverse of the Gram matrix.
    """
    f, E = attention_vectors(instance), instance.overlaps
    U, sigma, _ = np.linalg.svd(f, full_matrices=False)
    with np.errstate(divide="ignore"):
        difference = e_prime(E) @ U - U * form(sigma**2 - 1)
    return Measured(np.abs(difference).max() / inverse_rounding(E, columns=f.shape[1]), at_most=UNITS)


LEMMA14 = Claim(
    "lemma14",
    of_rule="any",
    source="Lemma 14, Eqs. (75)-(77)",
    title="I - (I+E)^-1 has the eigenvectors of E, the matrix of overlaps",
    statement=(
        "I+E is invertible and (I+E)^{-1} = I - E', where E' has the eigenvectors of E and the eigenvalues "
        "lambda_i/(1+lambda_i). (Appendix D.1 defines E' with the opposite sign. Not in the paper: linearly "
        "independent attention vectors suffice; |lambda_1| < 1 is not needed.)"
    ),
    latex=r"(I+E)^{-1}=I-E',\qquad\lambda_i(E')=\frac{\lambda_i}{1+\lambda_i}",
    conditions=("attention vectors linearly independent",),
    conclusion="Holds wherever attention vectors are linearly independent; |lambda_1| < 1 is not needed. "
    "Proved for any K: E' - lambda/(1+lambda) = G^-1 (E - lambda)/(1+lambda), G = I+E, so E u = lambda u gives E' u = "
    "lambda/(1+lambda) u, and the symmetric E has K orthonormal eigenvectors.",
    findings=("F18",),
    grade="proved",
    properties=(
        overlap_property(
            "E' U - U diag(lambda/(1+lambda)), U the eigenvectors of E, over (K+M) eps |G| |G^{-1}|^2",
            residual,
            INDEPENDENT_ATTENTION,
            controls={
                "wrong theory: lambda/(1-lambda)": partial(
                    residual, form=lambda value: value / np.where(value == 1, np.inf, 1 - value)
                ),
                "wrong theory: the sign of appendix D.1, E' = (I+E)^{-1} - I (F18)": partial(
                    residual, form=lambda value: -value / (1 + value)
                ),
                "wrong theory: lambda, the leading order": partial(residual, form=lambda value: value),
            },
            directed=False,
            cases=fifty_classes,
        ),
    ),
    proved=("eigenvalue-map",),
)


def largest_of_e_prime(
    instance: Instance,
    bound: Callable[[float], float] = lambda size: size / (1 - size),
    size: Callable[[Floats], Floats | float] = spectral_norm,
) -> Measured:
    """|lambda_1(E')| over `bound`(`size`(E)), at most 1 up to the rounding of the inverse; 0 without overlaps."""
    E = instance.overlaps
    if not E.any():
        return Measured(0.0, at_most=1.0, where="no class overlaps another: E' = 0")
    limit = bound(float(size(E)))
    return Measured(float(spectral_norm(e_prime(E))) / limit, at_most=1 + UNITS * inverse_rounding(E) / limit)


LEMMA15 = Claim(
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
