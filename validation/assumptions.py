"""Assumption 2 (weak correlation) as conditions that are evaluated on an instance."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from snapdyn.validation.measured import Measured

if TYPE_CHECKING:
    from snapdyn.dynamics.classes import SequenceClasses

# "V >> K^2" is read as a factor of at least 10.
MUCH_LARGER = 10.0


def assumption_2(classes: SequenceClasses, z: ArrayLike | None = None) -> list[Measured]:
    """Evaluate the conditions of Assumption 2 on `classes`.

    Weak correlation is |lambda_1(E)| < 1/K. Assumption 2 adds V >> K^2 (read as a factor 10) and
    |lambda_i(E)| >= 6/sqrt(V) for all i. With identical overlaps rho no classes with V below 36 K^2 (K-1)^2 satisfy
    all three (finding F6), so each condition is reported separately.

    Parameters
    ----------
    classes : SequenceClasses
        Classes of the sequences.
    z : (Q, M) array, optional
        Attention logits; default 0.

    Returns
    -------
    list of Measured
        Large vocabulary, weak correlation, lower bound on overlap.
    """
    K, V = classes.num_classes, classes.vocab_size
    values = abs(classes.eigenvalues(z))
    lower = 6.0 / math.sqrt(V)
    smallest = Measured(float(values[-1]), at_least=lower).labelled(
        "condition", "lower bound on overlap", required=f"min |lambda_i(E)| >= 6/sqrt(V) = {lower:.4g}"
    )
    return [large_vocabulary(K, V), weak_correlation(K, float(values[0])), smallest]


def large_vocabulary(num_classes: int, vocab_size: int) -> Measured:
    """Evaluate V >> K^2 of Assumption 2."""
    return Measured(vocab_size / num_classes**2, at_least=MUCH_LARGER).labelled(
        "condition", "large vocabulary", required=f"V/K^2 >= {MUCH_LARGER:g} (V >> K^2)"
    )


def weak_correlation(num_classes: int, largest: float) -> Measured:
    """Evaluate |lambda_1(E)| < 1/K of Assumption 2, `largest` the absolute value of lambda_1."""
    below = math.nextafter(1 / num_classes, 0)  # the condition is strict
    return Measured(largest, at_most=below).labelled(
        "condition", "weak correlation", required=f"|lambda_1(E)| < 1/K = {1 / num_classes:.4g}"
    )
