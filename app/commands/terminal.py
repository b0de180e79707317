"""What the command line shows: sentences, tables, progress. It is plain text where the output is not a terminal."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from textwrap import wrap

from rich.console import Console
from rich.table import Table

# Exit codes; what each means is in `snapdyn.commands.main`.
DONE, DIFFERS, BAD_INPUT, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143
SECONDS_BETWEEN_LINES = 60.0
LEAST_ROOM = 20  # letters of the last column of a table with a width


def say(sentence: str) -> None:
    """Print one sentence on stderr, in one line."""
    from snapdyn.core.errors import printable  # here, since it loads numpy

    print(f"snapdyn: {printable(sentence)}", file=sys.stderr)


def show(text: str, end: str = "\n") -> None:
    """Print text on stdout; every command prints through this function or `show_table`."""
    print(_visible(text), end=end)


def show_saved(*files: Path) -> None:
    """Print where the results are, in one line, whatever characters the names hold."""
    from snapdyn.core.errors import escaped

    show(f"saved      {', '.join(map(escaped, files))}")


def _visible(text: str) -> str:
    from snapdyn.core.errors import visible

    return visible(text)


def show_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], styles: Sequence[str] | None = None, width: int | None = None
) -> None:
    """Print a table on stdout: aligned columns, folded and with a style per row on a terminal.

    With `width` the last column is broken into lines, so that no line is longer, unless the other columns leave less
    than LEAST_ROOM.
    """
    if width is not None:
        room = width - sum(2 + max(map(len, column)) for column in list(zip(columns, *rows, strict=True))[:-1])
        broken = []
        for row in rows:
            for line in wrap(row[-1], max(room, LEAST_ROOM)) or [""]:
                broken.append((*row[:-1], line))
                row = [""] * len(row)  # the other columns stand beside the first line alone
        rows = broken
    console = Console(markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        shown = [[_visible(cell) for cell in row] for row in (columns, *rows)]
        widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
        lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in shown)
        show("\n".join(lines))
        return
    # Sources such as "[own]" are text, not markup.
    table = Table(box=None, pad_edge=False, header_style="bold", show_header=True)
    for name in columns:
        table.add_column(name, overflow="fold")
    for number, row in enumerate(rows):
        table.add_row(*map(_visible, row), style=styles[number] if styles else None)
    console.print(table)


def prepare(target: Path) -> None:
    """Check, before a computation starts, that a file can be written; say so where its folder had to be made."""
    from snapdyn.dynamics.files.storage import output_folder

    made = not os.path.exists(target.parent)
    output_folder(target.parent, target.name)
    if made:
        say(f"made the folder {str(target.parent)!r} for {target.name}")


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[float, float, str], None]]:
    """Yield ``update(done, total, label)`` for a bar on stderr; a line a minute when stderr is not a terminal."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeRemainingColumn(), TextColumn("left"))
    last = time.monotonic()
    # A new total is a new part of the command, of which the time is measured anew.
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal, speed_estimate_period=math.inf
    ) as bar:
        task = bar.add_task(what, total=None)

        def update(done: float, total: float, label: str) -> None:
            nonlocal last
            count = f"{done:.0f}/{total:.0f}" if total > 1 else f"{done:.0%}"
            shown = _visible(f"{what} {count} {label}".rstrip())
            bar.update(task, completed=done, total=total, description=shown)
            if bar.disable and time.monotonic() - last >= SECONDS_BETWEEN_LINES:
                last, seconds = time.monotonic(), bar.tasks[task].time_remaining
                say(shown + (f", about {timedelta(seconds=round(seconds))} left" if seconds else ""))

        yield update


def integration_progress(update: Callable[[float, float, str], None]) -> Callable[[float, float], None]:
    """Return the progress function (t, fraction) for `integrate` that updates a bar."""
    return lambda t, fraction: update(fraction, 1.0, f"t = {t:.3g}")
