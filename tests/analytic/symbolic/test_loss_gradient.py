"""The gradient of the loss that sympy derives from the objective (Eq. 2, Lemma 1, Section 9)."""

import numpy as np
import pytest

from snapdyn.analytic.symbolic import gradient
from snapdyn.core.errors import InputError
from tests.dynamics.dense_reference import Instance, mean_field

pytestmark = pytest.mark.slow

# tokens M, rows of Y, outputs V, query ids, next tokens, residual
CASES = {
    "two classes, two queries": (4, 4, 3, [0, 1], [0, 1], False),
    "more outputs, shared next token": (3, 3, 6, [0, 1, 1], [5, 2, 5], False),
    "residual, query among the tokens": (4, 4, 3, [3, 0], [1, 0], True),
    "residual, one query beyond": (3, 5, 4, [4, 4], [3, 1], True),
}


def _problem(name: str) -> tuple[tuple, np.ndarray, np.ndarray, bool]:
    M, rows, V, query, next_token, residual = CASES[name]
    rng = np.random.default_rng(6)
    P = rng.dirichlet(np.ones(M), len(query))
    # Empirical frequencies of a short sample: some tokens are absent.
    P[0] = rng.multinomial(5, P[0]) / 5
    weights = rng.dirichlet(np.ones(len(query)))
    Y, z = rng.normal(size=(rows, V)), rng.normal(size=(len(set(query)), M))
    return (P, np.array(query), np.array(next_token), weights), Y, z, residual


@pytest.mark.parametrize("name", CASES)
def test_gradient_is_lemma_1(name: str) -> None:
    """Assert that sympy's gradient is Eqs. (3)-(4), and their residual form, to 1e-12, and that its rows sum to 0."""
    data, Y, z, residual = _problem(name)
    dY, dz = gradient(*data, Y, z, residual=residual)
    expected_Y, expected_z, _ = mean_field(Instance(*data, Y.shape[1]), Y, z, 1.0, 1.0, residual)
    np.testing.assert_allclose(dY, expected_Y, atol=1e-13)
    np.testing.assert_allclose(dz, expected_z, atol=1e-13)
    np.testing.assert_allclose([*dY.sum(axis=1), *dz.sum(axis=1)], 0, atol=1e-14)


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"weights": np.ones(3)}, "one entry per class"),
        ({"next_token": np.array([0, 3])}, "4 columns"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(changed: dict, match: str) -> None:
    """Assert that inconsistent shapes are refused, with the shape that was expected."""
    (P, query, next_token, weights), Y, z, _ = _problem("two classes, two queries")
    arguments = {"P": P, "query": query, "next_token": next_token, "weights": weights, "Y": Y, "z": z}
    with pytest.raises(InputError, match=match):
        gradient(**(arguments | changed))
