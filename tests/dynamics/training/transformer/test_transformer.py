"""Transformers on text: the model, its training, checkpoints, what they say to wrong input. Needs torch."""

import hashlib
import io
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from snapdyn.dynamics import SequenceClasses, TransformerRun, train_transformer
from snapdyn.dynamics.training.transformer.model import forward, initial_parameters, loss, step
from snapdyn.dynamics.training.transformer.text import split_text
from snapdyn.errors import InputError
from snapdyn.validation.embedding import Embedding, gradient
from tests.helpers import FABLE

torch = pytest.importorskip("torch", reason="torch is not installed: transformers are not tested")

# Small enough that a run takes a fraction of a second.
SMALL: dict[str, Any] = {
    "learning_rate": 1.0,
    "iterations": 12,
    "embedding": 8,
    "window": 6,
    "batch_size": 4,
    "min_token_count": 1,
    "validation_share": 0.3,
    "device": "cpu",
}


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """Matrices this small only wait for other threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def train(**changes: Any) -> TransformerRun:
    return train_transformer(FABLE, **{**SMALL, **changes})


def assert_same(a: TransformerRun, b: TransformerRun) -> None:
    for name in ("attention", "entropy", "loss", "change"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


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
    parameters = initial_parameters(9, 1, 5, 3.0, True, 0, "cpu")
    tokens = [1, 4, 4, 8, 0, 2]
    hidden, attention = forward(parameters, torch.tensor([tokens]), 1, "l2", False)
    weights, output = plain_attention(parameters, tokens)
    # float32: 24 bits, some ten operations deep.
    np.testing.assert_allclose(attention[0].detach(), weights, atol=1e-5)
    np.testing.assert_allclose(hidden[0].detach(), output, atol=1e-4)
    assert (attention[0].detach().numpy()[~np.tri(6, k=-1, dtype=bool)] == 0).all()


@pytest.mark.parametrize("normalise", ["l2", "layer", "none"])
@pytest.mark.parametrize("residual", [False, True])
def test_gradients_of_deep_models_are_those_of_the_loss(normalise: str, residual: bool) -> None:
    """Assert autograd against central differences for three layers: no NaN from what nothing attends to."""
    parameters = initial_parameters(9, 3, 4, 2.0, False, 1, "cpu")
    parameters = {name: value.detach().double().requires_grad_() for name, value in parameters.items()}
    windows = torch.tensor([[1, 4, 4, 8, 0, 2], [3, 5, 0, 1, 1, 7]])
    loss(parameters, windows, 3, normalise, residual).backward()
    for value in parameters.values():
        gradient_of = value.grad
        assert torch.isfinite(gradient_of).all()
        direction = torch.ones_like(value)
        with torch.no_grad():
            ends = []
            for sign in (1, -1):
                value += sign * 1e-5 * direction
                ends.append(loss(parameters, windows, 3, normalise, residual).item())
                value -= sign * 1e-5 * direction
        # Rounding of the loss, 1e-15, over the step.
        assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(float((gradient_of * direction).sum()), abs=1e-8, rel=1e-6)


def test_deeper_layers_do_not_see_the_query_or_what_follows() -> None:
    """Assert that outputs up to a position stay when later words change, in three layers."""
    parameters = initial_parameters(9, 3, 4, 2.0, True, 1, "cpu")
    outputs = [
        forward(parameters, torch.tensor([tokens]), 3, "l2", True)[0][0, :4].detach()
        for tokens in ([1, 4, 4, 8, 0, 2], [1, 4, 4, 8, 5, 5])
    ]
    assert torch.equal(*outputs)


def test_numpys_gradient_is_autograds() -> None:
    """Assert the embedding model's derivative, done by hand for the claim `reparameterisation`, against torch."""
    rng = np.random.default_rng(0)
    classes = SequenceClasses(
        rng.dirichlet(np.ones(5), size=3), query=[5, 6, 5], next_token=[0, 1, 7], weights=[0.2, 0.3, 0.5], vocab_size=8
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


def test_options_change_the_model() -> None:
    """Assert that depth, decoder, normalisation, residual connection and exchanged words each give another run."""
    losses = [
        train(**options).loss[-1]
        for options in (
            {}, {"num_layers": 3}, {"num_layers": 3, "residual": False}, {"tied": False}, {"normalise": "none"},
            {"normalise": "layer"}, {"residual": True}, {"shuffle": True}, {"clip": 0.01},
        )
    ]  # fmt: skip
    assert len(set(losses)) == len(losses)


@pytest.mark.parametrize("stop", [1, 7, 10, 11])
def test_an_interrupted_run_goes_on_to_the_same_bits(stop: int, tmp_path: Path) -> None:
    """Assert bit-identical results after Ctrl-C at different iterations, and from the finished checkpoint."""
    options = {"checkpoint": tmp_path / "run.pt", "checkpoint_every": 3, "num_layers": 2, "record": (0, 5, 6, 11)}

    def interrupt(done: float, total: float, label: str) -> None:
        if label == f"training, iteration {stop}":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(**options, progress=interrupt)
    whole = train(num_layers=2, record=(0, 5, 6, 11))
    assert_same(train(**options), whole)
    assert_same(train(**options), whole)
    assert [path.name for path in tmp_path.iterdir()] == ["run.pt"]


def test_checkpoints_that_cannot_be_used(tmp_path: Path) -> None:
    """Assert one sentence for a checkpoint that is cut short, altered, something else, or of another run."""
    path = tmp_path / "run.pt"
    train(checkpoint=path)
    whole = path.read_bytes()
    with pytest.raises(InputError, match=r"a run with learning_rate = 1\.0 where this one has 2\.0"):
        train(checkpoint=path, learning_rate=2.0)
    with pytest.raises(InputError, match="a run with text = "):
        train(checkpoint=path, max_vocab=20)
    altered = bytearray(whole)
    altered[len(whole) // 2] ^= 1
    for bad in (b"", b"no checkpoint", whole[:-100], bytes(altered)):
        path.write_bytes(bad)
        with pytest.raises(InputError, match="expected a checkpoint of a transformer's training") as caught:
            train(checkpoint=path)
        assert "\n" not in str(caught.value)
    buffer = io.BytesIO()
    torch.save({"format": "other"}, buffer)
    path.write_bytes(hashlib.sha256(buffer.getvalue()).digest() + buffer.getvalue())
    with pytest.raises(InputError, match="expected a checkpoint"):
        train(checkpoint=path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"learning_rate": 0}, "learning_rate"),
        ({"num_layers": 0}, "num_layers"),
        ({"iterations": 1.5}, "iterations"),
        ({"record": (0, 13)}, "record as increasing iterations from 0 to 12"),
        ({"record": (3, 3)}, "record as increasing"),
        ({"normalise": "l3"}, "did you mean 'l2'"),
        ({"tied": "no"}, "tied to be true or false"),
        ({"validation_share": 1.0}, "validation_share between 0 and 1"),
        ({"window": 1}, "window"),
        ({"window": 5000}, "a document of at least 5001 words in the training text"),
        ({"clip": -1}, "clip"),
        ({"device": "abacus"}, "a device that torch can use"),
        ({"corpus": ""}, "name of the data"),
        ({"learning_rate": 1e30, "clip": None}, "at which the loss is"),
    ],
)
def test_wrong_arguments(changes: dict[str, Any], message: str) -> None:
    """Assert one sentence for each argument that cannot be, and for training that diverges."""
    with pytest.raises(InputError, match=message) as caught:
        train(**changes)
    assert "\n" not in str(caught.value)


def test_validation_text_of_its_own_and_exchanged_words(tmp_path: Path) -> None:
    """Assert that given validation files are held back whole, and that exchanging words keeps their counts."""
    held = tmp_path / "held.txt"
    held.write_text("one two three four five six seven one two three")
    settings = (7, "auto", "drop", 1, None)
    text = split_text(FABLE, [held], 0.5, *settings, None, None)
    words = [text.words[i] for i in text.validation.stream if i >= 0]
    assert words == held.read_text().split()
    shuffled = split_text(FABLE, [held], 0.5, *settings, (0, 2), None)
    streams = [np.concatenate([t.training.stream, t.validation.stream]) for t in (text, shuffled)]
    assert not np.array_equal(*streams)
    np.testing.assert_array_equal(*map(np.sort, streams))
    np.testing.assert_array_equal(*(stream < 0 for stream in streams))


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
