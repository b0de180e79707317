"""The report: every claim, every figure and every derivation on one self-contained HTML page."""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from snapdyn.analytic.symbolic import Derivation, derivations
from snapdyn.dynamics.storage import output_folder, provenance, replacing
from snapdyn.figures import DrawnFigure, claim_svg, draw
from snapdyn.formulas import formula_html
from snapdyn.validation import FINDINGS, Check, Report, validate

# Order of the page: claims at odds with print first. The mark tells verdicts apart without colour.
VERDICTS = {
    "corrected": ("≠", "The printed statement fails; a corrected one holds."),
    "refuted": ("✗", "The printed statement fails, and no correction is offered."),
    "conditional": ("◐", "Holds under stated conditions, fails outside them."),
    "holds": ("✓", "Holds as printed."),
}
ROLES = {
    "statement": "as printed",
    "corrected": "corrected form",
    "outside": "outside its conditions",
    "control": "control: a wrong theory",
}


@dataclass(frozen=True)
class BuiltReport:
    """The page that was written, and the verdicts on it."""

    page: Path
    report: Report


@dataclass(frozen=True)
class VerifiedDerivation:
    """A symbolic derivation with what sympy said about it."""

    derivation: Derivation
    verified: bool
    printed_rejected: bool | None


def build_report(
    out: str | os.PathLike[str] = "report",
    level: str = "quick",
    progress: Callable[[int, int, str], None] | None = None,
) -> BuiltReport:
    """Check every claim, draw every figure, verify every derivation, and write OUT/index.html.

    Parameters
    ----------
    out : path
        Folder, created when missing: index.html (needs no other file), report.json (the verdicts), figures/.
    level : "quick" or "full"
    progress : callable (done, total, what), optional
        Called before each claim and each figure, with its id; `done` starts again with the figures.

    Returns
    -------
    BuiltReport

    Raises
    ------
    InputError
        Unknown level; a folder that cannot be written to.
    """
    started = time.perf_counter()
    folder = output_folder(out)
    report = validate(level=level, progress=progress)
    with replacing(folder / "report.json") as temporary:
        temporary.write_text(report.to_json(), encoding="utf-8")
    figures = draw(out=folder / "figures", level=level, progress=progress)
    verified = [_verify(derivation) for derivation in derivations()]
    page = folder / "index.html"
    text = render(report, figures, verified, time.perf_counter() - started)
    with replacing(page) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return BuiltReport(page, report)


def _verify(derivation: Derivation) -> VerifiedDerivation:
    def accepted(residuals: dict[str, Any]) -> bool:
        return all(residual == 0 for residual in residuals.values())

    return VerifiedDerivation(
        derivation,
        accepted(derivation.verify()),
        None if derivation.printed is None else not accepted(derivation.verify(derivation.printed)),
    )


def render(
    report: Report,
    figures: Sequence[DrawnFigure],
    derivations: Sequence[VerifiedDerivation],
    wall_time: float,
) -> str:
    """HTML text of the page."""
    templates = resources.files("snapdyn") / "templates"
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    filters: dict[str, Callable[..., Any]] = {
        "formula": lambda latex: Markup(formula_html(latex)),
        "svg": lambda picture: Markup(claim_svg(picture)),
        "png": _data_address,
        "number": lambda value: f"{value:.3g}",
        "outcome": _outcome,
    }
    environment.filters.update(filters)
    order = list(VERDICTS)
    claims = sorted(report.claims, key=lambda claim: (claim.as_expected, order.index(claim.verdict)))
    template = environment.from_string((templates / "report.html.j2").read_text(encoding="utf-8"))
    return template.render(
        claims=claims,
        counts={verdict: sum(claim.verdict == verdict for claim in claims) for verdict in order},
        differing=[claim for claim in claims if not claim.as_expected],
        verdicts=VERDICTS,
        roles=ROLES,
        findings=FINDINGS,
        figures=figures,
        derivations=derivations,
        level=report.level,
        facts=provenance(),
        wall_time=wall_time,
        style=Markup((templates / "report.css").read_text(encoding="utf-8")),
    )


def _data_address(path: Path) -> str:
    return "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode()


def _outcome(check: Check) -> tuple[str, str]:
    """CSS class and words for the outcome of a check."""
    if check.role == "control":
        return ("bad", "passed, but must fail") if check.passed else ("good", "rejected as it must be")
    if check.passed:
        return "good", "passed"
    # Outside its conditions a statement may fail: that is the boundary, not a fault.
    return ("neutral", "fails there") if check.role == "outside" else ("bad", "fails")
