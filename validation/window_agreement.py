"""Real windows against the mean field of their classes: how far a window is from a long sequence."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from snapdyn.dynamics import SequenceClasses, Trajectory
from snapdyn.dynamics.classes import Floats, Ints
from snapdyn.errors import InputError


@dataclass(frozen=True)
class Agreement:
    """Moves z - z(0) of attention logits in two runs, weighted by how often the windows have (query, token).

    correlation; difference: root mean square of the difference over that of the second run.
    """

    correlation: float
    difference: float


def agreement(run: Trajectory, theory: Trajectory, time: int = -1) -> Agreement:
    """Hold the moves of `run` against those of `theory`, both at the saved time number `time`.

    Weights are those of theory's classes; a (query, token) that `run` does not have has not moved there.
    """
    if run.classes is None or theory.classes is None or not run.t.size or not theory.t.size:
        raise InputError(f"expected two trajectories with classes and saved times, received {run!r} and {theory!r}")
    classes = theory.classes
    query, token = classes.z_coordinates
    shares = classes.prior[classes.class_of_entry] * classes.P.data
    weight = np.bincount(classes.z_of_entry, weights=shares, minlength=token.size).astype(np.float64)  # sums to 1
    b = theory.z_support[time] - theory.z_initial[query, token]
    a = _moves(run, time, classes.queries[query], token)
    size = math.sqrt(weight @ b**2)
    if size == 0.0:
        raise InputError("expected a theory whose logits move, received one that stands still; choose a later time")
    difference = math.sqrt(weight @ (a - b) ** 2) / size
    a, b = a - weight @ a, b - weight @ b
    spread = math.sqrt((weight @ a**2) * (weight @ b**2))
    return Agreement(float(weight @ (a * b) / spread) if spread else math.nan, difference)


def _moves(run: Trajectory, time: int, queries: Ints, tokens: Ints) -> Floats:
    """Moves of the logits of (query id, token id), 0 where the run has none, (n,)."""
    assert run.classes is not None
    query, token = run.classes.z_coordinates
    size = np.int64(max(token.max(), tokens.max()) + 1)
    keys, wanted = run.classes.queries[query] * size + token, queries * size + tokens  # both increasing
    place = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
    moves = run.z_support[time] - run.z_initial[query, token]
    return np.where(keys[place] == wanted, moves[place], 0.0)


def norm_fluctuation(windows: SequenceClasses, classes: SequenceClasses) -> float:
    """E|q|^2/|P|^2 - 1: squared norm that the words of single windows have beyond that of their class.

    q are the shares of words in a window (a row of windows.P), P those in the class with its query and next token. The
    limit of long sequences, Lemma 2, needs much less than 1. Words drawn independently: `independent_fluctuation`.
    """
    size = np.int64(max(windows.vocab_size, classes.vocab_size))
    keys, wanted = (c.query * size + c.next_token for c in (classes, windows))
    order = np.argsort(keys)
    place = order[np.minimum(np.searchsorted(keys[order], wanted), keys.size - 1)]
    if not np.array_equal(keys[place], wanted):
        raise InputError(
            "expected windows of these classes, received one with another query and next token; read both "
            "from the same text with the same options"
        )
    of_window, of_class = (np.asarray(c.P.multiply(c.P).sum(axis=1)).ravel() for c in (windows, classes))
    return float(windows.prior @ of_window / (windows.prior @ of_class[place]) - 1.0)


def independent_fluctuation(classes: SequenceClasses, length: int) -> float:
    """E|q|^2/|P|^2 - 1 = (1/|P|^2 - 1)/length for windows of `length` words drawn independently from the classes."""
    square = classes.prior @ np.asarray(classes.P.multiply(classes.P).sum(axis=1)).ravel()
    return float((1.0 / square - 1.0) / length)
