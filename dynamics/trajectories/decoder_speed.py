"""What a saved decoder makes of each class: its logits, the odds against the right token, the speed gamma_n."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from snapdyn.dynamics.classes.table import Floats, Ints, SequenceClasses

NUMBERS_AT_ONCE = 4_000_000  # rows of Y that are gathered at a time, 32 MB


class ClassLogits(NamedTuple):
    """Decoder logits of each class at each saved time.

    Attributes
    ----------
    logits : (N, S, columns) array
        w_n = Y^T f_n; the columns are the next tokens in their order, then, if there are others, one for all of these.
    right : (N, S) array
        w_n[next token of n].
    odds : (N, S) array
        (1 - alpha_n[n])/alpha_n[n].
    """

    logits: Floats
    right: Floats
    odds: Floats

    @property
    def speed(self) -> Floats:
        """gamma_n = w_n[n] (1 - alpha_n[n]), (N, S), which is Eq. (85) under the modified flow."""
        return measured_speed(self.right, self.odds)


def measured_speed(right: Floats, odds: Floats) -> Floats:
    """gamma_n = w_n[n] (1 - alpha_n[n]) from the right logit and the odds (1 - alpha_n[n])/alpha_n[n], any shape."""
    return np.asarray(right * odds / (1.0 + odds))


def class_logits(classes: SequenceClasses, attention: Floats, Y: Floats, rows: Ints, outputs: Ints) -> ClassLogits:
    """Decoder logits of each class, for infinitely long sequences without residual connection.

    Parameters
    ----------
    classes : SequenceClasses
    attention : (N, nnz) array
        Attention on the stored entries of P.
    Y, rows, outputs : arrays
        As in `Decoder`.

    Returns
    -------
    ClassLogits
    """
    starts, times = classes.P.indptr[:-1], len(attention)
    norm = np.sqrt(np.add.reduceat(attention**2, starts, axis=1))
    row_of_entry = rows[classes.P.indices]
    # Systems order their columns differently: here the next tokens come first, in their order, then the others.
    column = {output: place for place, output in enumerate(outputs.tolist())}
    order = [column[output] for output in (*classes.next_tokens.tolist(), -1) if output in column]
    logits = np.empty((times, classes.num_classes, len(order)))
    together = max(1, NUMBERS_AT_ONCE // max(1, row_of_entry.size * outputs.size))
    for first in range(0, times, together):
        part = slice(first, first + together)
        sums = np.add.reduceat(attention[part, :, None] * Y[part, row_of_entry], starts, axis=1)
        logits[part] = (sums / norm[part, :, None])[:, :, order]
    correct = np.arange(classes.num_classes), classes.next_index
    right = logits[:, *correct]
    count = np.ones(len(order))
    count[classes.next_tokens.size :] = classes.vocab_size - classes.next_tokens.size
    others = count * np.exp(logits - right[:, :, None])
    others[:, *correct] = 0.0
    return ClassLogits(logits, right, others.sum(axis=2))


def speed_of_kind(attention: Floats, Y: Floats, number: Floats) -> Floats:
    """gamma_n of one class of a kind, (N, 1).

    Parameters
    ----------
    attention : (N, tokens) array
        To the tokens of the class.
    Y : (N, tokens, outputs) array
        Their decoder logits on different outputs, the next token of the class first.
    number : (outputs,) array
        How many outputs have each of these logits.
    """
    f = attention / np.linalg.norm(attention, axis=1, keepdims=True)
    logits = (f[:, None] @ Y)[:, 0]
    right = logits[:, :1]
    return measured_speed(right, np.exp(logits[:, 1:] - right) @ number[1:, None])


def speed_of_visits(h: Floats, vocab_size: int) -> Floats:
    """gamma_n = (V-1)^2 h_n/(V - 1 + exp(V h_n)), Eq. (85), of the visits' function h_n, any shape; overflow-free."""
    decay = np.exp(-vocab_size * h)
    return np.asarray((vocab_size - 1) ** 2 * h * decay / ((vocab_size - 1) * decay + 1.0))


def peak_times(t: Floats, values: Floats) -> Floats:
    """Time at which each column has its largest value; NaN where this is the first or the last saved time.

    Between saved times: the vertex of the parabola through the largest value and its neighbours, in ln t (in t where
    the first of the three is t = 0).

    Parameters
    ----------
    t : (N,) array
        Increasing.
    values : (N, S) array

    Returns
    -------
    (S,) array
    """
    peaks = np.full(values.shape[1], np.nan)
    for n, i in enumerate(values.argmax(axis=0) if t.size else ()):
        if not 0 < i < t.size - 1 or not np.isfinite(values[:, n]).all():
            continue
        three = slice(i - 1, i + 2)
        logarithmic = t[i - 1] > 0
        before, at, after = np.log(t[three]) if logarithmic else t[three]
        low, top, high = values[three, n]
        # Slopes of the two chords; the vertex is where the parabola's slope, linear in between, vanishes.
        rise, fall = (top - low) / (at - before), (high - top) / (after - at)
        vertex = 0.5 * (before + at) + 0.5 * (after - before) * rise / (rise - fall) if rise > fall else at
        peaks[n] = np.exp(vertex) if logarithmic else vertex
    return peaks
