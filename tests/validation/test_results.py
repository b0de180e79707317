"""Results and reports: numbers beside their bounds, JSON."""

from __future__ import annotations

import json
import math

import numpy as np

from snapdyn.validation import Check, ClaimResult
from snapdyn.validation.assumptions import Condition
from snapdyn.validation.register import Claim, Evidence
from snapdyn.validation.verdicts import check_claim
from tests.validation.helpers import checks_of


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

    def run(evidence: Evidence) -> None:
        evidence.checks += checks_of(statement=True, control=False)
        evidence.conditions.append(condition)
        evidence.seeds += range(3)
        evidence.tried = 7

    entry = Claim("a b", "", "", "", "", "holds", run, file="my claims.py")
    document = json.loads(json.dumps(check_claim(entry, "full").to_dict(), allow_nan=False))
    assert document["command"] == "snapdyn validate 'a b' --level full --load 'my claims.py'"
    assert document["level"] == "full"
    assert (document["seeds"], document["tried"]) == ([0, 1, 2], 7)
    assert document["signal_over_tolerance"] == 2.5
    assert 0 <= document["seconds"] < 60
    assert document["conditions"] == [
        {"name": "weak correlation", "required": "< 1/K", "bound": 0.5, "measured": "inf", "met": False}
    ]
