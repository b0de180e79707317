"""What the command line shows: sentences, tables, progress. Plain text wherever it is not a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

# Wide enough that nothing is wrapped or cut when the output goes to a file or another program.
PIPE_WIDTH = 10_000
# Exit codes; what each means is in `snapdyn.commands.main`.
DONE, DIFFERS, BAD_INPUT, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143
SECONDS_BETWEEN_LINES = 60.0


def say(sentence: str) -> None:
    """Print one sentence on stderr."""
    print(f"snapdyn: {_visible(sentence)}", file=sys.stderr)


def show(text: str, end: str = "\n") -> None:
    """Print text on stdout; every command prints through this function or `show_table`."""
    print(_visible(text), end=end)


def _visible(text: str) -> str:
    from snapdyn.errors import visible  # here, since it loads numpy

    return visible(text)


def show_table(columns: Sequence[str], rows: Sequence[Sequence[str]], styles: Sequence[str] | None = None) -> None:
    """Print a table on stdout: aligned columns, with lines and a style per row on a terminal."""
    console = _console()
    # Sources such as "[own]" are text, not markup.
    table = Table(box=None, pad_edge=False, header_style="bold", show_header=True)
    for name in columns:
        table.add_column(name, overflow="fold")
    for number, row in enumerate(rows):
        table.add_row(*map(_visible, row), style=styles[number] if styles and console.is_terminal else None)
    console.print(table)


def _console() -> Console:
    console = Console(markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    return console


def prepare(target: Path) -> None:
    """Check, before a computation starts, that a file can be written; say so where its folder had to be made."""
    from snapdyn.dynamics.files.storage import output_folder

    made = not target.parent.exists()
    output_folder(target.parent, target.name)
    if made:
        say(f"made the folder {str(target.parent)!r} for {target.name}")


def format_of(format: str | None, output: Path | None) -> str | None:
    """Format in which answers are printed or written: that asked for, else by the file's ending; None: a table."""
    if format or not output:
        return format
    endings = {".tex": "latex", ".json": "json", ".txt": "text", "": "text"}
    if output.suffix.lower() not in endings:
        from snapdyn.errors import InputError

        raise InputError(
            f"expected --output FILE to end in .tex, .json or .txt, received {output.name!r}; or give --format"
        )
    return endings[output.suffix.lower()]


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[float, float, str], None]]:
    """Yield ``update(done, total, label)`` for a bar on stderr; a line a minute when stderr is not a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines(what)
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    what_is_done, rate = TextColumn("{task.description}", markup=False), TextColumn("{task.fields[pace]}")
    columns = (what_is_done, BarColumn(), TimeElapsedColumn(), rate)
    measure = Pace()
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=None, pace="")

        def update(done: float, total: float, label: str) -> None:
            count = f" {done:.0f}/{total:.0f}" if total > 1 else ""
            shown = _visible(f"{what}{count} {label}")
            bar.update(task, completed=done, total=total, description=shown, pace=measure(done, total))

        yield update


def of_integration(update: Callable[[float, float, str], None]) -> Callable[[float, float], None]:
    """The progress (t, fraction) of `integrate`, shown by the update of a bar."""
    return lambda t, fraction: update(fraction, 1.0, f"t = {t:.3g}")


class Pace:
    """`pace` of a command of several parts: each part, which has a total of its own, starts a new measurement."""

    def __init__(self) -> None:
        self._started = self._last = time.monotonic()
        self._done = self._total = 0.0

    def __call__(self, done: float, total: float) -> str:
        if total != self._total or done < self._done:
            self._started = self._last
        self._done, self._total, self._last = done, total, time.monotonic()
        return pace(done, total, self._last - self._started)


def pace(done: float, total: float, seconds: float) -> str:
    """Rate of a count and about the remaining time, as text; empty before anything is done.

    Parameters
    ----------
    done, total : float
        A count, or a share of 1.
    seconds : float
        Time that `done` took.

    Examples
    --------
    >>> pace(20, 50, 100.0)
    '12 a minute, about 2.5 min left'
    """
    if done <= 0 or seconds < 1:
        return ""
    left = seconds * max(0.0, total - done) / done
    rest = f"about {_duration(left)} left"
    if total <= 1:
        return rest
    each, unit = done / seconds, "a second"
    for slower in ("a minute", "an hour"):
        if each < 1:
            each, unit = 60 * each, slower
    return f"{each:.3g} {unit}, {rest}"


def _duration(seconds: float) -> str:
    for name, unit in (("s", 60.0), ("min", 60.0), ("h", 24.0)):
        if seconds < 1.5 * unit:
            return f"{seconds:.2g} {name}"
        seconds /= unit
    return f"{seconds:.2g} days"


def _lines(what: str) -> Callable[[float, float, str], None]:
    """What a batch job's log shows of a long run."""
    last, measure = time.monotonic(), Pace()

    def update(done: float, total: float, label: str) -> None:
        nonlocal last
        rate = measure(done, total)
        if time.monotonic() - last >= SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            count = f"{done:.0f}/{total:.0f}" if total > 1 else f"{done:.0%}"
            say(", ".join(filter(None, (f"{what} {count} {label}".rstrip(), rate))))

    return update
