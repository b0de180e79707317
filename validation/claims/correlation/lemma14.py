"""Lemma 14: eigenvalues and eigenvectors of E' = I - (I+E)^{-1}."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import sympy as sp

from snapdyn.dynamics.classes import Floats
from snapdyn.validation.claims.correlation._shared import (
    ANY_OVERLAP,
    UNITS,
    attention,
    ensembles,
    inverse_rounding,
    largest_by_rung,
    left_over,
    number_of,
    symbolic_overlap,
    x,
)
from snapdyn.validation.dense_algebra import LINEAR_ALGEBRA, e_prime, overlap
from snapdyn.validation.evidence import Evidence
from snapdyn.validation.pictures import Picture
from snapdyn.validation.properties import Measured, Property
from snapdyn.validation.register import claim
from snapdyn.validation.requirements import INDEPENDENT_ATTENTION
from snapdyn.validation.search import Instance

Form = Callable[[Floats], Floats]


def right(eigenvalue: Floats) -> Floats:
    """Eigenvalue of E' in that of E."""
    return eigenvalue / (1 + eigenvalue)


def gap(f: Floats, form: Form) -> Floats:
    """Largest entry of E' U - U diag(form(lambda)), in units of rounding (K+M) eps |G| |G^{-1}|^2, (B,).

    f (B, K, M) are attention vectors; lambda and the eigenvectors U of E come from the singular values and vectors of
    f, E' from a dense inverse of the Gram matrix.
    """
    U, sigma, _ = np.linalg.svd(f, full_matrices=False)
    E = overlap(f)
    difference = e_prime(E) @ U - U * form(sigma**2 - 1)[:, None, :]
    # The singular vectors are those of a (K, M) matrix, so they err by K+M units of rounding where an inverse has K.
    size = (f.shape[1] + f.shape[2]) / f.shape[1]
    return np.asarray(np.abs(difference).max(axis=(1, 2)) / (size * inverse_rounding(E)))


def residual(form: Form, instance: Instance) -> Measured:
    """`gap` of one instance."""
    with np.errstate(divide="ignore"):
        return Measured(float(gap(attention(instance)[None], form)[0]), at_most=UNITS)


WRONG: dict[str, Form] = {
    "lambda/(1-lambda)": lambda value: value / np.where(value == 1, np.inf, 1 - value),
    "the sign of appendix D.1, E' = (I+E)^{-1} - I (F18)": lambda value: -value / (1 + value),
    "lambda, the leading order": lambda value: value,
}


@claim(
    "lemma14",
    source="Lemma 14, Eqs. (75)-(77)",
    title="E' has the eigenvectors of E, and the eigenvalues lambda_i/(1+lambda_i)",
    answer="Holds wherever attention vectors are linearly independent; |lambda_1| < 1 is not needed.",
    statement="I+E is invertible and (I+E)^{-1} = I - E', where E' has the eigenvectors of E and the eigenvalues "
    "lambda_i/(1+lambda_i). (Appendix D.1 defines E' with the other sign. own: linearly independent attention vectors "
    "suffice, |lambda_1| < 1 is not needed.)",
    latex=r"(I+E)^{-1}=I-E',\qquad\lambda_i(E')=\frac{\lambda_i}{1+\lambda_i}",
    assumptions=("attention vectors linearly independent",),
    findings=("F18",),
    grade="proved",
    properties=Property(
        "E' U - U diag(lambda/(1+lambda)), U the eigenvectors of E, over (K+M) eps |G| |G^{-1}|^2",
        LINEAR_ALGEBRA,
        partial(residual, right),
        ANY_OVERLAP,
        conditions=(INDEPENDENT_ATTENTION,),
        controls={f"wrong theory: {name}": partial(residual, form) for name, form in WRONG.items()},
        evaluations=(400, 40_000),
        directed=False,
    ),
)
def lemma14(evidence: Evidence) -> None:
    evidence.proved("eigenvalue-map")
    residuals = []
    for K in (2, 3):
        E, identity = symbolic_overlap(K), sp.eye(K)
        det = (identity + E).det()
        # det(I+E) (1+x) (E' - x/(1+x)), a polynomial.
        scaled = (det * identity - (1 + x) * (identity + E).adjugate()).applyfunc(sp.expand)
        residuals.append(sp.expand(scaled.det() - det ** (K - 1) * (E - x * identity).det()))
        # E' = I - adj(I+E)/det(I+E) shares E's eigenvectors as soon as it commutes with E.
        residuals.extend((E * (identity + E).adjugate() - (identity + E).adjugate() * E).expand())
    evidence.holds(
        "K = 2, 3: det(E' - x/(1+x)) - det(E - x)/(det(I+E) (1+x)^K), E E' - E' E", "symbolic", left_over(residuals),
        at_most=0,
    )  # fmt: skip
    batches = ensembles(evidence.full, 14)
    worst = largest_by_rung(partial(gap, form=right), batches)
    for rung, value in worst.items():
        evidence.holds("K = 2..50: the same residual, in units of rounding", rung, value, at_most=UNITS)
    evidence.conclusion = (
        "E' = (I+E)^{-1} E shares the eigenvectors of E. Measured to "
        f"{max(worst.values()):.2g} units of the rounding of a dense inverse, also on {number_of(batches):,} instances "
        "of K = 2..50 classes."
    )
    grid = np.linspace(-0.9, 3, 60)
    some = batches[9][1]
    lam = np.linalg.eigvalsh(overlap(some)).ravel()
    order = np.argsort(lam)
    evidence.picture = Picture(
        "lambda", "eigenvalue of E'",
        (
            Picture.line("lambda/(1+lambda)", grid, right(grid)),
            Picture.line(
                "measured, K = 5", lam[order], np.linalg.eigvalsh(e_prime(overlap(some))).ravel()[order], "simulation"
            ),
            Picture.line("wrong: lambda", grid, grid, "control"),
        ),
        xscale="linear",
    )  # fmt: skip
    evidence.seeds = [14]
