"""What `snapdyn text` computes, prints and writes of a text's classes."""

from __future__ import annotations

import csv
import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import xarray
from matplotlib.figure import Figure
from matplotlib.ticker import FormatStrFormatter, LogLocator, NullLocator

from snapdyn.analytic import transition_time
from snapdyn.commands.terminal import of_integration, progress_bar, show, show_table
from snapdyn.dynamics import MeanField, TextClasses, Trajectory, integrate, log_times
from snapdyn.dynamics.storage import replacing
from snapdyn.figures.files import file_names, write_figure
from snapdyn.figures.style import CIRCLES, DOUBLE_COLUMN, new_figure
from snapdyn.validation.text_theorems import (
    NEXT_WORDS,
    ROLES,
    Move,
    assumption_2_on,
    overlap_spectrum,
    theorem_2_on,
    theorem_3_on,
    token_roles,
    winners_and_losers,
)

FILES = ("classes.nc", "trajectory.nc", "words.csv", *file_names("words").values())
LISTED = 12
TABLE_WORDS = 5  # winners, and losers, per class in the CSV file
# Of the picture.
PANELS, COLUMNS = 6, 3
SHOWN_WORDS = 5  # of each kind in a panel
LONGEST_WORD = 14  # letters that fit beside the bars
SAVES = 16  # each costs an evaluation, for the loss
FIRST_TIME = 1.0
# On WikiText-2 the logits differ from those at a fiftieth of this by 0.2 % of the largest.
RTOL, ATOL = 5e-4, 5e-5


def show_classes(classes: TextClasses) -> None:
    """Print sizes of the text and its classes, roles of the words, and Assumption 2 as measured."""
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
        ("queries with one class", str(classes.trivial_queries.size)),
        ("largest eigenvalues of E", spectrum),
        *((f"Assumption 2, {c.name}", f"required {c.required}, measured {c.value:.4g}: {_yes(c.holds)}")
          for c in assumption_2_on(classes)),
    ]  # fmt: skip
    show_table(("of the text", ""), rows)


def _yes(satisfied: bool) -> str:
    return "yes" if satisfied else "NO"


def integrated(classes: TextClasses, eta_Y: float, eta_Z: float, last_time: float | None) -> Trajectory:
    """Integrate the mean field of the classes to `last_time` (batch-size-1 steps), default the peak of gamma."""
    end = last_time
    if end is None:
        end = float(transition_time(classes.num_classes, classes.vocab_size, eta_Y, kind="peak"))
    with progress_bar("integrating") as update:
        times = log_times(min(FIRST_TIME, end / 10), end, SAVES)
        run = integrate(MeanField(classes, eta_Y, eta_Z), times, "RKC", RTOL, ATOL, progress=of_integration(update))
    if run.t.size:
        show(
            f"mean field: eta_Y = {eta_Y:g}, eta_Z = {eta_Z:g}, t = 0 to {run.t[-1]:.5g} batch-size-1 steps, loss "
            f"{run.loss[0]:.4g} to {run.loss[-1]:.4g} nats, mean entropy of attention {run.entropy()[0].mean():.4g} to "
            f"{run.entropy()[-1].mean():.4g} nats; {run.stats['evaluations']} evaluations, {run.wall_time:.0f} s"
        )
    return run


def show_theorems(run: Trajectory) -> None:
    """Print how many words obey Theorem 2, and how far Theorem 3 holds."""
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
            show(f"Theorem 3: no class has two {which} of different frequency")
            continue
        show(
            f"Theorem 3 on {which}: the dominant one rises in {law.dominant_rises:.1%} of {law.classes} classes; "
            f"r(t) = r(0) chi(t) (11) for {law.pairs} pairs: relative error median {law.median_error:.2g}, 90 % below "
            f"{law.high_error:.2g} (r(0) for r(t): {law.frozen_median:.2g}, {law.frozen_high:.2g})"
        )


def show_words(run: Trajectory, classes: TextClasses) -> None:
    """Print the words that win and lose attention, for some classes."""
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


def write_files(folder: Path, run: Trajectory, classes: TextClasses, started: float) -> None:
    """Write trajectory, table of words and picture; the folder has the classes already."""
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
    write_figure(folder, "words", words_dataset(run, classes), draw_words, facts, started)
    show(f"saved      {folder}: classes.nc, trajectory.nc, words.csv, words.nc, words.png, words.pdf")


