"""The answers of `sd.check` as an HTML table, with mathematics in letters and signs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from snapdyn.report.prose import prose_html

if TYPE_CHECKING:
    from snapdyn.validation import InstanceReport, InstanceResult

# The most serious answers first.
ORDER = ("fails", "undecided", "outside", "holds", "not applicable")
COLOURS = {"fails": "#c0392b", "undecided": "#8f6a00", "outside": "#1b5f8c", "holds": "#1f6f43"}
MEANINGS = {
    "fails": "the statement is wrong on this instance",
    "undecided": "the margin is below the numerical error, or a run failed",
    "outside": "a condition of the statement is not met",
    "holds": "the statement is right on this instance",
    "not applicable": "the statement speaks of something else",
}


def statement(result: InstanceResult) -> str:
    """Title of a claim as HTML, and whether the answer is about the statement as corrected.

    Examples
    --------
    >>> import snapdyn as sd
    >>> from snapdyn.explorer.verdict_table import statement
    >>> statement(sd.check(sd.syn_small(), eta_Y=1.0, eta_Z=0.01, only="theorem1a")["theorem1a"])[-14:]
    '(as corrected)'
    """
    corrected = any(prop.corrected for prop in result.claim.properties)
    return prose_html(result.claim.title) + (" (as corrected)" if corrected else "")


def verdict_table(report: InstanceReport) -> str:
    """Table of id, statement, answer and numbers, one row per claim.

    Parameters
    ----------
    report : InstanceReport

    Returns
    -------
    str
        HTML.

    Examples
    --------
    >>> import snapdyn as sd
    >>> from snapdyn.explorer.verdict_table import verdict_table
    >>> report = sd.check(sd.syn_small(), eta_Y=1.0, eta_Z=0.01, only="lemma13")
    >>> "<code>lemma13</code>" in verdict_table(report)
    True
    """
    cell = 'style="padding: 0.25em 0.8em 0.25em 0; text-align: left; vertical-align: top"'
    rows = [
        f'<tr data-claim="{result.id}"><td {cell}>{statement(result)}<br><small>{prose_html(result.claim.source)}, '
        f'<code>{result.id}</code></small></td><td {cell}><b style="color: {COLOURS.get(result.status, "inherit")}" '
        f'title="{MEANINGS[result.status]}">{result.status}</b></td><td {cell}>{prose_html(result.sentence)}</td></tr>'
        for result in sorted(report.claims, key=lambda result: ORDER.index(result.status))
    ]
    head = "".join(f"<th {cell}>{name}</th>" for name in ("statement", "here", "numbers"))
    return (
        f'<p>{report.summary}</p><div style="overflow-x: auto"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )
