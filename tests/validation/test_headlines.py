"""Headlines and one-sentence answers of the register."""

import pytest

import snapdyn as sd
from snapdyn.errors import InputError
from snapdyn.validation import CLAIMS, Report
from snapdyn.validation.register import Headline


def test_the_register_has_five_headlines() -> None:
    """Assert five headlines in order, of claims whose printed statement fails or needs conditions."""
    chosen = [claim for claim in CLAIMS.values() if claim.headline]
    assert sorted(claim.headline.rank for claim in chosen if claim.headline) == [1, 2, 3, 4, 5]
    assert {claim.expected for claim in chosen} <= {"corrected", "conditional", "refuted"}
    for claim in chosen:
        assert claim.headline
        assert claim.headline.printed != claim.headline.recomputed


@pytest.mark.parametrize("id_", CLAIMS)
def test_every_claim_has_a_one_sentence_answer(report: Report, id_: str) -> None:
    """Assert that a conclusion begins with one sentence of 25 words or so, and that no title ends like a sentence."""
    result = next(result for result in report.claims if result.id == id_)
    assert result.sentence.endswith(".")
    assert len(result.sentence) <= 160
    assert len(result.claim.title) <= 90
    assert not result.claim.title.endswith(".")


def test_wrong_headlines_are_refused() -> None:
    """Assert that a rank below 1, a formula that is no text, and something else than a headline are refused."""
    with pytest.raises(InputError, match="rank"):
        Headline(0, "a", "b")
    with pytest.raises(InputError, match="recomputed"):
        Headline(1, "a", 2)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="headline"):
        sd.Claim("new", "own", "x", "x", headline="a")  # type: ignore[arg-type]
