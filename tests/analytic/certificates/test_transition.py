"""The pieces of Eq. (14) and the order of the transition times at 50 digits."""

import mpmath as mp
import pytest

from snapdyn.analytic.certificates.decoder_speed import VOCABULARY
from snapdyn.analytic.certificates.transition import OMEGA, U_PEAK_18, U_PEAK_19
from tests.analytic.certificates.helpers import failure, points, scaled_visits, u_peak, u_plus
from tests.analytic.mpmath_reference import DIGITS, gamma_integral, scaled_h


def pieces(t: mp.mpf, V: mp.mpf, K: mp.mpf, C0: mp.mpf, nu: mp.mpf) -> tuple[mp.mpf, mp.mpf, mp.mpf]:
    """Exact B (124), early and late piece (14), eta_Y = 1, eta_Z = 1/nu, as printed."""
    exact = mp.log(C0 + 4 * gamma_integral(t, 1, V, K) / nu) / 4
    early = mp.log(C0 + 2 * (V - 1) ** 2 / (K * V**2) * t**2 / nu) / 4
    late = mp.log(C0 + 2 * K * (V - 1) ** 2 / V**2 / nu * mp.log(V * t / K) ** 2) / 4
    return exact, early, late


def test_omega_is_rounded_up() -> None:
    """Assert that the constant is above the solution of x exp(x) = 1, by less than 1e-9."""
    assert 0 < OMEGA - mp.lambertw(1) < 1e-9


@pytest.mark.slow
def test_pieces_bound_the_exact_exponent_within_their_errors() -> None:
    """Assert 0 < B_piece - B <= bound for V, K, C0 and rates over many orders, before t0' and after t0."""
    with mp.workdps(DIGITS):
        for V, share, K, C0, nu in points(50, 1, VOCABULARY, (1e-6, 1.0), (1.0, 1e3), (1e-3, 1e4), (1e-3, 1e3)):
            t = K * share * mp.log(V)
            exact, early, _ = pieces(t, V, K, C0, nu)
            assert 0 < early - exact <= -mp.log(1 - OMEGA / mp.log(V)) / 2
            t = 2 * K * u_plus(V) / share**2
            exact, _, late = pieces(t, V, K, C0, nu)
            assert 0 < late - exact <= mp.log(1 + 2 * mp.log(2) * K / t) / 2


def test_the_wrong_bounds_fail_where_the_prover_says() -> None:
    """Assert at 50 digits, C0 = 0, that the errors exceed the wrong bounds at the sub-boxes that the prover found."""
    with mp.workdps(DIGITS):
        at = failure("early-piece-bound", "1/2 in place of Omega")
        x = scaled_visits(at["u"], at["V"])
        assert x <= mp.log(at["V"])
        exact, early, _ = pieces(x, at["V"], mp.mpf(1), mp.mpf(0), mp.mpf(1))
        assert early - exact > -mp.log(1 - mp.mpf("0.5") / mp.log(at["V"])) / 2
        for text, constant in (("1, the constant of late times", 1), ("half the constant", mp.log(2))):
            at = failure("late-piece-bound", text)
            V = 1 + mp.exp(at["u_plus"]) / at["u_plus"]
            x = scaled_visits(at["u_plus"] + at["c"], V)
            assert scaled_h(x, 1, V) == pytest.approx(at["u_plus"] + at["c"], rel=1e-30)
            exact, _, late = pieces(x, V, mp.mpf(1), mp.mpf(0), mp.mpf(1))
            assert late - exact > mp.log(1 + constant / x) / 2


def times(V: mp.mpf) -> tuple[mp.mpf, mp.mpf, mp.mpf]:
    """t0', t* and t0 in units of K/eta_Y."""
    return mp.log(V), scaled_visits(u_peak(V), V), 2 * u_plus(V)


def test_boxes_cover_whole_vocabularies_on_both_sides() -> None:
    """Assert that u* of V = 18 and of V = 19 lie inside the box of their side."""
    assert u_peak(mp.mpf(18)) < U_PEAK_18 < U_PEAK_19 < u_peak(mp.mpf(19))


def test_order_of_the_times() -> None:
    """Assert the stated order and ratios from the roots, and that it changes between V = 18 and V = 19."""
    with mp.workdps(DIGITS):
        for (V,) in points(40, 1, VOCABULARY):
            start, peak, end = times(V)
            assert start < end
            assert mp.mpf("1.37") * peak < end < mp.mpf("3.3") * peak
            assert V > 18 or start < peak
            assert V < 19 or peak < start


def test_wrong_orders_fail_where_the_prover_says() -> None:
    """Assert at 50 digits that t* < t0', and t0 > 2 t*, at the vocabularies that the prover found."""
    with mp.workdps(DIGITS):
        root = failure("transition-order", "the peak lies between")["u_peak"]
        start, peak, _ = times(1 + (root - 1) * mp.exp(root))
        assert peak < start
        root = failure("transition-order", "twice the peak")["u_peak"]
        _, peak, end = times(1 + (root - 1) * mp.exp(root))
        assert end > 2 * peak
