"""`snapdyn simulate`: the run of a file, integrated or trained."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from snapdyn.commands.options import Load, Register
from snapdyn.commands.terminal import (
    DIFFERS,
    DONE,
    INTERRUPTED,
    integration_progress,
    prepare,
    progress_bar,
    say,
    show,
    show_saved,
)

# Growth of a difference between equal classes above which the noise of training leaves the path of a reduced run.
LARGEST_GROWTH = 1e4

if TYPE_CHECKING:
    from snapdyn.dynamics import Trajectory
    from snapdyn.dynamics.systems.base import System
    from snapdyn.experiments.run_files import Training


def simulate(
    file: Annotated[Path, typer.Argument(metavar="FILE.toml", help="What to run; see examples/.")],
    out: Annotated[Path | None, typer.Option(metavar="FILE.nc", help="Result; default beside FILE.toml.")] = None,
    load: Load = None,
    register: Register = None,
) -> int:
    """Integrate the system described in a file and save its trajectory; or train a transformer.

    Exit code 1: the integration failed; what was computed before that is saved.

    Example: snapdyn simulate examples/syn_small.toml --out syn_small.nc
    """
    from snapdyn.commands.summaries import show_trajectory
    from snapdyn.core.errors import InputError
    from snapdyn.experiments.run_files import Training, read_simulation

    simulation = read_simulation(file)
    target = out or simulation.output.target(file)
    if os.path.exists(target) and target.samefile(file):
        raise InputError(
            f"expected another file for the result, received {str(target)!r}, the run file; choose a new name"
        )
    if isinstance(simulation, Training):
        prepare(target)
        return _train(simulation, target)
    system = simulation.build()
    prepare(target)
    with progress_bar("integrating") as update:
        trajectory = simulation.run.integrate(system, integration_progress(update))
    show_trajectory(trajectory)
    if trajectory.t.size:
        trajectory.save(target)
        show_saved(target)
    _warn_of_an_unstable_path(system, trajectory)
    if trajectory.status == "interrupted":
        return INTERRUPTED
    if trajectory.status == "failed":
        say(trajectory.message)
        return DIFFERS
    return DONE


def _warn_of_an_unstable_path(system: System, trajectory: Trajectory) -> None:
    """Warn if a difference between classes that the run keeps equal grows: noise drives training off its path."""
    from snapdyn.dynamics import MeanField, growth_of_differences

    is_reduced = trajectory.stats["state_size"] < trajectory.stats["full_state_size"]
    if not (is_reduced and type(system) is MeanField and trajectory.success):
        return
    try:
        growth = growth_of_differences(system, float(trajectory.t[-1]))
    except RuntimeError as error:
        say(f"the growth of a difference between classes that this run keeps equal is not known: {error}")
        return
    if growth > LARGEST_GROWTH:
        say(
            f"a difference between classes that this run keeps equal grows by {growth:.2g}: noise drives "
            "training away from the path of this run; compare the run with sgd"
        )


def _train(training: Training, target: Path) -> int:
    with progress_bar("training") as update:
        run = training.transformer.train(training.folder, progress=update)
    show(
        f"transformer, {run.num_layers} layer{'s' if run.num_layers > 1 else ''}, on {run.corpus}: learning rate "
        f"{run.learning_rate:g}, seed {run.seed}, iteration {run.iteration[-1]}, mean entropy of attention "
        f"{run.entropy[0]:.4g} to {run.entropy[-1]:.4g} nats"
    )
    run.save(target)
    show_saved(target)
    return DONE
