"""The register: verdicts, their logic, and that a broken theory or a broken kernel is noticed."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from snapdyn import analytic
from snapdyn.dynamics import FrozenDecoder, MeanField, ModifiedDecoder, SingleCommonToken, System, integrate, log_times
from snapdyn.errors import InputError
from snapdyn.validation import CLAIMS, Check, ClaimResult, Report, load_claims, validate
from snapdyn.validation.assumptions import Condition
from snapdyn.validation.checks import Role
from snapdyn.validation.claims.attention import counterexample
from snapdyn.validation.dense_algebra import growth_rate
from snapdyn.validation.observables import largest_fall
from snapdyn.validation.register import Claim, Evidence, claim
from snapdyn.validation.run import check_claim, verdict_of
from snapdyn.validation.store import encoded
from tests.helpers import EXAMPLES

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
    assert (result.verdict, result.fault) == (result.expected, "")


@pytest.mark.parametrize("id_", list(CLAIMS))
def test_every_claim_has_evidence_that_can_fail(report: Report, id_: str) -> None:
    """Assert that each claim has statement checks, a rejected control, a picture and a conclusion."""
    result = next(c for c in report.claims if c.id == id_)
    roles = [check.role for check in result.checks]
    assert "statement" in roles
    assert "control" in roles
    assert all(not check.passed for check in result.checks if check.role == "control")
    assert result.conclusion
    assert result.picture is not None
    assert all(line.x.shape == line.y.shape and np.isfinite(line.y).all() for line in result.picture.lines)
    # What holds somewhere only comes with a map of where.
    assert result.maps or result.expected != "conditional"
    assert result.latex


def _checks(**passed: bool) -> list[Check]:
    roles: dict[str, Role] = {
        "statement": "statement",
        "corrected": "corrected",
        "outside": "outside",
        "control": "control",
    }
    return [Check(name, "test", 0.0 if ok else 2.0, 1.0, role=roles[name]) for name, ok in passed.items()]


@pytest.mark.parametrize(
    ("checks", "verdict"),
    [
        (_checks(statement=True, control=False), "holds"),
        (_checks(statement=True, outside=True, control=False), "holds"),
        (_checks(statement=True, outside=False, control=False), "conditional"),
        (_checks(statement=False, corrected=True, control=False), "corrected"),
        (_checks(statement=False, corrected=False, control=False), "refuted"),
        (_checks(statement=False, control=False), "refuted"),
        (_checks(statement=True, corrected=False, control=False), "refuted"),
        (_checks(statement=True, control=False) + _checks(control=False), "holds"),
    ],
)
def test_verdict_follows_from_the_checks(checks: list[Check], verdict: str) -> None:
    """Assert the rule of `verdict_of` on every combination that decides."""
    assert verdict_of(Evidence(checks)) == (verdict, "")


@pytest.mark.parametrize(
    "checks",
    [
        _checks(statement=True, control=True),
        # Every control counts, not the first alone.
        _checks(statement=True, control=False) + _checks(control=True),
        _checks(statement=True, control=True) + _checks(control=False),
        _checks(statement=True),
        _checks(control=False),
        [],
        [*_checks(statement=True), Check("control", "test", float("nan"), 1.0, role="control")],
        [*_checks(statement=True), Check("control", "test", float("inf"), 1.0, role="control")],
        [*_checks(statement=True, control=False), Check("outside", "test", float("nan"), 1.0, role="outside")],
    ],
)
def test_faulty_evidence_carries_no_verdict(checks: list[Check]) -> None:
    """Assert that evidence without a control, with one that passes, or with NaN is never as expected."""
    entry = Claim("x", "", "", "", "", verdict_of(Evidence(checks))[0], lambda level: Evidence(checks))
    result = check_claim(entry, "quick")
    assert result.fault.startswith("No verdict is possible")
    assert not result.as_expected


def test_nan_never_passes() -> None:
    """Assert that a check whose measurement is NaN fails in both directions."""
    assert not Check("a", "test", float("nan"), 1.0).passed
    assert not Check("a", "test", float("nan"), 1.0, ">=").passed


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


def test_a_wrong_right_hand_side_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that Lemma 1 loses its verdict when the mean field's drift is off by one part in 1e6."""
    right = MeanField.derivative
    monkeypatch.setattr(MeanField, "derivative", lambda self, t, y: right(self, t, y) * (1 + 1e-6))
    assert validate(["lemma1"]).claims[0].verdict == "refuted"


