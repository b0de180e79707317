"""A training run outside snapdyn: attention over sequences of two classes, by PyTorch's autograd and SGD.

    pip install torch
    python examples/trace_torch.py trace_torch.npz

Four seeds, single precision; every update draws 64 sequences. The arrays `steps` and `attention` are what
`sd.read_trace` reads; the settings are stored beside them. docs/how_to/traces.md compares and fits the file.
"""

import sys

import numpy as np
import torch

P = torch.tensor([[0.30, 0.45, 0.25, 0.0, 0.0], [0.40, 0.0, 0.0, 0.40, 0.20]])  # P(token | class)
PRIOR = torch.tensor([0.5, 0.5])
RATE_Y, RATE_Z, BATCH, MOMENTUM, UPDATES, SEEDS = 0.05, 0.1, 64, 0.5, 600, 4
RECORD = np.unique(np.r_[0, np.geomspace(20, UPDATES, 25).round().astype(int)])


def train(seed: int) -> list[np.ndarray]:
    generator = torch.Generator().manual_seed(seed)
    Y = torch.zeros(5, 20, requires_grad=True)  # decoder: 5 tokens, 20 outputs; class n is followed by output n
    z = torch.zeros(5, requires_grad=True)  # attention logits of the one query
    groups = [{"params": [Y], "lr": RATE_Y}, {"params": [z], "lr": RATE_Z}]
    optimizer = torch.optim.SGD(groups, momentum=MOMENTUM)
    recorded = []
    for update in range(UPDATES + 1):
        attention = torch.softmax(torch.log(P) + z, dim=1)  # of infinitely long sequences
        if update in RECORD:
            recorded.append(attention.detach().numpy().copy())
        drawn = torch.multinomial(PRIOR, BATCH, replacement=True, generator=generator)
        f = attention / attention.norm(dim=1, keepdim=True)
        loss = torch.nn.functional.cross_entropy((f @ Y)[drawn], drawn)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return recorded


if __name__ == "__main__":
    settings = {"rates": (RATE_Y, RATE_Z), "batch_size": BATCH, "momentum": MOMENTUM, "seeds": range(SEEDS)}
    np.savez_compressed(sys.argv[1], steps=RECORD, attention=[train(seed) for seed in range(SEEDS)], **settings)
