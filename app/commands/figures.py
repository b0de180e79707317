"""`snapdyn figures`: pictures with their data."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from snapdyn.commands.options import Jobs, Level, Load, Register
from snapdyn.commands.terminal import DIFFERS, DONE, progress_bar, show, show_table

if TYPE_CHECKING:
    from snapdyn.figures import DrawnFigure
    from snapdyn.validation import Check


def complete_figures(incomplete: str) -> list[str]:
    """Ids of figures."""
    from snapdyn.figures import FIGURES

    return [name for name in FIGURES if name.startswith(incomplete)]


def figures(
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ID]...", help="Figures; default all.", autocompletion=complete_figures),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the files.")] = Path("out"),
    level: Level = "quick",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Parameter of every chosen figure. May be repeated."),
    ] = None,
    width: Annotated[float | None, typer.Option(metavar="IN", help="Width in inches, such as 3.25, 5.5, 7.")] = None,
    style: Annotated[
        str | None,
        typer.Option(metavar="NAME|FILE", help="neurips, icml, jmlr, slides, or a .mplstyle file."),
    ] = None,
    formats: Annotated[
        str, typer.Option("--format", metavar="LIST", help="Formats of the pictures: pdf,svg,png.")
    ] = "png,pdf",
    runs: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Saved transformer runs, for figures 7 and 10; default: those of snapdyn."),
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Also check the claims of each figure on its data.")] = False,
    listed: Annotated[bool, typer.Option("--list", help="List ids, titles and parameters; draw nothing.")] = False,
    jobs: Jobs = None,
    load: Load = None,
    register: Register = None,
) -> int:
    """Draw figures: picture (PDF, PNG), data (netCDF) and provenance.

    Exit code 1, with --check: the data of a figure contradict its claims.

    Example: snapdyn figures 3 --set num_classes=6 --set eta_Z=0.2 --width 3.25 --style icml --out pictures --check
    """
    from snapdyn.core.errors import escaped
    from snapdyn.figures import write
    from snapdyn.figures.gallery import chosen_figures

    if listed:
        return _list(ids)
    given = dict(map(read_setting, settings or []))
    with progress_bar("drawing") as update:
        drawn = write(
            ids or None,
            out=out,
            level=level,
            progress=update,
            runs=runs,
            parameters={entry.id: given for entry in chosen_figures(ids or None)} if given else None,
            width=width,
            style=style,
            formats=[name.strip() for name in formats.split(",")],
            jobs=jobs,
        )
    show_table(("id", "title", "picture"), [(f.id, f.title, escaped(next(iter(f.pictures.values())))) for f in drawn])
    return _show_checks(drawn) if check else DONE


def read_setting(setting: str) -> tuple[str, Any]:
    """Read NAME=VALUE: a number, a list such as 0.5,1,2 or a text; InputError without a name or a value."""
    from snapdyn.core.errors import InputError, shown

    name, equals, value = (part.strip() for part in setting.partition("="))
    if not (name and equals and value):
        raise InputError(f"expected --set NAME=VALUE, received {shown(setting)}; write for example --set eta_Z=0.2")
    for written in (value, f"[{value}]"):
        try:
            return name, tomllib.loads(f"value = {written}")["value"]
        except (tomllib.TOMLDecodeError, ValueError, RecursionError):
            continue
    return name, value


def _list(ids: list[str] | None) -> int:
    from snapdyn.figures.declaration import describe
    from snapdyn.figures.gallery import chosen_figures

    rows = []
    for entry in chosen_figures(ids or None):
        parameters = describe(entry.parameters) or ["no parameters"]
        rows += [(entry.id if not n else "", entry.title if not n else "", text) for n, text in enumerate(parameters)]
    show_table(("id", "title", "parameters with their defaults"), rows)
    return DONE


def _show_checks(drawn: list[DrawnFigure]) -> int:
    rows = [(figure.id, *_check_row(check)) for figure in drawn for check in figure.checks]
    rows += [(figure.id, name, "", "holds for the defaults only") for figure in drawn for name in figure.not_applicable]
    show_table(("id", "claim of the figure", "measured", ""), rows)
    failed = [figure.id for figure in drawn if not figure.as_claimed]
    outcome = f"data contradict the claims of: {', '.join(failed)}" if failed else "all figures show what they claim"
    show(f"{sum(len(figure.checks) for figure in drawn)} checks; {outcome}")
    return DIFFERS if failed else DONE


def _check_row(check: Check) -> tuple[str, str, str]:
    outcome = "ok" if check.as_expected else "FAILS"
    if check.role == "control":
        outcome = "rejected, as it must be" if check.as_expected else "NOT REJECTED"
    return check.name, check.comparison, outcome
