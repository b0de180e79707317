"""Verdicts as a plain-text and as a LaTeX table, in the order of the register."""

from __future__ import annotations

import math
import re
import unicodedata

from snapdyn.core.errors import printable, visible
from snapdyn.core.prose import pieces
from snapdyn.validation.measured import REQUIRED, Measured
from snapdyn.validation.results import ClaimResult, Report

COLUMNS = ("id", "source", "statement", "verdict", "measured against bound", "rung")
NO_CHECK = ("-", "-")
# Marks of a partial result in a file, of any form.
PARTIAL_TABLE, PARTIAL_JSON = "Partial result of an interrupted run", '"complete": false'
LATEX_HEAD = r"""% Needs \usepackage{booktabs,longtable,array} in the preamble.
% Verdicts of snapdyn, level LEVEL: for each claim the check that decides its verdict.
\begingroup\small
\begin{longtable}{@{}>{\raggedright}p{0.17\linewidth}>{\raggedright}p{0.16\linewidth}>{\raggedright}p{0.20\linewidth}
  >{\raggedright}p{0.13\linewidth}>{\raggedright\arraybackslash}p{0.20\linewidth}@{}}
\toprule
Id & Source & Statement & Verdict & Measured against bound \\
\midrule
\endhead
\bottomrule
\endlastfoot
"""
# Characters that TeX reads as commands, or that its default font shows as other characters.
SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
}
LOWER, UPPER = "αβγδεζηθικλμνξπρστυφχψω", "ΓΔΘΛΞΠΣΥΦΨΩ"
NAMES = {letter: unicodedata.name(letter).split()[-1].replace("LAMDA", "LAMBDA") for letter in LOWER + UPPER}
GREEK = {
    letter: rf"\ensuremath{{\{name.lower() if letter in LOWER else name.capitalize()}}}"
    for letter, name in NAMES.items()
}
SYMBOLS = {
    "≤": r"\ensuremath{\le}",
    "≥": r"\ensuremath{\ge}",
    "≠": r"\ensuremath{\ne}",
    "±": r"\ensuremath{\pm}",
    "×": r"\ensuremath{\times}",
    "·": r"\ensuremath{\cdot}",
    "→": r"\ensuremath{\to}",
    "∞": r"\ensuremath{\infty}",
    "–": "--",
    "—": "---",
    "“": "``",
    "”": "''",
    "‘": "`",
    "’": "'",
    "§": r"\S{}",
    "−": r"\ensuremath{-}",
    "≪": r"\ensuremath{\ll}",
    "≫": r"\ensuremath{\gg}",
    "⇒": r"\ensuremath{\Rightarrow}",
    "∑": r"\ensuremath{\sum}",
    "∫": r"\ensuremath{\int}",
    "√": r"\ensuremath{\surd}",
    "′": r"\ensuremath{'}",
    "²": r"\textsuperscript{2}",
    "⁴": r"\textsuperscript{4}",
    "\u00a0": r"\nobreakspace{}",
    "\u0303": r"\ensuremath{\tilde{}}",
    "\u0304": r"\ensuremath{\bar{}}",
    "…": r"\ldots{}",
}
# Letters below this code point, such as é and š, are in every font of TeX.
LATIN = 0x180
ESCAPES = SPECIAL | GREEK | SYMBOLS
LATEX_RELATIONS = {"<=": r"\le", ">=": r"\ge"}


def text_table(report: Report) -> str:
    """Aligned columns of plain text: id, source, title, verdict, measured against bound, rung; then the counts.

    A verdict comes with its grade and the number of instances that were searched.
    """
    rows = [
        (result.id, result.claim.source, " ".join(result.claim.title.split()), _verdict(result), *_measured(result))
        for result in report.claims
    ]
    widths = [max(len(row[column]) for row in (COLUMNS, *rows)) for column in range(len(COLUMNS))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (COLUMNS, tuple("-" * width for width in widths), *rows)
    ]
    partial = [] if report.complete else [_partial(report)]
    return visible("\n".join([*lines, "", report.summary, *partial]) + "\n")


def _partial(report: Report) -> str:
    return f"{PARTIAL_TABLE}; not checked: {', '.join(report.missing)}"


