"""Lemma 15: size of the eigenvalues of E'."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from snapdyn.dynamics.classes import Floats
from snapdyn.validation.claims.correlation._shared import (
    ANY_OVERLAP,
    FINITE_BOUND,
    UNITS,
    fifty_classes,
    inverse_rounding,
    overlaps,
)
from snapdyn.validation.dense_algebra import LINEAR_ALGEBRA, e_prime, overlap, spectral_norm
from snapdyn.validation.sample_classes import star
from snapdyn.validation.statement import Claim, Instance, Measured, Picture, Property


def bound_of_the_lemma(largest: Floats) -> Floats:
    """Bound of the lemma in |lambda_1|."""
    return np.asarray(largest / (1 - largest))


def size_of_e_prime(E: Floats) -> Floats:
    """Largest |eigenvalue| of E', by a dense inverse, (...)."""
    return np.asarray(np.abs(np.linalg.eigvalsh(e_prime(E))).max(axis=-1))


def largest_of_E_prime(bound: Callable[[Floats], Floats | float], instance: Instance) -> Measured:
    """Largest |eigenvalue| of E' over `bound`(E), at most 1 up to the rounding of the inverse; 0 without overlaps."""
    E = overlaps(instance)
    limit = float(bound(E))
    if limit == 0:
        return Measured(0.0, at_most=1.0, where="no class overlaps another: E' = 0")
    return Measured(float(size_of_e_prime(E)) / limit, at_most=1 + UNITS * float(inverse_rounding(E)) / limit)


def picture() -> Picture:
    """Largest eigenvalue of E' of two classes, which reaches the bound."""
    r = np.linspace(0.01, 0.9, 60)
    of_two_classes = size_of_e_prime(overlap(np.array([star(2, value) for value in r])))
    return Picture(
        "|lambda_1|", "largest |lambda'|",
        (
            Picture.line("bound", r, bound_of_the_lemma(r), "bound"),
            Picture.line("two classes", r, of_two_classes, "simulation"),
            Picture.line("wrong: |lambda_1|", r, r, "control"),
        ),
        xscale="linear",
    )  # fmt: skip


CLAIM = Claim(
    "lemma15",
    source="Lemma 15, Eqs. (78), (90)",
    title="The eigenvalues of E' are at most |lambda_1|/(1-|lambda_1|)",
    statement="If |lambda_1(E)| <= lambda < 1, then |lambda_i(E')| <= |lambda_1|/(1-lambda) <= lambda/(1-lambda): "
    "measured at lambda = |lambda_1|, where it says most.",
    latex=r"|\lambda_i(E')|\le\frac{|\lambda_1|}{1-\lambda}\le\frac{\lambda}{1-\lambda}\quad(|\lambda_1|\le\lambda<1)",
    conditions=("|lambda_1(E)| <= lambda < 1",),
    conclusion="Holds; two classes that overlap only each other reach equality. The largest |lambda/(1+lambda)| is "
    "that of a negative lambda = -|lambda_1|, which they have.",
    grade="proved",
    properties=(
        Property(
            "largest |eigenvalue| of E' over |lambda_1|/(1-|lambda_1|)",
            LINEAR_ALGEBRA,
            partial(largest_of_E_prime, lambda E: bound_of_the_lemma(spectral_norm(E))),
            ANY_OVERLAP,
            conditions=(FINITE_BOUND,),
            controls={
                "wrong theory: |lambda_1|, as if E' = E": partial(largest_of_E_prime, spectral_norm),
                "wrong theory: |lambda_1|/(1+|lambda_1|), as if all eigenvalues were positive": partial(
                    largest_of_E_prime, lambda E: spectral_norm(E) / (1 + spectral_norm(E))
                ),
                "wrong theory: the bound of the root mean square of the eigenvalues": partial(
                    largest_of_E_prime, lambda E: bound_of_the_lemma(np.linalg.norm(E) / np.sqrt(len(E)))
                ),
            },
            evaluations=(400, 40_000),
            cases=fifty_classes,
        ),
    ),
    proved=("eigenvalue-map", "entry-bound"),
    picture=picture,
)
