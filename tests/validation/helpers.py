"""Checks that pass or fail as asked."""

from __future__ import annotations

from snapdyn.validation import Check
from snapdyn.validation.checks import Role


def checks_of(**passed: bool) -> list[Check]:
    roles: dict[str, Role] = {
        "statement": "statement",
        "corrected": "corrected",
        "outside": "outside",
        "control": "control",
    }
    # A control has a number of its own.
    failing = {"control": 2.5}
    return [
        Check(name, "test", 0.0 if ok else failing.get(name, 2.0), 1.0, role=roles[name]) for name, ok in passed.items()
    ]
