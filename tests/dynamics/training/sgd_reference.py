"""A plain numpy SGD program, written from Eqs. (2)-(4) and the documented update rules of PyTorch's optimisers.

Dense: every token a row of Y, every output a column. The only thing taken from the package is the stream of
drawn counts, whose distribution has tests of its own.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapdyn.dynamics import SGD, Trajectory
from snapdyn.dynamics.kernels.sampling import draw_classes, multinomial
from tests.dynamics.helpers import dense_decoder

Array = NDArray[Any]
Batch = tuple[Array, Array, Array]  # class, weight, occurrences (B, M) of each sequence


def drawn_batches(run: SGD) -> list[Batch]:
    """The steps + 1 batches of a run: its own data stream through the package's sampler."""
    classes = run.classes
    P = classes.P.toarray()
    S = classes.num_classes
    if run.batch_size is None:
        return [(np.arange(S), classes.prior, P)] * (run.steps + 1)
    stream = np.random.SFC64(np.random.SeedSequence(run.seed).spawn(2)[1]).state["state"]["state"]
    cumulative = np.cumsum(classes.prior)
    batches = []
    with np.errstate(over="ignore"):
        for _ in range(run.steps + 1):
            drawn = np.empty(run.batch_size, np.int64)
            draw_classes(stream, cumulative / cumulative[-1], drawn)
            occurrences = P[drawn]
            if run.seq_len is not None:
                occurrences = np.zeros((run.batch_size, classes.num_tokens))
                for n in np.unique(drawn):
                    own = np.flatnonzero(drawn == n)
                    for block in np.split(own, range(64, own.size, 64)):
                        occurrences[np.ix_(block, classes.support(n))] = drawn_counts(run, n, block.size, stream)
            batches.append((drawn, np.full(run.batch_size, 1.0 / run.batch_size), occurrences))
    return batches


def drawn_counts(run: SGD, n: int, sequences: int, stream: Array) -> Array:
    """Counts (sequences, support) of up to 64 sequences of class n, from the package's sampler."""
    p = np.exp(np.log(run.classes.P.toarray()[n, run.classes.support(n)]))
    conditional = p / np.cumsum(p[::-1])[::-1]
    log_q = np.log1p(-np.minimum(conditional, 1.0 - conditional))
    together = sequences if sequences <= 4 else -(-sequences // 4) * 4
    counts = np.zeros((p.size, together))
    multinomial(stream, run.seq_len, conditional, log_q, counts, np.empty(3 * together))
    return counts.T[:sequences]


def batch_loss(run: SGD, batch: Batch, Y: Array, z: Array) -> Any:
    """Weighted mean of -ln softmax(Y^T u)[next] over a batch; analytic, so it takes complex arguments."""
    drawn, weight, occurrences = batch
    own = z[run.classes.query_index[drawn]]
    own = own - np.where(occurrences > 0, own.real, -np.inf).max(axis=1, keepdims=True)
    q = occurrences * np.exp(np.where(occurrences > 0, own, 0.0))
    f = q / np.sqrt((q**2).sum(axis=1, keepdims=True))
    u = np.zeros((drawn.size, Y.shape[0]), dtype=f.dtype)
    u[:, : f.shape[1]] = f
    if run.residual:
        u[np.arange(drawn.size), run.classes.query[drawn]] += 1.0
        u = u / np.sqrt((u**2).sum(axis=1, keepdims=True))
    logits = u @ Y
    logits = logits - logits.real.max(axis=1, keepdims=True)
    target = logits[np.arange(drawn.size), run.classes.next_token[drawn]]
    return (weight * (np.log(np.exp(logits).sum(axis=1)) - target)).sum()


def loss_gradient(run: SGD, batch: Batch, Y: Array, z: Array) -> tuple[float, Array, Array]:
    """Mean loss of a batch and its gradient with respect to Y (rows, V) and z (Q, M), by the complex step.

    A complex step has no subtraction, hence no rounding from a small h.
    """
    h = 1e-30
    gradients = np.zeros_like(Y), np.zeros_like(z)
    for which, gradient in enumerate(gradients):
        for index in np.ndindex(gradient.shape):
            moved = [Y, z]
            moved[which] = moved[which].astype(complex)
            moved[which][index] += 1j * h
            gradient[index] = batch_loss(run, batch, *moved).imag / h
    return batch_loss(run, batch, Y, z), *gradients


class Momentum:
    """torch.optim.SGD: b <- mu b + g (first: b = g); x <- x - lr b."""

    def __init__(self, run: SGD, rate: float) -> None:
        self.rate, self.mu, self.buffer = rate, run.momentum, None

    def __call__(self, x: Array, g: Array) -> Array:
        self.buffer = g if self.buffer is None else self.mu * self.buffer + g
        return x - self.rate * self.buffer


class Adam:
    """torch.optim.Adam: bias-corrected moments, eps outside the root."""

    def __init__(self, run: SGD, rate: float, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8) -> None:
        self.rate, self.betas, self.eps = rate, betas, eps
        self.m: Any = 0.0
        self.v: Any = 0.0
        self.step = 0

    def __call__(self, x: Array, g: Array, square: Array | None = None) -> Array:
        self.step += 1
        b1, b2 = self.betas
        self.m = b1 * self.m + (1 - b1) * g
        self.v = b2 * self.v + (1 - b2) * (g**2 if square is None else square)
        m_hat, v_hat = self.m / (1 - b1**self.step), self.v / (1 - b2**self.step)
        return x - self.rate * m_hat / (np.sqrt(v_hat) + self.eps)


Optimizer = Callable[[SGD, float], Callable[[Array, Array], Array]]


def train(
    run: SGD, Y: Array, z: Array, optimizer: Optimizer | None = None, of_z: Optimizer | None = None
) -> tuple[Array, Array, Array]:
    """Y (N, rows, V), z (N, Q, M) and the loss (N,) at steps 0..steps, from the given start."""
    make = optimizer or (Adam if run.optimizer == "adam" else Momentum)
    update_Y, update_z = make(run, run.eta_Y), (of_z or make)(run, run.eta_Z)
    kept_Y, kept_z, losses = [], [], []
    for batch in drawn_batches(run):
        loss, dY, dz = loss_gradient(run, batch, Y, z)
        kept_Y.append(Y)
        kept_z.append(z)
        losses.append(loss)
        Y, z = update_Y(Y, dY), update_z(z, dz)
    return np.array(kept_Y), np.array(kept_z), np.array(losses)


def full_decoder(trajectory: Trajectory, run: SGD) -> Array:
    """Saved Y with every output a column, (N, rows, V); rows of tokens that never occur are 0."""
    return dense_decoder(*trajectory.require_decoder(), (run.num_decoder_rows, run.classes.vocab_size))
