"""What the claims about the decoder with frozen attention share: domains, requirements, plain integration of W."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from snapdyn import analytic
from snapdyn.core.memory import EVALUATIONS, require_affordable
from snapdyn.validation.claims.decoder._visits import (
    discrete_logits,
    errors_of,
    logits_of,
    outputs,
)
from snapdyn.validation.claims.language import (
    LARGE_VOCABULARY,
    WIDEST,
    Floats,
    Instance,
    Ints,
    Measure,
    Measured,
    Property,
    Requirement,
    by_scipy,
)

# What some hundred steps make of the solver tolerance of `flow_against`.
SOLVER_ERROR = 1e-7

# Scalars of one class: rate, V, visits p_n t.
SCALARS = replace(
    WIDEST,
    name="any rate, V and visits",
    num_classes=(1, 4),
    num_common=(0, 1),
    num_distinct=(1, 1),
    num_queries=(1, 1),
    ratio=(1.0, 1.0),
)
# Attention vectors too.
OVERLAPS = replace(WIDEST, num_classes=(1, 40), ratio=(1.0, 1.0), horizon=(1e-2, 1e6), shared_next_tokens=True)


def last_visits(instance: Instance) -> float:
    """p_n t_end of the most frequent class."""
    return float(instance.prior.max()) * instance.t_end


def closed_form(name: str, measure: Measure, *conditions: Requirement, **facts: Any) -> Property:
    """Property of a closed form from V = 4 on, where exp(u) = (V-1) u has roots."""
    domain = replace(SCALARS, name="any rate, V of 4 or more, any visits", vocab_size=(4, 10**12))
    return Property(name, "closed form", measure, domain, (LARGE_VOCABULARY, *conditions), **facts)


def by_visits(
    instance: Instance, most: float, count: int, steps: Callable[..., Floats] = discrete_logits
) -> tuple[float, float, Ints, Floats]:
    """V, eta_Y, log-spaced whole visits of the most frequent class up to t_end, at most `most`, and u = V h* there."""
    V, eta = float(instance.vocab_size), instance.eta_Y
    s = np.unique(np.geomspace(1, max(1.0, min(last_visits(instance), most)), count).astype(np.int64))
    return V, eta, s, steps(V, eta, s)


def distance(instance: Instance, W: Floats, u: Floats) -> Floats:
    """Largest error (S,) of W (S, columns) against the logits of u = V h (S,), over the largest logit."""
    expected = logits_of(instance, u)
    return np.abs(W - expected).max(axis=1) / np.abs(expected).max()


def flow_against(instance: Instance, mixing: Floats, factor: float = 1.0, prefactor: float = 1.0) -> Measured:
    """Distance of a flow's logits at t_end from prefactor (V-1) h(p_n t) zeta_n, h at factor eta_Y.

    The flow is that of W = F^T Y (S, columns), Y(0) = 0, with frozen attention: W_k' = eta_Y sum_n mixing_kn p_n (e_n
    - alpha_n). If class n moves Y by d_n (e_n - alpha_n)^T, mixing_kn = f_k.d_n. The rate is plain numpy, integrated
    by scipy.
    """
    column, copies = outputs(instance)
    shape = instance.num_classes, copies.size
    weights = mixing * instance.prior

    def rate(tau: float, W: Floats) -> Floats:
        return (weights @ errors_of(W.reshape(shape), column, copies)).ravel()

    require_affordable("the decoder by scipy", EVALUATIONS * mixing.size * copies.size)
    end, start = instance.flow_rates[0] * instance.t_end, np.zeros(shape[0] * shape[1])
    states = by_scipy(rate, end, start, method="DOP853", rtol=1e-10, atol=1e-12)
    u = prefactor * instance.vocab_size * analytic.h(instance.prior * end, factor, instance.vocab_size)
    off = distance(instance, states[-1].reshape(shape), u)
    return Measured(off.max(), at_most=SOLVER_ERROR, where=f"class {off.argmax()}")


def modified_mixing(instance: Instance, sign: float = 1.0) -> Floats:
    """F^T (F - F E') (S, S), E' = sign (I - G^{-1}) by a dense inverse: the identity, by Lemma 3."""
    G = instance.gram
    return G - sign * G @ (np.eye(len(G)) - np.linalg.inv(G))
