"""The report: every claim, every figure and every derivation on one self-contained HTML page."""

from __future__ import annotations

import html
import io
import math
import os
import re
import time
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from markupsafe import Markup

from snapdyn.analytic.symbolic import Derivation, derivation_of, derivations, ids_of_users
from snapdyn.core.errors import InputError, shown, visible
from snapdyn.core.parallel import map_in_processes
from snapdyn.dynamics.files.storage import output_folder, provenance, replacing
from snapdyn.figures.claim_pictures import claim_svg, map_svg
from snapdyn.figures.gallery import write
from snapdyn.figures.output import DrawnFigure
from snapdyn.report.mathematics import formula_html, prose_html
from snapdyn.validation import CLAIMS, ClaimResult, Measured, Report
from snapdyn.validation.claims import chosen_claims
from snapdyn.validation.claims.equations import EquationRow, derivation_verdict, equation_table
from snapdyn.validation.pictures import Map, Picture
from snapdyn.validation.register_folder import OURS, register_in_use
from snapdyn.validation.results import NO_VERDICT
from snapdyn.validation.store import finished_claims
from snapdyn.validation.verdicts import checked

# Order of the page: claims that differ from the statement as given first. Marks distinguish verdicts without colour.
VERDICTS = {
    NO_VERDICT: ("!", "The evidence is invalid or incomplete."),
    "corrected": ("≠", "The statement as given fails; a corrected one holds."),
    "refuted": ("✗", "The statement fails, and no correction is offered."),
    "conditional": ("◐", "Holds under stated conditions and fails outside them."),
    "holds": ("✓", "Holds as given."),
}
GROUPS = {
    "Other verdict than recorded": (),
    "Differs from the statement as given": ("corrected", "refuted"),
    "Holds under conditions": ("conditional",),
    "Holds as given": ("holds",),
}
# Order inside a group, by the first words of the source; what is not named here comes last.
IMPORTANCE = ("Theorem", "Corollary", "Assumption", "Section", "Lemma", "Eq", "Remark", "Fig")
FIRST_SCREEN = 5
ROLES = {
    "statement": "The statement as given",
    "corrected": "The corrected statement",
    "outside": "The statement outside its conditions: the boundary",
    "control": "Controls: wrong theories, which must be rejected",
}


@dataclass(frozen=True)
class BuiltReport:
    """The page that was written, and its verdicts.

    Attributes
    ----------
    page : Path
        The HTML file.
    report : Report
        The results of all claims.
    """

    page: Path
    report: Report


@dataclass(frozen=True)
class VerifiedDerivation:
    """A symbolic derivation and sympy's verdict on it.

    Attributes
    ----------
    derivation : Derivation
        The derivation.
    verified : bool
        Whether every residual of the formula is 0.
    printed_rejected : bool or None
        Whether the printed form has a residual that is not 0; None where the paper prints the same formula, or
        the formula itself is not verified.
    """

    derivation: Derivation
    verified: bool
    printed_rejected: bool | None


