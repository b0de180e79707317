"""Lemma 14: eigenvalues and eigenvectors of E' = I - (I+E)^{-1}."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from snapdyn.dynamics.classes import Floats
from snapdyn.validation.claims.correlation._shared import (
    ANY_OVERLAP,
    UNITS,
    attention,
    fifty_classes,
    inverse_rounding,
    overlaps,
)
from snapdyn.validation.dense_algebra import LINEAR_ALGEBRA, e_prime, overlap
from snapdyn.validation.requirements import INDEPENDENT_ATTENTION
from snapdyn.validation.sample_classes import random_attention
from snapdyn.validation.statement import Claim, Instance, Measured, Picture, Property

Form = Callable[[Floats], Floats]


def right(eigenvalue: Floats) -> Floats:
    """Eigenvalue of E' in that of E."""
    return eigenvalue / (1 + eigenvalue)


def residual(form: Form, instance: Instance) -> Measured:
    """Largest entry of E' U - U diag(form(lambda)), in units of rounding (K+M) eps |G| |G^{-1}|^2.

    lambda and the eigenvectors U of E come from the singular values and vectors of the attention vectors, E' from a
    dense inverse of the Gram matrix.
    """
    f, E = attention(instance), overlaps(instance)
    U, sigma, _ = np.linalg.svd(f, full_matrices=False)
    with np.errstate(divide="ignore"):
        difference = e_prime(E) @ U - U * form(sigma**2 - 1)
    # The singular vectors are those of a (K, M) matrix, so they err by K+M units of rounding where an inverse has K.
    unit = sum(f.shape) / len(f) * inverse_rounding(E)
    return Measured(np.abs(difference).max() / unit, at_most=UNITS)


WRONG: dict[str, Form] = {
    "lambda/(1-lambda)": lambda value: value / np.where(value == 1, np.inf, 1 - value),
    "the sign of appendix D.1, E' = (I+E)^{-1} - I (F18)": lambda value: -value / (1 + value),
    "lambda, the leading order": lambda value: value,
}


def picture() -> Picture:
    """Eigenvalues of E' against those of E, for random instances of five classes."""
    E = overlap(random_attention(np.random.default_rng(14), 5, 2, 3, np.geomspace(1e-3, 4, 40)))
    of_E, of_E_prime = (np.sort(np.linalg.eigvalsh(matrix).ravel()) for matrix in (E, e_prime(E)))
    grid = np.linspace(-0.9, 3, 60)
    return Picture(
        "lambda", "eigenvalue of E'",
        (
            Picture.line("lambda/(1+lambda)", grid, right(grid)),
            Picture.line("measured, K = 5", of_E, of_E_prime, "simulation"),
            Picture.line("wrong: lambda", grid, grid, "control"),
        ),
        xscale="linear",
    )  # fmt: skip


CLAIM = Claim(
    "lemma14",
    source="Lemma 14, Eqs. (75)-(77)",
    title="E' has the eigenvectors of E, and the eigenvalues lambda_i/(1+lambda_i)",
    statement="I+E is invertible and (I+E)^{-1} = I - E', where E' has the eigenvectors of E and the eigenvalues "
    "lambda_i/(1+lambda_i). (Appendix D.1 defines E' with the other sign. own: linearly independent attention vectors "
    "suffice, |lambda_1| < 1 is not needed.)",
    latex=r"(I+E)^{-1}=I-E',\qquad\lambda_i(E')=\frac{\lambda_i}{1+\lambda_i}",
    conditions=("attention vectors linearly independent",),
    conclusion="Holds wherever attention vectors are linearly independent; |lambda_1| < 1 is not needed.",
    findings=("F18",),
    grade="proved",
    properties=(
        Property(
            "E' U - U diag(lambda/(1+lambda)), U the eigenvectors of E, over (K+M) eps |G| |G^{-1}|^2",
            LINEAR_ALGEBRA,
            partial(residual, right),
            ANY_OVERLAP,
            conditions=(INDEPENDENT_ATTENTION,),
            controls={f"wrong theory: {name}": partial(residual, form) for name, form in WRONG.items()},
            evaluations=(400, 40_000),
            directed=False,
            cases=fifty_classes,
        ),
    ),
    proved=("eigenvalue-map",),
    picture=picture,
)
