"""Lemma 1 at named settings: sympy's derivative, central differences, one step of descent and of SGD."""

from __future__ import annotations

import numpy as np

from snapdyn.dynamics import SequenceClasses, sgd
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.dense_algebra import dense_attention, largest_relative, softmax


def small_classes(seed: int) -> SequenceClasses:
    rng = np.random.default_rng(seed)
    # Queries 1 and 3 are contextual tokens too: with the residual connection one row of Y has both roles.
    return SequenceClasses(
        rng.dirichlet(np.ones(4), size=2),
        query=[1, 3],
        next_token=[0, 2],
        prior=rng.dirichlet(np.ones(2)),
        vocab_size=4,
    )


def objective(classes: SequenceClasses, Y: Floats, z: Floats, residual: bool) -> float:
    _, f = dense_attention(classes, z)
    u = np.zeros((classes.num_classes, Y.shape[0]))
    u[:, : f.shape[1]] = f
    if residual:
        u[np.arange(classes.num_classes), classes.query] += 1.0
        u /= np.linalg.norm(u, axis=1, keepdims=True)
    alpha = softmax(u @ Y)
    return float(classes.prior @ np.log(alpha[np.arange(classes.num_classes), classes.next_token]))


def descent_error(
    classes: SequenceClasses, Y: Floats, z: Floats, residual: bool, exact_dY: Floats, exact_dz: Floats
) -> float:
    """Largest relative error of one step of descent on the expectation at unit rates, T infinite."""
    run = sgd(classes, 1.0, 1.0, 1, batch_size=None, init=(Y, z), residual=residual, save_decoder=True)
    assert run.Y is not None
    assert run.decoder_rows is not None
    rows = np.flatnonzero(run.decoder_rows >= 0)
    moved = np.zeros_like(exact_dY)
    moved[rows] = (run.Y[1] - run.Y[0])[run.decoder_rows[rows]]
    return max(largest_relative(moved, exact_dY), largest_relative(run.z[1] - run.z[0], exact_dz))


def sample_error(Y: Floats, z: Floats, seed: int) -> float:
    """Largest relative error of one batch-size-1 step on a drawn sequence, against sympy at its frequencies.

    The step of Y is f (x - alpha)^T, and f is proportional to the frequencies times exp(z): the step of Y says which
    sequence was drawn, and sympy then says what both steps must be.
    """
    from snapdyn.analytic.symbolic import gradient

    classes = SequenceClasses(np.full((1, 4), 0.25), query=[1], next_token=[2], vocab_size=4)
    run = sgd(classes, 1.0, 1.0, 1, seq_len=50, init=(Y, z), seed=seed, save_decoder=True)
    assert run.Y is not None
    step = (run.Y[1] - run.Y[0])[run.decoder_rows]
    weights = step[:, 2] / np.exp(z[0])
    frequency = np.round(50 * weights / weights.sum()) / 50
    exact_dY, exact_dz = gradient(
        frequency[None], classes.query, classes.next_token, classes.prior, Y, z, residual=False
    )
    return max(largest_relative(step, exact_dY), largest_relative(run.z[1] - run.z[0], exact_dz))