def build_report(
    out: str | os.PathLike[str] = "report",
    level: str = "quick",
    progress: Callable[[int, int, str], None] | None = None,
    jobs: int | None = None,
    notify: Callable[[str], None] | None = None,
) -> BuiltReport:
    """Check every claim, draw every figure, verify every derivation, and write OUT/index.html.

    Parameters
    ----------
    out : str or os.PathLike
        Folder for index.html (which needs no other file), report.json (the verdicts) and figures/; created if it
        does not exist.
    level : {"quick", "full"}
        Effort for claims and figures.
    progress : callable, optional
        Called as progress(done, total, what), with the ids of the running claims and then with each figure;
        `done` restarts at 0 for the figures.
    jobs : int, optional
        Processes; default all cores.
    notify : callable, optional
        Called as notify(sentence) when claims of an interrupted run are reused, and when results cannot be saved
        for reuse.

    Returns
    -------
    BuiltReport
        The path of the page, and the results of all claims.

    Raises
    ------
    InputError
        If the level is unknown, or the folder cannot be written to.
    """
    started = time.perf_counter()
    folder = output_folder(out, "report.json", "index.html")
    unnamed = _of_no_claim()  # first, since an error in one ends the command
    # Finished claims are saved until the page is written, so that a run after an interruption can reuse them.
    with finished_claims(notify) as finished:
        report = checked(chosen_claims(None), level, progress, jobs, finished)
        with replacing(folder / "report.json") as temporary:
            temporary.write_text(report.to_json(), encoding="utf-8")
        figures = write(out=folder / "figures", level=level, progress=progress, jobs=jobs)
        verified = [*(_verify(derivation) for derivation in _derivations(report)), *unnamed]
        page = folder / "index.html"
        text = render(report, figures, verified, time.perf_counter() - started, jobs)
        with replacing(page) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return BuiltReport(page, report)


def _derivations(report: Report) -> Sequence[Derivation]:
    """Return the derivations that faultless claims name, and with snapdyn's own register all of snapdyn."""
    ours = derivations() if register_in_use() is OURS else ()
    proved = (id_ for result in report.claims if not result.fault for id_ in result.claim.proved)
    return list({each.id: each for each in (*ours, *map(derivation_of, proved))}.values())


def _of_no_claim() -> list[VerifiedDerivation]:
    """Verify the derivations of a user's files that no claim names."""
    named = {id_ for entry in chosen_claims(None) for id_ in entry.proved}
    found = []
    for id_ in ids_of_users():
        if id_ in named:
            continue
        try:
            found.append(_verify(derivation_of(id_)))
        except Exception as error:  # code of a user
            raise InputError(
                f"expected the derivation {id_} to be one that sympy can verify, received {type(error).__name__}: "
                f"{shown(str(error))}; correct it"
            ) from error
    return found


def _verify(derivation: Derivation) -> VerifiedDerivation:
    verdict = derivation_verdict(derivation.id)
    known = derivation.printed is not None and verdict != "refuted"
    return VerifiedDerivation(derivation, verdict != "refuted", verdict == "corrected" if known else None)