def test_the_counterexample_needs_coupled_attention() -> None:
    """Assert that the F10 counterexample is one: its token falls at eta_Z/eta_Y = 0.3, none falls at 1e-3."""
    classes, times = counterexample(), log_times(0.1, 1e4, 100)
    fast, slow = (integrate(MeanField(classes, 1.0, ratio), times) for ratio in (0.3, 1e-3))
    assert largest_fall(fast, classes.distinct_tokens()) > 0.1
    assert largest_fall(slow, classes.distinct_tokens()) == 0.0


def test_growth_rate_is_positive_and_printed_sign_differs() -> None:
    """Assert xi_n > 0 with the exact beta, and that the printed sign in (88) gives other numbers (F5)."""
    classes = counterexample()
    z, h = np.zeros((1, classes.num_tokens)), np.full(3, 3.0 / 173)
    exact, printed = growth_rate(classes, z, h), growth_rate(classes, z, h, "printed")
    assert (exact > 0).all()
    assert np.abs(printed / exact - 1).max() > 1e-3


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


def test_selection_keeps_the_order_of_the_register_and_reports_progress() -> None:
    """Assert that `only` selects, in the register's order, and that progress runs from 0 to the total."""
    seen: list[tuple[int, int, str]] = []
    report = validate(["lemma8", "lemma5"], progress=lambda *args: seen.append(args), jobs=1)
    assert [c.id for c in report.claims] == ["lemma5", "lemma8"]
    assert seen == [(0, 2, "lemma5"), (1, 2, "lemma8"), (2, 2, "")]


def test_unknown_claim_and_level_are_named_with_a_suggestion() -> None:
    """Assert one sentence for an unknown claim or level, with the nearest name."""
    with pytest.raises(InputError, match="did you mean 'theorem4'"):
        validate(["theorem-4"])
    with pytest.raises(InputError, match="did you mean 'quick'"):
        validate(["lemma8"], level="quik")
    with pytest.raises(InputError, match="at least one claim id, received none"):
        validate([])


def test_a_claim_id_is_registered_once() -> None:
    """Assert that a second claim with the same id is refused, and so is a verdict that is none."""
    with pytest.raises(InputError, match="expected a new claim id, received 'lemma6'"):
        claim("lemma6", source="", title="", statement="", latex="")(lambda level: Evidence(()))
    with pytest.raises(InputError, match="did you mean 'holds'"):
        claim("new", source="", title="", statement="", expected="hold")  # type: ignore[arg-type]


@pytest.fixture
def restored() -> Iterator[None]:
    """Leave the register as it was."""
    before = dict(CLAIMS)
    yield
    CLAIMS.clear()
    CLAIMS.update(before)


@pytest.mark.usefixtures("restored")
def test_a_notebooks_cell_may_run_again() -> None:
    """Assert that the same function of a notebook replaces its claim, and another function does not."""

    def run(level: str) -> Evidence:
        return Evidence(())

    def other(level: str) -> Evidence:
        return Evidence(())

    run.__module__ = other.__module__ = "__main__"
    for title in ("old", "new"):
        claim("own", source="", title=title, statement="")(run)
    assert CLAIMS["own"].title == "new"
    with pytest.raises(InputError, match="expected a new claim id"):
        claim("own", source="", title="", statement="")(other)


# Linear algebra large enough that OpenBLAS shares it among threads, which changes the last digits.
PARALLEL = """
import numpy as np
import snapdyn as sd
import beside

def make(name, seed):
    @sd.claim(name, source="own", title=name, statement="s")
    def run(level):
        a = np.random.default_rng(seed).standard_normal((300, 300))
        x = np.linalg.solve(a, a @ a.T)
        if name == "broken":
            raise ZeroDivisionError("by intent")
        return sd.Evidence([
            sd.Check("statement", "closed form", np.abs(x).sum() / beside.SCALE, 1.0),
            sd.Check("wrong theory", "closed form", 2.0, 1.0, role="control"),
        ], picture=sd.Picture("x", "y", (sd.Picture.line("x", x[0], x[1]),)), seeds=[seed], tried=1)

for seed, name in enumerate(("one", "broken", "three")):
    make(name, seed)
"""


