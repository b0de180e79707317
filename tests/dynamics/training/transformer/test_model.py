"""The transformer: attention and gradients are those of the equations. Needs torch."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from snapdyn.dynamics import SequenceClasses
from snapdyn.dynamics.training.transformer.model import forward, initial_parameters, loss, step
from snapdyn.dynamics.training.transformer.settings import TransformerSettings
from snapdyn.validation.dense_algebra import Embedding, gradient
from tests.dynamics.training.transformer.helpers import torch

pytestmark = pytest.mark.usefixtures("one_thread")
ONE_LAYER = TransformerSettings("text", 1.0, embedding=5)
DEEP = TransformerSettings("text", 1.0, num_layers=3, embedding=4, embedding_norm=2.0)


def plain_attention(parameters: dict[str, Any], tokens: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Attention and output of one layer on one window, position by position as in Eqs. (1)-(2), in float64."""
    values = {name: value.detach().numpy().astype(float) for name, value in parameters.items()}
    U, W_Q, W_K, W_V = (values[name] for name in ("U", "W_Q 0", "W_K 0", "W_V 0"))
    length, d = len(tokens), U.shape[1]
    weights, output = np.zeros((length, length)), np.zeros((length, U.shape[1]))
    for T in range(1, length):
        scores = [U[tokens[T]] @ W_Q @ W_K.T @ U[tokens[t]] / np.sqrt(d) for t in range(T)]
        weights[T, :T] = np.exp(scores) / np.exp(scores).sum()
        summed = sum(weights[T, t] * U[tokens[t]] for t in range(T))
        output[T] = W_V @ (summed / np.linalg.norm(summed))
    return weights, output


def test_the_model_is_that_of_the_equations() -> None:
    """Assert attention and output of one layer against a loop over positions, and that the query is masked."""
    parameters = initial_parameters(9, ONE_LAYER, 0, "cpu")
    tokens = [1, 4, 4, 8, 0, 2]
    hidden, attention = forward(parameters, torch.tensor([tokens]), ONE_LAYER)
    weights, output = plain_attention(parameters, tokens)
    # float32: 24 bits, some ten operations deep.
    np.testing.assert_allclose(attention[0].detach(), weights, atol=1e-5)
    np.testing.assert_allclose(hidden[0].detach(), output, atol=1e-4)
    assert (attention[0].detach().numpy()[~np.tri(6, k=-1, dtype=bool)] == 0).all()


@pytest.mark.parametrize("residual", [False, True])
def test_gradients_of_deep_models_are_those_of_the_loss(residual: bool) -> None:
    """Assert autograd against central differences for three layers: no NaN from what nothing attends to."""
    settings = replace(DEEP, residual=residual)
    parameters = initial_parameters(9, settings, 1, "cpu")
    parameters = {name: value.detach().double().requires_grad_() for name, value in parameters.items()}
    windows = torch.tensor([[1, 4, 4, 8, 0, 2], [3, 5, 0, 1, 1, 7]])
    loss(parameters, windows, settings).backward()
    for value in parameters.values():
        gradient_of = value.grad
        assert torch.isfinite(gradient_of).all()
        direction = torch.ones_like(value)
        with torch.no_grad():
            ends = []
            for sign in (1, -1):
                value += sign * 1e-5 * direction
                ends.append(loss(parameters, windows, settings).item())
                value -= sign * 1e-5 * direction
        # Rounding of the loss, 1e-15, over the step.
        assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(float((gradient_of * direction).sum()), abs=1e-8, rel=1e-6)


def test_deeper_layers_do_not_see_the_query_or_what_follows() -> None:
    """Assert that outputs up to a position stay when later words change, in three layers."""
    parameters = initial_parameters(9, DEEP, 1, "cpu")
    outputs = [
        forward(parameters, torch.tensor([tokens]), DEEP)[0][0, :4].detach()
        for tokens in ([1, 4, 4, 8, 0, 2], [1, 4, 4, 8, 5, 5])
    ]
    assert torch.equal(*outputs)


def test_numpys_gradient_is_autograds() -> None:
    """Assert the embedding model's derivative, done by hand for the claim `reparameterisation`, against torch."""
    rng = np.random.default_rng(0)
    classes = SequenceClasses(
        rng.dirichlet(np.ones(5), size=3), query=[5, 6, 5], next_token=[0, 1, 7], prior=[0.2, 0.3, 0.5], vocab_size=8
    )
    at = Embedding(*(rng.normal(size=shape) for shape in ((8, 4), (4, 4), (4, 4), (4, 4))))
    value, found = gradient(classes, at)
    U, W_Q, W_K, W_V = parameters = [torch.tensor(x, requires_grad=True) for x in at]
    objective = 0.0
    for P, query, next_token, prior in zip(
        classes.P.toarray(), classes.query, classes.next_token, classes.prior, strict=True
    ):
        scores = U[:5] @ W_K @ W_Q.T @ U[query] / 2
        attention = torch.softmax(scores + torch.tensor(np.log(P)), 0)
        normalised = torch.nn.functional.normalize(attention @ U[:5], dim=0)
        objective = objective + prior * torch.log_softmax(U @ W_V @ normalised, 0)[next_token]
    objective.backward()
    assert value == pytest.approx(objective.item(), rel=1e-13)
    for mine, parameter in zip(found, parameters, strict=True):
        np.testing.assert_allclose(mine, parameter.grad, atol=1e-12)


def test_a_step_is_clipped_in_norm() -> None:
    """Assert that a step's length is rate times the smaller of the gradient's norm and the clip."""
    for clip, length in ((0.5, 0.5), (100.0, 5.0), (None, 5.0)):
        parameters = {name: torch.zeros(2, requires_grad=True) for name in ("a", "b")}
        parameters["a"].grad, parameters["b"].grad = torch.tensor([3.0, 0.0]), torch.tensor([0.0, 4.0])
        step(parameters, 2.0, clip)
        assert np.hypot(parameters["a"].norm().item(), parameters["b"].norm().item()) == pytest.approx(2 * length)
