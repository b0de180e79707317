"""`snapdyn text`: sequence classes of a text, their mean field, and what Theorems 2 and 3 say about it."""

from __future__ import annotations

import csv
import math
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from snapdyn.commands.terminal import DIFFERS, DONE, INTERRUPTED, of_integration, progress_bar, say, show_table

if TYPE_CHECKING:
    from snapdyn.dynamics import Trajectory
    from snapdyn.dynamics.text.text_classes import TextClasses

LISTED = 12
TABLE_WORDS = 5  # winners, and losers, per class in the CSV file
SAVES = 16  # each costs an evaluation, for the loss
FIRST_TIME = 1.0
# On WikiText-2 the logits differ from those at a fiftieth of this by 0.2 % of the largest.
RTOL, ATOL = 5e-4, 5e-5


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
    from snapdyn.dynamics.storage import output_folder
    from snapdyn.dynamics.text.text_classes import from_text
    from snapdyn.errors import positive

    started = time.perf_counter()
    for name, value in (("--eta-y", eta_Y), ("--eta-z", eta_Z), ("--time", 1.0 if last_time is None else last_time)):
        positive(name, value)
    folder = output_folder(out) if out else None
    with progress_bar("reading") as update:
        classes = from_text(paths, window, min_count, min_token_count, max_vocab, max_classes, tokens, headings, update)
    _show_classes(classes)
    if folder:
        classes.save(folder / "classes.nc")
    run = _integrated(classes, eta_Y, eta_Z, last_time)
    if run.t.size > 1:  # what was reached before a failure or Ctrl-C is shown and kept
        _show_theorems(run)
        _show_words(run, classes)
        if folder:
            _write(folder, run, classes, started)
    if run.status == "failed":
        say(run.message)
    return {"interrupted": INTERRUPTED, "failed": DIFFERS}.get(run.status, DONE)


def _show_classes(classes: TextClasses) -> None:
    import numpy as np

    from snapdyn.validation.text_theorems import ROLES, assumption_2_on, overlap_spectrum, token_roles

    used = classes.omega_size > 0
    distinct = int((classes.omega_size == 1).sum())
    roles = np.bincount(token_roles(classes), minlength=len(ROLES))
    queries = classes.queries.size
    spectrum = ", ".join(f"{value:.4g}" for value in overlap_spectrum(classes))
    rows = [
        ("text", f"{classes.num_words} words in {classes.num_documents} documents, {classes.words_read} different"),
        ("vocabulary", f"V = {classes.vocab_size}"),
        (
            "classes",
            f"{classes.num_classes} from {int(classes.counts.sum())} windows of {classes.window} words and a query: "
            f"{queries} queries, {classes.next_tokens.size} next words, {classes.P.nnz} probabilities",
        ),
        ("words in windows", f"{int(used.sum())}: {distinct} distinct, {int(used.sum()) - distinct} common"),
        *((f"(query, word): {role}", str(number)) for role, number in zip(ROLES, roles, strict=True)),
        ("queries with one class", str(classes.trivial_queries().size)),
        ("largest eigenvalues of E", spectrum),
        *((f"Assumption 2, {c.name}", f"required {c.required}, measured {c.measured:.4g}: {_yes(c.satisfied)}")
          for c in assumption_2_on(classes)),
    ]  # fmt: skip
    show_table(("of the text", ""), rows)


def _yes(satisfied: bool) -> str:
    return "yes" if satisfied else "NO"


def _integrated(classes: TextClasses, eta_Y: float, eta_Z: float, last_time: float | None) -> Trajectory:
    from snapdyn.analytic import transition_time
    from snapdyn.dynamics import MeanField, integrate, log_times

    end = last_time
    if end is None:
        end = float(transition_time(classes.num_classes, classes.vocab_size, eta_Y, kind="peak"))
    with progress_bar("integrating") as update:
        times = log_times(min(FIRST_TIME, end / 10), end, SAVES)
        run = integrate(MeanField(classes, eta_Y, eta_Z), times, "RKC", RTOL, ATOL, progress=of_integration(update))
    if run.t.size:
        print(
            f"mean field: eta_Y = {eta_Y:g}, eta_Z = {eta_Z:g}, t = 0 to {run.t[-1]:.5g} batch-size-1 steps, loss "
            f"{run.loss[0]:.4g} to {run.loss[-1]:.4g} nats, mean entropy of attention {run.entropy()[0].mean():.4g} to "
            f"{run.entropy()[-1].mean():.4g} nats; {run.stats['evaluations']} evaluations, {run.wall_time:.0f} s"
        )
    return run