def bare(report: Report) -> list[str]:
    """Everything that a report holds but its times."""
    return [encoded(dataclasses.replace(result, seconds=0.0)) for result in report.claims]


@pytest.mark.usefixtures("restored")
def test_the_numbers_do_not_depend_on_the_number_of_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert every bit alike in this process and in two others, and that a claim that raises stops no other."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "beside.py").write_text("SCALE = 1e9\n")
    (tmp_path / "mine.py").write_text(PARALLEL)
    ids = load_claims(tmp_path / "mine.py")
    seen: list[tuple[int, int, str]] = []
    here = validate(ids, jobs=1)
    there = validate(reversed(ids), jobs=2, progress=lambda *args: seen.append(args))
    assert bare(here) == bare(there)
    assert [result.id for result in there.claims] == ids == ["one", "broken", "three"]
    assert [result.outcome for result in there.claims] == ["holds", "no verdict", "holds"]
    fault = there.claims[1].fault
    assert fault == (
        "No verdict is possible: claim 'broken' raised ZeroDivisionError in line 12 of mine.py: by intent."
    )
    assert not there.as_expected
    assert [(done, total) for done, total, _ in seen] == [(0, 3), (1, 3), (2, 3), (3, 3)]
    assert [names.count(",") for _, _, names in seen] == [1, 1, 0, 0]
    assert seen[-1][2] == ""


def test_a_claim_that_returns_something_else_gets_no_verdict() -> None:
    """Assert one sentence for a function that forgets to return its evidence."""
    entry = Claim("x", "", "", "", "", "refuted", lambda level: None)  # type: ignore[arg-type,return-value]
    result = check_claim(entry, "quick")
    assert result.fault == "No verdict is possible: claim 'x' returned NoneType instead of Evidence."
    assert not result.as_expected


def test_jobs_must_be_a_positive_number() -> None:
    """Assert one sentence for a number of processes that is none."""
    with pytest.raises(InputError, match="jobs to be a whole number of at least 1, received 0"):
        validate(["lemma8"], jobs=0)


DECORATED = '@sd.claim("{id}", source="", title="", statement="")\ndef f(level): pass\n'


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
        ("import snapdyn as sd\n" + DECORATED.format(id="lemma6"), "line 2 of mine.py: expected a new claim id"),
        ("import snapdyn as sd\n" + 2 * DECORATED.format(id="new"), "line 4 of mine.py: expected a new claim id"),
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


@pytest.mark.usefixtures("restored")
def test_loading_again_replaces(tmp_path: Path) -> None:
    """Assert that a file may be loaded again, and that its claims are then those of the new text."""
    file = tmp_path / "mine.py"
    for id_ in ("old", "new"):
        file.write_text("import snapdyn as sd\n" + DECORATED.format(id=id_))
        assert load_claims(file) == [id_]
    assert "old" not in CLAIMS
    assert CLAIMS["new"].file == str(file)


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize("level", ["quick", "full"])
def test_the_example_of_a_claim_of_ones_own(level: str) -> None:
    """Assert that examples/my_claims.py loads, holds, and names the command that repeats it."""
    file = EXAMPLES / "my_claims.py"
    assert load_claims(file) == ["common-tokens-fall"]
    (result,) = validate(["common-tokens-fall"], level=level).claims
    assert (result.outcome, result.as_expected) == ("holds", True)
    assert result.command == f"snapdyn validate common-tokens-fall --level {level} --load {file}"
    assert result.picture is not None


