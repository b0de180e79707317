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
    return [Check(name, "test", 0.0 if ok else 2.0, 1.0, role=roles[name]) for name, ok in passed.items()]
