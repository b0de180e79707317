"""What commands print of their results. Heavy libraries are imported here, except those for drawing."""

from __future__ import annotations

import csv
import math
import time
from collections import Counter
from functools import partial
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from snapdyn.analytic import transition_time
from snapdyn.commands.terminal import integration_progress, progress_bar, say, show, show_table
from snapdyn.core.errors import InputError
from snapdyn.dynamics import MeanField, SequenceClasses, SymmetricClasses, TextClasses, Trajectory, integrate, log_times
from snapdyn.dynamics.classes.table import Floats, Ints
from snapdyn.dynamics.files.storage import replacing
from snapdyn.validation.claims.on_text import (
    NEXT_WORDS,
    ROLES,
    Move,
    assumption_2,
    distinct_by_chance,
    overlap_spectrum,
    theorem_2_on,
    theorem_3_on,
    token_roles,
    winners_and_losers,
)

if TYPE_CHECKING:
    import xarray

    from snapdyn.experiments.sweep.cells import PhaseSection
    from snapdyn.experiments.sweep.execution import SweepResult

LISTED = 12
WIDTH = 100  # of tables about a text
TABLE_WORDS = 5  # winners, and losers, per class in the CSV file
SAVES = 16  # each costs an evaluation, for the loss
FIRST_TIME = 1.0
ETA_Y, ETA_Z = 1.0, 0.1
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
        (
            "distinct words by chance",
            f"{distinct_by_chance(classes):.4g} expected if the words of windows did not depend on the next word",
        ),
        *((f"(query, word): {role}", str(number)) for role, number in zip(ROLES, roles, strict=True)),
        ("queries with one class", str(classes.trivial_queries.size)),
        ("largest eigenvalues of E", spectrum),
        *((f"Assumption 2, {c.name}", f"required {c.required}, measured {c.value:.4g}: {_yes(c.holds)}")
          for c in assumption_2(classes)),
    ]  # fmt: skip
    show_table(("of the text", ""), rows, width=WIDTH)


def _yes(satisfied: bool) -> str:
    return "yes" if satisfied else "NO"


def integrated(classes: TextClasses, end: float, what: str) -> Trajectory:
    """Integrate the mean field of the classes, or of windows, to the time `end`; `what` says which in the summary."""
    with progress_bar("integrating") as update:
        times = log_times(min(FIRST_TIME, end / 10), end, SAVES)
        run = integrate(
            MeanField(classes, ETA_Y, ETA_Z), times, "RKC", RTOL, ATOL, progress=integration_progress(update)
        )
    if run.t.size:
        loss, entropy = run.loss[[0, -1]], run.entropy()[[0, -1]].mean(axis=1)
        show(
            f"mean field of {what}: eta_Y = {ETA_Y:g}, eta_Z = {ETA_Z:g}, t = 0 to {run.t[-1]:.5g} batch-size-1 steps, "
            f"loss {loss[0]:.4g} to {loss[1]:.4g} nats, mean entropy of attention {entropy[0]:.4g} to {entropy[1]:.4g} "
            f"nats; {run.stats['evaluations']} evaluations, {run.wall_time:.0f} s"
        )
    return run


def peak_time(classes: TextClasses) -> float:
    """The time at which the theory's gamma of a class of average weight peaks."""
    return float(transition_time(classes.num_classes, classes.vocab_size, ETA_Y, kind="peak"))


def _percent(share: float) -> str:
    return "-" if math.isnan(share) else f"{share:.1%}"