@pytest.mark.parametrize(
    ("measured", "relation", "bound", "excess"),
    [
        (5.0, "<=", 2.0, 2.5), (2.0, ">=", 5.0, 2.5), (1.0, "<=", 2.0, 0.5), (4.0, ">=", 2.0, 0.5),
        # Negative numbers by their size: as for (-measured, the other relation, -bound).
        (-2.0, "<=", -5.0, 2.5), (-5.0, ">=", -2.0, 2.5), (-5.0, "<=", -2.0, 0.4),
        # No factor leads from one side of 0 to the other.
        (1e-9, "<=", 0.0, math.inf), (-1e-9, ">=", 0.0, math.inf), (1.0, "<=", -1.0, math.inf),
        (-1.0, ">=", 1.0, math.inf), (0.0, ">=", 1.0, math.inf), (0.0, "<=", 0.0, 0.0), (-1.0, "<=", 0.0, 0.0),
        (-1.0, "<=", 1.0, 0.0), (1.0, ">=", 0.0, 0.0), (math.inf, "<=", 1.0, math.inf),
    ],
)  # fmt: skip
def test_distance_to_the_bound(measured: float, relation: Any, bound: float, excess: float) -> None:
    """Assert how many times beyond its bound a number lies, and that this agrees with whether the check passes."""
    check = Check("a", "test", measured, bound, relation)
    assert check.excess == pytest.approx(excess, rel=1e-15)
    assert check.passed == (excess <= 1)


@pytest.mark.parametrize(
    ("measured", "bound", "text"),
    [
        (0.123456, 1.0, "0.123 <= 1"),
        (1.0042, 1.0, "1.004 <= 1"),
        (1.0000001, 1.0, "1.0000001 <= 1"),
        (1234567.0, 1234568.0, "1234567 <= 1234568"),
        (0.05, 0.05, "0.05 <= 0.05"),
        (math.nan, 1.0, "nan <= 1"),
    ],
)
def test_comparison_tells_the_numbers_apart(measured: float, bound: float, text: str) -> None:
    """Assert three digits, and more where three would show two different numbers as one."""
    assert Check("measured", "", measured, bound).comparison == text


def test_signal_is_that_of_the_weakest_control() -> None:
    """Assert that signal over tolerance looks at controls only, takes the smallest, and is NaN without one."""

    def signal(*checks: Check) -> float:
        return ClaimResult("x", "", "", "", "", (), "holds", "holds", checks).signal

    statement = Check("a", "test", 1e-3, 1.0)
    controls = [Check("b", "test", value, 1.0, role="control") for value in (7.0, 3.0)]
    symbolic = Check("c", "symbolic", 1, 0, role="control")
    assert signal(statement, *controls, symbolic) == 3.0
    assert signal(statement, symbolic) == math.inf
    assert math.isnan(signal(statement))


def test_a_result_says_how_to_repeat_it_and_on_what_it_rests() -> None:
    """Assert that JSON has command, time, seeds, instances, conditions and signal, all as JSON proper."""
    condition = Condition("weak correlation", "< 1/K", 0.5, math.inf, np.False_)
    evidence = Evidence(_checks(statement=True, control=False), conditions=[condition], seeds=range(3), tried=7)
    entry = Claim("a b", "", "", "", "", "holds", lambda level: evidence, file="my claims.py")
    document = json.loads(json.dumps(check_claim(entry, "full").to_dict(), allow_nan=False))
    assert document["command"] == "snapdyn validate 'a b' --level full --load 'my claims.py'"
    assert document["level"] == "full"
    assert (document["seeds"], document["tried"]) == ([0, 1, 2], 7)
    assert document["signal_over_tolerance"] == 2.0
    assert 0 <= document["seconds"] < 60
    assert document["conditions"] == [
        {"name": "weak correlation", "required": "< 1/K", "bound": 0.5, "measured": "inf", "satisfied": False}
    ]


@pytest.mark.parametrize("id_", ["conservation", "theorem2a", "theorem3-bounds", "theorem4", "lemma3"])
def test_ctrl_c_inside_a_claim_is_not_swallowed(monkeypatch: pytest.MonkeyPatch, id_: str) -> None:
    """Assert that Ctrl-C during an integration stops the claim instead of a verdict on half a run."""
    calls = 0

    def interrupted(self: System, state: Any, out: Any) -> float:
        nonlocal calls
        calls += 1
        if calls == 200:
            raise KeyboardInterrupt
        return real[type(self)](self, state, out)

    kinds = (MeanField, ModifiedDecoder, FrozenDecoder, SingleCommonToken)
    real = {kind: kind.write_rate for kind in kinds}
    for kind in kinds:
        monkeypatch.setattr(kind, "write_rate", interrupted)
    # scipy's route, which asks the system for its rate; the compiled one has it inside.
    monkeypatch.setattr("snapdyn.dynamics.integration.methods.is_compiled", lambda system: False)
    with pytest.raises(KeyboardInterrupt):
        validate([id_])
