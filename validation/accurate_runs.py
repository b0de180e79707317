"""Integration for figures and comparisons: complete runs at tolerances tighter than the default ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.dynamics import FrozenDecoder, SequenceClasses, System, Trajectory, whole_run
from snapdyn.dynamics.classes import Floats

TOLERANCES = {"rtol": 1e-9, "atol": 1e-11}


def accurate_run(system: System, times: ArrayLike) -> Trajectory:
    """Integrate a system to the last time, or raise an error.

    Parameters
    ----------
    system : System
    times : array_like
        Batch-size-1 steps.

    Returns
    -------
    Trajectory
        By `whole_run` with TOLERANCES (scipy's rtol and atol, on z, Y and V h).
    """
    return whole_run(system, times, **TOLERANCES)


def original_flow(classes: SequenceClasses, eta_Y: float, times: Floats) -> tuple[Floats, Floats]:
    """Integrate the original flow (7) with attention frozen at its start, next tokens 0..K-1 with V >= K.

    Returns
    -------
    W : (N, K, K+1)
        Logits F^T Y of each class for each next token and for any one of the other V - K outputs (0 where V = K).
    coefficients : (N, K, K)
        a[n, k] of g_n = Y (e_n - alpha_n) = sum_k a[n, k] f_k: iota on the diagonal, -beta off it.
    """
    K, V = classes.num_classes, classes.vocab_size
    run = whole_run(FrozenDecoder(classes, eta_Y), times, rtol=1e-12, atol=1e-14, save_decoder=True)
    assert run.Y is not None
    assert run.decoder_rows is not None
    Y = run.Y[:, run.decoder_rows[: classes.num_tokens]]
    if V == K:
        Y = np.concatenate([Y, np.zeros_like(Y[:, :, :1])], axis=2)
    count = np.append(np.ones(K), V - K)
    f = classes.decoder_inputs().toarray()
    W = f @ Y
    weight = count * np.exp(W - W.max(axis=2, keepdims=True))
    error = -weight / weight.sum(axis=2, keepdims=True)  # e_n - alpha_n, the other outputs taken together
    own = np.arange(K)
    error[:, own, own] = 0.0
    error[:, own, own] = -error.sum(axis=2)
    C = np.linalg.solve(f @ f.T, W)  # Y = F C
    return W, np.asarray(error @ C.transpose(0, 2, 1))