def show_theorems(run: Trajectory) -> None:
    """Print how many words obey Theorem 2 (the weights are frequencies), and how far Theorem 3 holds."""
    ends = [f" to {high - 1}" if high - 1 > low else "" for low, high in pairwise(NEXT_WORDS)] + [" and more"]
    shares_of = attrgetter("rise", "fall", "weighted_rise", "weighted_fall")
    measured = theorem_2_on(run)
    show_table(
        ("Theorem 2: (query, word)", "number", "rise", "fall", "weighted rise", "weighted fall"),
        [(row.role, str(row.number), *map(_percent, shares_of(row))) for row in measured],
    )
    by_next_words = (f"{low}{end}" for low, end in zip(NEXT_WORDS, ends, strict=True))
    show_table(
        ("rise, by number of next words", *by_next_words),
        [(row.role, *map(_percent, row.rise_by_next_words)) for row in measured],
    )
    for which, law in (
        ("distinct words", theorem_3_on(run)),
        ("words distinct within their query", theorem_3_on(run, within_query=True)),
    ):
        if law.pairs == 0:
            show(f"Theorem 3: no class has two {which} of different frequency")
            continue
        show(
            f"Theorem 3 on {which}: the dominant one rises in {law.dominant_rises:.1%} of {law.classes} classes; r(t) "
            f"= r(0) chi(t) (11) for {law.pairs} pairs: relative error median {law.median_error:.2g}, 90 % below "
            f"{law.high_error:.2g} (r(0) in place of r(t): {law.frozen_median:.2g}, {law.frozen_high:.2g})"
        )


def show_words(run: Trajectory, classes: TextClasses) -> None:
    """Print the words that win and lose attention, for some classes, in a run of the windows of the text."""
    moves = winners_and_losers(run, classes=classes)
    square = float(classes.prior @ np.asarray(classes.P.multiply(classes.P).sum(axis=1)).ravel())
    long, length = 1.0 / square - 1.0, classes.window
    relation = "shorter" if length < long else "longer"
    show(
        f"The words below are those of the mean field of the windows, which agrees with training on them. The windows "
        f"have {length} words and are {relation} than L* = 1/|P|^2 - 1 = {long:.3g} words. Theorems 2 and 3 above are "
        "about infinitely long sequences: below L*, the signs of their changes are in general not those of training."
    )

    def named(list_of_moves: list[Move]) -> str:
        return ", ".join(f"{classes.words[m.token]} ({m.start:.1%} to {m.end:.1%})" for m in list_of_moves)

    show_table(
        ("query → next word", "windows", "", "words that win or lose attention"),
        [
            row
            for n in shown_classes(classes, LISTED)
            for row in (
                (classes.name(n), str(classes.counts[n]), "win", named(moves[n][0])),
                ("", "", "lose", named(moves[n][1])),
            )
        ],
        width=WIDTH,
    )


def shown_classes(classes: TextClasses, count: int) -> list[int]:
    """Choose the most frequent classes; those whose query and next word consist of letters come first."""

    def is_spelt(n: int) -> bool:
        return all(classes.words[i].isalpha() for i in (classes.query[n], classes.next_token[n]))

    by_count = np.argsort(-classes.counts, kind="stable").tolist()
    return sorted(by_count, key=is_spelt, reverse=True)[:count]


def as_text(word: str) -> str:
    """Return a word as a cell of a table that a spreadsheet does not run."""
    return f"'{word}" if word.startswith(("=", "+", "-", "@", "\t", "\r")) else word


def write_words(folder: Path, run: Trajectory, classes: TextClasses) -> Path:
    """Write the table of words, from a run of the windows of the text; return its path.

    A word that a spreadsheet would take as a formula begins with an apostrophe there.
    """
    with (
        replacing(folder / "words.csv") as temporary,
        temporary.open("w", encoding="utf-8", newline="") as file,
    ):
        table = csv.writer(file)
        table.writerow(("query", "next word", "windows", "word", "role", "attention at the start", "at the end"))
        for n, (winners, losers) in enumerate(winners_and_losers(run, TABLE_WORDS, classes)):
            query, next_word = (as_text(classes.words[i]) for i in (classes.query[n], classes.next_token[n]))
            for move in (*winners, *losers[::-1]):
                table.writerow(
                    (query, next_word, classes.counts[n], as_text(classes.words[move.token]), ROLES[move.role],
                     f"{move.start:.6g}", f"{move.end:.6g}")
                )  # fmt: skip
    return folder / "words.csv"


