"""Lemma 16: the diagonal of E' is never positive."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import sympy as sp

from snapdyn.dynamics.classes import Floats
from snapdyn.validation.claims.correlation._shared import (
    ANY_OVERLAP,
    OVERLAPPING_CLASSES,
    UNITS,
    attention,
    ensembles,
    inverse_rounding,
    largest_by_rung,
    left_over,
    number_of,
    overlaps,
    symbolic_overlap,
)
from snapdyn.validation.dense_algebra import DENSE_ALGEBRA_ERROR, EPS, LINEAR_ALGEBRA, e_prime, overlap
from snapdyn.validation.evidence import Evidence
from snapdyn.validation.pictures import Picture
from snapdyn.validation.properties import Measured, Property
from snapdyn.validation.register import claim
from snapdyn.validation.requirements import INDEPENDENT_ATTENTION
from snapdyn.validation.sample_classes import star
from snapdyn.validation.search import Instance


def minus_diagonal(E: Floats) -> Floats:
    """-E'_ii = e^T G^{-1} e with e the overlaps of class i, (K,), without the cancellation of 1 - (G^{-1})_ii.

    It follows from E' = E - E (I+E)^{-1} E (derivation second-order).
    """
    return np.asarray((E * np.linalg.solve(np.eye(len(E)) + E, E)).sum(axis=0))


def third_order(E: Floats) -> Floats:
    """-E'_ii by the series E - E^2 + E^3, (K,)."""
    return np.asarray(np.diag(E @ E - E @ E @ E))


def largest(E: Floats) -> float:
    return float(np.abs(np.linalg.eigvalsh(E)).max())


def smallest_over_bound(
    diagonal: Callable[[Floats], Floats], bound: Callable[[Floats], Floats], instance: Instance
) -> Measured | None:
    """Smallest over overlapping classes of -E'_ii over `bound`(E) (K,); 1 if no class overlaps another."""
    E = overlaps(instance)
    # Rounding of e^T G^{-1} e relative to its least value |e|^2/|G|.
    slack = UNITS * len(E) * EPS * float(np.linalg.cond(np.eye(len(E)) + E)) ** 2
    overlapping = np.flatnonzero(E.any(axis=1))
    if not overlapping.size:
        return Measured(1.0, at_least=1 - slack, where="no class overlaps another: E' = 0")
    least = bound(E)[overlapping]
    if (least <= 0).any():
        return None
    quotient = diagonal(E)[overlapping] / least
    i = int(quotient.argmin())
    return Measured(quotient[i], at_least=1 - slack, where=f"class {overlapping[i]}")


def own_bound(E: Floats) -> Floats:
    """sum_k E_ik^2/(1+|lambda_1|), (K,)."""
    return np.asarray((E**2).sum(axis=1) / (1 + largest(E)))


def printed_denominator(E: Floats) -> Floats:
    """sum_k E_ik^2/(1-|lambda_1|), as (93) has it, (K,)."""
    return np.asarray((E**2).sum(axis=1) / (1 - largest(E)))


def average_bound(E: Floats) -> Floats:
    """Mean over classes of the own bound, for every class, (K,)."""
    return np.full(len(E), own_bound(E).mean())


def distance_error(E: Floats, f: Floats) -> float:
    """|E'_ii - (1 - 1/dist^2)|, dist of f_i from the span of the others by least squares, in units of rounding."""
    diagonal = np.diag(e_prime(E))
    worst = 0.0
    for i, own in enumerate(f):
        others = np.delete(f, i, axis=0).T
        rest = own - others @ np.linalg.lstsq(others, own, rcond=None)[0]
        worst = max(worst, abs(diagonal[i] - (1 - 1 / (rest @ rest))))
    return float(worst / inverse_rounding(E))


def by_definition(instance: Instance) -> Measured:
    """`distance_error` of an instance."""
    return Measured(distance_error(overlaps(instance), attention(instance)), at_most=UNITS)


def by_nearest(instance: Instance) -> Measured:
    """Wrong theory: the nearest other class alone sets the distance, 1 - 1/(1 - max_k E_ik^2)."""
    E = overlaps(instance)
    difference = np.diag(e_prime(E)) - (1 - 1 / (1 - (E**2).max(axis=1)))
    return Measured(float(np.abs(difference).max() / inverse_rounding(E)), at_most=UNITS)


