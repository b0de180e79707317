"""Assumption 2 (weak correlation) as conditions that are evaluated on an instance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from snapdyn.validation.checks import json_number

if TYPE_CHECKING:
    from snapdyn.dynamics.classes import SequenceClasses

# "V >> K^2" is read as a factor of at least 10.
MUCH_LARGER = 10.0


@dataclass(frozen=True)
class Condition:
    """One condition of an assumption, evaluated on an instance.

    Attributes
    ----------
    name : str
        Name of the condition.
    required : str
        The condition in words and symbols.
    bound : float
        The number that `measured` is compared with.
    measured : float
        Value on the instance.
    satisfied : bool
        Whether the condition is satisfied.
    """

    name: str
    required: str
    bound: float
    measured: float
    satisfied: bool

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form; numbers that are not finite become text."""
        return {
            "name": self.name,
            "required": self.required,
            "bound": json_number(self.bound),
            "measured": json_number(self.measured),
            "met": bool(self.satisfied),
        }

    def __str__(self) -> str:
        return (
            f"{self.name}: required {self.required}, measured {self.measured:.4g}: {'yes' if self.satisfied else 'NO'}"
        )


def assumption_2(classes: SequenceClasses, z: ArrayLike | None = None) -> list[Condition]:
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
    list of Condition
        Large vocabulary, weak correlation, lower bound on overlap.
    """
    K, V = classes.num_classes, classes.vocab_size
    values = abs(classes.eigenvalues(z))
    largest, smallest = float(values[0]), float(values[-1])
    lower = 6.0 / math.sqrt(V)
    return [
        Condition(
            "large vocabulary", f"V/K^2 >= {MUCH_LARGER:g} (V >> K^2)", MUCH_LARGER, V / K**2, V / K**2 >= MUCH_LARGER
        ),
        Condition("weak correlation", f"|lambda_1(E)| < 1/K = {1 / K:.4g}", 1 / K, largest, largest < 1 / K),
        Condition(
            "lower bound on overlap",
            f"min |lambda_i(E)| >= 6/sqrt(V) = {lower:.4g}",
            lower,
            smallest,
            smallest >= lower,
        ),
    ]
