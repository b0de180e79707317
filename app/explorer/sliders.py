"""Settings of the explorer, the sequence classes that they describe, and the steps of its sliders."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from snapdyn.core.errors import InputError, choice, positive, real, shown_path, whole
from snapdyn.dynamics import Adam, ClassKind, GradientDescent, SequenceClasses, SymmetricClasses, symmetric_classes
from snapdyn.dynamics.rules import RULES
from snapdyn.experiments.class_sections import ClassSection
from snapdyn.experiments.run_files import CheckSection, read_check

NUM_DISTINCT = 20  # distinct tokens per class: a dominant one and 19 of equal probability
# Within these, a run takes less than 100 ms (benchmarks/test_explorer.py): the number of evaluations grows like
# K eta_Z/eta_Y, and with finite sequences the search for symmetries grows like K^2.
MOST_CLASSES, MOST_CLASSES_OF_FINITE_SEQUENCES, MOST_CLASSES_OF_RULES = 500, 100, 20
FASTEST_ATTENTION = 1e3  # K eta_Z/eta_Y
LEAST_SHARE = 1e-3  # of the common token, and of all distinct tokens


def reachable_overlaps(common_probability: float) -> tuple[float, float]:
    """Bounds of the overlap f_n.f_k of two classes with one common token of this probability.

    Parameters
    ----------
    common_probability : float
        P(l_c|n), from 0.001 to 0.999.

    Returns
    -------
    tuple of float
        Lowest overlap: one distinct token takes the rest of the probability. Highest overlap: 20 equally probable
        distinct tokens share this rest. These are limits: an overlap lies strictly between them.

    Raises
    ------
    InputError
        The probability is out of its range.

    Notes
    -----
    With q the sum of the squared probabilities of the distinct tokens, f_n.f_k = p_c^2/(p_c^2 + q), and q lies between
    (1 - p_c)^2/20 and (1 - p_c)^2.

    Examples
    --------
    >>> from snapdyn.explorer.sliders import reachable_overlaps
    >>> print("%.3f %.3f" % reachable_overlaps(0.3))
    0.155 0.786
    """
    p = _share(common_probability)
    rest = (1.0 - p) ** 2
    return p**2 / (p**2 + rest), p**2 / (p**2 + rest / NUM_DISTINCT)


@dataclass(frozen=True)
class Settings:
    """What the sliders set: K classes of one query with one common token, and the rates.

    Each class has the common token and 20 distinct tokens of its own: a dominant one, and 19 of equal probability. The
    common probability and the overlap fix all these probabilities.

    Attributes
    ----------
    num_classes : int
        K, from 2 to 500, at most 100 with a finite `seq_len`; uniform priors.
    vocab_size : int
        V, number of outputs of the decoder, at least 4 and at least K.
    common_probability : float
        P(l_c|n), from 0.001 to 0.999.
    overlap : float
        f_n.f_k of any two classes at t = 0, strictly within `reachable_overlaps`.
    eta_Y : float
        Learning rate of the decoder per batch-size-1 step, positive.
    eta_Z : float
        Learning rate of attention per batch-size-1 step, positive, K eta_Z/eta_Y at most 1000.
    seq_len : int or None
        T-1, contextual tokens per sequence; None: infinite.
    optimizer : "sgd", "adam" or "sign"
        Rule of descent of both layers. With another rule than "sgd": rates per update, at most 20 classes, no seq_len.
    beta2 : float
        Memory of the second moment of "adam", from 0 to below 1.
    beta1 : float
        Memory of the first moment of "adam", from 0 to below 1.
    epsilon : float
        Constant of "adam" in the denominator, at least 0.

    Raises
    ------
    InputError
        A setting is out of its range.

    Examples
    --------
    >>> from snapdyn.explorer.sliders import Settings
    >>> settings = Settings(num_classes=10, common_probability=0.3, overlap=0.5)
    >>> settings.classes
    SequenceClasses(10 classes, 201 contextual tokens, 1 queries, 10 next tokens, V = 1000)
    """

    num_classes: int = 10
    vocab_size: int = 1000
    common_probability: float = 0.3
    overlap: float = 0.6
    eta_Y: float = 1.0
    eta_Z: float = 0.1
    seq_len: int | None = None
    optimizer: str = GradientDescent.name
    beta2: float = Adam.beta2
    beta1: float = Adam.beta1
    epsilon: float = Adam.epsilon

    def __post_init__(self) -> None:
        K = whole("num_classes", self.num_classes, 2, MOST_CLASSES)
        whole("vocab_size", self.vocab_size, max(4, K))
        low, high = reachable_overlaps(self.common_probability)
        real("overlap", self.overlap, above=low, below=high, advice="take one in between, or change common_probability")
        speed = K * positive("eta_Z", self.eta_Z) / positive("eta_Y", self.eta_Y)
        if not speed <= FASTEST_ATTENTION:
            raise InputError(
                f"expected K eta_Z/eta_Y of at most {FASTEST_ATTENTION:g}, received {speed:g}; choose slower attention "
                "or fewer classes here, or use sd.integrate, which takes longer"
            )
        choice("optimizer", self.optimizer, RULES)
        Adam(self.beta1, self.beta2, self.epsilon)  # checks them
        if self.has_rule and (K > MOST_CLASSES_OF_RULES or self.seq_len is not None):
            raise InputError(
                f"expected at most {MOST_CLASSES_OF_RULES} classes and infinite sequences with {self.optimizer}, "
                f"received {K} classes and seq_len={self.seq_len}; choose these, or use sd.sgd with optimizer="
            )
        if self.seq_len is not None:
            whole("seq_len", self.seq_len, 1)
            if K > MOST_CLASSES_OF_FINITE_SEQUENCES:
                raise InputError(
                    f"expected at most {MOST_CLASSES_OF_FINITE_SEQUENCES} classes with finite sequences, received {K}; "
                    "choose fewer classes or infinite sequences here, or use sd.integrate, which takes longer"
                )

    @property
    def rule(self) -> Adam | str:
        """The rule of descent, for `optimizer=`."""
        return Adam(self.beta1, self.beta2, self.epsilon) if self.optimizer == Adam.name else self.optimizer

    @property
    def has_rule(self) -> bool:
        """Whether the rule is another one than gradient descent."""
        return self.optimizer != GradientDescent.name

    @cached_property
    def distinct_probabilities(self) -> tuple[float, float]:
        """Probability of the dominant distinct token, and of each of the 19 others.

        Let S = 1 - p_c, D = 20, p_1 = x S and p_2 = (1-x) S/(D-1). The overlap is r if the squares of the D
        probabilities have the sum q = p_c^2 (1/r - 1), that is, if D x^2 - 2 x + 1 = (D-1) q/S^2; x is the larger root.
        """
        p, D = self.common_probability, NUM_DISTINCT
        concentration = (p / (1.0 - p)) ** 2 * (1.0 / self.overlap - 1.0)  # q/S^2, from 1/D to 1
        x = (1.0 + math.sqrt((D - 1) * max(0.0, D * concentration - 1.0))) / D
        return x * (1.0 - p), (1.0 - x) * (1.0 - p) / (D - 1)

    @cached_property
    def classes(self) -> SymmetricClasses:
        """The sequence classes: token 0 is common, then 20 distinct tokens per class, the dominant one first."""
        dominant, other = self.distinct_probabilities
        kind = ClassKind([self.common_probability], [dominant, *[other] * (NUM_DISTINCT - 1)], self.num_classes)
        return symmetric_classes(kind, vocab_size=self.vocab_size)


@dataclass(frozen=True)
class OwnSettings:
    """What the sliders set where the classes are the user's own: the rates, per step of batch size 1."""

    classes: SequenceClasses
    eta_Y: float
    eta_Z: float

    has_rule: ClassVar[bool] = False
    rule: ClassVar[str] = GradientDescent.name
    seq_len: ClassVar[None] = None

    @classmethod
    def read(cls, file: Path) -> OwnSettings:
        """Classes and rates of a file for `snapdyn check` or `snapdyn simulate`; raises what `read_check` raises."""
        found = read_check(file)
        if not isinstance(found.given, ClassSection) or not isinstance(found.check, CheckSection):
            raise InputError(
                f"expected sequence classes in {shown_path(file)}, received parameters of a theory; give [classes]"
            )
        return cls(found.given.build(found.folder), found.check.eta_Y, found.check.eta_Z)

    @property
    def num_classes(self) -> int:
        """K."""
        return self.classes.num_classes


