"""SGD on the windows of a text, compared with the mean field of these windows and with that of their classes.

python examples/text_windows.py PATH [LENGTH...]     lengths of the windows in words, default 8 32 128
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import snapdyn as sd
from snapdyn.dynamics.classes.table import Floats, Ints

ETA_Y, ETA_Z, STEPS, BATCH = 1.0, 0.1, 206, 16
FORMAT = "{:>7} {:>9} {:>9} {:>12} {:>22} {:>22} {:>22}"


def main(path: str, lengths: Sequence[int] = (8, 32, 128), steps: int = STEPS, **options: int) -> list[float]:
    """Print one line per length; return the correlations of SGD with the mean field of the windows."""
    names = "SGD ~ field of windows", "SGD ~ field of classes", "drawn SGD ~ classes"
    print(FORMAT.format("length", "windows", "rho", "rho, drawn", *names))
    correlations = []
    for length in lengths:
        classes = sd.from_text(path, window=length, **options)
        windows = sd.from_text(path, window=length, **options, sequences=True, max_sequences=8000)
        field_of_classes, field_of_windows = (
            sd.integrate(sd.MeanField(c, ETA_Y, ETA_Z), [steps], "RKC", 1e-3, 1e-4) for c in (classes, windows)
        )
        # Each window is a class here, and an infinitely long sequence of this class has the word shares of the window.
        # SGD with infinitely long sequences therefore trains on the windows of the text.
        trained = sd.sgd(windows, ETA_Y, ETA_Z, steps, BATCH, record=[steps])
        drawn = sd.sgd(classes, ETA_Y, ETA_Z, steps, BATCH, seq_len=length, record=[steps])
        rho = norm_fluctuation(windows, classes), independent_fluctuation(classes, length)
        pairs = (
            agreement(trained, field_of_windows),
            agreement(trained, field_of_classes),
            agreement(drawn, field_of_classes),
        )
        correlations.append(pairs[0].correlation)
        shown = *(f"{value:.3f}" for value in rho), *(f"{pair.correlation:.2f}" for pair in pairs)
        print(FORMAT.format(length, windows.num_classes, *shown))
    return correlations


@dataclass(frozen=True)
class Agreement:
    """Agreement of the changes z - z(0) of attention logits in two runs, weighted by the frequency of (query, token).

    `correlation` is the weighted correlation of the changes. `difference` is the root mean square of their difference,
    relative to the root mean square of the changes in the second run.
    """

    correlation: float
    difference: float


def agreement(run: sd.Trajectory, theory: sd.Trajectory, time: int = -1) -> Agreement:
    """Compare the changes of the logits in `run` and in `theory`, both at the saved time number `time`.

    The weights come from the classes of `theory`. A (query, token) that is absent from `run` counts as unchanged.
    """
    if run.classes is None or theory.classes is None or not run.t.size or not theory.t.size:
        raise sd.InputError(f"expected two trajectories with classes and saved times, received {run!r} and {theory!r}")
    classes = theory.classes
    query, token = classes.z_coordinates
    shares = classes.prior[classes.class_of_entry] * classes.P.data
    weight = np.bincount(classes.z_of_entry, weights=shares, minlength=token.size).astype(np.float64)  # sums to 1
    b = theory.z_support[time] - theory.z_initial[query, token]
    a = _moves(run, time, classes.queries[query], token)
    size = math.sqrt(weight @ b**2)
    if size == 0.0:
        raise sd.InputError("expected a theory whose logits move, received one that stands still; choose a later time")
    difference = math.sqrt(weight @ (a - b) ** 2) / size
    a, b = a - weight @ a, b - weight @ b
    spread = math.sqrt((weight @ a**2) * (weight @ b**2))
    return Agreement(float(weight @ (a * b) / spread) if spread else math.nan, difference)


def _moves(run: sd.Trajectory, time: int, queries: Ints, tokens: Ints) -> Floats:
    """Changes of the logits of (query id, token id), shape (n,); 0 where the run has no such logit."""
    assert run.classes is not None
    query, token = run.classes.z_coordinates
    size = np.int64(max(token.max(), tokens.max()) + 1)
    keys, wanted = run.classes.queries[query] * size + token, queries * size + tokens  # both increasing
    place = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
    moves = run.z_support[time] - run.z_initial[query, token]
    return np.where(keys[place] == wanted, moves[place], 0.0)


def norm_fluctuation(windows: sd.SequenceClasses, classes: sd.SequenceClasses) -> float:
    """E|q|^2/|P|^2 - 1: relative excess of the squared norm of single windows over that of their class.

    q are the shares of words in a window (a row of windows.P); P are the shares in the class with the same query and
    next token. The limit of long sequences, Lemma 2, needs a value much less than 1. `independent_fluctuation` gives
    the value for words that are drawn independently.
    """
    size = np.int64(max(windows.vocab_size, classes.vocab_size))
    keys, wanted = (c.query * size + c.next_token for c in (classes, windows))
    order = np.argsort(keys)
    place = order[np.minimum(np.searchsorted(keys[order], wanted), keys.size - 1)]
    if not np.array_equal(keys[place], wanted):
        raise sd.InputError(
            "expected windows of these classes, received one with another query and next token; read both "
            "from the same text with the same options"
        )
    of_window, of_class = (np.asarray(c.P.multiply(c.P).sum(axis=1)).ravel() for c in (windows, classes))
    return float(windows.prior @ of_window / (windows.prior @ of_class[place]) - 1.0)


def independent_fluctuation(classes: sd.SequenceClasses, length: int) -> float:
    """E|q|^2/|P|^2 - 1 = (1/|P|^2 - 1)/length for windows of `length` words drawn independently from the classes."""
    square = classes.prior @ np.asarray(classes.P.multiply(classes.P).sum(axis=1)).ravel()
    return float((1.0 / square - 1.0) / length)


if __name__ == "__main__":
    main(sys.argv[1], [int(length) for length in sys.argv[2:]] or (8, 32, 128))
