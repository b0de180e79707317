"""The embedding model of the claim `reparameterisation`; its derivative against torch's: test_transformer.py."""

import numpy as np
import pytest

from snapdyn.dynamics import MeanField, SequenceClasses
from snapdyn.validation.claims.extensions import reparameterisation as claim
from snapdyn.validation.dense_algebra import Embedding, gradient


def classes_and_parameters(d: int = 5) -> tuple[SequenceClasses, Embedding]:
    """Three classes of two queries, one of which is a contextual token as well, and random parameters."""
    rng = np.random.default_rng(3)
    classes = SequenceClasses(
        rng.dirichlet(np.ones(6), size=3), query=[4, 6, 4], next_token=[0, 1, 7], prior=[0.2, 0.3, 0.5], vocab_size=8
    )
    return classes, Embedding(*(rng.normal(size=shape) for shape in ((8, d), (d, d), (d, d), (d, d))))


def test_gradient_is_that_of_the_objective() -> None:
    """Assert every derivative against central differences of the objective."""
    classes, at = classes_and_parameters()
    _, found = gradient(classes, at)
    step = 1e-5
    for name, of_objective in zip(at._fields, found, strict=True):
        for index in np.ndindex(of_objective.shape):
            shift = np.zeros_like(of_objective)
            shift[index] = step
            ends = [gradient(classes, at._replace(**{name: getattr(at, name) + s * shift}))[0] for s in (1, -1)]
            # step^2 times third derivatives, and rounding over the step.
            assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(of_objective[index], abs=1e-7)


def test_the_objective_is_that_of_Y_and_Z() -> None:
    """Assert the objective at orthonormal U against the mean field's at the same Y and Z."""
    classes, at = classes_and_parameters(d=8)
    at = at._replace(U=np.linalg.qr(at.U)[0])
    system = MeanField(classes, 1.0, 1.0)
    state = np.empty(system.size)
    query, token = classes.z_coordinates
    state[system.layout.slot_of_z] = at.Z[classes.queries[query], token]
    # With all eight outputs but three alike in the mean field, a decoder whose other columns are equal.
    Y = at.U @ at.W_V.T @ at.U.T
    spare = [n for n in range(8) if n not in (0, 1, 7)]
    Y[:, spare] = Y[:, spare].mean(axis=1, keepdims=True)
    W_V = (at.U.T @ Y @ at.U).T
    columns = [n if n >= 0 else spare[0] for n in system.layout.output_token]
    state[system.layout.num_slots :] = Y[np.ix_(system.layout.row_token, columns)].ravel()
    out = np.empty_like(state)
    loss = system.write_rate(state, out)
    assert gradient(classes, at._replace(W_V=W_V))[0] == pytest.approx(-loss, rel=1e-12)


def test_only_gram_matrices_matter_while_U_is_fixed() -> None:
    """Assert that short factors of the same Gram matrices follow the full model, and those of another width do not."""
    rng, d = np.random.default_rng(3), 80
    U, W_Q, W_K = rng.standard_normal((34, d)) / np.sqrt(d), *(0.3 * rng.standard_normal((2, d, d)))
    root = np.linalg.cholesky(U @ U.T)
    short = [np.linalg.solve(root, U @ W) for W in (W_Q, W_K)]
    full, same, other = (
        claim.Start(width, *given, s2=40.0).reached
        for width, given in ((d, (U, W_Q, W_K)), (d, (root, *short)), (2 * d, (root, *short)))
    )
    np.testing.assert_allclose(same, full, atol=1e-10)
    assert np.abs(other - full).max() > 1e-3