def shown_classes(classes: TextClasses, count: int) -> list[int]:
    """Choose the most frequent classes with different next words whose query and next word consist of letters.

    If these are too few, classes that repeat a next word follow, then classes with other signs.
    """

    def spelt(n: int) -> bool:
        return all(classes.words[i].isalpha() for i in (classes.query[n], classes.next_token[n]))

    seen: set[int] = set()

    def repeats(n: int) -> bool:
        repeated = int(classes.next_token[n]) in seen
        seen.add(int(classes.next_token[n]))
        return repeated

    by_count = np.argsort(-classes.counts, kind="stable").tolist()
    return sorted(by_count, key=lambda n: 2 if not spelt(n) else 1 if repeats(n) else 0)[:count]


def words_dataset(run: Trajectory, classes: TextClasses) -> xarray.Dataset:
    """Collect attention at the start and the end, by panel (class) and rank: winners first, then losers, largest last.

    Parameters
    ----------
    run : Trajectory
        Run of these classes; times in batch-size-1 steps.
    classes : TextClasses

    Returns
    -------
    xarray.Dataset
        word, start, end, role (panel, rank), empty and NaN where a class has fewer; title, windows (panel).
    """
    moves = winners_and_losers(run, SHOWN_WORDS)
    chosen = shown_classes(classes, PANELS)
    shape = len(chosen), 2 * SHOWN_WORDS
    word, role = np.full(shape, "", dtype=object), np.full(shape, "", dtype=object)
    start, end = np.full(shape, np.nan), np.full(shape, np.nan)
    for panel, n in enumerate(chosen):
        winners, losers = moves[n]
        places = [*range(len(winners)), *range(2 * SHOWN_WORDS - len(losers), 2 * SHOWN_WORDS)]
        for place, move in zip(places, [*winners, *losers[::-1]], strict=True):
            word[panel, place], role[panel, place] = classes.words[move.token], ROLES[move.role]
            start[panel, place], end[panel, place] = move.start, move.end
    cells = ("panel", "rank")
    return xarray.Dataset(
        {
            "word": (cells, word),
            "role": (cells, role),
            "start": (cells, start),
            "end": (cells, end),
            "title": ("panel", np.array([classes.name(n) for n in chosen], dtype=object)),
            "windows": ("panel", classes.counts[chosen]),
        },
        attrs={**{key: float(value) for key, value in run.parameters.items()}, "t": float(run.t[-1])},
    )


def draw_words(dataset: xarray.Dataset) -> Figure:
    """Draw one panel per class: a line from the first (open) to the last attention (full) of each word."""
    panels = dataset.sizes["panel"]
    rows = -(-panels // COLUMNS)
    figure = new_figure(DOUBLE_COLUMN, 0.5 + 1.95 * rows)
    grid = figure.subplots(rows, COLUMNS, squeeze=False, sharex=True)
    for axes in grid.flat[panels:]:
        axes.set_axis_off()
    for panel, axes in zip(range(panels), grid.flat[:panels], strict=True):
        data = dataset.isel(panel=panel)
        start, end = 100 * data.start.values, 100 * data.end.values
        for rank in np.flatnonzero(np.isfinite(start)):
            wins = end[rank] > start[rank]
            color = "C0" if wins else "C1"
            axes.plot([start[rank], end[rank]], [rank, rank], color=color)
            axes.plot(start[rank], rank, color=color, **CIRCLES)
            axes.plot(end[rank], rank, "o", color=color)
        axes.set_yticks(range(start.size), [_short(word) for word in data.word.values])
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(start.size - 0.3, -0.7)
        axes.axhline(SHOWN_WORDS - 0.5, color="0.8", linewidth=0.6)
        axes.set_xscale("log")
        axes.grid(axis="x")
        axes.set_title(f"… {data.title.item()} ({data.windows.item()} windows)", parse_math=False)
    shown = dataset[["start", "end"]].to_array().values * 100
    grid[0, 0].set_xlim(max(np.nanmin(shown) / 1.5, 1e-3), min(np.nanmax(shown) * 1.5, 100))
    # A decade or two: plain numbers read better than powers.
    grid[0, 0].xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
    grid[0, 0].xaxis.set_major_formatter(FormatStrFormatter("%g"))
    grid[0, 0].xaxis.set_minor_locator(NullLocator())
    for axes in grid[-1]:
        axes.set_xlabel("attention $c_n(l)$ (%)")
    figure.suptitle(
        "words that win attention (above the line) and that lose it (below): open circle at t = 0, full at "
        f"t = {dataset.attrs['t']:.4g} steps",
        fontsize=8,
    )
    return figure


def _short(word: str) -> str:
    word = word if len(word) <= LONGEST_WORD else word[: LONGEST_WORD - 1] + "…"
    return word.replace("$", r"\$")
