"""What `snapdyn simulate` prints of a trajectory."""

from __future__ import annotations

import numpy as np

from snapdyn.commands.terminal import show, show_table
from snapdyn.dynamics import SequenceClasses, SymmetricClasses, Trajectory
from snapdyn.dynamics.classes import Floats, Ints
from snapdyn.errors import InputError

# Classes that the summary lists; the file has them all.
LISTED_CLASSES = 12
TOP_TOKENS = 3
LISTED_VALUES = 20
LONG_RUN = 5.0  # seconds; the transition of a run without decoder takes as long again


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
    """Print when the measured speed gamma_n of the classes peaks; nothing where a run cannot tell it soon."""
    kept, classes = trajectory.representatives, trajectory.classes
    has_decoder = "h" in trajectory.extra or (kept.Y if kept else trajectory.Y) is not None
    if not has_decoder and not trajectory.wall_time < LONG_RUN:
        show("transition not measured: the run is long; set save_decoder = true in [run]")
        return
    what, several = "class", "classes"
    try:
        if kept and isinstance(classes, SymmetricClasses) and classes.is_large:
            what, several = "kind", "kinds of classes"
            peaks = np.concatenate([trajectory.of_class(kind).transition for kind in range(len(classes.kinds))])
        else:
            peaks = trajectory.transition
    except InputError:  # a residual connection, or no decoder
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
