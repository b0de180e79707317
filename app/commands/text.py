"""`snapdyn text`: sequence classes of a text, their mean field, and what Theorems 2 and 3 say about it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Literal

import typer

from snapdyn.commands.options import options_as_typed
from snapdyn.commands.terminal import DIFFERS, DONE, INTERRUPTED, progress_bar, say


def text(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Text files, plain or gzip, or folders.")],
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Write classes, run, table and picture.")] = None,
    window: Annotated[int, typer.Option(help="Contextual words before the query, T-1.")] = 8,
    min_count: Annotated[int, typer.Option(help="Windows that a class needs.")] = 30,
    min_token_count: Annotated[int, typer.Option(help="Rarer words become <unk>.")] = 5,
    max_vocab: Annotated[int | None, typer.Option(help="At most so many words.")] = None,
    max_classes: Annotated[int, typer.Option(help="At most so many classes, the most frequent.")] = 1000,
    tokens: Annotated[
        Literal["auto", "spaces", "words"], typer.Option(help="What a word is; spaces: as WikiText comes.")
    ] = "auto",
    headings: Annotated[Literal["drop", "keep"], typer.Option(help="Lines such as ' = Title = '.")] = "drop",
    eta_Y: Annotated[float, typer.Option("--eta-y", help="Rate of the decoder.")] = 1.0,
    eta_Z: Annotated[float, typer.Option("--eta-z", help="Rate of attention.")] = 0.1,
    last_time: Annotated[
        float | None, typer.Option("--time", help="Last t in batch-size-1 steps; default: past the transition.")
    ] = None,
) -> int:
    """Turn text into sequence classes and show which words win and lose attention, for which next word.

    A class is a query word and the word that follows it; its contextual words are those of the window before
    the query. The mean field is integrated to the time at which the theory's speed gamma of a class of average
    weight has passed its peak.

    Example: snapdyn text wikitext-2 --out wikitext
    """
    from snapdyn.commands import summaries
    from snapdyn.dynamics.files.storage import output_folder
    from snapdyn.dynamics.text.text_classes import from_text
    from snapdyn.errors import positive
    from snapdyn.figures.files import file_names

    started = time.perf_counter()
    for name, value in (("--eta-y", eta_Y), ("--eta-z", eta_Z), ("--time", 1.0 if last_time is None else last_time)):
        positive(name, value)
    folder = (
        output_folder(out, "classes.nc", "trajectory.nc", "words.csv", *file_names("words").values()) if out else None
    )
    with options_as_typed("window", "min_count", "min_token_count", "max_vocab"), progress_bar("reading") as update:
        classes = from_text(paths, window, min_count, min_token_count, max_vocab, max_classes, tokens, headings, update)
    summaries.show_classes(classes)
    if folder:
        classes.save(folder / "classes.nc")
    run = summaries.integrated(classes, eta_Y, eta_Z, last_time)
    if run.t.size > 1:  # what was reached before a failure or Ctrl-C is shown and kept
        summaries.show_theorems(run)
        summaries.show_words(run, classes)
        if folder:
            summaries.write_files(folder, run, classes, started)
    if run.status == "failed":
        say(run.message)
    return {"interrupted": INTERRUPTED, "failed": DIFFERS}.get(run.status, DONE)
