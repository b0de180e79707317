"""The register: verdicts, their logic, and that a broken theory or a broken kernel is noticed."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from snapdyn import analytic
from snapdyn.dynamics import (
    FrozenDecoder,
    InputError,
    MeanField,
    ModifiedDecoder,
    SingleCommonToken,
    System,
    integrate,
    log_times,
)
from snapdyn.validation import CLAIMS, Check, Report, validate
from snapdyn.validation.claims.attention import counterexample
from snapdyn.validation.register import Claim, Evidence, claim
from snapdyn.validation.results import Role
from snapdyn.validation.run import check_claim, verdict_of
from snapdyn.validation.tools import growth_rate, largest_fall

REGISTERED = [
    "lemma1",
    "lemma2",
    "lemma3",
    "lemma5",
    "lemma6",
    "lemma7",
    "lemma8",
    "lemma9",
    "lemma4",
    "theorem2a",
    "theorem2b",
    "theorem3-gain",
    "theorem3-bounds",
    "theorem4",
    "conservation",
    "remark1",
    "theorem1b",
    "theorem1-form",
    "clock",
    "momentum-clock",
    "orders",
    "ladder",
    "slow-attention",
    "figure6",
]


@pytest.fixture(scope="module")
def report() -> Report:
    """One quick run of the whole register, for every test of this file."""
    return validate()


def test_the_register_is_whole(report: Report) -> None:
    """Assert that the register holds these claims and no others."""
    assert sorted(result.id for result in report.claims) == sorted(REGISTERED)


@pytest.mark.parametrize("id_", REGISTERED)
def test_verdict_is_the_registers(report: Report, id_: str) -> None:
    """Assert that each claim gets the verdict that the register states, on evidence without fault."""
    result = next(c for c in report.claims if c.id == id_)
    assert (result.verdict, result.fault) == (result.expected, "")


@pytest.mark.parametrize("id_", REGISTERED)
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
    ],
)
def test_verdict_follows_from_the_checks(checks: list[Check], verdict: str) -> None:
    """Assert the rule of `verdict_of` on every combination that decides."""
    assert verdict_of(Evidence(checks)) == (verdict, "")


@pytest.mark.parametrize(
    "checks",
    [
        _checks(statement=True, control=True),
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
    report = validate(["lemma8", "lemma5"], progress=lambda *args: seen.append(args))
    assert [c.id for c in report.claims] == ["lemma5", "lemma8"]
    assert seen == [(0, 2, "lemma5"), (1, 2, "lemma8"), (2, 2, "")]


def test_unknown_claim_and_level_are_named_with_a_suggestion() -> None:
    """Assert one sentence for an unknown claim or level, with the nearest name."""
    with pytest.raises(InputError, match="did you mean 'theorem4'"):
        validate(["theorem-4"])
    with pytest.raises(InputError, match="did you mean 'quick'"):
        validate(["lemma8"], level="quik")


def test_a_claim_id_is_registered_once() -> None:
    """Assert that a second claim with the same id is refused."""
    with pytest.raises(ValueError, match="expected a new claim id"):
        claim("lemma6", source="", title="", statement="", latex="")


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
    with pytest.raises(KeyboardInterrupt):
        validate([id_])
