"""Theorems 2 and 3 on classes of a text: which tokens follow the theorems, by the role of the token.

The theorems treat distinct tokens (in the windows of one next token only) and common tokens. In a text most tokens are
common, but many of them are distinct among the windows of one query: `ROLES` separates these cases.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from snapdyn.analytic import expected_spurious
from snapdyn.core.errors import InputError, shown
from snapdyn.dynamics.classes.table import Floats, Ints, SequenceClasses
from snapdyn.dynamics.text.text_classes import TextClasses
from snapdyn.dynamics.trajectories.trajectory import Trajectory
from snapdyn.validation.claims.language import MUCH_LARGER
from snapdyn.validation.measured import Measured

ROLES = (
    "distinct",  # |Omega(l)| = 1
    "common, distinct within its query",  # one next token among those of the query, more elsewhere
    "common, also within its query",
    "common, query with one next word",  # within such a query every token is distinct
)
NEXT_WORDS = (1, 2, 10, 30, 100, 300)
DENSE_CLASSES = 4000  # up to this number of classes all eigenvalues of E are computed
# Smallest |dz| that counts as a change, relative to the largest |dz| of the run. Above it, runs on WikiText-2 with
# rtol 1e-3 and 1e-4 differ in the sign of 4 in 100,000 logits.
STILL = 1e-6


def distinct_by_chance(classes: TextClasses) -> float:
    """Expected number of words with one next word if the words of windows did not depend on the next word.

    The number of spurious tokens of as many windows whose words are drawn independently from the mean of all classes.
    """
    row, of_next = classes.prior @ classes.P, np.bincount(classes.next_index, weights=classes.counts)
    table = np.tile(row / row.sum(), (of_next.size, 1))
    return expected_spurious(table, np.arange(of_next.size), of_next, classes.window)


@dataclass(frozen=True)
class RoleOutcome:
    """How the logits z_ml (query m, token l) of the tokens of one role changed.

    Attributes
    ----------
    role : str
        An entry of `ROLES`.
    number : int
        Number of logits of this role.
    rise : float
        Share of the logits with dz > 0.
    fall : float
        Share with dz < 0; the others change by less than STILL.
    weighted_rise : float
        `rise` with each logit weighted by p_n P(l|n), its frequency in the windows.
    weighted_fall : float
        `fall` with the same weights.
    rise_by_next_words : tuple of float
        Entry i: share of rising logits among the changing ones whose token occurs with NEXT_WORDS[i] to
        NEXT_WORDS[i+1] - 1 different next tokens over all classes; NaN where there are no such logits.
    """

    role: str
    number: int
    rise: float
    fall: float
    weighted_rise: float
    weighted_fall: float
    rise_by_next_words: tuple[float, ...]


@dataclass(frozen=True)
class GainLaw:
    """Errors of Eq. (11), r(t) = r(0) chi_l(t), for the dominant distinct token l over a class's other distinct tokens.

    Attributes
    ----------
    pairs : int
        Number of pairs (dominant token, other token of less weight).
    median_error : float
        Median of the relative error |predicted - r(t)|/r(t).
    high_error : float
        90 % quantile of that error.
    frozen_median : float
        Median error of the wrong theory r(t) = r(0).
    frozen_high : float
        90 % quantile of the error of the wrong theory.
    classes : int
        Number of classes with at least two distinct tokens.
    dominant_rises : float
        Share of these classes in which the logit of the dominant token rises (Theorem 3).
    """

    pairs: int
    median_error: float
    high_error: float
    frozen_median: float
    frozen_high: float
    classes: int
    dominant_rises: float


def token_roles(classes: SequenceClasses) -> Ints:
    """(nz,) index into `ROLES` of every (query, token) of classes.z_coordinates."""
    query, token = classes.z_coordinates
    local = _next_words(classes, classes.z_of_entry, query.size)
    next_words = np.bincount(np.unique(_pairs(classes.query_index, classes.next_index)) // classes.next_tokens.size)
    roles = np.where(local == 1, 1, 2)
    roles[next_words[query] == 1] = 3
    roles[classes.omega_size[token] == 1] = 0
    return roles


def _pairs(first: Ints, second: Ints) -> Ints:
    return first * np.int64(second.max() + 1) + second


def _next_words(classes: SequenceClasses, group: Ints, size: int) -> Ints:
    """Number of different next tokens among the entries of P of each group, (size,)."""
    pairs = np.unique(_pairs(group, classes.next_index[classes.class_of_entry]))
    return np.bincount(pairs // classes.next_tokens.size, minlength=size)


def theorem_2_on(run: Trajectory) -> list[RoleOutcome]:
    """Shares of rising and falling logits by role, between t = 0 and the last time."""
    classes = _classes_of(run)
    _, token = classes.z_coordinates
    change = run.z_support[-1] - run.z_initial[classes.z_coordinates]
    still = STILL * np.abs(change).max()
    weight = np.bincount(
        classes.z_of_entry, weights=classes.prior[classes.class_of_entry] * classes.P.data, minlength=token.size
    )
    band = np.searchsorted(NEXT_WORDS, classes.omega_size[token], side="right") - 1
    roles = token_roles(classes)
    outcomes = []
    for number, role in enumerate(ROLES):
        members = roles == number
        if not members.any():
            continue
        rise, fall = members & (change > still), members & (change < -still)
        moving, total = rise | fall, weight[members].sum()
        outcomes.append(
            RoleOutcome(
                role,
                int(members.sum()),
                float(rise.sum() / members.sum()),
                float(fall.sum() / members.sum()),
                float(weight[rise].sum() / total),
                float(weight[fall].sum() / total),
                tuple(_share(rise[moving & (band == i)]) for i in range(len(NEXT_WORDS))),
            )
        )
    return outcomes


def _share(chosen: NDArray[np.bool_]) -> float:
    return float(chosen.mean()) if chosen.size else math.nan


def theorem_3_on(run: Trajectory, within_query: bool = False) -> GainLaw:
    """Relative gains of the dominant distinct token of each class over its other distinct tokens, against Eq. (11).

    With `within_query`, tokens that are distinct within their query only are included; Theorem 3 does not cover them.
    """
    classes = _classes_of(run)
    z0, z = run.z_initial[classes.z_coordinates], run.z_support[-1]
    slot, n, starts = classes.z_of_entry, classes.class_of_entry, classes.P.indptr[:-1]
    distinct = token_roles(classes)[slot] <= (1 if within_query else 0)
    log_weight = np.log(classes.P.data) + z0[slot]
    largest = np.maximum.reduceat(np.where(distinct, log_weight, -np.inf), starts)[n]
    b = np.flatnonzero(distinct & (log_weight < largest - 1e-12))
    if not b.size:
        return GainLaw(0, math.nan, math.nan, math.nan, math.nan, 0, math.nan)
    first = np.flatnonzero(distinct & (log_weight == largest))[::-1]  # the last assignment below is the first token
    dominant = np.zeros(classes.num_classes, dtype=int)
    dominant[n[first]] = first
    a = dominant[n[b]]
    r_0 = np.expm1(2.0 * (log_weight[a] - log_weight[b]))
    move = z[slot] - z0[slot]
    r_t = np.expm1(2.0 * (log_weight[a] - log_weight[b] + move[a] - move[b]))
    errors = [np.abs(predicted - r_t) / np.abs(r_t) for predicted in (r_0 * np.exp(2.0 * move[a]), r_0)]
    (median, high), (frozen, frozen_high) = np.quantile(errors, (0.5, 0.9), axis=1).T.tolist()
    rises = move[np.unique(a)] > 0
    return GainLaw(a.size, median, high, frozen, frozen_high, rises.size, float(rises.mean()))


@dataclass(frozen=True)
class Move:
    """A token of a class: attention c_n(l) at the start and at the end, and the index of its role in `ROLES`."""

    token: int
    start: float
    end: float
    role: int


def winners_and_losers(
    run: Trajectory, count: int = 3, classes: SequenceClasses | None = None
) -> list[tuple[list[Move], list[Move]]]:
    """Return, for every class, the `count` tokens that gain the most attention and the `count` that lose the most.

    `classes` are those of the run by default. For a run of the windows of a text they are the classes of these windows:
    the attention is then that of an infinitely long sequence of the class, at the logits of the run.
    """
    of_run = _classes_of(run)
    classes = of_run if classes is None else classes
    starts, ends = run.z_initial[of_run.z_coordinates], run.z_support[-1]
    start = classes.attention_from_support(_on_support_of(classes, of_run, starts))
    end = classes.attention_from_support(_on_support_of(classes, of_run, ends))
    roles = token_roles(classes)[classes.z_of_entry]
    by_class = []

    def moves(entries: Ints, sign: int) -> list[Move]:
        return [
            Move(int(classes.P.indices[i]), float(start[i]), float(end[i]), int(roles[i]))
            for i in entries[:count]
            if sign * end[i] > sign * start[i]
        ]

    for first, stop in pairwise(classes.P.indptr.tolist()):
        order = first + np.argsort(start[first:stop] - end[first:stop], kind="stable")
        by_class.append((moves(order, 1), moves(order[::-1], -1)))
    return by_class


def _on_support_of(classes: SequenceClasses, of_run: SequenceClasses, z: Floats) -> Floats:
    """Logits `z` of a run with the classes `of_run`, at the (query, token) of `classes`; 0 where the run has none."""
    if classes is of_run:
        return z
    size = max(classes.num_tokens, of_run.num_tokens)
    wanted, known = (
        each.queries[query] * np.int64(size) + token
        for each in (classes, of_run)
        for query, token in [each.z_coordinates]
    )  # both increasing
    place = np.minimum(np.searchsorted(known, wanted), known.size - 1)
    return np.where(known[place] == wanted, z[place], 0.0)


def overlap_spectrum(classes: SequenceClasses, count: int = 3) -> Floats:
    """Return the `count` largest eigenvalues of E by absolute value, from a sparse F above DENSE_CLASSES classes."""
    if classes.num_classes <= DENSE_CLASSES:
        return classes.eigenvalues()[:count]
    from scipy.sparse.linalg import LinearOperator, eigsh

    F = classes.decoder_inputs()
    gram = LinearOperator((classes.num_classes,) * 2, matvec=lambda v: F @ (F.T @ v), dtype=np.float64)
    start = np.ones(classes.num_classes)  # a fixed start vector makes the result reproducible
    return np.sort(eigsh(gram, k=count, which="LA", v0=start, return_eigenvectors=False) - 1.0)[::-1]


def _classes_of(run: Trajectory) -> SequenceClasses:
    if run.classes is None or not run.t.size:
        raise InputError(
            f"expected a trajectory with sequence classes and saved times, received {shown(run)}; integrate a MeanField"
        )
    return run.classes


def assumption_2(classes: SequenceClasses) -> list[Measured]:
    """Evaluate the conditions of Assumption 2 on `classes` at z = 0.

    They are V >> K^2 (read as a factor 10), |lambda_1(E)| < 1/K and |lambda_i(E)| >= 6/sqrt(V) for all i.

    Returns
    -------
    list of Measured
        Large vocabulary, weak correlation, lower bound on overlap; above DENSE_CLASSES classes without the last one,
        which needs all eigenvalues.
    """
    K, V, is_dense = classes.num_classes, classes.vocab_size, classes.num_classes <= DENSE_CLASSES
    values = np.abs(overlap_spectrum(classes, K if is_dense else 1))
    below = math.nextafter(1 / K, 0)  # the condition is strict
    lower = 6.0 / math.sqrt(V)
    conditions = (
        ("large vocabulary", f"V/K^2 >= {MUCH_LARGER:g} (V >> K^2)", Measured(V / K**2, at_least=MUCH_LARGER)),
        ("weak correlation", f"|lambda_1(E)| < 1/K = {1 / K:.4g}", Measured(values[0], at_most=below)),
        (
            "lower bound on overlap",
            f"min |lambda_i(E)| >= 6/sqrt(V) = {lower:.4g}",
            Measured(values[-1], at_least=lower),
        ),
    )
    measurable = conditions if is_dense else conditions[:2]
    return [measured.labelled("condition", name, required=required) for name, required, measured in measurable]
