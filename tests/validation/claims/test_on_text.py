"""Theorems 2 and 3 and Assumption 2 on classes: roles, shares, gains, overlaps, conditions."""

import math

import numpy as np
import pytest

from snapdyn.dynamics import (
    MeanField,
    SequenceClasses,
    from_text,
    integrate,
    log_times,
    random_classes,
    single_common_token,
    syn_medium,
)
from snapdyn.validation.claims.on_text import (
    ROLES,
    assumption_2,
    distinct_by_chance,
    theorem_2_on,
    theorem_3_on,
    token_roles,
    winners_and_losers,
)
from tests.helpers import FABLE


def roles_by_hand(classes: SequenceClasses) -> list[str]:
    """Role of every moving logit from sets of next tokens."""
    P = classes.P.toarray()
    found = []
    for q, l in zip(*classes.z_coordinates, strict=True):
        own = classes.query_index == q
        everywhere = set(classes.next_token[P[:, l] > 0])
        here = set(classes.next_token[own & (P[:, l] > 0)])
        if len(everywhere) == 1:
            found.append(ROLES[0])
        elif len(set(classes.next_token[own])) == 1:
            found.append(ROLES[3])
        else:
            found.append(ROLES[1] if len(here) == 1 else ROLES[2])
    return found


def test_roles_against_sets() -> None:
    """Assert the roles of tokens against sets of next tokens, on text and where classes share a next token."""
    shared = SequenceClasses(
        [[0.5, 0.5, 0, 0], [0, 0.5, 0.5, 0], [0.5, 0, 0, 0.5], [0.2, 0, 0.8, 0]], [0, 0, 1, 1], [2, 3, 2, 2]
    )
    fable = from_text(FABLE, window=4, min_count=2, min_token_count=1)
    for classes in (shared, fable, syn_medium(3)):
        assert [ROLES[i] for i in token_roles(classes)] == roles_by_hand(classes)
    # All roles but the first occur in the text, and the first in the others.
    assert set(roles_by_hand(fable)) >= set(ROLES[1:])
    assert ROLES[0] in roles_by_hand(shared)


def test_distinct_words_by_chance_against_draws() -> None:
    """Assert the number within 4 standard errors of draws that do not know the next word; the text has another one."""
    fable = from_text(FABLE, window=4, min_count=2, min_token_count=1)
    row = np.average(fable.P.toarray(), axis=0, weights=fable.counts)
    rng, numbers = np.random.default_rng(0), []
    for _ in range(1000):
        found = np.zeros((fable.num_next_tokens, row.size), bool)
        for n, count in enumerate(fable.counts.tolist()):
            found[fable.next_index[n]] |= rng.multinomial(count * fable.window, row / row.sum()) > 0
        numbers.append((found.sum(axis=0) == 1).sum())
    error = np.std(numbers) / np.sqrt(len(numbers))
    assert abs(distinct_by_chance(fable) - np.mean(numbers)) < 4 * error
    assert abs(np.count_nonzero(fable.omega_size == 1) - np.mean(numbers)) > 4 * error


def test_theorem_2_where_it_holds() -> None:
    """Assert that with slow attention all distinct tokens rise and the common one falls; flipped logits are told."""
    classes = single_common_token(4, 3, 0.1, 200)
    run = integrate(MeanField(classes, 1.0, 1e-3), log_times(1.0, 200.0, 5))
    outcomes = {row.role: row for row in theorem_2_on(run)}
    distinct, common = outcomes[ROLES[0]], outcomes[ROLES[2]]
    assert (distinct.number, distinct.rise, distinct.weighted_rise, distinct.fall) == (12, 1.0, 1.0, 0.0)
    assert (common.number, common.rise, common.fall, common.weighted_fall) == (1, 0.0, 1.0, 1.0)
    assert distinct.rise_by_next_words[0] == 1.0
    assert common.rise_by_next_words[1] == 0.0  # four next words
    assert np.isnan(common.rise_by_next_words[0])
    flipped = {row.role: row for row in theorem_2_on(run.changed(z_support=-run.z_support))}
    assert flipped[ROLES[0]].rise == 0.0


