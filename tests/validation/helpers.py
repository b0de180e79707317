"""Made-up numbers, claims and results of claims."""

from typing import Any

from snapdyn.validation import Claim, ClaimResult, Evidence, Measured
from snapdyn.validation.measured import Role
from snapdyn.validation.register import Verdict


def check(name: str, rung: str, value: float, bound: float, relation: str = "<=", role: Role = "statement") -> Measured:
    """A number against its bound."""
    bounds = {"at_most": bound} if relation == "<=" else {"at_least": bound}
    return Measured(value, **bounds, name=name, rung=rung, role=role)


def checks_of(**passed: bool) -> list[Measured]:
    """Numbers of the named roles that pass or fail as asked."""
    # A control has a number of its own.
    failing = {"control": 2.5}
    return [check(role, "test", 0.0 if ok else failing.get(role, 2.0), 1.0, role=role) for role, ok in passed.items()]


def claim_of(id: str = "x", **facts: Any) -> Claim:
    """A claim with the given facts."""
    return Claim(id, **({"source": "own", "title": "T", "statement": "s"} | facts))


def result_of(verdict: Verdict = "holds", checks: Any = (), evidence: Any = None, **facts: Any) -> ClaimResult:
    """Result of a claim with the given facts, expected to have this verdict unless `expected` is among them."""
    found = Evidence(**({"checks": checks} | (evidence or {})))
    seconds = facts.pop("seconds", float("nan"))
    fault = facts.pop("fault", "")
    return ClaimResult(claim_of(**({"expected": verdict} | facts)), found, verdict, fault, seconds)
