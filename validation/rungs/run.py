"""Run sequence classes on a rung of the ladder: the names of the rungs, what each one is, and the one function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.dynamics import (
    FiniteLengthMeanField,
    FrozenDecoder,
    MeanField,
    ModifiedDecoder,
    SequenceClasses,
    System,
    Trajectory,
    sgd,
    whole_run,
)
from snapdyn.errors import choice
from snapdyn.validation.rungs.closed_forms import (
    applicable,
    closed_form_trajectory,
    orbit_trajectory,
    reduced_trajectory,
)

FINITE_T, SGD, DESCENT, MEAN_FIELD, CLOSED = "finite T", "SGD", "descent", "mean field", "closed form"
EXACT, LEADING, ORBIT, REDUCED = "exact beta", "leading beta", "orbit", "single common token"
ORIGINAL, MODIFIED = "original flow", "modified flow"
FINITE_LENGTH = "finite length"

UPPER = (FINITE_T, SGD, DESCENT, MEAN_FIELD)
# From the finest rung to the coarsest: each approximates the one before it. Below the mean field the ladder forks:
# attention with the decoder given, the decoder with attention frozen.
BRANCHES = {
    "attention": (*UPPER, EXACT, LEADING, ORBIT, REDUCED, CLOSED),
    "decoder": (*UPPER, ORIGINAL, MODIFIED, CLOSED),
}
# Of figures and of comparisons with training: tighter than the default ones.
TOLERANCES: dict[str, Any] = {"rtol": 1e-9, "atol": 1e-11}


class Flow(NamedTuple):
    """A rung that integrates a system, built as system(classes, eta_Y, eta_Z, ...) with the options in `arguments`."""

    system: Callable[..., System]
    arguments: tuple[str, ...] = ("z_initial",)


def _frozen(classes: SequenceClasses, eta_Y: float, eta_Z: float, **options: Any) -> FrozenDecoder:
    return FrozenDecoder(classes, eta_Y, **options)


def _training(
    classes: SequenceClasses, eta_Y: float, eta_Z: float, times: ArrayLike, **options: Any
) -> Trajectory | list[Trajectory]:
    return sgd(classes, eta_Y, eta_Z, int(np.max(times)), record=times, **options)


# What each rung is: its system or its training, with the options of `run_on_rung` that belong to it.
RUNGS: dict[str, Flow | Callable[..., Trajectory | list[Trajectory]]] = {
    FINITE_T: _training,  # seq_len (None: infinite), batch_size, momentum, seed, and further options of `sgd`
    SGD: partial(_training, seq_len=None),
    DESCENT: partial(_training, seq_len=None, batch_size=None),
    MEAN_FIELD: Flow(MeanField, ("z_initial", "residual")),
    FINITE_LENGTH: Flow(FiniteLengthMeanField, ("z_initial", "seq_len")),
    EXACT: Flow(partial(ModifiedDecoder, beta="exact")),
    LEADING: Flow(partial(ModifiedDecoder, beta="leading")),
    ORBIT: orbit_trajectory,  # beta
    REDUCED: reduced_trajectory,  # form, and options of `integrate`
    CLOSED: closed_form_trajectory,  # form, branch
    ORIGINAL: Flow(_frozen, ("z_initial", "residual")),
    MODIFIED: Flow(partial(_frozen, modified=True)),
}


def system_on_rung(rung: str, classes: SequenceClasses, eta_Y: float, eta_Z: float, **arguments: Any) -> System:
    """Build the system that a rung integrates; raise NotApplicable where it is not defined for these classes."""
    entry = RUNGS[rung]
    assert isinstance(entry, Flow), f"{rung} integrates no system of classes"
    return applicable(entry.system, classes, eta_Y, eta_Z, **arguments)


def run_on_rung(
    rung: str, classes: SequenceClasses, eta_Y: float, eta_Z: float, times: ArrayLike, **options: Any
) -> Trajectory:
    """Run sequence classes on a rung to the last time, or raise an error: verdicts and figures need complete runs.

    Parameters
    ----------
    rung : str
        A key of `RUNGS`.
    classes : SequenceClasses
    eta_Y : float
        Learning rate of the decoder, per batch-size-1 step.
    eta_Z : float
        Learning rate of attention, per batch-size-1 step; the original and the modified flow do not use it.
    times : (N,) array
        Saved times in batch-size-1 steps; for SGD and descent the numbers of updates, whole numbers.
    **options : dict
        What belongs to the rung, as `RUNGS` says: z_initial, seq_len, residual, batch_size, momentum, seed, beta, form,
        branch. Further options are those of `integrate` or of `sgd`.

    Returns
    -------
    Trajectory

    Raises
    ------
    NotApplicable
        The rung does not exist for these classes (an InputError).
    InputError
        The rung is unknown, or an option is outside its range.
    KeyboardInterrupt
        If Ctrl-C stopped a run.
    RuntimeError
        If a run failed or diverged, with the message of the run.

    Examples
    --------
    >>> import snapdyn as sd
    >>> from snapdyn.validation.rungs.run import MEAN_FIELD, run_on_rung
    >>> run_on_rung(MEAN_FIELD, sd.syn_small(), 1.0, 0.1, [1.0, 10.0], rtol=1e-9)
    Trajectory(MeanField, 2 times, t = 1..10, finished)
    """
    (run,) = runs_on_rung(rung, classes, eta_Y, eta_Z, times, **options)
    return run


def runs_on_rung(
    rung: str, classes: SequenceClasses, eta_Y: float, eta_Z: float, times: ArrayLike, **options: Any
) -> list[Trajectory]:
    """Run as `run_on_rung` does, where `seed` may be a sequence: one run per seed."""
    entry, times = RUNGS[choice("rung", rung, RUNGS)], np.asarray(times)
    if isinstance(entry, Flow):
        arguments = {name: options.pop(name) for name in entry.arguments if name in options}
        return [whole_run(system_on_rung(rung, classes, eta_Y, eta_Z, **arguments), times, **options)]
    found = entry(classes, eta_Y, eta_Z, times, **options)
    runs = [found] if isinstance(found, Trajectory) else found
    require_complete(runs)
    return runs


def require_complete(runs: Sequence[Trajectory]) -> None:
    """Raise KeyboardInterrupt if Ctrl-C stopped a run, and RuntimeError with its message if a run stopped early."""
    for run in runs:
        if run.status == "interrupted":
            raise KeyboardInterrupt
        if not run.success:
            raise RuntimeError(run.message)
