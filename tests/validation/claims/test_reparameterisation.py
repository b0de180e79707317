"""The embedding model of the claim `reparameterisation`; its derivative against torch's: test_transformer.py."""

import numpy as np
import pytest

from snapdyn.dynamics import MeanField, SequenceClasses
from snapdyn.validation.claims.extensions import reparameterisation as claim
from snapdyn.validation.dense_algebra import Embedding, ascend, gradient
from snapdyn.validation.verdicts import check_claim


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


def test_what_is_conserved() -> None:
    """Assert that W_Q^T W_Q - W_K^T W_K does not move to first order, and that each of the two does."""
    classes, at = classes_and_parameters()
    _, moved = gradient(classes, at)
    Q, K = at.W_Q.T @ moved.W_Q, at.W_K.T @ moved.W_K
    np.testing.assert_allclose(Q + Q.T, K + K.T, atol=1e-13)
    assert np.abs(Q).max() > 1e-3


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


def forget() -> None:
    """Forget what the settings of the claim have measured in this process."""
    for prop in claim.CLAIM.properties:
        for setting in prop.settings().values():
            if isinstance(setting, claim.Start):
                vars(setting).pop("reached", None)


def test_a_wrong_rate_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that the claim is refuted when the decoder of the exact case is trained 1 % too fast."""

    def faster(classes: SequenceClasses, start: Embedding, rates: tuple[float, ...], steps: int) -> Embedding:
        return ascend(classes, start, (*rates[:3], 1.01) if rates == (0.0, 1.0, 0.0, 1.0) else rates, steps)

    monkeypatch.setattr(claim, "ascend", faster)
    forget()
    assert check_claim(claim.CLAIM, "quick").verdict == "refuted"
    forget()
