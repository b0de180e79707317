"""What the chapter shares: data sets drawn from an instance, or the user's own."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.dynamics import DataSet, MeanField, SequenceClasses, Trajectory, data_set, integrate
from snapdyn.validation.claims.language import WIDEST, Floats, Instance, Ints, Requirement, most_evaluations, succeeded

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


IN_TRAINING = replace(
    ANY_SEQUENCES,
    name="stored sequences in training",
    num_classes=(2, 6),
    num_common=(1, 12),
    num_distinct=(1, 4),
    ratio=(0.1, 10.0),
    horizon=(10.0, 1e4),
    uniform=True,
    num_queries=(1, 1),
    shared_next_tokens=False,
    vocab_size=(2, 10**6),
    seq_len=(1, 300),
)


def size_of(instance: Instance) -> int:
    """Stored sequences of a class of average prior."""
    return SIZES[instance.number % len(SIZES)]


def source_of(instance: Instance) -> SequenceClasses:
    """Classes from which the sequences are drawn."""
    return getattr(instance.classes, "source", instance.classes)


def length_of(instance: Instance) -> int:
    """T-1 of the stored sequences; 0 where it is infinite."""
    return getattr(instance.classes, "seq_len", instance.seq_len) or 0


def arguments(instance: Instance) -> tuple[Any, Ints, Ints, int]:
    """P, next tokens, number of stored sequences of each class, T-1: what the closed forms take.

    The numbers are in proportion to the prior and at least 1, or those of the user's data set.
    """
    classes, of_average = source_of(instance), size_of(instance) * source_of(instance).num_classes
    drawn = np.maximum(1, np.rint(of_average * classes.prior)).astype(np.int64)
    return classes.P, classes.next_token, getattr(instance.classes, "sequences", drawn), length_of(instance)


def stored(instance: Instance, seed: int = 0) -> DataSet:
    """The data set of an instance; another `seed` gives other sequences of the same classes."""
    if isinstance(instance.classes, DataSet) and not seed:
        return instance.classes
    return data_set(source_of(instance), *arguments(instance)[2:], instance.number + seed)


def run_stored(
    instance: Instance, data: DataSet, times: ArrayLike, start: Floats | None = None, **options: Any
) -> Trajectory:
    """Run of the mean field of stored sequences at the rates of an instance; NoNumber where it fails."""
    system: MeanField = MeanField(data, instance.eta_Y, instance.eta_Z, z_initial=start)
    return succeeded(integrate(system, times, most_evaluations=most_evaluations(system.size, True), **options))


def three_sequences(classes: SequenceClasses) -> Instance:
    """Three stored sequences per class of 20 tokens, at eta_Y = eta_Z = 1 until t = 2000."""
    return Instance.of(data_set(classes, 3, 20, seed=1), 1.0, 1.0, 2000.0)


def least_distinct_share(instance: Instance) -> float:
    """Smallest share of really distinct tokens in a stored sequence."""
    data = stored(instance)
    return (data.P @ (data.source.omega_size == 1).astype(float)).min()


def log_absences(P: Any, next_token: Ints, sequences: Ints, length: int) -> Floats:
    """ln of the probability that the sequences of a next token lack a common token, (next tokens, C)."""
    labels, table = np.unique(next_token, return_inverse=True)[1], np.minimum(P.toarray(), 1.0)
    with np.errstate(divide="ignore"):
        each = np.log1p(-table) * (sequences * float(length))[:, None]
    found = np.array([each[labels == v].sum(axis=0) for v in range(labels.max() + 1)])
    return np.asarray(found[:, (found < 0).sum(axis=0) > 1])


STORED = Requirement(
    "stored sequences", "1/(T - 1) > 0, T - 1 given by seq_len or by a data set",
    lambda i: 1.0 / (length_of(i) or np.inf), at_least=float(np.nextafter(0, 1)), defining=True,
)  # fmt: skip
A_COMMON_TOKEN = Requirement(
    "a common token", "tokens of several next tokens >= 1", lambda i: (source_of(i).omega_size > 1).sum(), at_least=1,
    defining=True,
)  # fmt: skip
A_SPURIOUS_TOKEN = Requirement(
    "a spurious token", "spurious tokens in the data set >= 1", lambda i: len(stored(i).spurious), at_least=1,
    defining=True,
)  # fmt: skip
SOURCE_OWN_NEXT_TOKENS = Requirement(
    "one class per next token", "no two classes share a next token",
    lambda i: source_of(i).num_classes - source_of(i).num_next_tokens, at_most=0, defining=True,
)  # fmt: skip
MANY_DISTINCT = Requirement(
    "really distinct tokens in every sequence",
    "smallest share of really distinct tokens in a stored sequence >= 1/2",
    least_distinct_share,
    at_least=0.5,
)
