"""Weak correlation: the instances, the own form of xi_n, its boundary, and that a broken E' is noticed."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from types import ModuleType

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from snapdyn.validation.claims.correlation import lemma14, lemma15, lemma16, lemma17, theorem1a
from snapdyn.validation.claims.correlation._shared import (
    correlation_over_limit,
    fifty_classes,
    of_equal_overlaps,
    overlaps,
    star_of,
    with_attention,
)
from snapdyn.validation.claims.correlation.assumption2 import best_slack, in_pairs, needed
from snapdyn.validation.claims.correlation.theorem1a import growth, growth_at
from snapdyn.validation.dense_algebra import growth_over_gamma, overlap, spectral_norm
from snapdyn.validation.register import CLAIMS
from snapdyn.validation.requirements import assumption_2
from snapdyn.validation.sample_classes import equal_overlap, random_attention, star
from snapdyn.validation.search.instance import Instance
from snapdyn.validation.verdicts import check_claim


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


@pytest.mark.parametrize(("r", "positive"), [(0.0099, False), (0.0102, True)])
def test_printed_sign_fails_below_an_overlap_of_one_over_V(r: float, positive: bool) -> None:
    """Assert that with the printed (88) two classes have xi > 0 only above r = 1/V or so, always with the right sign.

    K = 2: r (q1 r/(1-r^2) + q0 (1 - r^2/(1-r^2))) > 0 iff r > (1 - 2 r^2)/(V-1), at V = 100 r = 0.010099.
    """
    pair = with_attention(star(2, r), 100)
    printed, right = (theorem1a.over_leading(pair, form) for form in ("printed", "exact"))
    assert printed is not None
    assert printed.holds == positive
    # xi_n/(-gamma q1 E'_nn) = 1 + 1/((V-1) r) with the right sign.
    assert right is not None
    assert right.value == pytest.approx(1 + 1 / (99 * r), rel=1e-9)


@pytest.mark.parametrize(("K", "factor"), [(4, 0.98), (4, 1.02), (30, 0.98), (30, 1.02)])
def test_xi_of_a_star_changes_its_sign_at_the_limit(K: int, factor: float) -> None:
    """Assert |lambda_1| of `star_of`, and the sign of the smallest xi_n on both sides of 1/sqrt(K-2)."""
    instance = star_of(K, factor / np.sqrt(K - 2))
    assert spectral_norm(overlaps(instance)) == pytest.approx(factor / np.sqrt(K - 2), rel=1e-3)
    xi = theorem1a.over_leading(instance, "exact")
    assert xi is not None
    assert xi.holds == (factor < 1)


@pytest.mark.parametrize("K", [4, 5, 9, 30])
def test_both_sides_of_the_boundary_of_theorem_1a(K: int) -> None:
    """Assert that xi of a class that slightly overlaps the centre of a star of K - 1 has the sign of 1 - (K-2) r.

    |lambda_1| of the star is sqrt(K-2) r, so the sign changes at |lambda_1| = 1/sqrt(K-2).
    """
    for factor, sign in ((0.98, 1), (1.02, -1)):
        E = np.zeros((1, K, K))
        E[0, 0, 1:-1] = E[0, 1:-1, 0] = factor / (K - 2)
        E[0, 0, -1] = E[0, -1, 0] = 1e-3 / K
        xi = growth_over_gamma(E, float(K))[0, -1]
        assert np.sign(xi) == sign
        assert spectral_norm(E)[0] == pytest.approx(factor / np.sqrt(K - 2), rel=1e-3)


def test_unequal_priors_can_turn_xi_round_only_beyond_their_limit() -> None:
    """Assert for K = 3, |lambda_1| -> 1/3, that xi of the third class turns at a ratio of h of 3 = K/sqrt(K-2)."""
    E = np.array([[[0, 1e-4, 0], [1e-4, 0, 0.333], [0, 0.333, 0]]])
    signs = [np.sign(growth_over_gamma(E, 10.0, np.array([[1.0, 1.0, ratio]]))[0, 0]) for ratio in (2.98, 3.02)]
    assert signs == [1, -1]


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


def test_fifty_classes_are_what_their_names_say() -> None:
    """Assert |lambda_1| of the two instances, and class 0 alone."""
    for largest, instance in zip((1e-3, 0.9), fifty_classes().values(), strict=True):
        E = overlaps(instance)
        assert spectral_norm(E) == pytest.approx(largest, rel=1e-9)
        assert not E[0].any()
        assert E[1:].any()


def test_best_slack_is_one_at_the_bound() -> None:
    """Assert that K = 10 equal overlaps just fit at V = 36 K^2 (K-1)^2 = 291,600, and miss by 1/6 of the root below."""
    E = 0.3 * (np.ones((10, 10)) - np.eye(10))
    assert best_slack(E, 291_600) == pytest.approx(1, rel=1e-12)
    assert best_slack(E, 8_100) == pytest.approx(1 / np.sqrt(6), rel=1e-12)


@pytest.mark.parametrize("module", [lemma14, lemma15, lemma16, lemma17])
def test_a_wrong_E_prime_is_noticed(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that the lemmas on E' are refuted when another matrix, (I+E)^{-1} + 2 E, stands for it."""
    monkeypatch.setattr(module, "e_prime", lambda E: 2 * E + np.linalg.inv(np.eye(E.shape[-1]) + E))
    result = check_claim(CLAIMS[module.__name__.split(".")[-1]], "quick")
    assert result.verdict == "refuted"
    assert not all(check.as_expected for check in result.checks if check.role == "statement")