def is_partial(text: str) -> bool:
    """Whether a text that `text_table`, `latex_table` or `Report.to_json` made is of an interrupted run."""
    return PARTIAL_TABLE in text or PARTIAL_JSON in text


def latex_table(report: Report) -> str:
    """LaTeX longtable with the rules of booktabs, for \\input: id, source, title, verdict, measured against bound."""
    rows = []
    for result in report.claims:
        check = result.decisive
        measured = "--"
        if check is not None:
            measured = f"{latex_comparison(check)} ({latex_text(check.rung)})"
        cells = (
            latex_id(result.id),
            *map(latex_words, (result.claim.source, result.claim.title, _verdict(result))),
            measured,
        )
        rows.append(" & ".join(cells) + r" \\")
    comment = ""
    if not report.complete:
        comment = f"% {latex_text(_partial(report))}.\n"
        rows.append(
            rf"\multicolumn{{5}}{{@{{}}l}}{{\emph{{{PARTIAL_TABLE}; {len(report.missing)} claims are missing.}}}} \\"
        )
    head = comment + LATEX_HEAD.replace("LEVEL", report.level)
    return head + "\n".join([*rows, r"\end{longtable}\endgroup"]) + "\n"


def _verdict(result: ClaimResult) -> str:
    outcome = result.outcome if result.as_expected else f"{result.outcome} (register: {result.claim.expected})"
    if result.fault:
        return outcome
    return f"{outcome}, {result.claim.grade}{f' ({result.evidence.tried:,})' if result.evidence.tried else ''}"


def _measured(result: ClaimResult) -> tuple[str, str]:
    check = result.decisive
    if check is None:
        return NO_CHECK
    relation = check.relation if check.holds else {"<=": "not <=", ">=": "not >="}[check.relation]
    return check.comparison.replace(check.relation, relation), check.rung


def latex_text(text: str, keep_ends: bool = False) -> str:
    """Text on one line with TeX's special characters escaped; a character that TeX's fonts lack becomes "?"."""
    line = re.sub(r"\s+", " ", text) if keep_ends else " ".join(text.split())
    escaped = (ESCAPES.get(letter, letter if ord(letter) < LATIN else "?") for letter in printable(line))
    return re.sub("-(?=-)", "-{}", "".join(escaped)) if "--" in text else "".join(escaped)


def latex_words(text: str) -> str:
    """Text as `latex_text` gives it; mathematics, such as eta_Y and V >= 10 K^2, becomes letters and indices."""
    commands = {"text": "", "italic": r"\textit", "sub": r"\textsubscript", "sup": r"\textsuperscript"}
    parts = ((commands[kind], latex_text(part, keep_ends=True)) for kind, part in pieces(" ".join(text.split())))
    return "".join(f"{command}{{{part}}}" if command else part for command, part in parts if part)


def latex_comparison(number: Measured) -> str:
    """The measured number and its bound: as a relation where the bound is kept, in words where it is not."""
    measured, bound = f"${latex_number(number.value)}$", f"${latex_number(number.bound)}$"
    if number.holds:
        return f"{measured[:-1]} {LATEX_RELATIONS[number.relation]} {bound[1:]}"
    return f"{measured}, {REQUIRED[number.relation]} {bound}"


def latex_id(id: str) -> str:
    """Id in typewriter letters; a line may break after its hyphens."""
    return rf"\texttt{{{latex_text(id).replace('-', '-' + chr(92) + 'allowbreak{}')}}}"


def latex_number(value: float) -> str:
    """Number with three digits for math mode, with a power of ten instead of "e"."""
    if math.isnan(value):
        return r"\mathrm{NaN}"
    if math.isinf(value):
        return r"\infty" if value > 0 else r"-\infty"
    text = f"{value:.3g}"
    match = re.fullmatch(r"(-?[\d.]+)e([+-]\d+)", text)
    if match is None:
        return text
    mantissa, exponent = match[1], int(match[2])
    power = f"10^{{{exponent}}}"
    return {"1": power, "-1": f"-{power}"}.get(mantissa, rf"{mantissa}\times {power}")