# Classes that the summary lists; the file has them all.
LISTED_CLASSES = 12
TOP_TOKENS = 3
LISTED_VALUES = 20


def show_trajectory(trajectory: Trajectory) -> None:
    """Print what was run, how it ended, and the attention of the first classes at the end."""
    stats = trajectory.stats
    described = ", ".join(f"{name} = {value}" for name, value in trajectory.parameters.items())
    show(f"system     {trajectory.system}: {described}")
    if trajectory.classes is not None:
        show(f"classes    {trajectory.classes!r}")
    clock = " in log time" if stats["log_time"] else ""
    show(
        f"method     {stats['method']}{clock}: {stats['evaluations']} evaluations, {stats['steps']} steps, "
        f"{trajectory.wall_time:.2f} s"
    )
    if not trajectory.t.size:
        show(f"status     {trajectory.status}, no time was reached")
        return
    first, last = trajectory.t[0], trajectory.t[-1]
    show(f"status     {trajectory.status}, {trajectory.t.size} times, t = {first:g} to {last:g}")
    for name, violation in trajectory.invariants.items():
        show(f"conserved  {name}, largest violation {violation.max():.1e}")
    if trajectory.has_loss:
        show(f"loss       {trajectory.loss[0]:.4g} to {trajectory.loss[-1]:.4g} nats")
    if trajectory.state is not None:
        _show_state(trajectory, trajectory.state)
    for name, values in trajectory.extra.items():
        if values.shape[1] == 1:
            show(f"{name:10} {values[0, 0]:.4g} to {values[-1, 0]:.4g}")
    if trajectory.classes is not None:
        _show_transition(trajectory)
        _show_attention(trajectory, trajectory.classes)


def _show_transition(trajectory: Trajectory) -> None:
    """Print when the measured speed gamma_n of the classes peaks."""
    classes = trajectory.classes
    what, several = "class", "classes"
    try:
        if trajectory.representatives and isinstance(classes, SymmetricClasses) and classes.is_large:
            what, several = "kind", "kinds of classes"
            peaks = np.concatenate([trajectory.of_class(kind).transition for kind in range(len(classes.kinds))])
        else:
            peaks = trajectory.transition
    except InputError:  # a residual connection, or no decoder
        if not trajectory.parameters.get("residual"):
            show("transition not measured: the run kept no decoder; set save_decoder = true in [run]")
        return
    reached = peaks[np.isfinite(peaks)]
    if not reached.size:
        show(f"transition not within the saved times, in any {what}")
        return
    span = f"{reached.min():.4g}" + (f" to {reached.max():.4g}" if np.ptp(reached) > 1e-3 * reached.min() else "")
    which = f"in {reached.size} of {peaks.size} {several}" if reached.size < peaks.size else f"in every {what}"
    show(f"transition at t = {span} {which}, where the measured gamma_n peaks")


def _show_state(trajectory: Trajectory, state: Floats) -> None:
    """Print the first values of a system without attention logits."""
    names = trajectory.value_names or [f"state value {i}" for i in range(state.shape[1])]
    ends = zip(names, state[0], state[-1], strict=True)
    rows = [(name, f"{first:.6g}", f"{last:.6g}") for name, first, last in ends]
    show_table(("value", "at the start", "at the end"), rows[:LISTED_VALUES])


def _show_attention(trajectory: Trajectory, classes: SequenceClasses) -> None:
    if isinstance(classes, SymmetricClasses) and trajectory.representatives and classes.is_large:
        return _show_kinds(trajectory, classes)
    entropy = trajectory.entropy()[[0, -1]]
    attention = classes.attention_from_support(trajectory.z_support[-1])
    rows = []
    for n in range(min(classes.num_classes, LISTED_CLASSES)):
        c = attention[classes.P.indptr[n] : classes.P.indptr[n + 1]]
        rows.append(
            (str(n), str(classes.query[n]), str(classes.next_token[n]),
             f"{entropy[0, n]:.3f} to {entropy[1, n]:.3f}", _most_attended(c, classes.support(n)))
        )  # fmt: skip
    show_table(("class", "query", "next token", "entropy (nats)", "most attended at the end"), rows)
    if classes.num_classes > LISTED_CLASSES:
        show(f"and {classes.num_classes - LISTED_CLASSES} more classes in the file")


