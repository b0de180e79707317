"""Scanning, snapping, the readings of Theorem 4: the derived bounds and the measures, by routes of their own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

from snapdyn import analytic
from snapdyn.dynamics import MeanField, ModifiedDecoder, SequenceClasses, log_times, single_common_token, whole_run
from snapdyn.validation import growth_bounds
from snapdyn.validation.claims.transition import insight_a, insight_c, scanning, snapping, theorem4
from snapdyn.validation.claims.transition._shared import SYMMETRIC_FAMILY, WHOLE, five_tokens, largest_step, transition
from snapdyn.validation.dense_algebra import attention_drift, dense_attention, modified_decoder_gradient
from snapdyn.validation.growth_bounds import EqualClasses, Overlap
from snapdyn.validation.rungs.run import EXACT
from snapdyn.validation.sample_classes import dominant_token
from snapdyn.validation.search.counterexamples import load
from snapdyn.validation.search.instance import Instance


def overlap(classes: SequenceClasses) -> Overlap:
    """Overlap of symmetric classes with a table."""
    return EqualClasses.of(Instance.of(classes, 1.0, 1.0, 1.0)).overlap


def dense_growth(classes: SequenceClasses, eta_Z: float, times: np.ndarray) -> np.ndarray:
    """ln chi of the dominant token of class 0 under Eq. (10), eta_Y = 1, by dense algebra and scipy: no kernel."""
    K, V, M = classes.num_classes, classes.vocab_size, classes.num_tokens

    def rate(_: float, state: np.ndarray) -> np.ndarray:
        z, u = state[None, :M], state[M]
        drift = attention_drift(classes, z, modified_decoder_gradient(classes, z, np.full(K, u / V)), eta_Z)
        return np.append(drift[0], V / (K * (V - 1 + np.exp(u))))

    solution = solve_ivp(rate, (0, times[-1]), np.zeros(M + 1), t_eval=times, rtol=1e-9, atol=1e-14)
    return 2 * solution.y[dominant_token(classes)]


@pytest.mark.parametrize("ratio", [0.1, 10.0])
def test_corrected_scanning_bound_lies_below_and_the_printed_one_does_not(ratio: float) -> None:
    """Assert ln chi >= corrected bound for t <= t0' on a run without kernels, where the printed bound exceeds it."""
    classes = single_common_token(3, 3, 0.2, 50)
    start, _ = transition(classes, 1.0)
    times = np.linspace(0.02, 1, 15) * start
    growth = dense_growth(classes, ratio, times)
    equal = EqualClasses.of(Instance.of(classes, 1.0, ratio, start))
    bound = growth_bounds.lower_bound(equal, times)
    assert np.all(growth > bound)
    assert np.all(bound > 0)
    assert np.any(scanning.printed_bound(equal, times) > growth)
    assert np.any(scanning.without_origin(equal, times) > growth)


@pytest.mark.parametrize("num_classes", [2, 3, 8])
def test_overlap_bounds_the_sum_of_beta_while_the_overlap_falls(num_classes: int) -> None:
    """Assert least (y/x)^2 <= sum_k E'_nk f_n.f_k <= most (y/x)^2 for all y <= x, E' from a matrix inverse."""
    classes = single_common_token(num_classes, 2, 0.5, 100)
    _, f = dense_attention(classes, np.zeros((1, classes.num_tokens)))
    found = overlap(classes)
    assert found.x == pytest.approx(f[0] @ f[1])
    assert found.f0 == pytest.approx(f[0].max() if f[0].argmax() else np.sort(f[0])[-2])
    for y in found.x * np.linspace(0.01, 1, 40):
        G = np.full((num_classes, num_classes), y)
        np.fill_diagonal(G, 1)
        total = (num_classes - 1) * y * (np.eye(num_classes) - np.linalg.inv(G))[0, 1]
        scale = (y / found.x) ** 2
        assert found.least * scale <= total * (1 + 1e-9)
        assert total <= found.most * scale * (1 + 1e-9)


@pytest.mark.parametrize("V", [10, 1000, 10**7])
def test_omega_bounds_the_slowing_of_h(V: int) -> None:
    """Assert u >= x (1 - OMEGA/ln V) for x = eta_Y s <= ln V with u from bisection, and that less than OMEGA fails."""
    assert growth_bounds.OMEGA * np.exp(growth_bounds.OMEGA) == pytest.approx(1)
    x = np.linspace(0.01, 1, 30) * np.log(V)
    u = np.array([brentq(lambda u, x=x: np.expm1(u) + (V - 1) * u - V * x, 0, 50, xtol=1e-14) for x in x])
    assert np.all(u >= x * (1 - growth_bounds.OMEGA / np.log(V)))
    if V > 10:
        assert np.any(u < x * (1 - 0.98 * growth_bounds.OMEGA / np.log(V)))


