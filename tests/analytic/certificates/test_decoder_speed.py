"""Lemmas 6, 8, 9 as certified, in their own quantities at 50 digits; wrong theories fail where the prover says."""

import mpmath as mp
import pytest

from snapdyn.analytic.certificates import CERTIFICATES
from snapdyn.analytic.certificates.decoder_speed import ANY_VOCABULARY, U_PEAK, U_PLUS, VOCABULARY, U
from tests.analytic.certificates.helpers import failure, points, scaled_visits, u_minus, u_peak, u_plus
from tests.analytic.mpmath_reference import DIGITS, gamma, scaled_h

FROM_FOUR = (("omega_1 ln V > 0.12", 4), ("omega_1 ln V < ln(2", 4))


def box(id_: str, text: str) -> dict[str, tuple[float, float]]:
    """Box of the inequality that `text` begins."""
    (found,) = (each for each in CERTIFICATES[id_].inequalities if each.text.startswith(text))
    return dict(found.box)


def test_boxes_of_roots_cover_the_vocabularies() -> None:
    """Assert that the ranges of u_+, u_- and u* hold the roots of the smallest and the largest V of the statements."""
    low, high = map(mp.mpf, VOCABULARY)
    assert U_PLUS[0] < u_plus(low) < u_plus(high) < U_PLUS[1]
    assert U_PEAK[0] < u_peak(low) < u_peak(high) < U_PEAK[1]
    largest = mp.mpf(ANY_VOCABULARY[1])
    with mp.workdps(DIGITS):
        for text, least in (("omega_1 ln V > l", 10), ("omega_1 ln V < 1.4", 10), *FROM_FOUR):
            found = box("lemma8", text)["u_plus"]
            assert found[0] < u_plus(mp.mpf(least)) < u_plus(largest) < found[1]
    hundred = box("lemma8", "omega_0")["u_minus"]
    assert hundred[0] < 1 / largest < u_minus(mp.mpf(100)) < hundred[1]
    hundred = box("lemma9-early", "V^-0.99")["u_minus"]
    assert hundred[0] < u_minus(high) < u_minus(mp.mpf(100)) < hundred[1]
    five = box("lemma9-early", "exp(u) < (V-1) u")["u_minus"]
    assert five[0] < u_minus(high) < u_minus(mp.mpf(5)) < five[1]


@pytest.mark.slow
def test_h_increases_at_50_digits() -> None:
    """Assert the elasticity of h by differences at 50 digits, in s and in eta_Y; u stays inside its range."""
    with mp.workdps(DIGITS):
        for V, s, eta_Y in points(20, 1, VOCABULARY, (1e-9, 1e15), (1e-6, 1e3)):
            u, step = scaled_h(s, eta_Y, V), mp.mpf("1e-12")
            assert U[0] < u < U[1]
            in_s = mp.log(scaled_h(s * (1 + step), eta_Y, V) / u) / mp.log1p(step)
            in_rate = mp.log(scaled_h(s, eta_Y * (1 + step), V) / u) / mp.log1p(step)
            assert 0 < in_s < 1
            assert in_s == pytest.approx(in_rate, rel=1e-9)


@pytest.mark.slow
def test_gamma_is_largest_at_the_peak() -> None:
    """Assert on each side of t* that gamma, from h by bisection, is below its maximum and changes as stated."""
    with mp.workdps(DIGITS):
        for (V,) in points(5, 2, VOCABULARY):
            peak = scaled_visits(u_peak(V), V)
            times = [peak * mp.mpf(10) ** (mp.mpf(k) / 4) for k in range(-12, 13)]
            values = [gamma(t, 1.0, V, 1) for t in times]
            assert values[:13] == sorted(values[:13])
            assert values[12:] == sorted(values[12:], reverse=True)


