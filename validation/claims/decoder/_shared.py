"""Tools of the decoder with frozen attention: logits by visits of a class, domains, plain integration of W."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapdyn import analytic
from snapdyn.core.memory import EVALUATIONS, require_affordable
from snapdyn.dynamics.classes.table import SequenceClasses
from snapdyn.dynamics.kernels.compilation import cached_njit
from snapdyn.dynamics.trajectories.trajectory import Trajectory
from snapdyn.validation.claims.language import (
    LARGE_VOCABULARY,
    WIDEST,
    Floats,
    Instance,
    Ints,
    Measured,
    by_scipy,
    output_errors,
    properties_on,
)

Numbers = float | NDArray[Any]

# Attention frozen in SGD: this rate times any gradient changes no logit.
FROZEN = 1e-300
# Visits that the recursion (33) makes one by one; the lag of later ones is an integral.
WHOLE_VISITS = 4000
# exp(u) beyond it is more visits than any run makes.
LARGEST_LOGIT = 300.0


@cached_njit()
def recursion(vocab_size: float, eta_Y: float, visits: NDArray[np.int64], others: float, exponent: float) -> Floats:
    """u after each of the increasing numbers of `visits`, by u += V eta_Y/(others + exp(exponent u)), u = 0 at first.

    (33) for u = V h* has others = V-1 and exponent 1; other values are wrong theories. The sum is compensated: each of
    up to 1e8 steps adds about 1/s to a number of order 20, and the rounding of plain sums would hide the measured lead.
    """
    out = np.empty(visits.size)
    u = lost = 0.0
    step = 0
    for i in range(visits.size):
        while step < visits[i]:
            decay = math.exp(-exponent * u)
            increment = vocab_size * eta_Y * decay / (others * decay + 1) - lost
            total = u + increment
            lost = (total - u) - increment
            u = total
            step += 1
        out[i] = u
    return out


def discrete_logits(vocab_size: float, eta_Y: float, visits: NDArray[np.int64]) -> Floats:
    """u = V h* after each of the increasing numbers of `visits`, by the recursion (33)."""
    return recursion(float(vocab_size), float(eta_Y), visits, float(vocab_size) - 1, 1.0)


def visits_of(u: Floats, eta_Y: float | Floats, vocab_size: float | Floats) -> Floats:
    """Visits s at which V h(s) = u, by (45) solved for s."""
    return (np.expm1(u) + (vocab_size - 1) * u) / (vocab_size * eta_Y)


def single_token_classes(num_classes: int, vocab_size: int) -> SequenceClasses:
    """Return K classes of one token each, all different: E = 0, so that the original flow is the modified one."""
    return SequenceClasses(np.eye(num_classes), np.zeros(num_classes, dtype=int), vocab_size=vocab_size)


def own_lead(run: Trajectory) -> Floats:
    """w_n[n] - w_n[other] (N, K) of an SGD run on `single_token_classes`, V > K, saved with its decoder."""
    assert run.Y is not None
    assert run.decoder_rows is not None
    W = run.Y[:, run.decoder_rows]
    own = np.arange(W.shape[1])
    return W[:, own, own] - W[:, :, -1]


def outputs(instance: Instance) -> tuple[Ints, Floats]:
    """Column of each class's next token (S,), and the number of outputs per column; the last column has the rest."""
    classes = instance.classes
    own = classes.next_tokens.size
    copies = np.append(np.ones(own), instance.vocab_size - own)
    return classes.next_index, copies[copies > 0]


def logits_of(instance: Instance, u: Floats) -> Floats:
    """w_n = (V-1) h_n zeta_n (S, columns) of u_n = V h_n: (1 - 1/V) u_n at the next token, -u_n/V at other outputs."""
    column, copies = outputs(instance)
    return u[:, None] * ((column[:, None] == np.arange(copies.size)) - 1 / instance.vocab_size)


def errors_of(W: Floats, column: Ints, copies: Floats) -> Floats:
    """e_n - alpha_n of each class from its logits W (S, columns), for one output of each column."""
    return output_errors(W, copies, column) / copies


def whole_steps(instance: Instance, drawn: Ints, moves: Floats, readout: Floats) -> Floats:
    """State (L, columns) after whole steps of the drawn classes, from 0: n adds eta_Y moves[n] (e_n - alpha_n)^T.

    The logits of class n are readout[n] times the state; moves and readout are (S, L).
    """
    column, copies = outputs(instance)
    state = np.zeros((moves.shape[1], copies.size))
    for n in drawn:
        error = errors_of(readout[[n]] @ state, column[[n]], copies)
        state += instance.eta_Y * np.outer(moves[n], error)
    return state


def slope_of_h(s: Numbers, eta_Y: Numbers, vocab_size: Numbers) -> Floats:
    """h'(s) = eta_Y/(V-1+exp(V h(s))), at s = 0 where s is negative."""
    h = analytic.h(np.maximum(s, 0.0), eta_Y, vocab_size)
    return eta_Y / (vocab_size - 1 + np.exp(vocab_size * h))


