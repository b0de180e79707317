"""`snapdyn text`: sequence classes of a text, their mean field, and what Theorems 2 and 3 say about it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from snapdyn.commands.options import options_as_typed
from snapdyn.commands.terminal import DIFFERS, DONE, INTERRUPTED, progress_bar, say, show_saved

MOST_WINDOWS = 8000  # of which the mean field is integrated; more are drawn from


def text(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Text files, plain or gzip, or folders.")],
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder for the classes, the integrated run and the table of words."),
    ] = None,
    min_count: Annotated[int, typer.Option(help="Fewest windows of a class.")] = 30,
    min_token_count: Annotated[int, typer.Option(help="Rarer words become <unk>.")] = 5,
    max_vocab: Annotated[int | None, typer.Option(help="Largest number of words.")] = None,
    max_classes: Annotated[int, typer.Option(help="Largest number of classes; the most frequent are kept.")] = 1000,
    tokens: Annotated[
        Literal["auto", "spaces", "words"], typer.Option(help="What counts as a word; spaces: text between spaces.")
    ] = "auto",
) -> int:
    """Turn text into sequence classes and show which words win and lose attention, for which next word.

    A class is a query word and the word that follows it; its contextual words are those of the window before
    the query. The mean field of the classes, for infinitely long sequences, is integrated to the time at which the
    theory's speed gamma of a class of average weight has passed its peak. The words that win and lose attention are
    those of the mean field of the windows as they are, which agrees with training on the windows.

    Example: snapdyn text wikitext-2 --out wikitext
    """
    from snapdyn.commands import summaries
    from snapdyn.dynamics.files.storage import output_folder
    from snapdyn.dynamics.text.text_classes import from_text

    folder = output_folder(out, "classes.nc", "trajectory.nc", "words.csv") if out else None
    read = partial(
        from_text, paths, min_count=min_count, min_token_count=min_token_count, max_vocab=max_vocab,
        max_classes=max_classes, tokens=tokens,
    )  # fmt: skip
    with options_as_typed("min_count", "min_token_count", "max_vocab"), progress_bar("reading") as update:
        classes = read(progress=update)
    summaries.show_classes(classes)
    end = summaries.peak_time(classes)
    saved = []
    if folder:
        saved.append(classes.save(folder / "classes.nc"))
    run = summaries.integrated(classes, end, "the classes, for infinitely long sequences")
    if run.t.size > 1:  # what was reached before a failure or Ctrl-C is shown and kept
        summaries.show_theorems(run)
        if folder:
            saved.append(run.save(folder / "trajectory.nc"))
    if run.status == "finished":
        with progress_bar("reading") as update:
            windows = read(sequences=True, max_sequences=MOST_WINDOWS, progress=update)
        run = summaries.integrated(windows, end, f"{windows.num_classes} windows as they are")
        if run.t.size > 1:
            summaries.show_words(run, classes)
            if folder:
                saved.append(summaries.write_words(folder, run, classes))
    if saved:
        show_saved(*saved)
    if run.status == "failed":
        say(run.message)
    return {"interrupted": INTERRUPTED, "failed": DIFFERS}.get(run.status, DONE)
