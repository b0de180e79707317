"""Equivalent classes in any number: first gaps, drawn classes, turns of distinct tokens."""

import numpy as np
import pytest

from snapdyn.analytic import first_ladder_gaps
from snapdyn.dynamics import ClassKind, MeanField, integrate, symmetric_classes
from snapdyn.validation import growth_bounds
from snapdyn.validation.claims.approximations import _slow_attention_settings
from snapdyn.validation.claims.transition import _many_classes as equal_classes
from snapdyn.validation.many_classes import first_gaps_of_runs, share_of
from snapdyn.validation.sample_classes import equal_overlap


@pytest.mark.parametrize("K", [2, 10**3, 10**9])
@pytest.mark.parametrize("rho", [0.01, 0.5])
def test_first_gaps_of_runs_are_the_closed_form(K: int, rho: float) -> None:
    """Assert the integrated gap of the modified decoder against its closed form at t -> 0, V = K to 1e6 K."""
    for V in (K, 3 * K, 10**6 * K):
        modified, leading = first_gaps_of_runs(K, V, rho)
        closed = first_ladder_gaps(K, V, rho)
        # The gap falls with t: by the order of u = 1e-4.
        assert modified == pytest.approx(closed.modified, rel=1e-3)
        assert leading == pytest.approx(-closed.leading, rel=1e-3, abs=1e-12)


def test_share_gives_the_overlap() -> None:
    assert share_of(0.3) == pytest.approx(equal_overlap(4, 9, 0.3).P.toarray()[0, 0], rel=1e-12)


def test_drawn_classes_reach_far_and_agree_with_classes_of_the_search() -> None:
    """Assert K beyond 1e6, V up to 1e15, and `Overlap` and growth of drawn classes against those of P itself."""
    drawn = list(equal_classes.draws(60, 0))
    assert max(each.K for each in drawn) > 1e6
    assert 1e12 < max(each.V for each in drawn) <= 1e15
    assert all(each.common + each.distinct.sum() == pytest.approx(1) for each in drawn)
    small = next(each for each in drawn if each.K < 100)
    kind = ClassKind([small.common], list(small.distinct), small.K)
    classes = symmetric_classes([kind], vocab_size=small.V)
    found = growth_bounds.overlap_of(np.append(small.common, small.distinct), small.K)
    np.testing.assert_allclose(found, growth_bounds.overlap(classes), rtol=1e-12)
    t = np.array([0.3 * small.t0])
    assert growth_bounds.least_gamma(t, 1.0, 2.0, small.K, small.V) == pytest.approx(
        growth_bounds.least_common_growth(classes, 1.0, 2.0, t)
    )


def test_turns_are_read_from_all_classes_as_from_one_of_each_kind() -> None:
    """Assert the time at which a distinct token turns against a run of all 12 classes by themselves."""
    kinds = [ClassKind([share], [0.6 * (1 - share), 0.4 * (1 - share)], 6) for share in (0.1, 0.6)]
    V, rate, t = 240, 300.0, np.linspace(0.1, 3.0, 57) * 12
    reduced = _slow_attention_settings._run(kinds, V, rate / 12, t)
    system = MeanField(symmetric_classes(kinds, vocab_size=V), 1.0, rate / 12)
    whole = integrate(system, t, reduce=False, rtol=1e-9, atol=1e-16)
    tops = []
    for kind in range(2):
        z, expected = reduced.of_class(kind).z[:, 0], whole.of_class(kind).z[:, 0]
        np.testing.assert_allclose(z, expected, rtol=1e-5, atol=1e-12)
        tops.append(int(expected[:, 1].argmax()))
    assert tops[0] == t.size - 1
    assert 0 < tops[1] < 10  # the kind with the larger common token turns
    assert _slow_attention_settings._largest_fall(reduced, 2) > 1e-3


@pytest.mark.parametrize("K", [30, 3 * 10**8])
def test_turn_follows_k_times_the_ratio(K: int) -> None:
    """Assert that the turn lies at a K (eta_Z/eta_Y) u^2 that hardly depends on K, not at a fixed ratio times u^2."""
    shares = (0.1, 0.6)
    c = np.array([share / np.hypot(share, np.hypot(0.6, 0.4) * (1 - share)) for share in shares])
    law = _slow_attention_settings.analytic.turn_of_distinct_tokens_of_many_classes(c)
    kinds = [ClassKind([share], [0.6 * (1 - share), 0.4 * (1 - share)], K // 2) for share in shares]
    found = _slow_attention_settings.turns(kinds, 10**5 * K, law)
    # Left out: 1/K; the law is the limit of many classes.
    assert np.isinf(found[0])
    assert found[1] == pytest.approx(law[1], rel=3 / K + 3e-3)