def _show_theorems(run: Trajectory) -> None:
    from snapdyn.validation.text_theorems import NEXT_WORDS, theorem_2_on, theorem_3_on

    outcomes = theorem_2_on(run)
    show_table(
        ("Theorem 2: (query, word)", "number", "rise", "fall", "rise, by frequency", "fall, by frequency"),
        [
            (row.role, str(row.number), f"{row.rise:.1%}", f"{row.fall:.1%}", f"{row.weighted_rise:.1%}",
             f"{row.weighted_fall:.1%}")
            for row in outcomes
        ],
    )  # fmt: skip
    ends = [f" to {high - 1}" if high - 1 > low else "" for low, high in pairwise(NEXT_WORDS)] + [" and more"]
    show_table(
        ("rise, of words with so many next words", *(f"{low}{end}" for low, end in zip(NEXT_WORDS, ends, strict=True))),
        [
            (row.role, *("-" if math.isnan(share) else f"{share:.1%}" for share in row.rise_by_next_words))
            for row in outcomes
        ],
    )
    for which, law in (
        ("distinct words", theorem_3_on(run)),
        ("words distinct within their query", theorem_3_on(run, within_query=True)),
    ):
        if law.pairs == 0:
            print(f"Theorem 3: no class has two {which} of different frequency")
            continue
        print(
            f"Theorem 3 on {which}: the dominant one rises in {law.dominant_rises:.1%} of {law.classes} classes; "
            f"r(t) = r(0) chi(t) (11) for {law.pairs} pairs: relative error median {law.median_error:.2g}, 90 % below "
            f"{law.high_error:.2g} (r(0) for r(t): {law.frozen_median:.2g}, {law.frozen_high:.2g})"
        )


def _show_words(run: Trajectory, classes: TextClasses) -> None:
    from snapdyn.figures.words import shown_classes
    from snapdyn.validation.text_theorems import Move, winners_and_losers

    moves = winners_and_losers(run)

    def named(list_of_moves: list[Move]) -> str:
        return ", ".join(f"{classes.words[m.token]} ({m.start:.1%} to {m.end:.1%})" for m in list_of_moves)

    show_table(
        ("query → next word", "windows", "words that win attention", "words that lose attention"),
        [
            (classes.name(n), str(classes.counts[n]), named(moves[n][0]), named(moves[n][1]))
            for n in shown_classes(classes, LISTED)
        ],
    )


def _write(folder: Path, run: Trajectory, classes: TextClasses, started: float) -> None:
    from snapdyn.dynamics.storage import replacing
    from snapdyn.figures.drawing import write_figure
    from snapdyn.figures.words import compute, draw
    from snapdyn.validation.text_theorems import ROLES, winners_and_losers

    run.save(folder / "trajectory.nc")
    with (
        replacing(folder / "words.csv") as temporary,
        temporary.open("w", encoding="utf-8", newline="") as file,
    ):
        table = csv.writer(file)
        table.writerow(("query", "next word", "windows", "word", "role", "attention at the start", "at the end"))
        for n, (winners, losers) in enumerate(winners_and_losers(run, TABLE_WORDS)):
            query, next_word = classes.words[classes.query[n]], classes.words[classes.next_token[n]]
            for move in (*winners, *losers[::-1]):
                table.writerow(
                    (query, next_word, classes.counts[n], classes.words[move.token], ROLES[move.role],
                     f"{move.start:.6g}", f"{move.end:.6g}")
                )  # fmt: skip
    facts = {"window": classes.window, "words": classes.num_words, **run.stats}
    write_figure(folder, "words", compute(run, classes), draw, facts, started)
    print(f"saved      {folder}: classes.nc, trajectory.nc, words.csv, words.nc, words.png, words.pdf")