@claim(
    "lemma16",
    source="Lemma 16, Eq. (79)",
    title="The diagonal of E' is never positive",
    answer="Holds, and E'_nn < 0 exactly where class n overlaps another one; Assumption 2 is not needed.",
    statement="E'_ii <= 0, and E'_ii < 0 if class i overlaps any other class. (own: and only if; "
    "-E'_ii >= sum_k E_ik^2/(1+|lambda_1|); Assumption 2, which the lemma asks for, is not needed.)",
    latex=r"E'_{ii}\le0,\qquad E'_{ii}<0\iff\exists k\ne i:E_{ik}\ne0,"
    r"\qquad -E'_{ii}\ge\frac{\sum_kE_{ik}^2}{1+|\lambda_1|}",
    assumptions=("attention vectors linearly independent",),
    properties=(
        Property(
            "smallest -E'_ii (1+|lambda_1|)/sum_k E_ik^2 over classes that overlap another",
            LINEAR_ALGEBRA,
            partial(smallest_over_bound, minus_diagonal, own_bound),
            OVERLAPPING_CLASSES,
            conditions=(INDEPENDENT_ATTENTION,),
            controls={
                "wrong theory: E' = E - E^2 + E^3, the series to third order": partial(
                    smallest_over_bound, third_order, own_bound
                ),
                "wrong theory (F13): sum_k E_ik^2/(1-|lambda_1|), the denominator of (93)": partial(
                    smallest_over_bound, minus_diagonal, printed_denominator
                ),
                "wrong theory: the bound of the average class for every class": partial(
                    smallest_over_bound, minus_diagonal, average_bound
                ),
            },
            evaluations=(400, 40_000),
        ),
        Property(
            "E'_ii by its definition against 1 - 1/dist(f_i, span of the others)^2, over K eps |G| |G^{-1}|^2",
            LINEAR_ALGEBRA,
            by_definition,
            ANY_OVERLAP,
            conditions=(INDEPENDENT_ATTENTION,),
            controls={"wrong theory: the distance from the nearest other vector alone": by_nearest},
            evaluations=(200, 10_000),
            directed=False,
        ),
    ),
)
def lemma16(evidence: Evidence) -> None:
    residuals = []
    for K in (2, 3):
        G = sp.eye(K) + symbolic_overlap(K)
        e, rest = G[0, 1:], G[1:, 1:]
        s = (e * rest.inv() * e.T)[0]
        residuals.append((sp.eye(K) - G.inv())[0, 0] + s / (1 - s))
    evidence.holds("K = 2, 3: E'_11 + s/(1-s), s = e^T G_{-1}^{-1} e", "symbolic", left_over(residuals), at_most=0)
    evidence.proved("second-order")

    def excess(f: Floats) -> Floats:
        """Largest over classes of 1 - (-E'_ii)/(own bound), where the bound is at least 1e4 times the rounding."""
        E = overlap(f)
        diagonal = np.einsum("bii->bi", e_prime(E))
        least = (E**2).sum(axis=2) / (1 + np.abs(np.linalg.eigvalsh(E)).max(axis=1))[:, None]
        visible = least > 1e4 * inverse_rounding(E)[:, None]
        return np.asarray(np.where(visible, 1 + diagonal / np.where(visible, least, 1.0), -np.inf).max(axis=1))

    batches = ensembles(evidence.full, 16)
    for rung, value in largest_by_rung(excess, batches).items():
        # 16 units of rounding of a dense inverse, where the bound is 1e4 of them.
        evidence.holds("K = 2..50, overlapping classes: largest 1 - (-E'_ii)/(own bound)", rung, value,
                       at_most=UNITS / 1e4)  # fmt: skip
    alone = [np.einsum("bii->bi", e_prime(overlap(f)))[~overlap(f).any(axis=2)] for _, f in batches]
    count = sum(diagonal.size for diagonal in alone)
    evidence.holds(
        "classes that overlap no other, though others overlap: largest |E'_ii|", LINEAR_ALGEBRA,
        float(np.abs(np.concatenate(alone)).max()), at_most=DENSE_ALGEBRA_ERROR,
    )  # fmt: skip
    evidence.holds("how many such classes were seen", LINEAR_ALGEBRA, count, at_least=10)
    evidence.conclusion = (
        "1 - E'_ii = 1/(1-s), s = e^T G_{-i}^{-1} e with e the overlaps of class i: s >= 0, and s = 0 only for e = 0; "
        f"s >= |e|^2/(1+|lambda_1|) gives the size. Also for {number_of(batches):,} instances of K = 2..50 classes, "
        f"with {count:,} classes without overlap."
    )
    r = np.linspace(0.01, 0.9, 60)
    measured = e_prime(overlap(np.array([star(2, value) for value in r])))[:, 0, 0]
    evidence.picture = Picture(
        "overlap of two classes", "E'_ii",
        (
            Picture.line("measured", r, measured, "simulation"),
            Picture.line("-r^2/(1-r^2)", r, -(r**2) / (1 - r**2)),
            Picture.line("own bound -r^2/(1+r)", r, -(r**2) / (1 + r), "bound"),
            Picture.line("wrong: flipped sign", r, -measured, "control"),
        ),
        xscale="linear",
    )  # fmt: skip
    evidence.seeds = [16]
