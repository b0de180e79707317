"""What the claims on approximations share: the original flow, attention frozen, and classes whose runs are cheap."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from snapdyn.dynamics import SequenceClasses, log_times
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.search import Instance
from snapdyn.validation.search.flows import limited


class OriginalFlow(NamedTuple):
    """The original flow (7) with attention frozen at its start, every class with its own next token.

    Outputs are the next tokens of the classes, in the order of the classes, then any one of the other V - K outputs.

    Attributes
    ----------
    t : (N,) array
        Batch-size-1 steps.
    W : (N, K, K+1) array
        Logits w_n = F^T Y of every class.
    C : (N, K, K+1) array
        Y = F C: C[n, k] is eta_Y p_n int (e_n - alpha_n)_k dt; the last column is that of one output.
    coefficients : (N, K, K) array
        a[n, k] of g_n = Y (e_n - alpha_n) = sum_k a[n, k] f_k: iota on the diagonal, -beta off it.
    """

    t: Floats
    W: Floats
    C: Floats
    coefficients: Floats

    @property
    def beta_over_iota(self) -> Floats:
        """beta_nk/iota_n (N, K, K), 0 on the diagonal."""
        diagonal = np.einsum("tnn->tn", self.coefficients)[:, :, None]
        return -self.coefficients / diagonal * (1 - np.eye(self.W.shape[1]))


def original_flow_in_span(classes: SequenceClasses, eta_Y: float, times: Floats) -> OriginalFlow | None:
    """Integrate the original flow (7) in the basis of the attention vectors, C' = eta_Y p_n (e_n - alpha_n), W = G C.

    Independent of the systems of `snapdyn.dynamics`, and each C[n, k] has its own relative accuracy: it is of the
    order of 1/V off the diagonal. `times` in batch-size-1 steps. None if the solver fails.
    """
    from scipy.integrate import solve_ivp

    K, V, G, rate = classes.num_classes, classes.vocab_size, classes.gram(), eta_Y * classes.prior[:, None]
    own, count = np.arange(K), np.append(np.ones(K), V - K)

    def error(W: Floats) -> Floats:
        """e_n - alpha_n per output, without cancellation at n, (..., K, K+1)."""
        e = count * np.exp(W - W.max(axis=-1, keepdims=True))
        alpha = e / e.sum(axis=-1, keepdims=True)
        alpha[..., own, own] = 0.0
        return np.where(np.eye(K, K + 1) == 1, alpha.sum(axis=-1, keepdims=True), -alpha)

    # One output among the V - K others moves as the share 1/(V-K) of them.
    one = np.append(np.ones(K), 1 / max(V - K, 1))

    def slope(log_t: float, state: Floats) -> Floats:
        return np.asarray(np.exp(log_t) * rate * error(G @ state.reshape(K, K + 1)) * one).ravel()

    # alpha = 1/V to first order up to the start.
    start = min(float(times[0]), 1e-9 / eta_Y)
    initial = start * (rate * error(np.zeros((K, K + 1))) * one)
    found = solve_ivp(
        limited(slope, initial.size),
        (np.log(start), np.log(times[-1])),
        initial.ravel(),
        "LSODA",
        np.log(times),
        rtol=1e-10,
        atol=1e-30,
    )
    if not found.success:
        return None
    C = found.y.T.reshape(-1, K, K + 1)
    W = G @ C
    return OriginalFlow(times, W, C, error(W) @ C.transpose(0, 2, 1))


def original_flow_of(instance: Instance) -> OriginalFlow | None:
    """`original_flow` of an instance at 60 times up to t_end; None if the solver fails. Kept on the instance."""
    if "original flow" not in instance.runs:
        times = log_times(1e-3 * min(100.0 / instance.eta_Y, instance.t_end), instance.t_end, 60)
        instance.runs["original flow"] = original_flow_in_span(instance.classes, instance.eta_Y, times)
    found: OriginalFlow | None = instance.runs["original flow"]
    return found
