"""Lemma 14: eigenvalues and eigenvectors of E' = I - (I+E)^{-1}."""

from collections.abc import Callable
from functools import partial

import numpy as np

from snapdyn.validation.claims._shared import attention_vectors
from snapdyn.validation.claims.correlation._shared import (
    UNITS,
    fifty_classes,
    inverse_rounding,
    overlap_property,
    overlaps,
)
from snapdyn.validation.claims.language import INDEPENDENT_ATTENTION, Claim, Floats, Instance, Measured, e_prime


def residual(
    instance: Instance, form: Callable[[Floats], Floats] = lambda eigenvalue: eigenvalue / (1 + eigenvalue)
) -> Measured:
    """Largest entry of E' U - U diag(form(lambda)), in units of rounding (K+M) eps |G| |G^{-1}|^2.

    lambda and the eigenvectors U of E come from the singular values and vectors of the attention vectors, E' from a
    dense inverse of the Gram matrix.
    """
    f, E = attention_vectors(instance), overlaps(instance)
    U, sigma, _ = np.linalg.svd(f, full_matrices=False)
    with np.errstate(divide="ignore"):
        difference = e_prime(E) @ U - U * form(sigma**2 - 1)
    return Measured(np.abs(difference).max() / inverse_rounding(E, columns=f.shape[1]), at_most=UNITS)


CLAIM = Claim(
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
