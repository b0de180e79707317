"""Lemma 17: E' is E to leading order."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import sympy as sp

from snapdyn.dynamics.classes import Floats
from snapdyn.validation.claims.correlation._shared import (
    ANY_OVERLAP,
    FINITE_BOUND,
    UNITS,
    a,
    ensembles,
    inverse_rounding,
    largest_by_rung,
    largest_eigenvalue,
    left_over,
    number_of,
    overlaps,
    symbolic_overlap,
)
from snapdyn.validation.dense_algebra import DENSE_ALGEBRA_ERROR, EPS, LINEAR_ALGEBRA, e_prime, overlap, spectral_norm
from snapdyn.validation.evidence import Evidence
from snapdyn.validation.pictures import Picture
from snapdyn.validation.properties import Measured, Property
from snapdyn.validation.register import claim
from snapdyn.validation.requirements import INDEPENDENT_ATTENTION
from snapdyn.validation.sample_classes import star
from snapdyn.validation.search import Instance


def difference(E: Floats) -> Floats:
    """E' - E = -E (I+E)^{-1} E, (K, K), without the cancellation of E' and E."""
    return -E @ np.linalg.solve(np.eye(len(E)) + E, E)


def printed_sign(E: Floats) -> Floats:
    """E' - E with E' = (I+E)^{-1} - I, the sign of appendix D.1, (K, K)."""
    return np.asarray(np.linalg.inv(np.eye(len(E)) + E) - np.eye(len(E)) - E)


def entry_squared(E: Floats, largest: float) -> float:
    """max E_ij^2/(1-|lambda_1|)."""
    return float((E**2).max() / (1 - largest))


def largest_entry(
    matrix: Callable[[Floats], Floats],
    bound: Callable[[Floats, float], float],
    constant: float,
    off_diagonal: bool,
    instance: Instance,
) -> Measured:
    """Largest entry of |`matrix`(E)| over `bound`(E, |lambda_1|), at most `constant`; 0 if no classes overlap.

    E (I+E)^{-1} E is known to K eps times its bound and the condition number of I+E.
    """
    E = overlaps(instance)
    entries = np.abs(matrix(E))
    if off_diagonal:
        np.fill_diagonal(entries, 0.0)
    n, k = np.unravel_index(entries.argmax(), entries.shape)
    largest = largest_eigenvalue(E)
    slack = UNITS * len(E) * EPS * float(np.linalg.cond(np.eye(len(E)) + E))
    limit = bound(E, largest)
    return Measured(entries[n, k] / limit if limit > 0 else 0.0, at_most=constant + slack, where=f"entry {n}, {k}")


def bound_of_the_lemma(E: Floats, largest: float) -> float:
    """|lambda_1|^2/(1-|lambda_1|)."""
    return largest**2 / (1 - largest)


def next_order(E: Floats, largest: float) -> float:
    """|lambda_1|^3/(1-|lambda_1|)."""
    return largest**3 / (1 - largest)


def as_two_classes(E: Floats, largest: float) -> float:
    """|lambda_1|^3/(1-|lambda_1|^2), the value off the diagonal for two classes."""
    return largest**3 / (1 - largest**2)


def definition(instance: Instance) -> Measured:
    """E' by its definition against E - E (I+E)^{-1} E, in units of the rounding of a dense inverse."""
    E = overlaps(instance)
    return Measured(float(np.abs(e_prime(E) - E - difference(E)).max() / inverse_rounding(E)), at_most=UNITS)


def series(instance: Instance) -> Measured:
    """Wrong theory: E' = E - E^2, the series to second order, in the same units."""
    E = overlaps(instance)
    return Measured(float(np.abs(e_prime(E) - E + E @ E).max() / inverse_rounding(E)), at_most=UNITS)


