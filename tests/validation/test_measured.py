"""Numbers beside their bounds."""

import math
from typing import Any

import pytest

import snapdyn as sd
from tests.validation.helpers import check


@pytest.mark.parametrize(
    ("measured", "relation", "bound", "excess"),
    [
        (2.0, ">=", 5.0, 2.5), (4.0, ">=", 2.0, 0.5),
        # Negative numbers by their size: as for (-measured, the other relation, -bound).
        (-5.0, ">=", -2.0, 2.5), (-5.0, "<=", -2.0, 0.4),
        # No factor leads from one side of 0 to the other.
        (1e-9, "<=", 0.0, math.inf), (1.0, "<=", -1.0, math.inf),
        (-1.0, ">=", 1.0, math.inf), (0.0, ">=", 1.0, math.inf), (0.0, "<=", 0.0, 0.0),
        (-1.0, "<=", 1.0, 0.0), (1.0, ">=", 0.0, 0.0), (math.inf, "<=", 1.0, math.inf),
        (math.nan, "<=", 1.0, math.nan), (math.nan, ">=", 1.0, math.nan),
    ],
)  # fmt: skip
def test_distance_to_the_bound(measured: float, relation: Any, bound: float, excess: float) -> None:
    """Assert how many times beyond its bound a number lies, and that this agrees with whether the check passes."""
    found = check("a", "test", measured, bound, relation)
    assert found.excess == pytest.approx(excess, rel=1e-15, nan_ok=True)
    assert found.holds == (excess <= 1)


@pytest.mark.parametrize(
    ("measured", "bound", "text"),
    [
        (0.123456, 1.0, "0.123 <= 1"),
        (1.0042, 1.0, "1.004 <= 1"),
        (1.0000001, 1.0, "1.0000001 <= 1"),
        (math.nan, 1.0, "nan <= 1"),
    ],
)
def test_comparison_tells_the_numbers_apart(measured: float, bound: float, text: str) -> None:
    """Assert three digits, and more where three would show two different numbers as one."""
    assert check("measured", "", measured, bound).comparison == text


def test_the_numerical_error_widens_the_bound() -> None:
    """Assert that a number beyond its bound by less than its error holds, and that it says so."""
    within, beyond = (sd.Measured(value, at_most=1.0, error=0.1) for value in (1.05, 1.2))
    assert (within.holds, within.decided, within.comparison) == (True, False, "1.05 <= 1 + 0.1")
    assert within.excess < 1 < beyond.excess
    assert (within.margin, beyond.margin) == pytest.approx((-0.05, -0.2))
    assert (beyond.holds, beyond.decided, beyond.comparison) == (False, True, "1.2 <= 1")
    assert sd.Measured(0.95, at_least=1.0, error=0.1).comparison == "0.95 >= 1 - 0.1"


def test_a_condition_in_json() -> None:
    """Assert the keys of a condition: what is required, the number and whether it is met."""
    found = sd.Measured(math.inf, at_most=0.5).labelled("condition", "weak correlation", required="< 1/K")
    assert found.to_dict() == {
        "name": "weak correlation",
        "required": "< 1/K",
        "measured": "inf",
        "relation": "<=",
        "bound": 0.5,
        "met": False,
    }
