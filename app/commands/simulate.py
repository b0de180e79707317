"""`snapdyn simulate`: the run of a file, integrated or trained."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from snapdyn.commands.terminal import DIFFERS, DONE, INTERRUPTED, of_integration, progress_bar, say, show_table

if TYPE_CHECKING:
    from snapdyn.dynamics import SequenceClasses, Trajectory
    from snapdyn.experiments.run_files import Training

# Classes that the summary of a run lists; the file has them all.
LISTED_CLASSES = 12
TOP_TOKENS = 3


def simulate(
    file: Annotated[Path, typer.Argument(metavar="FILE.toml", help="What to run; see examples/.")],
    out: Annotated[Path | None, typer.Option(metavar="FILE.nc", help="Result; default beside FILE.toml.")] = None,
) -> int:
    """Integrate the system described in a file and save its trajectory; or train a transformer.

    Exit code 1: the integration failed; what was computed up to there is saved.

    Example: snapdyn simulate examples/syn_small.toml --out syn_small.nc
    """
    from snapdyn.dynamics.storage import check_target
    from snapdyn.errors import InputError
    from snapdyn.experiments.run_files import Training, read_simulation

    simulation = read_simulation(file)
    inside = simulation.output.file
    target = out or (file.parent / inside if inside else file.with_suffix(".nc"))
    if target.exists() and target.samefile(file):
        raise InputError(
            f"expected another file for the result, received {str(target)!r}, the run file; choose a new name"
        )
    if isinstance(simulation, Training):
        check_target(target)
        return _train(simulation, target)
    system = simulation.build()
    check_target(target)
    with progress_bar("integrating") as update:
        trajectory = simulation.run.integrate(system, of_integration(update))
    _show_trajectory(trajectory)
    if trajectory.t.size:
        trajectory.save(target)
        print(f"saved      {target}")
    if trajectory.status == "interrupted":
        return INTERRUPTED
    if trajectory.status == "failed":
        say(trajectory.message)
        return DIFFERS
    return DONE


def _train(training: Training, target: Path) -> int:
    with progress_bar("training") as update:
        run = training.transformer.train(training.folder, progress=update)
    print(
        f"transformer, {run.num_layers} layer{'s' if run.num_layers > 1 else ''}, on {run.corpus}: learning rate "
        f"{run.learning_rate:g}, seed {run.seed}, iteration {run.iteration[-1]}, mean entropy of attention "
        f"{run.entropy[0]:.4g} to {run.entropy[-1]:.4g} nats"
    )
    run.save(target)
    print(f"saved      {target}")
    return DONE


def _show_trajectory(trajectory: Trajectory) -> None:
    stats = trajectory.stats
    described = ", ".join(f"{name} = {value}" for name, value in trajectory.parameters.items())
    print(f"system     {trajectory.system}: {described}")
    if trajectory.classes is not None:
        print(f"classes    {trajectory.classes!r}")
    clock = " in log time" if stats["log_time"] else ""
    print(
        f"method     {stats['method']}{clock}: {stats['evaluations']} evaluations, {stats['steps']} steps, "
        f"{trajectory.wall_time:.2f} s"
    )
    if not trajectory.t.size:
        print(f"status     {trajectory.status}, no time was reached")
        return
    first, last = trajectory.t[0], trajectory.t[-1]
    print(f"status     {trajectory.status}, {trajectory.t.size} times, t = {first:g} to {last:g}")
    for name, violation in trajectory.invariants.items():
        print(f"conserved  {name}, largest violation {violation.max():.1e}")
    print(f"loss       {trajectory.loss[0]:.4g} to {trajectory.loss[-1]:.4g} nats")
    for name, values in trajectory.extra.items():
        if values.shape[1] == 1:
            print(f"{name:10} {values[0, 0]:.4g} to {values[-1, 0]:.4g}")
    if trajectory.classes is not None:
        _show_attention(trajectory, trajectory.classes)


def _show_attention(trajectory: Trajectory, classes: SequenceClasses) -> None:
    entropy = trajectory.entropy()[[0, -1]]
    attention = classes.attention_from_support(trajectory.z_support[-1])
    rows = []
    for n in range(min(classes.num_classes, LISTED_CLASSES)):
        c = attention[classes.P.indptr[n] : classes.P.indptr[n + 1]]
        top = (-c).argsort(kind="stable")[:TOP_TOKENS]
        tokens = ", ".join(f"{classes.support(n)[i]} ({c[i]:.3f})" for i in top)
        rows.append(
            (str(n), str(classes.query[n]), str(classes.next_token[n]),
             f"{entropy[0, n]:.3f} to {entropy[1, n]:.3f}", tokens)
        )  # fmt: skip
    show_table(("class", "query", "next token", "entropy (nats)", "most attended at the end"), rows)
    if classes.num_classes > LISTED_CLASSES:
        print(f"and {classes.num_classes - LISTED_CLASSES} more classes in the file")
