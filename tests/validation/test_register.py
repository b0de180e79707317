"""The register: verdicts, their logic, and that a broken theory or a broken kernel is noticed."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import snapdyn as sd
from snapdyn import analytic
from snapdyn.dynamics import MeanField, integrate, log_times
from snapdyn.errors import InputError
from snapdyn.validation import CLAIMS, Report, load_claims, validate
from snapdyn.validation.observables import drop_below_maximum
from snapdyn.validation.register import claim, first_sentence
from snapdyn.validation.sample_classes import counterexample
from tests.helpers import EXAMPLES, ROOT
from tests.validation.helpers import claim_of

# Every statement of the paper that the register must hold.
REQUIRED = [
    "lemma1",
    "lemma2",
    "lemma3",
    "lemma4",
    "lemma5",
    "remark1",
    "lemma6",
    "lemma7",
    "remark2",
    "lemma8",
    "lemma9",
    "lemma10",
    "lemma11",
    "lemma12",
    "lemma13",
    "lemma14",
    "lemma15",
    "lemma16",
    "lemma17",
    "lemma18",
    "assumption2",
    "theorem1-form",
    "theorem1a",
    "theorem1b",
    "theorem2a",
    "theorem2b",
    "corollary1",
    "corollary2",
    "theorem3-gain",
    "theorem3-bounds",
    "theorem4",
    "theorem5",
    "scanning",
    "snapping",
    "insight-a",
    "insight-b",
    "insight-c",
    "residual",
    "positional-prior",
    "initial-prior",
    "conservation",
    "clock",
]


def test_the_register_is_whole() -> None:
    """Assert that every statement of the paper is in the register."""
    assert set(REQUIRED) - set(CLAIMS) == set()


def test_the_report_is_whole(report: Report) -> None:
    """Assert that a run of all claims gives one result each, in the register's order, and its wall time."""
    assert [result.id for result in report.claims] == list(CLAIMS)
    assert 0 < report.seconds < math.inf


@pytest.mark.parametrize("id_", list(CLAIMS))
def test_verdict_is_the_registers(report: Report, id_: str) -> None:
    """Assert that each claim gets the verdict that the register states, on evidence without fault."""
    result = next(c for c in report.claims if c.id == id_)
    assert (result.verdict, result.fault) == (result.claim.expected, "")


@pytest.mark.parametrize("id_", list(CLAIMS))
def test_every_claim_has_evidence_that_can_fail(report: Report, id_: str) -> None:
    """Assert that each claim has statement checks, a rejected control, a picture and a conclusion."""
    result = next(c for c in report.claims if c.id == id_)
    roles = [check.role for check in result.checks]
    assert "statement" in roles
    assert "control" in roles
    assert all(not check.holds for check in result.checks if check.role == "control")
    assert result.evidence.conclusion
    picture = result.evidence.picture
    assert picture is None or all(np.isfinite(line.y).all() for line in picture.lines)
    # What holds somewhere only comes with a map of where.
    assert result.evidence.map or result.claim.expected != "conditional"
    assert result.claim.latex


@pytest.mark.slow
@pytest.mark.parametrize(
    ("id_", "name", "wrong"),
    [
        ("lemma6", "h", lambda right: lambda s, eta_Y, vocab_size: right(s, 1.001 * eta_Y, vocab_size)),
        ("lemma5", "discrete_h", lambda right: lambda steps, eta, V: 1.0001 * right(steps, eta, V)),
        ("lemma9", "gamma", lambda right: lambda t, eta, V, K: right(t, eta, V, K) * np.log(V)),
        ("theorem4", "growth_exponent", lambda right: lambda *a, form: right(*a, form="printed")),
        ("theorem3-gain", "relative_gain", lambda right: lambda r, dz: right(r, 0.5 * np.asarray(dz))),
    ],
)
def test_a_wrong_closed_form_is_noticed(monkeypatch: pytest.MonkeyPatch, id_: str, name: str, wrong: Any) -> None:
    """Assert that a claim loses its verdict when the closed form behind it is off, by 0.01 % or a factor."""
    monkeypatch.setattr(analytic, name, wrong(getattr(analytic, name)))
    assert not validate([id_]).as_expected


@pytest.mark.slow
def test_a_wrong_right_hand_side_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that Lemma 1 loses its verdict when the mean field's drift is off by one part in 1e6."""
    right = MeanField.derivative
    monkeypatch.setattr(MeanField, "derivative", lambda self, t, y: right(self, t, y) * (1 + 1e-6))
    assert validate(["lemma1"]).claims[0].verdict == "refuted"


def test_the_counterexample_needs_coupled_attention() -> None:
    """Assert that the F10 counterexample is one: its token falls at eta_Z/eta_Y = 0.3, none falls at 1e-3."""
    classes, times = counterexample(), log_times(0.1, 1e4, 100)
    fast, slow = (integrate(MeanField(classes, 1.0, ratio), times) for ratio in (0.3, 1e-3))
    fast_fall, slow_fall = (
        float(drop_below_maximum(run.z[:, 0, classes.distinct_tokens()]).max() / np.abs(run.z).max())
        for run in (fast, slow)
    )
    assert fast_fall > 0.1
    assert slow_fall == 0.0


