"""A straightforward PyTorch program for Syn-Medium: one-hot tensors, autograd, a Python loop that draws sequences."""

from __future__ import annotations

import math

import torch

from snapdyn.dynamics import SequenceClasses


def train(
    classes: SequenceClasses,
    eta_Y: float,
    eta_Z: float,
    steps: int,
    batch_size: int,
    seq_len: int,
    momentum: float,
    seed: int,
) -> tuple[torch.Tensor, list[float]]:
    """Attention logits Z (Q, V) after training from a uniform start, and the loss of every batch."""
    generator = torch.Generator().manual_seed(seed)
    V, S = classes.vocab_size, classes.num_classes
    P = torch.zeros(S, V)
    P[:, : classes.num_tokens] = torch.tensor(classes.P.toarray(), dtype=torch.float32)
    prior = torch.tensor(classes.prior, dtype=torch.float32)
    query, target = torch.tensor(classes.query_index), torch.tensor(classes.next_token)
    reach = 1.0 / math.sqrt(V)
    Y = torch.nn.Parameter(torch.empty(V, V).uniform_(-reach, reach, generator=generator))
    Z = torch.nn.Parameter(torch.empty(classes.queries.size, V).uniform_(-reach, reach, generator=generator))
    optimizer = torch.optim.SGD([{"params": [Y], "lr": eta_Y}, {"params": [Z], "lr": eta_Z}], momentum=momentum)
    losses = []
    for _ in range(steps):
        drawn = torch.multinomial(prior, batch_size, replacement=True, generator=generator)
        sequences = []
        for n in drawn:
            sequences.append(torch.multinomial(P[n], seq_len, replacement=True, generator=generator))
        X = torch.nn.functional.one_hot(torch.stack(sequences), V).float()  # (batch, T-1, V)
        b = torch.softmax(torch.einsum("btv,bv->bt", X, Z[query[drawn]]), dim=1)
        q = torch.einsum("btv,bt->bv", X, b)
        f = q / q.norm(dim=1, keepdim=True)
        loss = torch.nn.functional.cross_entropy(f @ Y, target[drawn])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return Z.detach(), losses
