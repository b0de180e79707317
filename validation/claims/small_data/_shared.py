"""What the chapter shares: data sets drawn from an instance, or the user's own."""

from dataclasses import replace

import numpy as np

from snapdyn.dynamics import DataSet, SequenceClasses, data_set
from snapdyn.validation.claims._shared import WIDEST
from snapdyn.validation.claims.language import Floats, Instance, Ints, Requirement

SIZES = (1, 2, 3, 5, 2, 10, 1, 30, 100, 3, 1000)
"""Sequences per class, by the number of the instance."""

ANY_SEQUENCES = replace(
    WIDEST,
    name="classes with stored sequences",
    num_classes=(2, 12),
    num_common=(1, 30),
    num_distinct=(0, 4),
    ratio=(1.0, 1.0),
    horizon=(1.0, 1.0),
    eta_Y=(1.0, 1.0),
    shared_next_tokens=True,
    seq_len=(1, 10**4),
)


def size_of(instance: Instance) -> int:
    """Stored sequences of a class of average prior; those of a user's data set are its own."""
    return SIZES[instance.number % len(SIZES)]


def source_of(instance: Instance) -> SequenceClasses:
    """Classes from which the sequences are drawn."""
    return instance.classes.source if isinstance(instance.classes, DataSet) else instance.classes


def sequences_of(instance: Instance, size: int = 0) -> Ints:
    """Number of stored sequences of each class, (S,): `size`, or in proportion to the prior and at least 1."""
    if isinstance(instance.classes, DataSet):
        return instance.classes.sequences
    of_average = size_of(instance) * instance.num_classes * instance.prior
    return np.full(instance.num_classes, size) if size else np.maximum(1, np.rint(of_average)).astype(np.int64)


def length_of(instance: Instance) -> int:
    """T-1 of the stored sequences; 0 where it is infinite."""
    return instance.classes.seq_len if isinstance(instance.classes, DataSet) else instance.seq_len or 0


def stored(instance: Instance, seed: int = 0, size: int = 0) -> DataSet:
    """The data set of an instance, `size` as in `sequences_of`; another `seed` gives other sequences."""
    if isinstance(instance.classes, DataSet) and not seed:
        return instance.classes
    numbers = sequences_of(instance, size)
    return data_set(source_of(instance), numbers, length_of(instance), instance.number + seed)


def common_absences(instance: Instance) -> tuple[Floats, Floats]:
    """For each next token and common token, (next tokens, C): P summed over its classes, and the ln of the absence from
    N stored sequences per class, over N (T-1)."""
    classes = source_of(instance)
    P = classes.P.toarray()[:, classes.omega_size > 1]
    with np.errstate(divide="ignore"):
        log_absent = np.log1p(-np.minimum(P, 1.0))
    of = classes.next_index[None] == np.arange(classes.num_next_tokens)[:, None]
    return of @ P, np.array([log_absent[rows].sum(axis=0) for rows in of])


STORED = Requirement(
    "stored sequences", "T - 1 is given, or the classes are a data set", length_of, at_least=1, defining=True
)
A_COMMON_TOKEN = Requirement(
    "a common token", "tokens of several next tokens >= 1", lambda i: (source_of(i).omega_size > 1).sum(), at_least=1,
    defining=True,
)  # fmt: skip