def test_a_sentence_does_not_end_at_the_name_of_an_equation() -> None:
    """Assert whole sentences in headlines and answers: "Eq. (10)" and "Fig. 3" belong to theirs."""
    text = "It moves under Eq. (10) twice as far, see Fig. 3 (a). The rest follows."
    assert first_sentence(text) == ("It moves under Eq. (10) twice as far, see Fig. 3 (a).", "The rest follows.")
    for entry in CLAIMS.values():
        first, rest = first_sentence(entry.conclusion)
        for sentence in (first, first_sentence(rest)[0]):
            assert not sentence.endswith(("Eq.", "Eqs.", "Fig.", "Figs.", "Sec.", "App."))


def test_json_has_the_contract_of_the_command_line(report: Report) -> None:
    """Assert the shape of the JSON report and that `passed` of a control says the wrong theory was rejected."""
    document = json.loads(report.to_json())
    assert [entry["id"] for entry in document["claims"]] == list(CLAIMS)
    for entry in document["claims"]:
        assert {"id", "source", "title", "verdict", "checks"} <= set(entry)
        assert entry["verdict"] in ("holds", "corrected", "conditional", "refuted")
        for check in entry["checks"]:
            assert {"name", "rung", "measured", "bound", "passed"} <= set(check)
            assert check["role"] != "control" or check["passed"] is True


@pytest.mark.parametrize("file", sorted((ROOT / "validation" / "claims").glob("*/*.py")), ids=lambda file: file.stem)
def test_a_file_of_the_claims_is_short(file: Path) -> None:
    """Assert at most 350 lines: a claim and its measures are one file."""
    assert len(file.read_text().splitlines()) <= 350


def test_a_claim_id_is_registered_once() -> None:
    """Assert that a second claim with the same id is refused, and so is a verdict that is none."""
    with pytest.raises(InputError, match="expected a new name for a claim, received 'lemma6'"):
        claim("lemma6", source="", title="", statement="", latex="")(lambda evidence: None)
    with pytest.raises(InputError, match="did you mean 'holds'"):
        claim_of("new", expected="hold")


def test_a_notebooks_cell_may_run_again() -> None:
    """Assert that a claim of a notebook replaces the one of its id, and none of the package."""

    for title in ("old", "new"):
        claim("own", source="", title=title, statement="")(lambda evidence: None)
    assert CLAIMS["own"].title == "new"
    sd.register(claim_of("own", title="newer"))
    assert CLAIMS["own"].title == "newer"
    with pytest.raises(InputError, match="expected a new name for a claim"):
        sd.register(claim_of("lemma6"))


DECORATED = '@sd.claim("{id}", source="", title="", statement="")\ndef f(evidence): pass\n'


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "expected a Python file, received '{file}' (No such file or directory); check the path"),
        ("x = 1\ny = = 2\n", "received '{file}' with an error in line 2: invalid syntax"),
        ("x = '\0'\n", "source code string cannot contain null bytes"),
        ("import snapdyn as sd\n\nsd.no_such_name\n", "received AttributeError in line 3 of mine.py: module 'snapdyn'"),
        ("import numpy\nimport no_such_module\n", "received ModuleNotFoundError in line 2 of mine.py: No module named"),
        ("import sys\nsys.exit('bye')\n", "received SystemExit in line 2 of mine.py: bye"),
        ("x = 1\n", "received none; decorate a function with @snapdyn.claim"),
        ("import snapdyn as sd\n" + DECORATED.format(id="lemma6"), "line 2 of mine.py: expected a new name for"),
        ("import snapdyn as sd\n" + 2 * DECORATED.format(id="new"), "line 4 of mine.py: expected a new name for"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_loaded(text: str | None, sentence: str, tmp_path: Path) -> None:
    """Assert one sentence with the line and the error, and the register as it was."""
    before = dict(CLAIMS)
    file = tmp_path / "mine.py"
    if text is not None:
        file.write_text(text)
    with pytest.raises(InputError) as caught:
        load_claims(file)
    assert sentence.format(file=file) in str(caught.value)
    assert str(caught.value).count("\n") == 0
    assert dict(CLAIMS) == before
    assert not any(name.startswith("snapdyn_loaded") for name in sys.modules)


def test_loading_again_replaces(tmp_path: Path) -> None:
    """Assert that a file may be loaded again, and that its claims are then those of the new text."""
    file = tmp_path / "mine.py"
    for id_ in ("old", "new"):
        file.write_text("import snapdyn as sd\n" + DECORATED.format(id=id_))
        assert load_claims(file) == [id_]
    assert "old" not in CLAIMS
    assert CLAIMS["new"].file == str(file)


@pytest.mark.parametrize("level", ["quick", "full"])
def test_the_example_of_a_claim_of_ones_own(level: str) -> None:
    """Assert that examples/my_claims.py loads, holds, and names the command that repeats it."""
    file = EXAMPLES / "my_claims.py"
    assert load_claims(file) == ["common-tokens-fall"]
    (result,) = validate(["common-tokens-fall"], level=level).claims
    assert (result.outcome, result.as_expected) == ("holds", True)
    assert result.command == f"snapdyn validate common-tokens-fall --level {level} --load {file}"
