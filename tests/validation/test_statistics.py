"""Fitted orders: known exponents are recovered with an honest confidence, wrong ones are rejected."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from snapdyn.core.errors import InputError
from snapdyn.validation import fit_order

X = 0.2 * 2.0 ** -np.arange(6)


@given(order=st.sampled_from([-1.0, 0.5, 1.0, 2.0]), constant=st.floats(1e-6, 1e6), next_=st.floats(-1.0, 3.0))
@settings(max_examples=30, deadline=None)
def test_known_order_is_recovered_and_neighbours_are_rejected(order: float, constant: float, next_: float) -> None:
    """Assert that y = C x^p (1 + a x) agrees with p, and with no order half a unit away."""
    fitted = fit_order(X, constant * X**order * (1 + next_ * X), next_order=1.0)
    assert fitted.agrees(order)
    assert not fitted.agrees(order + 0.5)
    assert not fitted.agrees(order - 0.5)


def test_next_term_shifts_the_slope_by_what_is_reported() -> None:
    """Assert that the plain slope is off by the reported shift, so that without next_order the truth is rejected."""
    y = 3 * X * (1 + 0.8 * X + 0.3 * X**2)
    with_next, without = fit_order(X, y, next_order=1.0), fit_order(X, y)
    assert with_next.slope == without.slope
    assert with_next.next_order_shift == pytest.approx(with_next.slope - 1, rel=with_next.next_term)
    assert with_next.agrees(1)
    assert not without.agrees(1, z=1.0)


def test_standard_error_is_that_of_the_slope() -> None:
    """Assert that over 2000 noisy draws slopes scatter by the reported standard error (within 4 errors of that)."""
    rng = np.random.default_rng(5)
    error = 0.05 * X * np.array([1, 2, 1, 3, 1, 2])
    draws = [fit_order(X, X + error * rng.normal(size=X.size), error) for _ in range(2000)]
    scatter = np.std([draw.slope for draw in draws], ddof=1)
    reported = np.mean([draw.standard_error for draw in draws])
    # A standard deviation of n normal values has relative error 1/sqrt(2 n); noise of 15 % at a point bends the
    # logarithm by its square, 1 %.
    assert scatter == pytest.approx(reported, rel=4 / np.sqrt(4000) + 0.01)


def test_margin_covers_noise_and_next_term_together() -> None:
    """Assert that in at least 99 of 100 noisy draws with a next term the slope lies within its margin of the truth."""
    rng = np.random.default_rng(6)
    truth = X**0.5 * (1 + 0.5 * X)
    draws = [
        fit_order(X, truth * (1 + 0.02 * rng.normal(size=X.size)), 0.02 * truth, next_order=1.0) for _ in range(500)
    ]
    assert np.mean([abs(draw.corrected - 0.5) <= draw.margin() for draw in draws]) >= 0.99
    assert np.mean([abs(draw.corrected - 1.0) <= draw.margin() for draw in draws]) <= 0.01


def test_noise_that_hides_the_order_decides_nothing() -> None:
    """Assert that a fit too noisy to tell neighbouring orders apart agrees with none, not with all."""
    fitted = fit_order(X, X, 0.9 * X)
    assert fitted.margin() > 0.25
    assert not fitted.agrees(1)


@pytest.mark.parametrize(
    ("x", "y", "error", "next_order", "message"),
    [
        ([1, 2], [1, 2], None, None, "at least 3"),
        ([1, 2, 3], [1, 2, 3], None, 1.0, "at least 4"),
        ([1, 2, 3, 4], [1, 2, 3, 4], None, 0.0, "next_order q with 0 <"),
    ],
)
def test_bad_input_is_named(x: list, y: list, error: list | None, next_order: float | None, message: str) -> None:
    """Assert one sentence for what cannot be fitted."""
    with pytest.raises(InputError, match=message):
        fit_order(x, y, error, next_order)


@pytest.mark.parametrize(("power", "a"), [(0.8, 3.0), (0.9, 3.0), (0.9, 1.0), (1.1, -1.0)])
def test_next_term_does_not_excuse_a_wrong_order(power: float, a: float) -> None:
    """Assert that a wrong power is rejected even where the next term pushes its slope towards 1."""
    assert not fit_order(X, X**power * (1 + a * X), next_order=1.0).agrees(1.0)
