"""Claims on weak correlation: the own forms of xi_n, its boundary, and the conditions of Assumption 2."""

from dataclasses import replace
from itertools import count

import numpy as np
import pytest

from snapdyn.validation.claims.correlation import theorem1a
from snapdyn.validation.claims.correlation._shared import (
    equal_overlap_instance,
    star_of,
)
from snapdyn.validation.claims.correlation.assumption2 import in_pairs, needed
from snapdyn.validation.claims.correlation.theorem1a import growth, growth_at
from snapdyn.validation.dense_algebra import growth_over_gamma, spectral_norm


@pytest.mark.parametrize(("K", "factor"), [(4, 0.98), (4, 1.02), (30, 0.98), (30, 1.02)])
def test_xi_of_a_star_changes_its_sign_at_the_limit(K: int, factor: float) -> None:
    """Assert |lambda_1| of `star_of`, and the sign of the smallest xi_n on both sides of 1/sqrt(K-2)."""
    instance = star_of(K, factor / np.sqrt(K - 2))
    assert spectral_norm(instance.overlaps) == pytest.approx(factor / np.sqrt(K - 2), rel=1e-3)
    xi = theorem1a.over_leading(instance, "exact")
    assert xi is not None
    assert xi.holds == (factor < 1)


@pytest.mark.parametrize("number", range(6))
def test_eliminated_form_of_xi(number: int) -> None:
    """Assert the eliminated form of xi_n against `growth_over_gamma`, any priors, at early times and at t_end."""
    draws = (theorem1a.ANY_PRIORS.draw(5 + number, i) for i in count())
    # The dense inverse decides only for attention vectors that are far from dependent.
    drawn = next(instance for instance in draws if instance.eigenvalues[0] > 1e-3 and instance.overlaps.any())
    instance = replace(drawn, vocab_size=12)
    E, V = instance.overlaps, float(instance.vocab_size)
    inverse = np.linalg.inv(np.eye(len(E)) + E)
    overlapping = E.any(axis=1)
    expected = np.inf
    for h in (instance.prior, growth_at(instance)):
        xi = growth_over_gamma(E[None], V, h[None])[0] * (V - 1) / V
        left = (xi - np.diag(inverse) + 1) * (V - 1) / (np.diag(inverse) * (E @ h) / h + (~overlapping))
        expected = min(expected, float(left[overlapping].min()))
    assert growth(instance).value == pytest.approx(expected, rel=1e-6)


def test_needed_vocabulary_is_where_the_conditions_become_possible() -> None:
    """Assert 144 for two classes, as the conditions themselves say, and 36 K^2 for ten that overlap in pairs."""
    assert needed(equal_overlap_instance(2)) == pytest.approx(144)
    assert needed(in_pairs(3600)) == pytest.approx(3600)
