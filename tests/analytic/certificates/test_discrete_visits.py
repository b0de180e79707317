"""Whole visits at 50 digits: the lead of the recursion, Lemmas 7(b) and 12, and the time to a small error."""

import math

import mpmath as mp
import numpy as np
import pytest

from tests.analytic.certificates.helpers import failure
from tests.analytic.mpmath_reference import DIGITS, scaled_h


def recursion(V: float, eta_Y: float, visits: int) -> list[mp.mpf]:
    """V h*(s), s = 0..visits, Eq. (33), at 50 digits."""
    u = [mp.mpf(0)]
    for _ in range(visits):
        u.append(u[-1] + V * mp.mpf(eta_Y) / (V - 1 + mp.exp(u[-1])))
    return u


def lead(u: mp.mpf, V: float, eta_Y: float, visits: int) -> mp.mpf:
    """X, h*(s) = h(s + X), from (45)."""
    return (mp.expm1(u) + (V - 1) * u) / (V * mp.mpf(eta_Y)) - visits


def excess(eta_Y: mp.mpf) -> mp.mpf:
    """phi(eta_Y) = (exp(eta_Y) - 1 - eta_Y)/eta_Y^2."""
    return (mp.expm1(eta_Y) - eta_Y) / eta_Y**2


@pytest.mark.parametrize(("V", "eta_Y"), [(2, 0.7), (1000, 6.0)])
def test_a_gap_shrinks_by_the_certified_share(V: int, eta_Y: float) -> None:
    """Assert at each visit with h(s+1) - h(s) <= (h* - h)/2 that h* gains at most the stated share of h's gain."""
    with mp.workdps(DIGITS):
        u = [scaled_h(float(s), eta_Y, V) for s in range(201)]
        u_star, late = recursion(V, eta_Y, 200), 0
        for s in range(1, 200):
            gap, gain = u_star[s] - u[s], u[s + 1] - u[s]
            if gain <= gap / 2:
                late += 1
                share = (V - 1 + mp.exp(u[s] + gap / 2)) / (V - 1 + mp.exp(u[s] + gap))
                assert (u_star[s + 1] - u_star[s]) / gain <= share < 1
        assert late > 20


@pytest.mark.parametrize("V", [2, 10**7])
@pytest.mark.parametrize("eta_Y", [1e-2, 40.0])
def test_the_lead_stays_below_its_bound(V: int, eta_Y: float) -> None:
    """Assert 0 <= X <= phi ln((V-1+exp(V h*))/V) <= phi ln(1 + eta_Y (s + X)) after each of 300 visits."""
    with mp.workdps(DIGITS):
        for s, u in enumerate(recursion(V, eta_Y, 300)):
            X, phi = lead(u, V, eta_Y, s), excess(mp.mpf(eta_Y))
            bound = phi * mp.log((V - 1 + mp.exp(u)) / V)
            # Equal at s = 0, up to the last of 50 digits of X + s.
            assert -mp.mpf("1e-25") <= X <= bound + mp.mpf("1e-25")
            assert bound <= phi * mp.log1p(eta_Y * (s + X))


@pytest.mark.slow
@pytest.mark.parametrize("V", [2, 10**7])
@pytest.mark.parametrize(("K", "N"), [(2, 40), (5, 250)])
def test_theta_stays_within_twice_the_printed_order(V: int, K: int, N: int) -> None:
    """Assert |theta_n| <= 2 (K/sqrt(N)) sqrt(ln(K/delta)) at the extreme counts, for rates up to 1 + ln(N/K)/2."""
    mean = N / K
    with mp.workdps(DIGITS):
        for eta_Y in np.array([1e-3, 0.3, 1.0]) * (1 + math.log(mean) / 2):
            table = recursion(V, float(eta_Y), N)
            u = scaled_h(mean, float(eta_Y), V)
            for delta in (0.5, 1e-2, 1e-6):
                d = math.sqrt(N * math.log(2 * K / delta) / 2)
                counts = (max(0, math.ceil(mean - d)), min(N, math.floor(mean + d)))
                order = K / math.sqrt(N) * math.sqrt(math.log(K / delta))
                assert all(abs(table[count] / u - 1) <= 2 * order for count in counts)


def first_visit(V: float, eta_Y: float, eps: float) -> int:
    """Visits of (33) after which the error is at most eps, step by step."""
    u, count = 0.0, 0
    while math.sqrt(V * (V - 1)) / (V - 1 + math.exp(min(u, 700.0))) > eps:
        u += V * eta_Y / (V - 1 + math.exp(min(u, 700.0)))
        count += 1
    return count


@pytest.mark.slow
def test_whole_visits_meet_the_printed_time_up_to_the_stated_rate_only() -> None:
    """Assert the printed time, constant 1, for rates up to ln(V/eps)/eps, and its failure 1 % above."""
    rng = np.random.default_rng(2)
    for _ in range(60):
        V, eps = float(np.round(2 * 10 ** rng.uniform(0, 11))), 0.5 * 10 ** rng.uniform(-3, 0)
        limit = math.log(V / eps) / eps
        one_visit = math.log(math.sqrt(V * (V - 1)) / eps - (V - 1))
        # Rates just below ln(y)/k need k + 1 visits where h* hardly leads h.
        for eta_Y in (limit, limit * 10 ** -rng.uniform(0, 3), 0.999 * one_visit, 0.499 * one_visit):
            assert first_visit(V, eta_Y, eps) <= limit / eta_Y * (1 + 1e-12)
        assert first_visit(V, 1.01 * limit, eps) == 1 > limit / (1.01 * limit)


def test_wrong_conditions_fail_where_the_prover_says() -> None:
    """Assert that whole visits exceed the printed time at the found rate, and 1/(eps eta_Y) without the logarithm."""
    at = {name: float(value) for name, value in failure("corollary1-time", "no condition on eta_Y").items()}
    assert first_visit(**at) > math.log(at["V"] / at["eps"]) / (at["eps"] * at["eta_Y"])
    at = {name: float(value) for name, value in failure("corollary1-time", "without the logarithm").items()}
    assert first_visit(**at, eta_Y=0.01) > 1 / (at["eps"] * 0.01)


def test_wrong_leads_fail_where_the_prover_says() -> None:
    """Assert that the lead after one visit exceeds one, and that the inequality of Lemma 12 fails at twice the rate."""
    with mp.workdps(DIGITS):
        at = failure("lag-bound", "the lead after the first visit")
        V, eta_Y = at["V"], at["eta_Y"]
        assert lead(recursion(V, eta_Y, 1)[1], V, eta_Y, 1) > 1
        at = failure("lemma12-rate", "twice the rate")
        eta_Y = 2 * at["share"] * (1 + mp.log(at["mean"]) / 2)
        B = mp.sqrt(2 * mp.log(4) * at["mean"])
        assert excess(eta_Y) * mp.log1p(eta_Y * (at["mean"] + 2 * B)) > B
