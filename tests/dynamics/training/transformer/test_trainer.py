"""Transformers: gradients are those of the equations, what a run records, options, wrong input. Needs torch."""

import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from snapdyn.core.errors import InputError
from snapdyn.dynamics.training.transformer.trainer import TransformerSettings, forward, initial_parameters, loss, step
from tests.dynamics.training.transformer.helpers import assert_same, train
from tests.helpers import FABLE

pytestmark = pytest.mark.usefixtures("torch")


def test_what_a_run_records() -> None:
    """Assert shapes, the uniform start's entropy, that the loss falls, and that the same seed gives the same bits."""
    run = train(iterations=60, embedding_norm=1e-3)
    assert run.iteration.tolist() == [0, 20, 40, 60]
    assert run.attention.shape == (4, 6, 6)
    assert (run.corpus, run.num_layers, len(run.tokens)) == ("fable.txt", 1, 6)
    # Vectors of length 1e-3 make scores of at most 1e-6.
    assert run.entropy[0] == pytest.approx(np.log(np.arange(1, 6)).mean(), abs=1e-5)
    assert np.isnan(run.change[0])
    assert (run.change[1:] >= 0).all()
    learned = train(iterations=60)
    assert learned.loss[-1] < learned.loss[0]
    assert_same(learned, train(iterations=60))
    assert not np.array_equal(learned.entropy, train(iterations=60, seed=1).entropy)
    assert_same(train(clip=np.inf), train(clip=None))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"window": 5000}, "a document of at least 5001 words in the training text"),
        ({"device": "abacus"}, "a device that torch can use"),
        ({"learning_rate": 1e30, "clip": None}, "at which the loss is"),
    ],
)
def test_wrong_arguments(changes: dict[str, Any], message: str) -> None:
    """Assert one sentence for each argument that cannot be, and for training that diverges."""
    with pytest.raises(InputError, match=message) as caught:
        train(**changes)
    assert "\n" not in str(caught.value)


def test_without_torch_one_sentence_says_how_to_install_it() -> None:
    """Assert that importing the package does not import torch, and what a run says where there is none."""
    code = (
        "import sys, snapdyn as sd, snapdyn.dynamics\n"
        "print('torch' in sys.modules)\n"
        "class Without:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'torch': raise ImportError('No module named torch')\n"
        "sys.meta_path.insert(0, Without())\n"
        f"try: sd.train_transformer({str(FABLE)!r}, learning_rate=1)\n"
        "except sd.InputError as error: print(error)\n"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.startswith("False\nexpected PyTorch")
    assert told.endswith("install it with pip install 'snapdyn[text]'\n")


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


def test_the_model_is_that_of_the_equations(torch: Any) -> None:
    """Assert attention and output of one layer against a loop over positions, and that the query is masked."""
    parameters = initial_parameters(9, ONE_LAYER, 0, "cpu")
    tokens = [1, 4, 4, 8, 0, 2]
    hidden, attention = forward(parameters, torch.tensor([tokens]), ONE_LAYER)
    weights, output = plain_attention(parameters, tokens)
    # float32: 24 bits, some ten operations deep.
    np.testing.assert_allclose(attention[0].detach(), weights, atol=1e-5)
    np.testing.assert_allclose(hidden[0].detach(), output, atol=1e-4)
    assert (attention[0].detach().numpy()[~np.tri(6, k=-1, dtype=bool)] == 0).all()


def test_gradients_of_deep_models_are_those_of_the_loss(torch: Any) -> None:
    """Assert autograd against central differences for three layers: no NaN from what nothing attends to."""
    settings = replace(DEEP, residual=True)
    parameters = {
        name: value.detach().double().requires_grad_()
        for name, value in initial_parameters(9, settings, 1, "cpu").items()
    }
    windows = torch.tensor([[1, 4, 4, 8, 0, 2], [3, 5, 0, 1, 1, 7]])
    loss(parameters, windows, settings).backward()

    def moved(name: str, step: float) -> float:
        with torch.no_grad():
            return float(loss({**parameters, name: parameters[name] + step}, windows, settings))

    for name, value in parameters.items():
        assert torch.isfinite(value.grad).all()
        # Rounding of the loss, 1e-15, over the step.
        difference = (moved(name, 1e-5) - moved(name, -1e-5)) / 2e-5
        assert difference == pytest.approx(float(value.grad.sum()), abs=1e-8, rel=1e-6)


def test_deeper_layers_do_not_see_the_query_or_what_follows(torch: Any) -> None:
    """Assert that outputs up to a position stay when later words change, in three layers."""
    parameters = initial_parameters(9, DEEP, 1, "cpu")
    outputs = [
        forward(parameters, torch.tensor([tokens]), DEEP)[0][0, :4].detach()
        for tokens in ([1, 4, 4, 8, 0, 2], [1, 4, 4, 8, 5, 5])
    ]
    assert torch.equal(*outputs)


def test_a_step_is_clipped_in_norm(torch: Any) -> None:
    """Assert that a step's length is rate times the smaller of the gradient's norm and the clip."""
    for clip, length in ((0.5, 0.5), (100.0, 5.0), (None, 5.0)):
        parameters = {name: torch.zeros(2, requires_grad=True) for name in ("a", "b")}
        parameters["a"].grad, parameters["b"].grad = torch.tensor([3.0, 0.0]), torch.tensor([0.0, 4.0])
        step(parameters, 2.0, clip)
        assert np.hypot(parameters["a"].norm().item(), parameters["b"].norm().item()) == pytest.approx(2 * length)
