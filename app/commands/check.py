"""`snapdyn check`: every statement of the register on the user's instance."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from snapdyn.commands.options import Load, Register
from snapdyn.commands.terminal import DIFFERS, DONE, INTERRUPTED, progress_bar, say, show, show_table


def check(
    file: Annotated[Path, typer.Argument(metavar="FILE.toml", help="See examples/check_own_classes.toml.")],
    format: Annotated[
        Literal["text", "latex", "json"] | None,
        typer.Option(help="Print the answers in this format instead: plain text, a table for a paper, JSON."),
    ] = None,
    theorems: Annotated[bool, typer.Option("--theorems", help="Leave out lemmas, remarks and assumptions.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if a statement fails.")] = False,
    load: Load = None,
    register: Register = None,
) -> int:
    """Check every statement of the register on your classes, rates and duration.

    Each statement gets one of five answers: it holds here; it fails here; your instance is outside its conditions (the
    answer names the one that is not met); it is not applicable (the answer says what it is about); or it is undecided
    (the margin is below the numerical error).

    Example: snapdyn check examples/check_own_classes.toml

    Example: snapdyn check examples/check_own_classes.toml --theorems --format latex > table.tex
    """
    from snapdyn.experiments.run_files import read_check
    from snapdyn.validation.instance_checks import CheckInterrupted

    instance = read_check(file)
    interrupted = False
    with progress_bar("checking") as update:
        try:
            report = instance.run(update)
        except CheckInterrupted as stop:
            report, interrupted = stop.report, True
    if theorems:
        report = report.theorems()
    texts = {"text": report.to_text, "latex": report.to_latex, "json": report.to_json}
    if format:
        show(texts[format](), end="")
    else:
        show(report.summary)
        rows = report.in_order()
        styles = {"fails": "bold red", "undecided": "yellow", "outside": "cyan", "not applicable": "dim"}
        show_table(
            ("id", "statement", "here", "why"),
            [(result.id, result.claim.title, result.verdict, result.explanation) for result in rows],
            [styles.get(result.status, "none") for result in rows],
        )
    if interrupted:
        say(f"interrupted {report.settings['interrupted']}")
        return INTERRUPTED
    if strict and report.fails:
        say(f"fails here: {', '.join(result.id for result in report.fails)}")
        return DIFFERS
    return DONE
