"""`snapdyn simulate` and `snapdyn compare`: run files."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from snapdyn.terminal import DIFFERS, DONE, INTERRUPTED, of_integration, progress_bar, say, show_table

if TYPE_CHECKING:
    from snapdyn.configuration import Training
    from snapdyn.dynamics import SequenceClasses, Trajectory

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
    from snapdyn.configuration import Training, read_simulation
    from snapdyn.dynamics import InputError

    simulation = read_simulation(file)
    inside = simulation.output.file
    target = out or (file.parent / inside if inside else file.with_suffix(".nc"))
    if target.exists() and target.samefile(file):
        raise InputError(
            f"expected another file for the result, received {str(target)!r}, the run file; choose a new name"
        )
    if isinstance(simulation, Training):
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
    check_target(target)
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


def compare(
    file: Annotated[Path, typer.Argument(metavar="FILE.toml", help="What to compare; see examples/compare_*.toml.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the files.")] = Path("out"),
) -> int:
    """Lay the theory's curves over SGD: median and 10-90 % band of the seeds, residuals below, data beside.

    Example: snapdyn compare examples/compare_syn_small.toml --out pictures
    """
    from snapdyn.configuration import read_comparison
    from snapdyn.dynamics.storage import output_folder
    from snapdyn.figures.comparison import draw
    from snapdyn.figures.drawing import write_figure

    started = time.perf_counter()
    comparison = read_comparison(file)
    folder = output_folder(out)
    dataset = comparison.compute()
    files = write_figure(folder, file.stem, dataset, draw, {"file": file.name}, started)
    gap = abs(dataset.theory - dataset.sgd.median("seed")).transpose("observable", "curve", "step")
    rows = []
    for observable, gaps in zip(dataset.observable.values, gap.values, strict=True):
        for curve, values in zip(dataset.curve.values, gaps, strict=True):
            at = int(values.argmax())
            rows.append((str(observable), str(curve), f"{values[at]:.3g}", str(int(dataset.step[at]))))
    if rows:
        show_table(("observable", "curve", "largest |curve - median|", "at step"), rows)
    print(f"saved      {files['png']}")
    return DONE


def check_target(path: Path) -> None:
    """Check before any work that a file can be written at `path`."""
    from snapdyn.dynamics import InputError
    from snapdyn.dynamics.storage import output_folder

    if path.is_dir():
        raise InputError(f"expected a file to write to, received the folder {str(path)!r}; add a file name")
    output_folder(path.parent)
