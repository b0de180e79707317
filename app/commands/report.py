"""`snapdyn report`: everything on one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from snapdyn.commands.options import Jobs, Level, Load, Register
from snapdyn.commands.terminal import DIFFERS, DONE, progress_bar, say, show


def report(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the page.")] = Path("report"),
    level: Level = "quick",
    jobs: Jobs = None,
    load: Load = None,
    register: Register = None,
) -> int:
    """Check every claim, draw every figure, and write one self-contained page, DIR/index.html.

    Exit code 1: a verdict is not the one in the register. Claims of snapdyn that an interrupted run finished
    are not checked again.

    Example: snapdyn report --out report
    """
    from snapdyn.core.errors import escaped
    from snapdyn.report.page import build_report

    with progress_bar("reporting") as update:
        built = build_report(out, level, update, jobs, say)
    for result in built.report.claims:
        if result.fault:
            say(result.fault)
    show(f"{escaped(built.page)}: {built.report.summary}")
    return DONE if built.report.as_expected else DIFFERS
