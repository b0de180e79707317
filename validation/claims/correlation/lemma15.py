"""Lemma 15: size of the eigenvalues of E'."""

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
    b,
    ensembles,
    inverse_rounding,
    largest_by_rung,
    largest_eigenvalue,
    left_over,
    number_of,
    overlaps,
    symbolic_overlap,
)
from snapdyn.validation.dense_algebra import DENSE_ALGEBRA_ERROR, LINEAR_ALGEBRA, e_prime, overlap, spectral_norm
from snapdyn.validation.evidence import Evidence
from snapdyn.validation.pictures import Picture
from snapdyn.validation.properties import Measured, Property
from snapdyn.validation.register import claim
from snapdyn.validation.sample_classes import star
from snapdyn.validation.search import Instance


def bound_of_the_lemma(largest: Floats) -> Floats:
    """Bound of the lemma in |lambda_1|."""
    return np.asarray(largest / (1 - largest))


def size_of_e_prime(E: Floats) -> Floats:
    """Largest |eigenvalue| of E', by a dense inverse, (...)."""
    return np.asarray(np.abs(np.linalg.eigvalsh(e_prime(E))).max(axis=-1))


def eigenvalue_over_bound(E: Floats, bound: float) -> Measured:
    """Largest |eigenvalue| of E' over `bound`, at most 1 up to the rounding of the inverse; 0 without any overlap."""
    if bound == 0:
        return Measured(0.0, at_most=1.0, where="no class overlaps another: E' = 0")
    return Measured(float(size_of_e_prime(E)) / bound, at_most=1 + UNITS * float(inverse_rounding(E)) / bound)


def largest_of_E_prime(bound: Callable[[Floats], Floats], instance: Instance) -> Measured:
    """Largest |eigenvalue| of E' over a bound in |lambda_1|."""
    E = overlaps(instance)
    return eigenvalue_over_bound(E, float(bound(np.array(largest_eigenvalue(E)))))


def as_typical_eigenvalue(instance: Instance) -> Measured:
    """Wrong theory: a typical eigenvalue sqrt(sum_i lambda_i^2/K) in place of the largest."""
    E = overlaps(instance)
    return eigenvalue_over_bound(E, float(bound_of_the_lemma(np.linalg.norm(E) / np.sqrt(len(E)))))


@claim(
    "lemma15",
    source="Lemma 15, Eqs. (78), (90)",
    title="The eigenvalues of E' are at most |lambda_1|/(1-|lambda_1|)",
    answer="Holds; two classes that overlap only each other reach equality.",
    statement="If |lambda_1(E)| <= lambda < 1, then |lambda_i(E')| <= |lambda_1|/(1-lambda) <= lambda/(1-lambda): "
    "measured at lambda = |lambda_1|, where it says most.",
    latex=r"|\lambda_i(E')|\le\frac{|\lambda_1|}{1-\lambda}\le\frac{\lambda}{1-\lambda}\quad(|\lambda_1|\le\lambda<1)",
    assumptions=("|lambda_1(E)| <= lambda < 1",),
    grade="proved",
    properties=Property(
        "largest |eigenvalue| of E' over |lambda_1|/(1-|lambda_1|)",
        LINEAR_ALGEBRA,
        partial(largest_of_E_prime, bound_of_the_lemma),
        ANY_OVERLAP,
        conditions=(FINITE_BOUND,),
        controls={
            "wrong theory: |lambda_1|, as if E' = E": partial(largest_of_E_prime, lambda value: value),
            "wrong theory: |lambda_1|/(1+|lambda_1|), as if all eigenvalues were positive": partial(
                largest_of_E_prime, lambda value: value / (1 + value)
            ),
            "wrong theory: the bound of the root mean square of the eigenvalues": as_typical_eigenvalue,
        },
        evaluations=(400, 40_000),
    ),
)
def lemma15(evidence: Evidence) -> None:
    evidence.proved("eigenvalue-map", "entry-bound")
    # b = |lambda_i| <= a = |lambda_1| < 1: what is subtracted is a product of factors >= 0.
    evidence.holds(
        "a/(1-a) - b/(1-b) - (a-b)/((1-a)(1-b)), a/(1-a) - b/(1+b) - (a-b+2ab)/((1-a)(1+b))",
        "symbolic",
        left_over([
            a / (1 - a) - b / (1 - b) - (a - b) / ((1 - a) * (1 - b)),
            a / (1 - a) - b / (1 + b) - (a - b + 2 * a * b) / ((1 - a) * (1 + b)),
        ]),
        at_most=0,
    )  # fmt: skip
    pair = symbolic_overlap(2)
    evidence.holds(
        "K = 2: lambda' are a/(1+a) and -a/(1-a)",
        "symbolic",
        left_over([
            (sp.eye(2) - (sp.eye(2) + pair).inv() - value * sp.eye(2)).det() for value in (a / (1 + a), -a / (1 - a))
        ]),
        at_most=0,
    )  # fmt: skip

    def ratio(f: Floats) -> Floats:
        """max |lambda'| over the bound; 0 outside 1e-3 < |lambda_1| < 0.99."""
        E = overlap(f)
        largest = spectral_norm(E)
        inside = (largest < 0.99) & (largest > 1e-3)
        return np.where(inside, size_of_e_prime(E) / bound_of_the_lemma(np.where(inside, largest, 0.5)), 0.0)

    batches = ensembles(evidence.full, 15, ceiling=0.99)
    worst = largest_by_rung(ratio, batches)
    # The inverse errs by K eps |G| |G^{-1}|^2 <= 2 K eps/(1-|lambda_1|)^2, the bound is |lambda_1|/(1-|lambda_1|): the
    # quotient is at most 2e3 K eps, at either end of 1e-3..0.99.
    slack = 2e3 * DENSE_ALGEBRA_ERROR
    for rung, value in worst.items():
        evidence.holds("K = 2..50: largest |lambda'| (1-|lambda_1|)/|lambda_1|, minus 1", rung, value - 1,
                       at_most=slack)  # fmt: skip
    evidence.holds("the bound is attained: largest ratio", LINEAR_ALGEBRA, max(worst.values()), at_least=1 - slack)
    evidence.conclusion = (
        "|lambda/(1+lambda)| is largest for a negative lambda = -|lambda_1|, which two classes that overlap only each "
        f"other have: there it is an equality. Also for {number_of(batches):,} instances of K = 2..50 classes with "
        "|lambda_1| < 0.99."
    )
    r = np.linspace(0.01, 0.9, 60)
    of_two_classes = size_of_e_prime(overlap(np.array([star(2, value) for value in r])))
    evidence.picture = Picture(
        "|lambda_1|", "largest |lambda'|",
        (
            Picture.line("bound", r, bound_of_the_lemma(r), "bound"),
            Picture.line("two classes", r, of_two_classes, "simulation"),
            Picture.line("wrong: |lambda_1|", r, r, "control"),
        ),
        xscale="linear",
    )  # fmt: skip
    evidence.seeds = [15]