@pytest.mark.slow
def test_early_stage_of_lemma_9() -> None:
    """Assert both orders of exp(V h) and the constants of gamma from the first valid visit to t0'."""
    with mp.workdps(DIGITS):
        for V, share in points(40, 5, (5.0, 1e12), (1e-6, 1.0)):
            first = (2 * (V - 1) * u_minus(V) - 1) / V
            # Corners of the box are equalities, where the solution of (45) rounds.
            x = min(max(first * (1 + mp.mpf("1e-30")), share * mp.log(V)), mp.log(V))
            u = scaled_h(x, 1, V)
            assert mp.exp(u) <= min(V - 1, (V - 1) * u)
            constant = gamma(x, 1, V, 1) / ((1 - 1 / V) ** 2 * x)
            assert mp.mpf("0.4") <= constant <= 1


@pytest.mark.slow
def test_late_stage_of_lemma_9() -> None:
    """Assert both orders of exp(V h), V h < ln(V eta_Y t/K) and the constants of gamma, from t0 to 1e18."""
    with mp.workdps(DIGITS):
        for V, late in points(40, 7, VOCABULARY, (1.0, 1e16)):
            x = 2 * u_plus(V) * late
            u = scaled_h(x, 1, V)
            assert mp.exp(u) >= max(V - 1, (V - 1) * u)
            assert u < mp.log(V * x)
            constant = gamma(x, 1, V, 1) * x / ((1 - 1 / V) ** 2 * mp.log(V * x))
            assert mp.mpf("0.75") < constant < 2


def test_wrong_theories_of_lemma_9_fail_where_the_prover_says() -> None:
    """Assert that each wrong inequality is false at 50 digits, by h from (45), in the sub-box that the prover found."""
    with mp.workdps(DIGITS):
        at = failure("lemma9-early", "no condition on eta_Y")
        u = scaled_h(scaled_visits(at["u"], at["V"]), 1, at["V"])
        assert mp.exp(u) > (at["V"] - 1) * u
        V = failure("lemma9-early", "exp(V h) <= V-1 for V >= 4")["V"]
        assert mp.exp(scaled_h(mp.log(V), 1, V)) > V - 1
        for text, excess in (
            ("ln(eta_Y t/K) for", lambda x, V: gamma(x, 1, V, 1) * x - 2 * mp.log(x)),
            ("constant of gamma < 1", lambda x, V: gamma(x, 1, V, 1) * x - (1 - 1 / V) ** 2 * mp.log(V * x)),
        ):
            at = failure("lemma9-late", text)
            V = 1 + mp.exp(at["u_plus"]) / at["u_plus"]
            x = scaled_visits(at["u_plus"] + at["c"], V)
            assert excess(x, V) > 0


def test_wrong_theories_of_h_and_gamma_fail_where_the_prover_says() -> None:
    """Assert at 50 digits that h is not proportional to s, and that gamma falls before t0', at the found sub-boxes."""
    with mp.workdps(DIGITS):
        at = failure("h-increasing", "h is proportional to s")
        s = scaled_visits(at["u"], at["V"])
        step = mp.mpf("1e-12")
        assert mp.log(scaled_h(s * (1 + step), 1, at["V"]) / at["u"]) / mp.log1p(step) < mp.mpf("0.99")
        at = failure("gamma-single-maximum", "gamma increases up to t0'")
        x = scaled_visits(at["u"], at["V"])
        assert x <= mp.log(at["V"])
        assert gamma(x * (1 + step), 1, at["V"], 1) < gamma(x, 1, at["V"], 1)


def test_wrong_theories_of_lemma_8_fail_where_the_prover_says() -> None:
    """Assert that u_+ exceeds ln V + ln ln V at the found root, and that exp(u) > (V-1) u everywhere at the found V."""
    with mp.workdps(DIGITS):
        root = failure("lemma8", "the leading order ln V + ln ln V")["u_plus"]
        V = 1 + mp.exp(root) / root
        assert u_plus(V) == pytest.approx(root, rel=1e-30)
        assert root > mp.log(V) + mp.log(mp.log(V))
        V = failure("lemma8", "two roots for V >= 3")["V"]
        assert all(mp.exp(u) > (V - 1) * u for u in mp.linspace(0, 10, 1001))