def elasticity(s: Numbers, eta_Y: Numbers, vocab_size: Numbers) -> Floats:
    """s h'(s)/h(s), at most 1: relative change of h per relative change of the count."""
    return s * slope_of_h(s, eta_Y, vocab_size) / analytic.h(s, eta_Y, vocab_size)


def log_error(u: Floats, vocab_size: int) -> Floats:
    """ln of V/(V-1+exp(u)), u = V h: the error |e_n - alpha_n| over its value at t = 0."""
    late = u - np.log(vocab_size) + np.log1p((vocab_size - 1) * np.exp(-u))
    return -np.where(u < 30, np.log1p(np.expm1(np.minimum(u, 30)) / vocab_size), late)


@dataclass(frozen=True)
class WholeVisits:
    """V h* after any whole number of visits, and the number of visits after which it has a given value.

    Up to WHOLE_VISITS it is computed by the recursion (33). Later h*(s) = h(s + X) with the lag X: one step from u is
    worth 1 + r visits of h, r = sigma (exp(d) - 1 - d)/d with d = V eta_Y/(V-1+exp(u)), sigma = exp(u)/(V-1+exp(u)),
    by (45). As ds = du/(d (1+r)), X is an integral over u, less half the difference of r at its ends (Euler-Maclaurin).

    Attributes
    ----------
    eta_Y : float
        Learning rate of the decoder per visit.
    vocab_size : float
        V.
    table : (WHOLE_VISITS + 1,) array
        V h* after 0, 1, ... visits.
    """

    eta_Y: float
    vocab_size: float
    table: Floats

    @staticmethod
    @lru_cache(maxsize=64)
    def of(eta_Y: float, vocab_size: float) -> WholeVisits:
        """Decoder of a rate and V; the latest 64 are kept."""
        table = discrete_logits(vocab_size, eta_Y, np.arange(WHOLE_VISITS + 1))
        return WholeVisits(float(eta_Y), float(vocab_size), table)

    def lag(self, u: Floats) -> Floats:
        """X at u = V h* at or beyond the end of the table, any shape."""
        start = self.table[-1]
        grown, ends = self._integral(u, lambda r, step: r / (step * (1 + r)))
        return float(visits_of(start, self.eta_Y, self.vocab_size)) - WHOLE_VISITS + grown - ends / 2

    def _integral(self, u: Floats, integrand: Callable[[Floats, Floats], Floats]) -> tuple[Floats, Floats]:
        """Integral over u from the end of the table, and the difference of r at its ends."""
        nodes, weights = _gauss_legendre()
        width = (u - self.table[-1])[..., None] / 2
        with np.errstate(over="ignore"):
            grown = (width * weights * integrand(*self._gain(self.table[-1] + width * (nodes + 1)))).sum(axis=-1)
        return grown, self._gain(u)[0] - self._gain(self.table[-1])[0]

    def _gain(self, u: Numbers) -> tuple[Floats, Floats]:
        """r and d of a step from u, at or beyond the end of the table: d < 0.01, so its series is exact to rounding."""
        decay = np.exp(-np.minimum(u, LARGEST_LOGIT))
        sigma = 1 / ((self.vocab_size - 1) * decay + 1)
        d = self.vocab_size * self.eta_Y * decay * sigma
        return np.asarray(sigma * d / 2 * (1 + d / 3 * (1 + d / 4 * (1 + d / 5)))), np.asarray(d)

    def logits(self, visits: Numbers) -> Floats:
        """V h* after whole numbers of `visits`."""
        visits = np.asarray(visits, dtype=float)
        late = np.maximum(visits, WHOLE_VISITS)
        u = np.full(late.shape, self.table[-1])
        if self.table[-1] < LARGEST_LOGIT:  # beyond, no number of visits changes a digit
            for _ in range(4):  # the lag changes by less than a visit per visit, by 1/(2 s) late
                u = np.maximum(self.vocab_size * analytic.h(late + self.lag(u), self.eta_Y, self.vocab_size), u)
        return np.where(visits <= WHOLE_VISITS, self.table[np.minimum(visits, WHOLE_VISITS).astype(int)], u)

    def visits(self, u: Numbers) -> Floats:
        """Number of visits from which V h* is at least u: a whole number in the table, a fractional one beyond it."""
        u = np.asarray(u, dtype=float)
        # ds = du/(d (1+r)): S(u) - X would cancel where the first steps overshoot.
        more, ends = self._integral(np.maximum(u, self.table[-1]), lambda r, step: 1 / (step * (1 + r)))
        return np.where(u <= self.table[-1], np.searchsorted(self.table, u), WHOLE_VISITS + more + ends / 2)


@lru_cache(maxsize=1)
def _gauss_legendre() -> tuple[Floats, Floats]:
    return np.polynomial.legendre.leggauss(100)


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


# Of closed forms from V = 4 on, where exp(u) = (V-1) u has roots.
closed_form = properties_on(
    "closed form",
    replace(SCALARS, name="any rate, V of 4 or more, any visits", vocab_size=(4, 10**12)),
    LARGE_VOCABULARY,
)


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