def test_early_mean_field_law_from_the_first_gradient() -> None:
    """Assert z'' = (K-1) f0^2 x eta_Y eta_Z/(K^2 V) at t = 0 Y = t sum_n p_n f_n (e_n - 1/V)^T; x for 1/V fails."""
    K, V = 4, 60
    classes = single_common_token(K, 3, 0.3, V)
    z = np.zeros((1, classes.num_tokens))
    _, f = dense_attention(classes, z)
    error = np.eye(V)[:K] - 1 / V
    Y = f.T @ error / K
    second = attention_drift(classes, z, error @ Y.T, 1.0)[0, dominant_token(classes)]
    found = overlap(classes)
    assert second == pytest.approx((K - 1) * found.f0**2 * found.x / (K**2 * V), rel=1e-12)
    assert second != pytest.approx((K - 1) * found.f0**2 * found.x**2 / K**2, rel=0.1)


def test_scan_sees_a_start_against_the_frequencies() -> None:
    """Assert that scanning has the right sign from zero start, and that a start that favours rare tokens is seen."""
    classes = single_common_token(3, 3, 0.3, 50)
    start, _ = transition(classes, 1.0)
    z = np.zeros((1, classes.num_tokens))
    z[0, 1:] = -2 * np.log(classes.P.toarray()[:, 1:].max(axis=0))
    right, wrong = (scanning.signs(Instance.of(classes, 1.0, 1.0, start, start=each)) for each in (None, z))
    assert right is not None
    assert wrong is not None
    assert right.value > 0
    assert wrong.value < 0


@pytest.mark.parametrize("kind", [MeanField, ModifiedDecoder])
def test_times_of_the_transition_scale_with_the_rates(kind: type[MeanField | ModifiedDecoder]) -> None:
    """Assert that both measured times fall by 3 when both rates rise by 3: the measures have no scale of their own."""
    classes = single_common_token(4, 3, 0.2, 100)
    runs = [whole_run(kind(classes, c, 0.5 * c), log_times(0.01 / c, 1e4 / c, 200), rtol=1e-9) for c in (1.0, 3.0)]
    for measure in (insight_a.fastest_time, lambda run: insight_a.half_time(run.t, run.loss, np.log(100) / 2)):
        slow, fast = (measure(run) for run in runs)
        assert slow / fast == pytest.approx(3, rel=1e-4)


def test_half_time_of_a_loss_that_falls_or_stays_above() -> None:
    """Assert linear interpolation in ln t, the first time of a loss that starts below, infinity above the level."""
    t = np.array([0.25, 1, 4])
    assert insight_a.half_time(t, np.array([1, 0.75, 0.25]), 0.5) == pytest.approx(2)
    assert insight_a.half_time(t, np.array([0.4, 0.3, 0.2]), 0.5) == 0.25
    assert insight_a.half_time(t, np.array([1, 0.9, 0.8]), 0.5) == np.inf


def test_attention_sets_the_time_where_only_it_tells_classes_apart() -> None:
    """Assert that twice either rate takes 1/sqrt(2) of the time, to 3 %, and that both halve it: no 1/2, no 1."""
    instance = load("insight-a-overlap").instance
    for factors, expected in (((2.0, 1.0), 0.5**0.5), ((1.0, 2.0), 0.5**0.5), ((2.0, 2.0), 0.5)):
        measured = insight_a.time_ratio(instance, *factors)
        assert measured is not None
        assert measured.value == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize(("vocab_size", "t_end"), [(4, 12.1), (4, 1e-3), (1000, 300.0), (10**12, 1e6)])
def test_elasticity_is_the_slope_of_the_logarithms(vocab_size: int, t_end: float) -> None:
    """Assert d ln u/d ln t of the rarest class by a central difference, whose error is of the order of its step^2."""
    classes = SequenceClasses([[0.2, 0.8, 0], [0.2, 0, 0.8]], [0, 0], prior=[1, 3], vocab_size=vocab_size)
    step, visits = 1e-3, t_end / 4
    u = analytic.h(visits * np.exp([-step, step]), 0.7, vocab_size)
    slope = float(np.diff(np.log(u))[0]) / (2 * step)
    measured = insight_c.AFTER.measure(Instance.of(classes, 0.7, 0.1, t_end))
    assert measured == pytest.approx(slope, rel=1e-4)


