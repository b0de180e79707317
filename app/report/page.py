"""The report: every claim, every figure and every derivation on one self-contained HTML page."""

from __future__ import annotations

import base64
import io
import math
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from snapdyn.analytic.symbolic import Derivation, derivations
from snapdyn.dynamics.storage import output_folder, provenance, replacing
from snapdyn.figures import DrawnFigure, claim_svg, draw
from snapdyn.report.formulas import formula_html
from snapdyn.validation import CLAIMS, FINDINGS, Check, ClaimResult, Map, Report
from snapdyn.validation.equations import EquationRow, derivation_verdict, equation_table
from snapdyn.validation.results import NO_VERDICT
from snapdyn.validation.run import check_claims, report_of
from snapdyn.validation.store import finished_claims

# Order of the page: claims at odds with print first. The mark tells verdicts apart without colour.
VERDICTS = {
    NO_VERDICT: ("!", "The evidence itself is at fault."),
    "corrected": ("≠", "The printed statement fails; a corrected one holds."),
    "refuted": ("✗", "The printed statement fails, and no correction is offered."),
    "conditional": ("◐", "Holds under stated conditions, fails outside them."),
    "holds": ("✓", "Holds as printed."),
}
GROUPS = {
    "Not what the register expects": (),
    "Disagrees with print": ("corrected", "refuted"),
    "Holds under conditions": ("conditional",),
    "Holds as printed": ("holds",),
}
THUMBNAIL_WIDTH = 320  # pixels
ROLES = {
    "statement": "The statement as printed",
    "corrected": "The corrected statement",
    "outside": "The statement outside its conditions: the boundary",
    "control": "Controls: wrong theories, which must be rejected",
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
    jobs: int | None = None,
    tell: Callable[[str], None] | None = None,
) -> BuiltReport:
    """Check every claim, draw every figure, verify every derivation, and write OUT/index.html.

    Parameters
    ----------
    out : path
        Folder, created when missing: index.html (needs no other file), report.json (the verdicts), figures/.
    level : "quick" or "full"
    progress : callable (done, total, what), optional
        Called with the ids of the claims that run, and with each figure; `done` starts again with the figures.
    jobs : int, optional
        Processes that check claims; default all cores.
    tell : callable (sentence), optional
        Told of claims taken over from an interrupted run, and of trouble with keeping them.

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
    # Finished claims are kept until the page is written: whatever stops the rest, they are not computed again.
    with finished_claims(tell) as finished:
        results = list(check_claims(None, level, progress, jobs, finished))
        report = report_of(level, results, started, finished)
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
    verdict = derivation_verdict(derivation.id)
    known = derivation.printed is not None and verdict != "refuted"
    return VerifiedDerivation(derivation, verdict != "refuted", verdict == "corrected" if known else None)


def render(
    report: Report,
    figures: Sequence[DrawnFigure],
    derivations: Sequence[VerifiedDerivation],
    wall_time: float,
) -> str:
    """HTML text of the page."""
    templates = resources.files("snapdyn.report") / "templates"
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    filters: dict[str, Callable[..., Any]] = {
        "formula": lambda latex: Markup(formula_html(latex)),
        "svg": lambda picture: Markup(claim_svg(picture)),
        "map_svg": _map_svg,
        "png": _data_address,
        "thumbnail": _thumbnail,
        "number": _number,
        "seconds": lambda seconds: f"{seconds:.1f} s" if seconds < 60 else f"{seconds / 60:.1f} min",
        "ranges": ranges,
        "outcome": _outcome,
    }
    environment.filters.update(filters)
    counts = report.count()
    template = environment.from_string((templates / "report.html.j2").read_text(encoding="utf-8"))
    return template.render(
        claims=report.claims,
        counts={outcome: counts.get(outcome, 0) for outcome in VERDICTS if outcome in counts or outcome != NO_VERDICT},
        groups=_groups(report),
        differing=[claim for claim in report.claims if not claim.as_expected],
        verdicts=VERDICTS,
        roles=ROLES,
        findings=FINDINGS,
        figures=figures,
        derivations=derivations,
        equations=_equations(report),
        level=report.level,
        infinity=math.inf,
        notes=report.notes,
        claims_time=report.seconds,
        facts=provenance(),
        wall_time=wall_time,
        style=Markup((templates / "report.css").read_text(encoding="utf-8")),
    )


def _groups(report: Report) -> dict[str, list[ClaimResult]]:
    """Claims under the headings of the page, without the headings that have none."""
    groups: dict[str, list[ClaimResult]] = {heading: [] for heading in GROUPS}
    for claim in report.by_outcome:
        fitting = (heading for heading, verdicts in GROUPS.items() if claim.as_expected and claim.verdict in verdicts)
        groups[next(fitting, next(iter(GROUPS)))].append(claim)
    return {heading: claims for heading, claims in groups.items() if claims}


def _map_svg(map: Map) -> Markup:
    from snapdyn.figures.validity_maps import map_svg

    return Markup(map_svg(map))


def _equations(report: Report) -> Sequence[EquationRow]:
    """Rows of the table of equations, when the whole register was run."""
    whole = {claim.id for claim in report.claims} >= set(CLAIMS)
    return equation_table(report.claims) if whole else ()


def _number(value: float, digits: int = 3) -> Markup | str:
    """So many digits, with powers of ten as people write them where they save room."""
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    text = f"{value:.{digits}g}"
    mantissa, _, exponent = text.partition("e")
    if not exponent or 0 < int(exponent) < 5:
        return f"{float(text):.{max(digits, 6)}g}"
    power = f"10<sup>{int(exponent)}</sup>"
    return Markup(power if mantissa == "1" else f"{mantissa}·{power}")


def ranges(numbers: Iterable[int]) -> str:
    """Whole numbers as text, runs of neighbours shortened: 0-4, 7."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(f"{first}" if first == last else f"{first}-{last}" for first, last in runs)


def _data_address(path: Path) -> str:
    return _png_address(path.read_bytes())


def _png_address(data: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(data).decode()


def _thumbnail(path: Path) -> str:
    """The picture at THUMBNAIL_WIDTH pixels, as an address."""
    from PIL import Image

    small = io.BytesIO()
    with Image.open(path) as image:
        image.convert("RGB").resize(
            (THUMBNAIL_WIDTH, round(image.height * THUMBNAIL_WIDTH / image.width)), Image.Resampling.LANCZOS
        ).save(small, format="png", optimize=True)
    return _png_address(small.getvalue())


def _outcome(check: Check) -> tuple[str, str]:
    """CSS class and words for the outcome of a check."""
    if check.role == "control":
        return ("bad", "passed, but must fail") if check.passed else ("good", "rejected as it must be")
    if check.passed:
        return "good", "passed"
    # Outside its conditions a statement may fail: that is the boundary, not a fault.
    return ("neutral", "fails there") if check.role == "outside" else ("bad", "fails")
