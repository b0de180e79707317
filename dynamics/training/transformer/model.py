"""The transformer of Eqs. (1)-(2) in its embedding parameterisation, one head per layer, in torch.

Torch belongs to the extra `text` and is imported by functions only, so that the package works without it.
"""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any

import numpy as np

from snapdyn.errors import InputError

NORMALISATIONS = ("l2", "layer", "none")
MASKED = -1e30  # a score whose weight and gradient are exactly 0
Tensor = Any
Parameters = dict[str, Any]


def torch_module() -> Any:
    """Return the module torch.

    Returns
    -------
    module

    Raises
    ------
    InputError
        Torch is not installed; the message says how to install it.
    """
    try:
        return import_module("torch")
    except ImportError as error:
        raise InputError(
            f"expected PyTorch, which transformers are trained with, received: {error}; install it with pip install "
            "'snapdyn[text]'"
        ) from error


def initial_parameters(
    vocab_size: int, num_layers: int, embedding: int, embedding_norm: float, tied: bool, seed: int, device: Any
) -> Parameters:
    """Draw U (V, d), per layer W_Q, W_K and W_V (d, d), and for an untied decoder its rows (V, d).

    All entries are independent and normal. On average, rows of U and of the decoder have length `embedding_norm`, and
    W_Q, W_K and W_V keep the length of a vector. numpy draws the numbers, so they are the same on every device.

    Parameters
    ----------
    vocab_size : int
        V.
    num_layers : int
    embedding : int
        d.
    embedding_norm : float
    tied : bool
        Whether the decoder is U.
    seed : int
    device : torch.device

    Returns
    -------
    dict of tensors
        "U", "W_Q 0", "W_K 0", "W_V 0", "W_Q 1", ..., and "decoder" when it is not tied.
    """
    torch = torch_module()
    rng = np.random.default_rng(seed)

    def draw(rows: int, norm: float) -> Tensor:
        values = rng.standard_normal((rows, embedding), dtype=np.float32) * np.float32(norm / math.sqrt(embedding))
        return torch.tensor(values, device=device, requires_grad=True)

    parameters = {"U": draw(vocab_size, embedding_norm)}
    for layer in range(num_layers):
        for name in ("W_Q", "W_K", "W_V"):
            parameters[f"{name} {layer}"] = draw(embedding, 1.0)
    if not tied:
        parameters["decoder"] = draw(vocab_size, embedding_norm)
    return parameters


def forward(
    parameters: Parameters, tokens: Tensor, num_layers: int, normalise: str, residual: bool
) -> tuple[Tensor, Tensor]:
    """Apply all layers to a batch of windows.

    The query at position T attends to the positions before it, never to itself, with the softmax of
    u_T^T W_Q W_K^T u_t/sqrt(d) (1). The attended sum is normalised and multiplied by W_V (2). With the residual
    connection the query's vector is added to that sum, and the result is normalised again (Sec. 7). The first position
    has no position before it: its weights are 0.

    Parameters
    ----------
    parameters : dict of tensors
        As from `initial_parameters`.
    tokens : (B, L) tensor of int
    num_layers : int
    normalise : {"l2", "layer", "none"}
    residual : bool

    Returns
    -------
    output : (B, L, d) tensor
        Output of the last layer; its products with rows of the decoder (`decoder_rows`) are the logits.
    attention : (B, L, L) tensor
        Attention of the lowest layer: row query position, column key position.
    """
    torch = torch_module()
    embedding = parameters["U"].shape[1]
    before = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool, device=tokens.device).tril(-1)

    def normalised(x: Tensor) -> Tensor:
        if normalise == "l2":
            return torch.nn.functional.normalize(x, dim=-1)
        return torch.nn.functional.layer_norm(x, (embedding,)) if normalise == "layer" else x

    hidden, lowest = parameters["U"][tokens], None
    for layer in range(num_layers):
        queries, keys = hidden @ parameters[f"W_Q {layer}"], hidden @ parameters[f"W_K {layer}"]
        scores = queries @ keys.transpose(1, 2) / math.sqrt(queries.shape[2])
        attention = torch.softmax(scores.masked_fill(~before, MASKED), dim=-1) * before
        lowest = attention if lowest is None else lowest
        mixed = normalised(attention @ hidden)
        if residual:
            mixed = normalised(mixed + hidden)
        hidden = mixed @ parameters[f"W_V {layer}"].T
    return hidden, lowest


def decoder_rows(parameters: Parameters) -> Tensor:
    """Rows whose products with the output are the logits: U (2), or the weights of an untied decoder.

    Parameters
    ----------
    parameters : dict of tensors

    Returns
    -------
    (V, d) tensor
    """
    return parameters.get("decoder", parameters["U"])


def loss(parameters: Parameters, windows: Tensor, num_layers: int, normalise: str, residual: bool) -> Tensor:
    """Mean cross entropy of the next word, over every position that has words before it.

    Parameters
    ----------
    parameters : dict of tensors
        As in `forward`, like `num_layers`, `normalise` and `residual`.
    windows : (B, L+1) tensor of int
        L words that are read, and the word that follows them.
    num_layers : int
    normalise : {"l2", "layer", "none"}
    residual : bool

    Returns
    -------
    scalar tensor
        In nats.
    """
    torch = torch_module()
    hidden, _ = forward(parameters, windows[:, :-1], num_layers, normalise, residual)
    logits = hidden[:, 1:] @ decoder_rows(parameters).T
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), windows[:, 2:].flatten())


def step(parameters: Parameters, learning_rate: float, clip: float | None) -> None:
    """Take a step of gradient descent, in place, with the gradients stored in the parameters, and clear these.

    Parameters
    ----------
    parameters : dict of tensors
    learning_rate : float
    clip : float or None
        Gradients whose common norm is larger are scaled down to this norm first.
    """
    torch = torch_module()
    with torch.no_grad():
        gradients = [p.grad for p in parameters.values()]
        scale = 1.0
        if clip is not None:
            norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in gradients]))
            scale = torch.clamp(clip / norm, max=1.0)  # stays on the device, so that the program does not wait for it
        for parameter, gradient in zip(parameters.values(), gradients, strict=True):
            parameter -= learning_rate * scale * gradient
            parameter.grad = None
