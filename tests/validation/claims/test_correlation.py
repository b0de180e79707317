"""Claims on weak correlation: the own forms of xi_n and its boundary."""

from dataclasses import replace
from itertools import count

import numpy as np
import pytest

from snapdyn.validation.claims.correlation import theorem1a
from snapdyn.validation.claims.correlation._shared import star_of
from snapdyn.validation.claims.correlation.theorem1a import growth, growth_at
from snapdyn.validation.dense_algebra import growth_over_gamma, spectral_norm


@pytest.mark.parametrize(("K", "factor"), [(4, 0.98), (4, 1.02), (30, 0.98), (30, 1.02)])
def test_xi_of_a_star_changes_its_sign_at_the_limit(K: int, factor: float) -> None:
    """Assert |lambda_1| of `star_of`, and the sign of the smallest xi_n on both sides of 1/sqrt(K-2)."""
    instance = star_of(K, factor / np.sqrt(K - 2))
    assert spectral_norm(instance.overlaps) == pytest.approx(factor / np.sqrt(K - 2), rel=1e-3)
    assert theorem1a.over_leading(instance, "exact").holds == (factor < 1)


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