def test_shares_are_weighted_by_frequency() -> None:
    """Assert both shares of a run whose logits are set by hand."""
    classes = SequenceClasses([[0.7, 0.2, 0.1]], [0], vocab_size=5)
    run = integrate(MeanField(classes, 1.0, 1.0), [1.0])
    by_hand = run.changed(z_support=np.array([[1.0, -1.0, 0.0]]))
    (row,) = theorem_2_on(by_hand)
    assert (row.rise, row.fall) == pytest.approx((1 / 3, 1 / 3))
    assert (row.weighted_rise, row.weighted_fall) == pytest.approx((0.7, 0.2))
    assert row.rise_by_next_words[0] == 0.5


def test_theorem_3_where_it_holds() -> None:
    """Assert Eq. (11) to the order of eta_Z/eta_Y, every dominant token rising; r(t) = r(0) is rejected."""
    classes = random_classes(5, num_common=1, vocab_size=500, seed=1)
    errors = []
    for eta_Z in (1e-2, 1e-3):
        law = theorem_3_on(integrate(MeanField(classes, 1.0, eta_Z), [300.0], rtol=1e-11, atol=1e-13))
        assert law.classes == 5
        assert law.dominant_rises == 1.0
        assert law.pairs == sum(classes.distinct_tokens(n).size - 1 for n in range(5))
        # Attention that moves by dz while the decoder learns leaves an error of dz^2; dz is the frozen start's error.
        assert law.high_error < law.frozen_high / 10
        errors.append(law.median_error)
    assert errors[1] < errors[0] / 30  # second order in eta_Z: a hundred


def test_winners_and_losers_by_dense_attention() -> None:
    """Assert the largest gain and loss of every class against dense attention, and where Theorem 3 has pairs."""
    classes = from_text(FABLE, window=4, min_count=2, min_token_count=2)
    run = integrate(MeanField(classes, 1.0, 1.0), [50.0], rtol=1e-5)
    start, end = classes.P.toarray(), run.attention[-1]
    for n, (winners, losers) in enumerate(winners_and_losers(run, 2)):
        change = end[n] - start[n]
        assert [move.end - move.start for move in winners] == pytest.approx(
            [c for c in np.sort(change)[::-1][:2] if c > 0], abs=1e-14
        )
        assert [move.end - move.start for move in losers] == pytest.approx(
            [c for c in np.sort(change)[:2] if c < 0], abs=1e-14
        )
        assert all(move.start == pytest.approx(start[n, move.token]) for move in (*winners, *losers))
    # No word of the text is in the windows of one next word only; some are among those of a query.
    assert (theorem_3_on(run).pairs, theorem_3_on(run, within_query=True).pairs > 0) == (0, True)


def identical_overlaps(K: int, rho: float, vocab_size: int) -> SequenceClasses:
    """K classes with one common token and a single distinct one each, f_n . f_k = rho."""
    c = math.sqrt(rho / (1 - rho))  # common weight against distinct weight 1: rho = c^2/(1 + c^2)
    return single_common_token(K, 1, c / (1 + c), vocab_size)


def test_assumptions_report_what_is_measured() -> None:
    """Assert bounds and measured values against the definition, each condition able to fail and to hold."""
    classes = identical_overlaps(3, 0.1, 400)
    measured = {c.name: (c.value, c.bound, c.holds) for c in assumption_2(classes)}
    assert measured == {
        "large vocabulary": (pytest.approx(400 / 9), 10.0, True),
        "weak correlation": (pytest.approx(0.2), pytest.approx(1 / 3), True),
        "lower bound on overlap": (pytest.approx(0.1), pytest.approx(0.3), False),
    }
    assert [c.holds for c in assumption_2(identical_overlaps(3, 0.2, 40))][:2] == [False, False]
