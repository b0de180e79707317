"""`snapdyn figures`: pictures with their data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from snapdyn.commands.options import Level, Load
from snapdyn.commands.terminal import DIFFERS, DONE, progress_bar, show, show_table

if TYPE_CHECKING:
    from snapdyn.validation import Check


def figures(
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Figures; default all.")] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the files.")] = Path("out"),
    level: Level = "quick",
    source: Annotated[
        Path | None, typer.Option("--from", metavar="DATA", help="Draw from a saved .nc, or a folder of them.")
    ] = None,
    runs: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Saved transformer runs, for figures 7 and 10.")
    ] = None,
    unverified: Annotated[
        bool, typer.Option("--unverified", help="Also read data and runs without a digest, of earlier versions.")
    ] = False,
    check: Annotated[bool, typer.Option("--check", help="Also check the claims of each figure on its data.")] = False,
    load: Load = None,
) -> int:
    """Draw figures: picture (PDF, PNG), data (netCDF) and provenance.

    Exit code 1, with --check: the data of a figure contradict its claims.

    Example: snapdyn figures 3 8 9 --out pictures --check
    """
    from snapdyn.figures import draw

    with progress_bar("drawing") as update:
        drawn = draw(
            ids or None, out=out, level=level, progress=update, source=source, runs=runs, unverified=unverified
        )
    show_table(("id", "title", "picture"), [(figure.id, figure.title, str(figure.png)) for figure in drawn])
    if not check:
        return DONE
    rows = [(figure.id, *_check_row(check)) for figure in drawn for check in figure.checks]
    show_table(("id", "claim of the figure", "measured", ""), rows)
    failed = [figure.id for figure in drawn if not figure.as_claimed]
    outcome = f"data contradict the claims of: {', '.join(failed)}" if failed else "all figures show what they claim"
    show(f"{len(rows)} checks; {outcome}")
    return DIFFERS if failed else DONE


def _check_row(check: Check) -> tuple[str, str, str]:
    outcome = "ok" if check.as_expected else "FAILS"
    if check.role == "control":
        outcome = "rejected, as it must be" if check.as_expected else "NOT REJECTED"
    return check.name, check.comparison, outcome
