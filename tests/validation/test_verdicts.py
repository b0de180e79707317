"""Running claims: verdicts from checks, selection, processes, interruptions."""

import dataclasses
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from snapdyn.core.errors import InputError
from snapdyn.validation import Evidence, Measured, Report, load_claims, validate
from snapdyn.validation.results import verdict_of
from snapdyn.validation.store import encoded
from snapdyn.validation.verdicts import check_claim
from tests.validation.helpers import check, checks_of, claim_of


@pytest.mark.parametrize(
    ("checks", "verdict"),
    [
        (checks_of(statement=True, control=False), "holds"),
        (checks_of(statement=True, outside=True, control=False), "holds"),
        (checks_of(statement=True, outside=False, control=False), "conditional"),
        (checks_of(statement=False, corrected=True, control=False), "corrected"),
        (checks_of(statement=False, corrected=False, control=False), "refuted"),
        (checks_of(statement=False, control=False), "refuted"),
        (checks_of(statement=True, corrected=False, control=False), "refuted"),
        (checks_of(statement=True, control=False) + checks_of(control=False), "holds"),
    ],
)
def test_verdict_follows_from_the_checks(checks: list[Measured], verdict: str) -> None:
    """Assert the rule of `verdict_of` on every combination that decides."""
    assert verdict_of(Evidence(checks)) == (verdict, "")


@pytest.mark.parametrize(
    "checks",
    [
        checks_of(statement=True, control=True),
        # Every control counts, not the first alone.
        checks_of(statement=True, control=False) + checks_of(control=True),
        checks_of(statement=True),
        checks_of(control=False),
        [],
        [*checks_of(statement=True), check("control", "test", float("nan"), 1.0, role="control")],
        [*checks_of(statement=True, control=False), check("outside", "test", float("nan"), 1.0, role="outside")],
    ],
)
def test_faulty_evidence_carries_no_verdict(checks: list[Measured]) -> None:
    """Assert that evidence without a control, with one that passes, or with NaN is never as expected."""
    entry = claim_of(expected=verdict_of(Evidence(checks))[0], run=lambda evidence: evidence.checks.extend(checks))
    result = check_claim(entry, "quick")
    assert result.fault.startswith("No verdict is possible")
    assert not result.as_expected


def test_unknown_claim_and_level_are_named_with_a_suggestion() -> None:
    """Assert one sentence for an unknown claim or level, with the nearest name."""
    with pytest.raises(InputError, match="did you mean 'theorem4'"):
        validate(["theorem-4"])
    with pytest.raises(InputError, match="did you mean 'quick'"):
        validate(["lemma8"], level="quik")
    with pytest.raises(InputError, match="at least one claim id, received none"):
        validate([])


# Linear algebra large enough that OpenBLAS shares it among threads, which changes the last digits.
PARALLEL = """
import numpy as np
import snapdyn as sd
import beside

def make(name, seed):
    @sd.claim(name, source="own", title=name, statement="s")
    def run(evidence):
        a = np.random.default_rng(seed).standard_normal((300, 300))
        x = np.linalg.solve(a, a @ a.T)
        if name == "broken":
            raise ZeroDivisionError("by intent")
        evidence.holds("statement", "closed form", np.abs(x).sum() / beside.SCALE, at_most=1.0)
        evidence.control("wrong theory", "closed form", 2.0, at_most=1.0)
        evidence.picture = sd.Picture("x", "y", (sd.Picture.line("x", x[0], x[1]),))
        evidence.tried = 1

for seed, name in enumerate(("one", "broken", "three")):
    make(name, seed)
"""


def bare(report: Report) -> list[str]:
    """Everything that a report holds but its times."""
    return [encoded(dataclasses.replace(result, seconds=0.0)) for result in report.claims]


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


def test_ctrl_c_inside_a_compiled_run_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert the same where the compiled integrator makes the steps, which Ctrl-C ends between two calls of it."""

    def interrupted(*arguments: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("snapdyn.dynamics.integration.solvers.DormandPrinceSolver.advance", interrupted)
    with pytest.raises(KeyboardInterrupt):
        validate(["theorem1b"])


def test_a_seed_may_be_an_integer_of_numpy() -> None:
    """Assert the verdict and the seed of a run with a seed of 8 bits, which JSON does not hold as it is."""
    (result,) = validate("lemma8", seed=np.int8(3), jobs=1).claims
    assert (result.verdict, result.evidence.seed) == ("holds", 3)