def _share(common_probability: float) -> float:
    return real("common_probability", common_probability, at_least=LEAST_SHARE, at_most=1.0 - LEAST_SHARE)


STEPS: dict[str, tuple[float, ...]] = {
    "num_classes": (2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 200, 500),
    "vocab_size": (10, 20, 34, 50, 100, 200, 500, 1000, 2000, 5000, 10**4, 10**5, 10**6),
    "common_probability": (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
    "eta_Y": (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0),
    "eta_Z": (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0),
    "beta1": (0.0, 0.5, 0.8, 0.9, 0.95, 0.99),
    "beta2": (0.0, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 0.9999),
    "epsilon": (0.0, 1e-12, 1e-10, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 0.01),
    "seq_len": (20, 50, 100, 200, 500, 1000, 2000, 5000, 10**4, 10**5, 10**6),
}
NUM_OVERLAPS = 12


def overlap_steps(common_probability: float) -> list[float]:
    """Overlaps that two classes can have, lowest to highest: equal steps, five digits.

    Parameters
    ----------
    common_probability : float
        P(l_c|n), from 0.001 to 0.999.

    Returns
    -------
    list of float
        NUM_OVERLAPS numbers strictly within `reachable_overlaps`.

    Examples
    --------
    >>> from snapdyn.explorer.sliders import overlap_steps
    >>> overlap_steps(0.3)[::4]
    [0.18146, 0.39174, 0.60203]
    """
    low, high = reachable_overlaps(common_probability)
    return [round(low + (high - low) * (step + 0.5) / NUM_OVERLAPS, 5) for step in range(NUM_OVERLAPS)]


def nearest(steps: Sequence[float], value: float) -> float:
    """The step that is nearest to a value.

    Examples
    --------
    >>> from snapdyn.explorer.sliders import nearest
    >>> nearest([0.1, 0.2, 0.5], 0.3)
    0.2
    """
    return min(steps, key=lambda step: abs(step - value))
