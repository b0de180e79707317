"""Lemma 13: every overlap is at most |lambda_1|."""

from __future__ import annotations

import numpy as np
import sympy as sp

from snapdyn.dynamics.classes import Floats
from snapdyn.validation.claims.correlation._shared import (
    ANY_OVERLAP,
    UNITS,
    a,
    b,
    c,
    ensembles,
    largest_by_rung,
    largest_eigenvalue,
    left_over,
    number_of,
    overlaps,
    symbolic_overlap,
    x,
)
from snapdyn.validation.dense_algebra import DENSE_ALGEBRA_ERROR, EPS, LINEAR_ALGEBRA, overlap, spectral_norm
from snapdyn.validation.evidence import Evidence
from snapdyn.validation.pictures import Picture
from snapdyn.validation.properties import Measured, Property
from snapdyn.validation.register import claim
from snapdyn.validation.sample_classes import equal_overlap
from snapdyn.validation.search import Instance


def overlap_over_bound(E: Floats, bound: float) -> Measured:
    """Largest overlap over `bound`, at most 1 up to the rounding of eigenvalues; 0 if no classes overlap."""
    i, j = np.unravel_index(E.argmax(), E.shape)
    largest = float(E[i, j])
    where = f"classes {i} and {j}" if largest > 0 else "no class overlaps another"
    return Measured(largest / bound if largest > 0 else 0.0, at_most=1 + UNITS * len(E) * EPS, where=where)


def largest_overlap(instance: Instance) -> Measured:
    """Largest overlap over |lambda_1|."""
    E = overlaps(instance)
    return overlap_over_bound(E, largest_eigenvalue(E))


def as_equal_overlaps(instance: Instance) -> Measured:
    """Wrong theory |lambda_1| = (K-1) max E_ij, that of equal overlaps: largest overlap over |lambda_1|/(K-1)."""
    E = overlaps(instance)
    return overlap_over_bound(E, largest_eigenvalue(E) / max(len(E) - 1, 1))


def as_typical_eigenvalue(instance: Instance) -> Measured:
    """Wrong theory: a typical eigenvalue bounds the overlaps, sqrt(sum_i lambda_i^2/K)."""
    E = overlaps(instance)
    return overlap_over_bound(E, float(np.linalg.norm(E) / np.sqrt(len(E))))


@claim(
    "lemma13",
    source="Lemma 13, Eq. (74)",
    title="Every overlap is at most |lambda_1|",
    answer="Holds; for K = 2 it is an equality.",
    statement="max |E_ij| <= |lambda_1(E)|.",
    latex=r"\max_{ij}|E_{ij}|\le|\lambda_1(E)|",
    assumptions=("E symmetric",),
    properties=Property(
        "largest overlap over |lambda_1|",
        LINEAR_ALGEBRA,
        largest_overlap,
        ANY_OVERLAP,
        controls={
            "wrong theory: |lambda_1|/(K-1), the value for equal overlaps, as a bound": as_equal_overlaps,
            "wrong theory: the root mean square of the eigenvalues as a bound": as_typical_eigenvalue,
        },
        evaluations=(400, 40_000),
    ),
)
def lemma13(evidence: Evidence) -> None:
    def ratio(f: Floats) -> Floats:
        E = overlap(f)
        return np.asarray(np.abs(E).max(axis=(1, 2)) / np.maximum(spectral_norm(E), 1e-300))

    characteristic = sp.expand((x * sp.eye(3) - symbolic_overlap(3)).det())
    evidence.holds(
        # det(x - E) at x = a is -a (b+c)^2: the sign says that an eigenvalue lies beyond a.
        "K = 2: det(a - E); K = 3: det(a - E) + a (b+c)^2",
        "symbolic",
        left_over([(a * sp.eye(2) - symbolic_overlap(2)).det(), characteristic.subs(x, a) + a * (b + c) ** 2]),
        at_most=0,
    )
    batches = ensembles(evidence.full, 13)
    worst = largest_by_rung(ratio, batches)
    for rung, value in worst.items():
        evidence.holds("K = 2..50: largest overlap over |lambda_1|, minus 1", rung, value - 1,
                       at_most=DENSE_ALGEBRA_ERROR)  # fmt: skip
    evidence.holds("the bound is attained: largest ratio", LINEAR_ALGEBRA, max(worst.values()),
                   at_least=1 - DENSE_ALGEBRA_ERROR)  # fmt: skip
    evidence.conclusion = (
        "|E_ij| = |e_i^T E e_j| <= |lambda_1|. Attained for K = 2 and whenever one pair of classes overlaps alone; "
        f"equal overlaps reach 1/(K-1) of it. Also for {number_of(batches):,} instances of K = 2..50 classes."
    )
    sizes = list(range(2, 51))
    shown = [float(ratio(equal_overlap(K, K, 0.3).decoder_inputs().toarray()[None])[0]) for K in sizes]
    evidence.picture = Picture(
        "K", "max|E_ij|/|lambda_1|, equal overlaps",
        (
            Picture.line("measured", sizes, shown, "simulation"),
            Picture.line("1/(K-1)", sizes, [1 / (K - 1) for K in sizes]),
            Picture.line("bound", sizes, np.ones(len(sizes)), "bound"),
        ),
        xscale="linear",
    )  # fmt: skip
    evidence.seeds = [13]
