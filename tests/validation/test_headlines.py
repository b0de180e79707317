"""Headlines and one-sentence answers of the register."""

import re

import pytest

import snapdyn as sd
from snapdyn.errors import InputError
from snapdyn.validation import CLAIMS, Check, ClaimResult
from snapdyn.validation.headlines import Headline
from snapdyn.validation.store import decoded, encoded


def test_the_register_has_five_headlines() -> None:
    """Assert five headlines in order, of claims whose printed statement fails or needs conditions."""
    chosen = [claim for claim in CLAIMS.values() if claim.headline]
    assert sorted(claim.headline.rank for claim in chosen if claim.headline) == [1, 2, 3, 4, 5]
    assert {claim.expected for claim in chosen} <= {"corrected", "conditional", "refuted"}
    for claim in chosen:
        assert claim.headline
        assert claim.headline.printed != claim.headline.recomputed


@pytest.mark.parametrize("id_", CLAIMS)
def test_every_claim_has_a_one_sentence_answer(id_: str) -> None:
    """Assert that an answer is one sentence of at most 25 words or so, and that no title ends like a sentence."""
    claim = CLAIMS[id_]
    assert claim.answer.endswith(".")
    assert not re.search(r"[.!?] [A-Z]", claim.answer.replace("Eq. ", ""))
    assert len(claim.answer) <= 160
    assert len(claim.title) <= 90
    assert not claim.title.endswith(".")


def test_headline_and_answer_are_stored() -> None:
    """Assert that a result that was kept from an interrupted run has its headline, answer and difference."""
    result = ClaimResult(
        "x", "own", "x", "x", "", (), "corrected", "corrected", (Check("x", "x", 1.0, 2.0),), conclusion="Long. Text.",
        answer="Short.", headline=Headline(1, "a", "b"), difference="A factor 2.",
    )  # fmt: skip
    assert decoded(encoded(result)) == result
    assert result.to_dict()["answer"] == "Short."
    assert result.to_dict()["difference"] == "A factor 2."


def test_sentence_without_an_answer() -> None:
    """Assert that a claim without an answer shows the first sentence of its conclusion."""
    result = ClaimResult("x", "own", "x", "x", "", (), "holds", "holds", (), conclusion="At t = 1.5 it is 2. Then (x).")
    assert result.sentence == "At t = 1.5 it is 2."


def test_wrong_headlines_are_refused() -> None:
    """Assert that a rank below 1, a formula that is no text, and something else than a headline are refused."""
    with pytest.raises(InputError, match="rank"):
        Headline(0, "a", "b")
    with pytest.raises(InputError, match="recomputed"):
        Headline(1, "a", 2)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="headline"):
        sd.claim("new", source="own", title="x", statement="x", headline="a")  # type: ignore[arg-type]
