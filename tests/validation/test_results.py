"""Results and reports: the weakest control, JSON, the sentence that answers."""

import json

from snapdyn.validation import Evidence
from snapdyn.validation.verdicts import check_claim
from tests.validation.helpers import checks_of, claim_of, result_of


def test_a_result_says_how_to_repeat_it_and_on_what_it_rests() -> None:
    """Assert that JSON has command, time, seed, instances and signal, all as JSON proper."""

    def run(evidence: Evidence) -> None:
        evidence.checks += checks_of(statement=True, control=False)
        evidence.tried = 7

    entry = claim_of("a b", run=run, file="my claims.py")
    document = json.loads(json.dumps(check_claim(entry, "full").to_dict(), allow_nan=False))
    assert document["command"] == "snapdyn validate 'a b' --level full --load 'my claims.py'"
    assert document["level"] == "full"
    assert (document["seed"], document["tried"]) == (2305, 7)
    assert document["signal_over_tolerance"] == 2.5
    assert 0 <= document["seconds"] < 60


def test_the_sentence_is_the_first_of_the_conclusion() -> None:
    """Assert that the first sentence answers, the second says how far apart, and another verdict says what decided."""
    result = result_of(evidence={"conclusion": "At t = 1.5 it is 2. Then (x). More."})
    assert (result.sentence, result.difference) == ("At t = 1.5 it is 2.", "Then (x).")
    differs = result_of("refuted", checks_of(statement=False), expected="holds")
    assert differs.sentence == "The verdict is refuted: statement: 2, must be at most 1."
    assert result_of("refuted", fault="No verdict is possible: x.").sentence == "No verdict is possible: x."
