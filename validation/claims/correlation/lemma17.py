"""Lemma 17: E' is E to leading order."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from snapdyn.validation.claims.correlation._shared import (
    FINITE_BOUND,
    UNITS,
    attained,
    fifty_classes,
    inverse_rounding,
    leading_error,
    overlap_property,
    overlaps,
    product_rounding,
    with_attention,
)
from snapdyn.validation.claims.language import (
    INDEPENDENT_ATTENTION,
    Claim,
    Floats,
    Instance,
    Measured,
    e_prime,
    spectral_norm,
)
from snapdyn.validation.claims.sample_classes import star


def largest_entry(
    instance: Instance,
    matrix: Callable[[Floats], Floats] = leading_error,
    bound: Callable[[Floats, float], float] = lambda E, largest: largest**2 / (1 - largest),
    constant: float = 1.0,
    off_diagonal: bool = False,
) -> Measured:
    """Largest entry of |`matrix`(E)| over `bound`(E, |lambda_1|), at most `constant`; 0 if no classes overlap.

    The error of E (I+E)^{-1} E is K eps times its bound times the condition number of I+E.
    """
    E = overlaps(instance)
    entries = np.abs(matrix(E)) * (1 - off_diagonal * np.eye(len(E)))
    n, k = np.unravel_index(entries.argmax(), entries.shape)
    quotient = entries[n, k] / bound(E, float(spectral_norm(E))) if E.any() else 0.0
    return Measured(quotient, at_most=constant + product_rounding(E), where=f"entry {n}, {k}")


off_diagonal = partial(largest_entry, constant=0.5, off_diagonal=True)


def definition(instance: Instance, matrix: Callable[[Floats], Floats] = leading_error) -> Measured:
    """E' by its definition against E + `matrix`(E), in units of the rounding of a dense inverse."""
    E = overlaps(instance)
    return Measured(np.abs(e_prime(E) - E - matrix(E)).max() / inverse_rounding(E), at_most=UNITS)


ANY_ENTRY = overlap_property(
    "largest |E'_nk - E_nk| over |lambda_1|^2/(1-|lambda_1|)",
    largest_entry,
    FINITE_BOUND,
    controls={
        "wrong theory: |lambda_1|^3/(1-|lambda_1|)": partial(
            largest_entry, bound=lambda E, largest: largest**3 / (1 - largest)
        ),
        "wrong theory: max E_ij^2/(1-|lambda_1|), the square taken by entries": partial(
            largest_entry, bound=lambda E, largest: (E**2).max() / (1 - largest)
        ),
        "wrong theory (F18): E' with the sign of appendix D.1": partial(
            largest_entry, matrix=lambda E: -e_prime(E) - E
        ),
    },
    cases=fifty_classes,
)

CLAIM = Claim(
    "lemma17",
    of_rule="any",
    source="Lemma 17, Eq. (80)",
    title="For small overlaps, I - (I+E)^-1 is E, the matrix of overlaps, to leading order",
    statement=(
        "|E'_nk - E_nk| <= |lambda_1|^2/(1-|lambda_1|). (Not in the paper: for n != k the difference is at most half "
        "of this bound.)"
    ),
    latex=r"|E'_{nk}-E_{nk}|\le\frac{|\lambda_1|^2}{1-|\lambda_1|}",
    conditions=("|lambda_1(E)| < 1",),
    conclusion=(
        "Holds; off the diagonal the difference is at most half of the bound. As |lambda_1| -> 0, two classes reach "
        "the bound on the diagonal, and a class that overlaps two others reaches half of the bound off the diagonal."
    ),
    findings=("F18",),
    properties=(
        ANY_ENTRY,
        replace(
            ANY_ENTRY,
            name=f"{ANY_ENTRY.name} for n != k, own constant 1/2",
            measure=off_diagonal,
            controls={
                "wrong theory, n != k: |lambda_1|^3/(1-|lambda_1|^2), the value for two classes": partial(
                    off_diagonal, bound=lambda E, largest: largest**3 / (1 - largest**2), constant=1.0
                )
            },
        ),
        # Exactly 1/(1+r) and 1/(2 (1 + sqrt(2) r)), at the overlap r = 1e-3.
        attained("|E'_nn - E_nn|", largest_entry, 0.998, {"two classes, overlap 1e-3": with_attention(star(2, 1e-3))}),
        attained("|E'_nk - E_nk|", off_diagonal, 0.499, {"one overlaps two, by 1e-3": with_attention(star(3, 1e-3))}),
        overlap_property(
            "E' by its definition against E - E (I+E)^{-1} E, over K eps |G| |G^{-1}|^2",
            definition,
            INDEPENDENT_ATTENTION,
            controls={"wrong theory: E' = E - E^2": partial(definition, matrix=lambda E: -E @ E)},
            directed=False,
        ),
    ),
    proved=("second-order",),
)
