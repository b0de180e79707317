"""SGD and Adam on sequence classes in plain numpy, Eqs. (3)-(4): no code of the package."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Training:
    """What a training run is made of; class n has the next token n.

    P (S, M), query (S,), prior (S,); `seq_len` is the number of contextual tokens, math.inf for the expectation over
    the tokens; `record` (N,) updates, increasing; v <- mu v + g, x <- x + eta v on the mean of a batch,
    or of all classes where `batch_size` is math.inf. With `betas` = (beta1, beta2) Adam of Kingma and Ba on this
    gradient, epsilon = 1e-8, in place of the velocity.
    """

    P: Array
    query: NDArray[np.int64]
    prior: Array
    vocab_size: int
    eta_Y: float
    eta_Z: float
    momentum: float
    batch_size: float
    seq_len: float
    record: NDArray[np.int64]
    betas: tuple[float, float] | None = None


def attention_of_runs(training: Training, runs: int, seed: int) -> Array:
    """Attention (runs, N, S, M) at the recorded updates, of runs side by side."""
    rng, (S, M) = np.random.default_rng(seed), training.P.shape
    copies = np.append(np.ones(S), training.vocab_size - S)  # the outputs that never follow stay equal
    z, Y = np.zeros((runs, int(training.query.max()) + 1, M)), np.zeros((runs, M, S + 1))
    velocity_z, velocity_Y, found = np.zeros_like(z), np.zeros_like(Y), []
    square_z, square_Y = np.zeros_like(z), np.zeros_like(Y)
    for update in range(int(training.record[-1]) + 1):
        if update in training.record:
            c = training.P * np.exp(z[:, training.query])
            found.append(c / c.sum(axis=-1, keepdims=True))
        dz, dY = np.zeros_like(z), np.zeros_like(Y)
        for labels, share, q in _batch(training, rng, runs):
            m, each = training.query[labels], np.arange(runs)
            f = q * np.exp(z[each, m])
            f /= np.linalg.norm(f, axis=1, keepdims=True)
            logits = np.einsum("rl,rlk->rk", f, Y)
            error = -np.exp(logits - logits.max(axis=1, keepdims=True))
            error /= -(error * copies).sum(axis=1, keepdims=True)
            error[each, labels] += 1.0
            g = np.einsum("rlk,rk->rl", Y, error * copies)
            dz[each, m] += share[:, None] * f * (g - f * (f * g).sum(axis=1, keepdims=True))
            dY += share[:, None, None] * f[:, :, None] * error[:, None, :]
        if training.betas is not None:
            step_z, velocity_z, square_z = _adam(training.betas, update, dz, velocity_z, square_z)
            step_Y, velocity_Y, square_Y = _adam(training.betas, update, dY, velocity_Y, square_Y)
            z, Y = z + training.eta_Z * step_z, Y + training.eta_Y * step_Y
            continue
        velocity_z, velocity_Y = training.momentum * velocity_z + dz, training.momentum * velocity_Y + dY
        z, Y = z + training.eta_Z * velocity_z, Y + training.eta_Y * velocity_Y
    return np.array(found).swapaxes(0, 1)


def _adam(betas: tuple[float, float], update: int, g: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
    """Step and moments of Adam after update number `update`, counted from 0."""
    beta1, beta2 = betas
    m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g**2
    return m / (1 - beta1 ** (update + 1)) / (np.sqrt(v / (1 - beta2 ** (update + 1))) + 1e-8), m, v


def _batch(training: Training, rng: np.random.Generator, runs: int) -> list[tuple[NDArray[np.int64], Array, Array]]:
    """Parts of a batch, one class a run each: labels (runs,), share of the batch (runs,), frequencies (runs, M)."""
    if math.isinf(training.seq_len):
        shares = np.tile(training.prior, (runs, 1))  # the expectation
        if not math.isinf(training.batch_size):
            shares = rng.multinomial(int(training.batch_size), training.prior, size=runs) / training.batch_size
        return [(np.full(runs, n), shares[:, n], np.tile(p, (runs, 1))) for n, p in enumerate(training.P)]
    length = int(training.seq_len)
    labels = rng.choice(training.prior.size, size=(int(training.batch_size), runs), p=training.prior)
    share = np.full(runs, 1.0 / training.batch_size)
    return [(label, share, rng.multinomial(length, training.P[label]) / length) for label in labels]
