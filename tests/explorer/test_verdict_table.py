"""The table of answers."""

from dataclasses import replace

import snapdyn as sd
from snapdyn.explorer.curves import COLOURS, MEANINGS, ORDER, statement, verdict_table
from snapdyn.validation.instance_checks import STATUSES


def test_rows() -> None:
    """Assert one row per claim, the most serious answer first, mathematics in signs, and text that is escaped."""
    report = sd.check(sd.syn_small(), eta_Y=1.0, eta_Z=0.01, only=["lemma13", "figure6"])
    holds = report["lemma13"]
    other = sd.validation.CLAIMS["lemma14"]
    fails = replace(holds, claim=other, status="fails", sentence="Fails: eta_Y <= 1e-3 <script>")
    table = verdict_table(replace(report, claims=(*report.claims, fails)))
    places = [table.index(f'data-claim="{id}"') for id in ("lemma14", "lemma13", "figure6")]
    assert places == sorted(places)
    assert "<i>η</i><sub>Y</sub> ≤ 10<sup>−3</sup> &lt;script&gt;" in table


def test_every_answer_has_a_meaning() -> None:
    """Assert an order and a meaning for each answer that `sd.check` gives, and colours for those with a verdict."""
    assert set(ORDER) == set(MEANINGS) == set(STATUSES)
    assert set(COLOURS) < set(ORDER)


def test_corrected_statements_are_marked() -> None:
    """Assert that the answer about Theorem 4, whose printed growth exponent is wrong, says that it was corrected."""
    report = sd.check(sd.syn_small(), eta_Y=1.0, eta_Z=0.01, only=["theorem4", "lemma9"])
    assert statement(report["theorem4"]).endswith("(as corrected)")
    assert "corrected" not in statement(report["lemma9"])
    assert verdict_table(report).count("(as corrected)") == 1
