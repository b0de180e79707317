"""Numbers beside their bounds; evidence: what a claim's function adds, and what the verdict makes of it."""

import math
from typing import Any

import pytest

import snapdyn as sd
from snapdyn.validation.engine import proofs_of
from snapdyn.validation.results import verdict_of
from tests.validation.helpers import check, claim_of


@pytest.mark.parametrize(
    ("measured", "relation", "bound", "excess"),
    [
        (2.0, ">=", 5.0, 2.5), (4.0, ">=", 2.0, 0.5),
        # Negative numbers by their size: as for (-measured, the other relation, -bound).
        (-5.0, ">=", -2.0, 2.5), (-5.0, "<=", -2.0, 0.4),
        # No factor leads from one side of 0 to the other.
        (1e-9, "<=", 0.0, math.inf), (1.0, "<=", -1.0, math.inf),
        (0.0, "<=", 0.0, 0.0), (1.0, ">=", 0.0, 0.0), (math.inf, "<=", 1.0, math.inf), (math.nan, "<=", 1.0, math.nan),
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


def evidence() -> sd.Evidence:
    """Evidence of a statement that holds."""
    found = sd.Evidence()
    found.holds("error", "closed form", 2e-9, at_most=1e-8)
    found.control("wrong theory", "closed form", 0.8, at_most=1e-8)
    return found


def test_roles_and_relations() -> None:
    found = evidence()
    found.corrected("size", "SGD", 3.0, at_least=2.0)
    found.outside("size", "SGD", 1.0, at_least=2.0)
    assert [(check.role, check.relation, check.holds) for check in found.checks] == [
        ("statement", "<=", True),
        ("control", "<=", False),
        ("corrected", ">=", True),
        ("outside", ">=", False),
    ]
    assert verdict_of(found) == ("conditional", "")


@pytest.mark.parametrize("number", [2e-9, -2e-9, 1 / 2e-9, 1 - 2e-9])
def test_a_control_with_the_statements_own_number_gives_no_verdict(number: float) -> None:
    found = evidence()
    found.control("mirror", "closed form", number, at_least=1e99)
    verdict, fault = verdict_of(found)
    assert verdict == "refuted"
    assert "computed from a wrong theory" in fault


def test_a_claim_adds_to_its_evidence() -> None:
    """Assert verdict and conclusion of a claim of one's own, whatever its argument is called."""

    @sd.claim("seven", source="own", title="Seven", statement="7 < 8")
    def seven(level: sd.Evidence) -> None:
        level.holds("seven", "arithmetic", 7.0, at_most=8.0)
        level.control("nine", "arithmetic", 9.5, at_most=8.0)
        level.conclusion = f"Measured at level {level.level}."

    (result,) = sd.validate("seven", level="full", jobs=1).claims
    assert (result.verdict, result.evidence.conclusion) == ("holds", "Measured at level full.")


def test_sympy_proves_and_rejects_what_is_printed() -> None:
    """Assert that a derivation with a printed form gives the statement, and the printed form as a control."""
    found = list(proofs_of(claim_of(proved=("lag", "late-lag"))))
    assert [(check.role, check.as_expected) for check in found] == [("statement", True), ("control", True)]
    assert next(proofs_of(claim_of(proved=("lag",), expected="corrected"))).role == "corrected"


def test_interval_proofs_come_with_their_false_inequalities() -> None:
    found = list(proofs_of(claim_of(certified=("lemma8",))))
    assert [check.role for check in found].count("statement") == 1
    assert any(check.role == "control" for check in found)
    assert verdict_of(sd.Evidence(found)) == ("holds", "")


@pytest.mark.parametrize("facts", [{"proved": ("lagg",)}, {"certified": ("lemma88",)}])
def test_proofs_of_unknown_names(facts) -> None:
    with pytest.raises(sd.InputError, match=r"lagg|lemma88"):
        list(proofs_of(claim_of(**facts)))