@claim(
    "lemma17",
    source="Lemma 17, Eq. (80)",
    title="E' is E to leading order",
    answer="Holds; off the diagonal half of the bound suffices.",
    statement="|E'_nk - E_nk| <= |lambda_1|^2/(1-|lambda_1|). (own: for n != k half of that suffices.)",
    latex=r"|E'_{nk}-E_{nk}|\le\frac{|\lambda_1|^2}{1-|\lambda_1|}",
    assumptions=("|lambda_1(E)| < 1",),
    findings=("F18",),
    properties=(
        Property(
            "largest |E'_nk - E_nk| over |lambda_1|^2/(1-|lambda_1|)",
            LINEAR_ALGEBRA,
            partial(largest_entry, difference, bound_of_the_lemma, 1.0, False),
            ANY_OVERLAP,
            conditions=(FINITE_BOUND,),
            controls={
                "wrong theory: |lambda_1|^3/(1-|lambda_1|)": partial(largest_entry, difference, next_order, 1.0, False),
                "wrong theory: max E_ij^2/(1-|lambda_1|), the square taken by entries": partial(
                    largest_entry, difference, entry_squared, 1.0, False
                ),
                "wrong theory (F18): E' with the sign of appendix D.1": partial(
                    largest_entry, printed_sign, bound_of_the_lemma, 1.0, False
                ),
            },
            evaluations=(400, 40_000),
        ),
        Property(
            "largest |E'_nk - E_nk| over |lambda_1|^2/(1-|lambda_1|) for n != k, own constant 1/2",
            LINEAR_ALGEBRA,
            partial(largest_entry, difference, bound_of_the_lemma, 0.5, True),
            ANY_OVERLAP,
            conditions=(FINITE_BOUND,),
            controls={
                "wrong theory, n != k: |lambda_1|^3/(1-|lambda_1|^2), the value for two classes": partial(
                    largest_entry, difference, as_two_classes, 1.0, True
                )
            },
            evaluations=(400, 40_000),
        ),
        Property(
            "E' by its definition against E - E (I+E)^{-1} E, over K eps |G| |G^{-1}|^2",
            LINEAR_ALGEBRA,
            definition,
            ANY_OVERLAP,
            conditions=(INDEPENDENT_ATTENTION,),
            controls={"wrong theory: E' = E - E^2": series},
            evaluations=(200, 10_000),
            directed=False,
        ),
    ),
)
def lemma17(evidence: Evidence) -> None:
    evidence.proved("second-order")
    pair = symbolic_overlap(2)
    evidence.holds(
        "K = 2: E' - E is a^2/(1-a^2) (-1 on, a off the diagonal)",
        "symbolic",
        left_over([
            *(sp.eye(2) - (sp.eye(2) + pair).inv() - pair - a**2 / (1 - a**2) * sp.Matrix([[-1, a], [a, -1]]))
        ]),
        at_most=0,
    )  # fmt: skip

    def ratio(f: Floats, diagonal: bool = True) -> Floats:
        """max |E' - E| (1-|lambda_1|)/|lambda_1|^2; 0 outside 1e-3 <= |lambda_1| < 0.99."""
        E = overlap(f)
        largest = spectral_norm(E)
        inside = (largest < 0.99) & (largest >= 0.999e-3)
        entries = np.abs(e_prime(E) - E) * (1 - (not diagonal) * np.eye(f.shape[1]))
        value = np.where(inside, largest, 0.5)
        return np.where(inside, entries.max(axis=(1, 2)) * (1 - value) / value**2, 0.0)

    batches = ensembles(evidence.full, 17, ceiling=0.99)
    # The inverse errs by at most 2 K eps/(1-|lambda_1|)^2; over the bound that is 2e6 K eps, at |lambda_1| = 1e-3.
    slack = 2e6 * DENSE_ALGEBRA_ERROR
    worst = largest_by_rung(ratio, batches)
    for rung, value in worst.items():
        evidence.holds("K = 2..50: largest |E' - E| (1-|lambda_1|)/|lambda_1|^2", rung, value, at_most=1 + slack)
    halves = largest_by_rung(partial(ratio, diagonal=False), batches)
    for rung, value in halves.items():
        evidence.holds("K = 2..50: the same for n != k, own constant 1/2", rung, value, at_most=0.5 + slack)
    # One class overlaps two that do not overlap each other: there the off-diagonal constant 1/2 is reached.
    r = np.geomspace(1e-3, 0.6, 40)
    E = overlap(np.array([star(3, value) for value in r]))
    largest = spectral_norm(E)
    corner = np.abs(e_prime(E) - E)[:, 1, 2] * (1 - largest) / largest**2
    pairs = ratio(np.array([star(2, value) for value in r]))
    evidence.holds("the bound is reached as |lambda_1| -> 0: two classes, overlap 1e-3, n = k", LINEAR_ALGEBRA,
                   float(pairs[0]), at_least=1 / (1 + 1e-3) - slack)  # fmt: skip
    evidence.holds("the same for 1/2: one class that overlaps two others by 1e-3, n != k", LINEAR_ALGEBRA,
                   float(corner[0]), at_least=0.5 / (1 + np.sqrt(2) * 1e-3) - slack)  # fmt: skip
    evidence.conclusion = (
        "E' - E = -(I+E)^{-1} E^2. The constant is reached on the diagonal as |lambda_1| -> 0 "
        f"({max(worst.values()):.5f} at K = 2..50); off it half is enough, since (I+E)^{{-1}} E^2 is semi-definite "
        f"({max(halves.values()):.5f}). {number_of(batches):,} instances of K = 2..50 classes besides the search."
    )
    evidence.picture = Picture(
        "|lambda_1|", "|E' - E| (1-|lambda_1|)/|lambda_1|^2",
        (
            Picture.line("bound", largest, np.ones(r.size), "bound"),
            Picture.line("two classes, n = k", r, pairs, "simulation"),
            Picture.line("own bound for n != k", largest, np.full(r.size, 0.5), "bound"),
            Picture.line("one class overlaps two, n != k", largest, corner, "simulation"),
        ),
    )  # fmt: skip
    evidence.seeds = [17]
