"""Lemmas 16 and 17: the diagonal of E' is never positive, and E' is E to leading order."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from snapdyn.core.memory import require_affordable
from snapdyn.validation.claims.correlation._shared import (
    FINITE_BOUND,
    OVERLAPPING_CLASSES,
    UNITS,
    attained,
    fifty_classes,
    inverse_rounding,
    leading_error,
    overlap_property,
    product_rounding,
    with_attention,
)
from snapdyn.validation.claims.language import (
    INDEPENDENT_ATTENTION,
    Claim,
    Floats,
    Instance,
    Measured,
    attention_vectors,
    e_prime,
    overlap,
    spectral_norm,
)
from snapdyn.validation.claims.sample_classes import star


def own_bound(E: Floats, sign: float = 1.0) -> Floats:
    """sum_k E_ik^2/(1 + `sign` |lambda_1|), (K,); in the denominator of (93) the sign is -1."""
    return (E**2).sum(axis=1) / (1 + sign * spectral_norm(E))


def smallest_over_bound(
    instance: Instance,
    matrix: Callable[[Floats], Floats] = leading_error,
    bound: Callable[[Floats], Floats] = own_bound,
) -> Measured | None:
    """Smallest -`matrix`(E)_ii, which is -E'_ii, over `bound`(E) (K,) of overlapping classes; 1 if none overlaps."""
    E = instance.overlaps
    overlapping = np.flatnonzero(E.any(axis=1))
    if not overlapping.size:
        return Measured(1.0, at_least=1.0, where="no class overlaps another: E' = 0")
    least = bound(E)[overlapping]
    if (least <= 0).any():
        return None
    quotient = -np.diag(matrix(E))[overlapping] / least
    i = int(quotient.argmin())
    # Rounding of e^T G^{-1} e relative to its least value |e|^2/|G|.
    return Measured(quotient[i], at_least=1 - product_rounding(E, 2), where=f"class {overlapping[i]}")


def to_the_span(f: Floats) -> Floats:
    """Squared distances of attention vectors f_i from the span of the others, by least squares, (K,)."""
    require_affordable("least squares of each class on the others", 4 * f.shape[0] ** 3 * f.shape[1])
    others = [np.delete(f, i, axis=0).T for i in range(len(f))]
    rest = [own - A @ np.linalg.lstsq(A, own, rcond=None)[0] for own, A in zip(f, others, strict=True)]
    return np.array([each @ each for each in rest])


def by_distance(instance: Instance, distances: Callable[[Floats], Floats] = to_the_span) -> Measured:
    """|E'_ii - (1 - 1/dist^2)| with the squared `distances` of the attention vectors, in units of rounding."""
    E = instance.overlaps
    difference = np.diag(e_prime(E)) - (1 - 1 / distances(attention_vectors(instance)))
    return Measured(np.abs(difference).max() / inverse_rounding(E), at_most=UNITS)


LEMMA16 = Claim(
    "lemma16",
    of_rule="any",
    source="Lemma 16, Eq. (79)",
    title="The diagonal of I - (I+E)^-1, E the matrix of overlaps, is never positive",
    statement=(
        "E'_ii <= 0, and E'_ii < 0 if class i overlaps any other class. (Not in the paper: E'_ii < 0 only if class i "
        "overlaps another; -E'_ii >= sum_k E_ik^2/(1+|lambda_1|); Assumption 2, which the lemma assumes, is not "
        "needed.)"
    ),
    latex=r"E'_{ii}\le0,\qquad E'_{ii}<0\iff\exists k\ne i:E_{ik}\ne0,"
    r"\qquad -E'_{ii}\ge\frac{\sum_kE_{ik}^2}{1+|\lambda_1|}",
    conditions=("attention vectors linearly independent",),
    conclusion=(
        "Holds, and E'_nn < 0 exactly where class n overlaps another one; Assumption 2 is not needed. E'_nn is 1 - "
        "1/(1-s), s = e^T H^-1 e, e the overlaps of class n and H the Gram matrix of the others: s >= "
        "|e|^2/(1+|lambda_1|), and s = 0 for e = 0."
    ),
    properties=(
        overlap_property(
            "smallest -E'_ii (1+|lambda_1|)/sum_k E_ik^2 over classes that overlap another",
            smallest_over_bound,
            INDEPENDENT_ATTENTION,
            domain=OVERLAPPING_CLASSES,
            controls={
                "wrong theory: E' = E - E^2 + E^3, the series to third order": partial(
                    smallest_over_bound, matrix=lambda E: E @ E @ E - E @ E
                ),
                "wrong theory (F13): sum_k E_ik^2/(1-|lambda_1|), the denominator of (93)": partial(
                    smallest_over_bound, bound=partial(own_bound, sign=-1.0)
                ),
                "wrong theory: the bound of the average class for every class": partial(
                    smallest_over_bound, bound=lambda E: np.full(len(E), own_bound(E).mean())
                ),
            },
            cases=fifty_classes,
        ),
        overlap_property(
            "E'_ii by its definition against 1 - 1/dist(f_i, span of the others)^2, over K eps |G| |G^{-1}|^2",
            by_distance,
            INDEPENDENT_ATTENTION,
            controls={
                "wrong theory: the distance from the nearest other vector alone": partial(
                    by_distance, distances=lambda f: 1 - (overlap(f) ** 2).max(axis=1)
                )
            },
            directed=False,
            cases=fifty_classes,
        ),
    ),
    proved=("second-order",),
)


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
    E = instance.overlaps
    entries = np.abs(matrix(E)) * (1 - off_diagonal * np.eye(len(E)))
    n, k = np.unravel_index(entries.argmax(), entries.shape)
    quotient = entries[n, k] / bound(E, float(spectral_norm(E))) if E.any() else 0.0
    return Measured(quotient, at_most=constant + product_rounding(E), where=f"entry {n}, {k}")


off_diagonal = partial(largest_entry, constant=0.5, off_diagonal=True)


def definition(instance: Instance, matrix: Callable[[Floats], Floats] = leading_error) -> Measured:
    """E' by its definition against E + `matrix`(E), in units of the rounding of a dense inverse."""
    E = instance.overlaps
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

LEMMA17 = Claim(
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