def test_late_measures_of_a_weak_coupling() -> None:
    """Assert the power of ln^2(V eta_Y t/K) after t0, at most 4/(1+u_+) and more than 2/ln; attention moves on."""
    classes = single_common_token(5, 5, 0.02, 1000)
    instance = Instance.of(classes, 1.0, 1e-3, WHOLE * transition(classes, 1.0)[1])
    measured = snapping.late_rate(instance, snapping.power, EXACT)
    assert measured is not None
    u_plus = brentq(lambda u: u - np.log(999 * u), 2, 50)
    assert 2 / np.log(1000 * instance.t_end / 5) < measured.value * 4 / (1 + u_plus) <= 4 / (1 + u_plus)
    assert 0 < snapping.share_of_path(instance).value < 0.5


def test_five_tokens_are_those_of_the_classes() -> None:
    """Assert profile and growth of `five_tokens` against classes with a table, and the overlap of 1e9 of them."""
    classes = single_common_token(4, 5, 0.3, 100)
    found, expected = five_tokens(4, 0.3, 100, 0.5), EqualClasses.of(Instance.of(classes, 1.0, 0.5, 1.0))
    t = np.array([1.0, 30.0])
    np.testing.assert_allclose(found.growth(t, "exact"), expected.growth(t, "exact"), rtol=1e-12)
    np.testing.assert_allclose(found.growth(t, "exact"), dense_growth(classes, 0.5, t), rtol=1e-6)
    np.testing.assert_allclose(found.overlap, overlap(classes), rtol=1e-12)
    assert five_tokens(10**9, 0.3, 10**15).overlap.x == pytest.approx(found.overlap.x)


def test_equal_classes_of_parameters() -> None:
    """Assert sizes, rates and a profile that sums to 1 and falls by its steepness."""
    given = {"K": 1e6, "factor": 2.5, "common": 0.1, "ratio": 3.0, "tokens": 3, "steepness": 2.0}
    equal = snapping.equal_classes(given)
    assert (equal.num_classes, equal.vocab_size, equal.flow_rates) == (10**6, 2_500_000, (1.0, 3e-6))
    np.testing.assert_allclose(equal.distinct, 0.9 * np.array([4, 2, 1]) / 7)


def test_largest_step_must_be_a_fall_beyond_its_error() -> None:
    """Assert the worst step of two cells, and the bound of seeds: 3.1 standard errors of a difference, by hand."""
    falling = np.array([[[3.0], [5.0]], [[2.0], [4.5]]])
    assert (largest_step(falling).value, largest_step(falling).bound) == (-0.5, 0)
    assert not largest_step(falling[::-1]).holds
    seeds = np.array([[[1.0, 3.0]], [[0.0, 2.0]]])
    assert largest_step(seeds).value == -1
    assert largest_step(seeds).bound == pytest.approx(-3.1 * np.sqrt(1 + 1))


def test_growth_along_the_orbit_is_the_integral_of_xi() -> None:
    """Assert B of the orbit (odds against its logits) = B by constant pi, exact for equal distinct tokens."""
    P = np.array([[0.2, 0.4, 0.4, 0, 0], [0.2, 0, 0, 0.4, 0.4]])
    instance = Instance(P, np.zeros(2, int), np.ones(2), 100, 1.0, 50.0, 1e3)
    exponent = theorem4.exponent_on_orbit(instance)
    Gamma = 50 * analytic.gamma_integral(1e3, 1.0, 100, 2)
    expected = analytic.growth_and_common_logit(Gamma, 2, overlap(instance.classes).rho0, 0.5).B
    assert exponent == pytest.approx(float(expected), rel=1e-6)


def test_symmetric_family_keeps_equal_profiles_while_its_numbers_change() -> None:
    """Assert that draws, and instances whose shares were changed, have equal profiles."""
    for number in range(10):
        instance = SYMMETRIC_FAMILY.draw(3, number)
        P = np.where(instance.P > 0, instance.P * np.random.default_rng(number).uniform(0.5, 2, instance.P.shape), 0)
        for each in (instance, SYMMETRIC_FAMILY.fitted(replace(instance, P=P))):
            rows = np.sort(each.P / each.P.sum(axis=1, keepdims=True), axis=1)
            assert np.ptp(rows, axis=0).max() < 1e-14
