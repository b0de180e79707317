"""The README's main results: counts and numbers are those of the register."""

import re
from collections import Counter
from collections.abc import Callable

import pytest

from snapdyn.validation import CLAIMS, ClaimResult
from tests.helpers import ROOT

NUMBER = r"(?<![\w.,^])\d[\d,]*(?:\.\d+)?"


def results() -> str:
    """Section of the main results, on one line."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return " ".join(text.partition("## Main results")[2].partition("\n## ")[0].split())


def bullets() -> list[str]:
    """The single results."""
    return results().split(" - **")[1:]


def claims_of(bullet: str) -> list[str]:
    """Claims that a bullet names in brackets."""
    return [id_ for id_ in re.findall(r"`([\w-]+)`", bullet) if id_ in CLAIMS]


def numbers_of(text: str) -> set[str]:
    """Numbers of a text outside formulas, names of equations and sizes of a setting."""
    setting = r"[A-Z] = [\d,]+|\d+ queries|probability [\d.]+"
    name = r"\*\*[^*]*\*\*|^[^*]*\*\*|Eq\. \(\d+\)|\(\d+[a-z]?\)|(?:Assumption|Lemma|Theorem|Remark) \d+"
    plain = re.sub(rf"`[^`]*`|{name}|{setting}", " ", text)
    return {number.rstrip(",") for number in re.findall(NUMBER, plain)}


def test_counts_are_those_of_the_register() -> None:
    counts = Counter(entry.expected for entry in CLAIMS.values())
    expected = (
        f"{counts['holds']} claims hold, {counts['conditional']} hold under conditions, and {counts['corrected']} are "
        "corrected"
    )
    assert expected in results()
    assert f"The register has {len(CLAIMS)} claims" in results()


@pytest.mark.slow
@pytest.mark.parametrize("bullet", bullets(), ids=lambda bullet: bullet.partition("**")[0])
def test_numbers_are_those_of_the_claims(bullet: str, checked: Callable[[str], ClaimResult]) -> None:
    """Assert that each number of a result is in the conclusion of one of its claims, as written there."""
    found = [checked(id_) for id_ in claims_of(bullet)]
    assert found
    said = " ".join(f"{claim.conclusion} {claim.claim.statement}" for claim in found)
    missing = {number for number in numbers_of(bullet) if not re.search(rf"(?<![\d.]){re.escape(number)}(?!\d)", said)}
    assert not missing, (missing, said)


def test_a_wrong_number_is_found() -> None:
    assert numbers_of("x** a share of 0.31 and 7 of `ln(2)` at V = 1,000 (88)") == {"0.31", "7"}
