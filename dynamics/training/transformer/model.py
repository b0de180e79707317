"""The transformer of Eqs. (1)-(2) in its embedding parameterisation, one head per layer, in torch.

Torch belongs to the extra `text` and is imported by functions only, so that the package works without it.
"""

from __future__ import annotations

import math
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from snapdyn.dynamics.training.transformer.settings import TransformerSettings
from snapdyn.errors import InputError

MASKED = -1e30  # a score whose weight and gradient are exactly 0
Tensor = Any
Parameters = dict[str, Any]


def torch_module() -> Any:
    """Return the module torch; where it is not installed, the InputError says how to install it."""
    try:
        return import_module("torch")
    except ImportError as error:
        raise InputError(
            f"expected PyTorch, which transformers are trained with, received: {error}; install it with pip install "
            "'snapdyn[text]'"
        ) from error


def initial_parameters(vocab_size: int, settings: TransformerSettings, seed: int, device: Any) -> Parameters:
    """Draw U (V, d), and per layer W_Q, W_K and W_V (d, d).

    All entries are independent and normal. On average, rows of U have length `embedding_norm`, and W_Q, W_K and W_V
    keep the length of a vector. numpy draws the numbers, so they are the same on every device. The names are "U",
    "W_Q 0", "W_K 0", "W_V 0", "W_Q 1", ...
    """
    torch, width, norm = torch_module(), settings.embedding, settings.embedding_norm
    rng = np.random.default_rng(seed)
    shapes = {"U": (vocab_size, norm)}
    for layer in range(settings.num_layers):
        shapes |= {f"{name} {layer}": (width, 1.0) for name in ("W_Q", "W_K", "W_V")}
    parameters = {}
    for name, (rows, length) in shapes.items():
        values = rng.standard_normal((rows, width), dtype=np.float32) * np.float32(length / math.sqrt(width))
        parameters[name] = torch.tensor(values, device=device, requires_grad=True)
    return parameters


def forward(parameters: Parameters, tokens: Tensor, settings: TransformerSettings) -> tuple[Tensor, Tensor]:
    """Apply all layers to a batch of windows, (B, L) word ids; return output (B, L, d) and attention (B, L, L).

    The query at position T attends to the positions before it, never to itself, with the softmax of
    u_T^T W_Q W_K^T u_t/sqrt(d) (1). The attended sum is normalised and multiplied by W_V (2). With the residual
    connection the query's vector is added to that sum, and the result is normalised again (Sec. 7). The first position
    has no position before it: its weights are 0. The attention is that of the lowest layer, row query position, column
    key position. Products of the output with rows of U are the logits.
    """
    torch = torch_module()
    normalised = partial(torch.nn.functional.normalize, dim=-1)
    before = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool, device=tokens.device).tril(-1)
    hidden, lowest = parameters["U"][tokens], None
    for layer in range(settings.num_layers):
        queries, keys = hidden @ parameters[f"W_Q {layer}"], hidden @ parameters[f"W_K {layer}"]
        scores = queries @ keys.transpose(1, 2) / math.sqrt(queries.shape[2])
        attention = torch.softmax(scores.masked_fill(~before, MASKED), dim=-1) * before
        lowest = attention if lowest is None else lowest
        mixed = normalised(attention @ hidden)
        if settings.residual:
            mixed = normalised(mixed + hidden)
        hidden = mixed @ parameters[f"W_V {layer}"].T
    return hidden, lowest


def loss(parameters: Parameters, windows: Tensor, settings: TransformerSettings) -> Tensor:
    """Mean cross entropy of the next word, nats, over every position that has words before it.

    `windows` (B, L+1) are L words that are read, and the word that follows them.
    """
    hidden, _ = forward(parameters, windows[:, :-1], settings)
    logits = hidden[:, 1:] @ parameters["U"].T
    return torch_module().nn.functional.cross_entropy(logits.flatten(0, 1), windows[:, 2:].flatten())


def step(parameters: Parameters, learning_rate: float, clip: float | None) -> None:
    """Take a step of gradient descent, in place, with the gradients stored in the parameters, and clear these.

    Gradients whose common norm is larger than `clip` are scaled down to this norm first.
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
