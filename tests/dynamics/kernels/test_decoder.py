"""The inverse of the overlaps that the modified decoder uses."""

import numpy as np
import pytest

from snapdyn.dynamics.kernels.decoder import spd_inverse
from tests.dynamics.helpers import EPS

pytestmark = pytest.mark.kernel


@pytest.mark.parametrize(("size", "spread"), [(1, 1.0), (2, 3.0), (5, 0.0), (12, 3.0)])
def test_spd_inverse_equals_linalg(size: int, spread: float) -> None:
    """Assert that the Cholesky inverse agrees with numpy's within rounding times the condition number."""
    A = np.random.default_rng(size).normal(size=(size, size))
    G = np.eye(size) + spread * A @ A.T
    inverse = np.full((size, size), np.nan)
    spd_inverse(G, np.full((size, size), np.nan), inverse)
    bound = 10 * size**2 * EPS * np.linalg.cond(G) * np.abs(np.linalg.inv(G)).max()
    np.testing.assert_allclose(inverse, np.linalg.inv(G), rtol=0, atol=bound)


def test_spd_inverse_of_an_indefinite_matrix_is_nan() -> None:
    """Assert that a matrix that is not positive definite gives NaN, not a plausible inverse."""
    inverse = np.zeros((2, 2))
    spd_inverse(np.array([[1.0, 2.0], [2.0, 1.0]]), np.zeros((2, 2)), inverse)
    assert np.isnan(inverse).all()
