"""What the claims about the decoder with frozen attention share: domains, requirements, plain integration of W."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from snapdyn.dynamics.classes import Floats, Ints
from snapdyn.validation.properties import Requirement
from snapdyn.validation.search import Family, Instance
from snapdyn.validation.search.flows import limited

# Solver tolerance of `integrated_logits` per step, and what some hundred steps make of it.
RTOL = 1e-10
SOLVER_ERROR = 1e-7

# Scalars of one class: rate, V, visits p_n t.
SCALARS = Family(
    "any rate, V and visits",
    "any",
    uniform=False,
    num_classes=(1, 4),
    num_common=(0, 1),
    num_distinct=(1, 1),
    num_queries=(1, 1),
    vocab_size=(2, 10**12),
    ratio=(1.0, 1.0),
    horizon=(1e-2, 1e12),
    eta_Y=(1e-6, 1e6),
)
# The same from V = 4 on, where exp(u) = (V-1) u has roots.
# gamma late is at most twice its order; at least a quarter (early) or half (late) of ((V-1)/V)^2 times its order.
LATE_CONSTANT, EARLY_SHARE, LATE_SHARE = 2.0, 0.25, 0.5
TWO_ROOTS = replace(SCALARS, name="any rate, V of 4 or more, any visits", vocab_size=(4, 10**12))
# Attention vectors too.
OVERLAPS = Family(
    "any classes",
    "any",
    uniform=False,
    num_classes=(1, 6),
    num_common=(0, 3),
    num_distinct=(0, 4),
    vocab_size=(2, 10**12),
    ratio=(1.0, 1.0),
    horizon=(1e-2, 1e6),
    eta_Y=(1e-6, 1e6),
    shared_next_tokens=True,
)
PLAIN_STEPS = Requirement("plain steps", "momentum = 0", lambda instance: instance.momentum, at_most=0.0, defining=True)


def last_visits(instance: Instance) -> float:
    """p_n t_end of the most frequent class."""
    return float(instance.prior.max()) * instance.t_end


def outputs(instance: Instance) -> tuple[Ints, Floats]:
    """Column of each class's next token (S,), and how many outputs each column stands for; the last is all others."""
    column = np.arange(instance.num_classes)
    if instance.next_token is not None:
        column = np.unique(instance.next_token, return_inverse=True)[1]
    own = int(column.max()) + 1
    return column, np.append(np.ones(own), instance.vocab_size - own)


def errors_of(W: Floats, column: Ints, copies: Floats) -> Floats:
    """e_n - alpha_n of each class from its logits W (S, columns), per output of a column; at n minus all others."""
    own = np.arange(len(W)), column
    weight = copies * np.exp(W - W.max(axis=1, keepdims=True))
    error = -weight / weight.sum(axis=1, keepdims=True)
    error[own] = 0.0
    error[own] = -error.sum(axis=1)
    return error / np.maximum(copies, 1.0)


def integrated_logits(instance: Instance, mixing: Floats) -> Floats:
    """W = F^T Y (S, columns) at t_end of W_k' = eta_Y sum_n mixing_kn p_n (e_n - alpha_n), by scipy in plain numpy.

    Y(0) = 0, attention frozen; mixing_kn = f_k.d_n for the update d_n (e_n - alpha_n)^T of Y. The last column is any
    one output that is no class's next token; where there is none it is never read.
    """
    from scipy.integrate import solve_ivp

    column, copies = outputs(instance)
    shape = instance.num_classes, copies.size
    weights = mixing * instance.prior

    def rate(tau: float, W: Floats) -> Floats:
        return (weights @ errors_of(W.reshape(shape), column, copies)).ravel()

    end = instance.flow_rates[0] * instance.t_end
    start = np.zeros(shape[0] * shape[1])
    run = solve_ivp(limited(rate, start.size), (0.0, end), start, method="DOP853", rtol=RTOL, atol=1e-12)
    if not run.success:
        raise RuntimeError(f"expected scipy to reach t_end, received {run.message}")
    return np.asarray(run.y[:, -1].reshape(shape))


def logits_of(instance: Instance, u: Floats) -> Floats:
    """w_n = (V-1) h_n zeta_n (S, columns) from u_n = V h_n: (1 - 1/V) u_n at the next token, -u_n/V elsewhere."""
    column, copies = outputs(instance)
    W = np.repeat(-u[:, None] / instance.vocab_size, copies.size, axis=1)
    W[np.arange(len(u)), column] = (1 - 1 / instance.vocab_size) * u
    return W


def logit_distance(instance: Instance, W: Floats, expected: Floats) -> tuple[float, str]:
    """Largest |W - expected| over the largest |expected|, outputs that exist only, and the class where."""
    _, copies = outputs(instance)
    distance = np.where(copies > 0, np.abs(W - expected), 0.0).max(axis=1) / np.abs(expected).max()
    n = int(distance.argmax())
    return float(distance[n]), f"class {n}"


def modified_mixing(instance: Instance) -> Floats:
    """F^T (F - F E') in token space (S, S), E' = I - G^{-1} by a dense inverse: the identity, by Lemma 3."""
    f = attention(instance)
    e_prime = np.eye(len(f)) - np.linalg.inv(instance.gram)
    return np.asarray(f @ (f - e_prime.T @ f).T)


def attention(instance: Instance) -> Floats:
    """f_n at the start (S, M)."""
    weights = instance.P
    if instance.start is not None:
        weights = weights * np.exp(instance.start[instance.classes.query_index])
    return np.asarray(weights / np.linalg.norm(weights, axis=1, keepdims=True))
