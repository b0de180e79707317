"""Weak correlation: the instances, the own form of xi_n, its boundary, and that a broken E' is noticed."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from snapdyn.validation.claims.correlation import theorem1a
from snapdyn.validation.claims.correlation._shared import (
    correlation_over_limit,
    of_equal_overlaps,
    overlaps,
    star_of,
)
from snapdyn.validation.claims.correlation.assumption2 import in_pairs, needed
from snapdyn.validation.claims.correlation.theorem1a import growth, growth_at
from snapdyn.validation.dense_algebra import growth_over_gamma, overlap, spectral_norm
from snapdyn.validation.requirements import assumption_2
from snapdyn.validation.sample_classes import equal_overlap, random_attention
from snapdyn.validation.search.instance import Instance


@given(
    K=st.integers(2, 12), common=st.integers(1, 5), queries=st.integers(1, 3), seed=st.integers(0, 10**6),
    largest=st.floats(1e-3, 5),
)  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_random_attention_is_what_it_says(K: int, common: int, queries: int, seed: int, largest: float) -> None:
    """Assert vectors that are non-negative and of norm 1, |lambda_1| under its ceiling, every fifth class 0 alone."""
    f = random_attention(np.random.default_rng(seed), K, common, queries, np.full(10, largest))
    assert f.min() >= 0
    np.testing.assert_allclose((f**2).sum(axis=2), 1, rtol=1e-12)
    assert (spectral_norm(overlap(f)) <= largest * (1 + 1e-9)).all()
    assert not overlap(f)[::5, 0].any()


def test_own_form_of_xi_in_rational_arithmetic() -> None:
    """Assert xi_n/gamma against sum_k beta_nk f_n.f_k from zeta vectors and exact inverses, K = 3, V = 5, any h."""
    V, h = 5, [sp.Rational(1), sp.Rational(3, 2), sp.Rational(1, 4)]
    E = sp.Matrix([[0, "1/3", "1/7"], ["1/3", 0, "2/5"], ["1/7", "2/5", 0]]).applyfunc(sp.Rational)
    zeta = sp.Matrix(3, V, lambda n, j: sp.Rational(V, V - 1) * ((1 if n == j else 0) - sp.Rational(1, V)))
    H = (sp.eye(3) + E).inv()
    expected = []
    for n in range(3):
        # g_n/gamma_n = F G^{-1} W (e_n - alpha_n)/gamma_n, (h_k/h_n) zeta_k . zeta_n for the last factors.
        a = H * sp.Matrix([h[k] / h[n] * zeta.row(k).dot(zeta.row(n)) for k in range(3)])
        expected.append(-sum(a[k] * E[n, k] for k in range(3) if k != n))
    measured = growth_over_gamma(np.array(E, dtype=float)[None], 5.0, np.array([h], dtype=float))[0]
    np.testing.assert_allclose(measured, np.array(expected, dtype=float), rtol=1e-13)


@pytest.mark.parametrize(("K", "factor"), [(4, 0.98), (4, 1.02), (30, 0.98), (30, 1.02)])
def test_xi_of_a_star_changes_its_sign_at_the_limit(K: int, factor: float) -> None:
    """Assert |lambda_1| of `star_of`, and the sign of the smallest xi_n on both sides of 1/sqrt(K-2)."""
    instance = star_of(K, factor / np.sqrt(K - 2))
    assert spectral_norm(overlaps(instance)) == pytest.approx(factor / np.sqrt(K - 2), rel=1e-3)
    xi = theorem1a.over_leading(instance, "exact")
    assert xi is not None
    assert xi.holds == (factor < 1)


@pytest.mark.parametrize("number", range(6))
def test_eliminated_form_of_xi(number: int) -> None:
    """Assert the eliminated form of xi_n against `growth_over_gamma`, any priors, at early times and at t_end."""
    draws = (theorem1a.ANY_PRIORS.draw(5 + number, i) for i in count())
    # The dense inverse decides only for attention vectors that are far from dependent.
    drawn = next(instance for instance in draws if instance.eigenvalues[0] > 1e-3 and overlaps(instance).any())
    instance = replace(drawn, vocab_size=12)
    E, V = overlaps(instance), float(instance.vocab_size)
    inverse = np.linalg.inv(np.eye(len(E)) + E)
    overlapping = E.any(axis=1)
    expected = np.inf
    for h in (instance.prior, growth_at(instance)):
        xi = growth_over_gamma(E[None], V, h[None])[0] * (V - 1) / V
        left = (xi - np.diag(inverse) + 1) * (V - 1) / (np.diag(inverse) * (E @ h) / h + (~overlapping))
        expected = min(expected, float(left[overlapping].min()))
    assert growth(instance).value == pytest.approx(expected, rel=1e-6)


def test_correlation_that_xi_needs() -> None:
    """Assert |lambda_1| sqrt(K-2) max p/min p on four equal overlaps, and 0 for two classes and one common token."""
    P = np.zeros((4, 10))
    P[:, :2], P[np.arange(4), 2 + np.arange(4)] = 0.1, 0.8
    instance = Instance(P, np.zeros(4, dtype=int), np.array([1.0, 1.0, 1.0, 2.0]), 100, 1.0, 0.1, 10.0)
    rho = 0.02 / 0.66
    assert correlation_over_limit(instance) == pytest.approx(3 * rho * np.sqrt(2) * 2)
    assert correlation_over_limit(replace(instance, P=np.delete(P, 1, axis=1))) == 0
    assert correlation_over_limit(replace(instance, P=P[:2], query=np.zeros(2, dtype=int), weights=np.ones(2))) == 0


def test_needed_vocabulary_is_where_the_conditions_become_possible() -> None:
    """Assert 144 for two classes, by the conditions at chosen rho, and 36 K^2 for ten that overlap in pairs."""
    assert needed(of_equal_overlaps(2)) == pytest.approx(144)
    # At V = 144 the lower bound 6/sqrt(V) = 1/2 is the upper one; at V = 145 it is 0.49827.
    assert all(c.holds for c in assumption_2(equal_overlap(2, 145, 0.499))[1:])
    assert not any(
        all(c.holds for c in assumption_2(equal_overlap(2, 144, rho))[1:]) for rho in np.linspace(0.01, 0.99, 99)
    )
    assert needed(in_pairs(3600)) == pytest.approx(3600)
