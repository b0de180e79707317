"""Made-up numbers, claims and results of claims."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from snapdyn.validation import Claim, ClaimResult, Evidence, Measured
from snapdyn.validation.measured import Role
from snapdyn.validation.register import Verdict

with_latex = pytest.mark.skipif(shutil.which("pdflatex") is None, reason="LaTeX is not installed")


def typeset(folder: Path, table: str, preamble: str = "") -> str:
    """What pdflatex says of a paper with this table, which must compile."""
    (folder / "table.tex").write_text(table, encoding="utf-8")
    (folder / "paper.tex").write_text(
        r"\documentclass{article}\usepackage{booktabs,longtable,array}"
        rf"{preamble}\begin{{document}}\input{{table}}\end{{document}}"
    )
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=120)
    assert ended.returncode == 0, ended.stdout[-2000:]
    return ended.stdout


def differences(function: Callable[[Any], float], at: Any, step: float = 1e-5) -> Any:
    """Central differences of a function of an array in each of its entries."""
    moves = step * np.eye(at.size).reshape(at.size, *at.shape)
    return np.array([(function(at + d) - function(at - d)) / (2 * step) for d in moves]).reshape(at.shape)


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