def _show_kinds(trajectory: Trajectory, classes: SymmetricClasses) -> None:
    """Print one class of each kind; its tokens are the common ones, then its distinct tokens."""
    rows = []
    for number, kind in enumerate(classes.kinds[:LISTED_CLASSES]):
        run = trajectory.of_class(number)
        entropy, c = run.entropy()[[0, -1], 0], run.attention_entries[-1]
        tokens = _most_attended(c, np.arange(c.size))
        rows.append((str(number), str(kind.classes_per_query), f"{entropy[0]:.3f} to {entropy[1]:.3f}", tokens))
    show_table(("kind", "classes per query", "entropy (nats)", "most attended at the end"), rows)


def _most_attended(attention: Floats, tokens: Ints) -> str:
    top = (-attention).argsort(kind="stable")[:TOP_TOKENS]
    return ", ".join(f"{tokens[i]} ({attention[i]:.3f})" for i in top)


LISTED_FAILURES = 10


def show_sweep(result: SweepResult) -> None:
    """Print the swept parameters, the range of each variable, the number of cells, and why the first of them failed."""
    dataset = result.dataset
    shown = {name: values for name, values in dataset.coords.items() if "parameter" in values.attrs}
    shown |= {name: values for name, values in dataset.data_vars.items() if name not in ("failure", "times")}
    show_table(
        ("parameter or variable", "smallest", "median", "largest", ""),
        [
            (str(values.attrs.get("parameter", name)), *_summary(values.values), str(values.attrs.get("units", "")))
            for name, values in shown.items()
        ],
    )
    computed = result.computed - result.failed
    show(
        f"cells      {dataset.attrs['finished']}: {computed} computed, {result.taken_over} taken over, "
        f"{result.failed} failed, {result.missing} not run; {result.seconds:.1f} s"
    )
    for number, (cell, reason) in enumerate(result.failures.items()):
        if number == LISTED_FAILURES:
            say(f"{len(result.failures) - LISTED_FAILURES} more cells failed; `failure` in the dataset has the reasons")
            break
        say(f"cell {_cell_name(result, cell)} failed: {reason}")


def _summary(values: NDArray[Any]) -> tuple[str, str, str]:
    """Return smallest, median and largest number; for texts, only the most frequent with their counts."""
    if values.dtype.kind not in "iuf":
        counts = Counter(map(str, values[values != ""]))
        return "", ", ".join(f"{text}: {count}" for text, count in counts.most_common(3)), ""
    known = values[~np.isnan(values)]
    if not known.size:
        return "-", "-", "-"
    smallest, median, largest = np.quantile(known, [0, 0.5, 1], method="nearest")
    return f"{smallest:.4g}", f"{median:.4g}", f"{largest:.4g}"


def draw_diagram(folder: Path, name: str, dataset: xarray.Dataset, phase: PhaseSection) -> list[Path]:
    """Draw the phase diagram beside the dataset, as the section [phase] says; return its pictures."""
    from snapdyn.figures.heat_maps import WIDTH, draw
    from snapdyn.figures.output import write_figure
    from snapdyn.figures.style import figure_width

    width = figure_width(phase.width, phase.style, WIDTH)
    picture = partial(draw, x=phase.x, y=phase.y, variable=phase.variable, width=width)
    started = time.perf_counter()
    files = write_figure(folder, name, dataset, picture, {"sweep": name}, started, phase.style, with_data=False)
    return [files["png"], files["pdf"]]


def _cell_name(result: SweepResult, number: int) -> str:
    index = np.unravel_index(number, result.dataset.failure.shape)
    there = result.dataset.failure[index]
    return ", ".join(
        f"{name} = {_shown(coordinate.item())}"
        for name, coordinate in there.coords.items()
        if "parameter" in coordinate.attrs
    )


def _shown(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
