"""The order of t0', t* and t0 at 50 digits, the vocabulary at which it changes, and the wrong orders."""

import mpmath as mp
import pytest

from snapdyn import analytic
from snapdyn.analytic.certificates.decoder_speed import VOCABULARY
from snapdyn.analytic.certificates.transition_times import U_PEAK_18, U_PEAK_19
from tests.analytic.certificates.helpers import failure, points, scaled_visits, u_peak, u_plus
from tests.analytic.mpmath_reference import DIGITS


def times(V: mp.mpf) -> tuple[mp.mpf, mp.mpf, mp.mpf]:
    """t0', t* and t0 in units of K/eta_Y."""
    return mp.log(V), scaled_visits(u_peak(V), V), 2 * u_plus(V)


def test_boxes_cover_whole_vocabularies_on_both_sides() -> None:
    """Assert that u* of V = 18 and of V = 19 lie inside the box of their side."""
    assert u_peak(mp.mpf(18)) < U_PEAK_18 < U_PEAK_19 < u_peak(mp.mpf(19))


def test_order_of_the_times() -> None:
    """Assert the stated order and ratios from the roots, and that it changes between V = 18 and V = 19."""
    with mp.workdps(DIGITS):
        for (V,) in points(100, 1, VOCABULARY):
            start, peak, end = times(V)
            assert start < end
            assert mp.mpf("1.37") * peak < end < mp.mpf("3.3") * peak
            assert V > 18 or start < peak
            assert V < 19 or peak < start


@pytest.mark.parametrize(("V", "peak_first"), [(4, False), (18, False), (19, True), (1000, True)])
def test_the_evaluators_have_the_same_order(V: int, peak_first: bool) -> None:
    """Assert the order of `transition_time`'s three kinds on both sides of the change."""
    start, peak, end = (float(analytic.transition_time(10, V, 0.5, kind=kind)) for kind in ("start", "peak", "end"))
    assert (peak < start) == peak_first
    assert max(start, peak) < end


def test_wrong_orders_fail_where_the_prover_says() -> None:
    """Assert at 50 digits that t* < t0', and t0 > 2 t*, at the vocabularies that the prover found."""
    with mp.workdps(DIGITS):
        root = failure("transition-order", "the peak lies between")["u_peak"]
        start, peak, _ = times(1 + (root - 1) * mp.exp(root))
        assert peak < start
        root = failure("transition-order", "twice the peak")["u_peak"]
        _, peak, end = times(1 + (root - 1) * mp.exp(root))
        assert end > 2 * peak