def render(
    report: Report,
    figures: Sequence[DrawnFigure],
    derivations: Sequence[VerifiedDerivation],
    wall_time: float,
    jobs: int | None = 1,
) -> str:
    """Return the page as HTML text.

    Parameters
    ----------
    report : Report
        Results of the claims.
    figures : sequence of DrawnFigure
        The figures, drawn.
    derivations : sequence of VerifiedDerivation
        The derivations, verified.
    wall_time : float
        Seconds that claims, figures and derivations took.
    jobs : int, optional
        Processes that draw the pictures of claims; None: all cores.

    Returns
    -------
    str
        The page; it needs no other file.
    """
    import jinja2

    templates = resources.files("snapdyn.report") / "templates"
    counts, register = report.count(), register_in_use()
    pictures = {
        (result.id, kind): picture
        for result in report.claims
        for kind, picture in (("picture", result.evidence.picture), ("map", result.evidence.map))
        if picture is not None
    }
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters.update(FILTERS)
    page = environment.from_string((templates / "report.html.j2").read_text(encoding="utf-8")).render(
        claims=report.claims,
        svgs=dict(zip(pictures, map_in_processes(_svg, list(pictures.values()), jobs), strict=True)),
        counts={outcome: counts.get(outcome, 0) for outcome in VERDICTS if outcome in counts or outcome != NO_VERDICT},
        groups=_groups(report),
        headlines=headlines(report),
        differing=[result for result in report.claims if not result.as_expected],
        verdicts=VERDICTS,
        roles=ROLES,
        register=register,
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
    return visible(page)


def _groups(report: Report) -> dict[str, list[ClaimResult]]:
    """Return the claims under each heading of the page; a heading without claims is left out."""
    groups: dict[str, list[ClaimResult]] = {heading: [] for heading in GROUPS}
    for result in sorted(report.by_outcome, key=importance):
        fitting = (heading for heading, verdicts in GROUPS.items() if result.as_expected and result.verdict in verdicts)
        groups[next(fitting, next(iter(GROUPS)))].append(result)
    return {heading: results for heading, results in groups.items() if results}


def headlines(report: Report) -> list[ClaimResult]:
    """Return the claims of the first screen: those with a headline and the recorded verdict, by rank."""
    ranked = [
        (result.claim.headline.rank, result) for result in report.claims if result.claim.headline and result.as_expected
    ]
    return [result for _, result in sorted(ranked, key=lambda entry: entry[0])][:FIRST_SCREEN]


def importance(result: ClaimResult) -> tuple[int, int]:
    """Return the place of a claim in its group: headlines by rank, then by source, theorems first."""
    claim = result.claim
    kind = next((i for i, word in enumerate(IMPORTANCE) if claim.source.startswith(word)), len(IMPORTANCE))
    return claim.headline.rank if claim.headline else len(CLAIMS), kind


def _equations(report: Report) -> Sequence[EquationRow]:
    """Return the rows of the table of equations if the whole register was run, else none."""
    whole = {result.id for result in report.claims} >= set(CLAIMS)
    return equation_table(report.claims) if whole else ()


# How the template shows numbers, outcomes, formulas and pictures.


def number(value: float, digits: int = 3) -> Markup | str:
    """Return a number as text with `digits` digits, powers of ten such as 2·10<sup>7</sup> where they are shorter."""
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    return Markup(prose_html(f"{value:.{digits}g}"))


def outcome(check: Measured) -> tuple[str, str]:
    """Return the CSS class and the words for the outcome of a check."""
    if check.role == "control":
        return ("bad", "passed, but must fail") if check.holds else ("good", "rejected, as required")
    if check.holds:
        return "good", "passed"
    # Outside its conditions a statement may fail: that is the boundary, not a fault.
    return ("neutral", "fails outside its conditions") if check.role == "outside" else ("bad", "fails")


def _svg(picture: Picture | Map) -> Markup:
    return Markup(claim_svg(picture) if isinstance(picture, Picture) else map_svg(picture))


FILTERS: dict[str, Callable[..., Any]] = {
    "formula": lambda latex: Markup(formula_html(latex)),
    "prose": lambda text: Markup(prose_html(text)),
    "image": lambda figure: Markup(figure_image(figure.png, figure.title)),
    "number": number,
    "seconds": lambda seconds: f"{seconds:.1f} s" if seconds < 60 else f"{seconds / 60:.1f} min",
    "place": lambda source: re.split(r", Eqs?\.|;", source)[0],
    "outcome": outcome,
}


# Of the 17 figures, all are smaller as PNG with this many colours than as SVG, and they need no font of the reader's.
COLOURS = 64
WIDE = 5.0  # inches, above which a figure takes the whole width of a printed page


def figure_image(path: Path, alternative: str) -> str:
    """Return a figure as an <img> that needs no other file.

    Parameters
    ----------
    path : Path
        The PNG.
    alternative : str
        Text for readers who do not see it.

    Returns
    -------
    str
        The picture with COLOURS colours.
    """
    from PIL import Image

    written = io.BytesIO()
    with Image.open(path) as image:
        picture, dots = image.convert("RGB"), image.info.get("dpi", (96,))[0]
    picture.quantize(COLOURS, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE).save(
        written, format="png", optimize=True
    )
    source = "data:image/png;base64," + b64encode(written.getvalue()).decode()
    size = f'width="{picture.width}" height="{picture.height}"'
    size += ' class="wide"' if picture.width > WIDE * dots else ""  # on paper, half a page would make its text tiny
    return f'<img src="{source}" {size} alt="{html.escape(alternative)}" loading="lazy">'
