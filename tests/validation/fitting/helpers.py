"""Training runs by a program of its own as the package sees them: their classes and their traces."""

import math
from typing import Any

import numpy as np

from snapdyn.dynamics import SequenceClasses, Trace
from tests.validation.fitting.own_sgd import Array, Training

TWO_CLASSES = Training(
    np.array([[0.35, 0.4, 0.25, 0, 0], [0.15, 0, 0, 0.6, 0.25]]),
    query=np.zeros(2, int),
    prior=np.array([0.4, 0.6]),
    vocab_size=30,
    eta_Y=0.02,
    eta_Z=0.03,
    momentum=0.0,
    batch_size=math.inf,
    seq_len=math.inf,
    record=np.arange(10, 601, 30),
)


def classes_of(training: Training) -> SequenceClasses:
    """The classes that a program trains on."""
    return SequenceClasses(training.P, training.query, prior=training.prior, vocab_size=training.vocab_size)


def trace_of(training: Training, attention: Array, **changes: Any) -> Trace:
    """The trace of recorded attention."""
    facts = {"batch_size": training.batch_size, "momentum": training.momentum, "seq_len": training.seq_len}
    return Trace(training.record, attention, **(facts | changes))
