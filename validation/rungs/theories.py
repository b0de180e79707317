"""`ladder_of`: the ladder of any theory that gives its samples, its rate or its closed form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.dynamics import System, Trajectory, descend, descend_samples
from snapdyn.dynamics.classes import Floats, Ints
from snapdyn.errors import (
    InputError,
    finite_array,
    fraction,
    function,
    instance,
    optional_function,
    positive,
    whole,
)
from snapdyn.validation.rungs.build import NotApplicable, attempt, rounded_steps
from snapdyn.validation.rungs.gaps import Rung
from snapdyn.validation.rungs.names import CLOSED, DESCENT, FLOW, STOCHASTIC
from snapdyn.validation.rungs.runs import ladder_run
from snapdyn.validation.rungs.theory_ladder import TheoryLadder

ClosedForm = Callable[[Floats], Any]


def ladder_of(
    system: System,
    t_eval: ArrayLike,
    step_size: float = 1.0,
    sample_update: Callable[..., Any] | None = None,
    closed_form: ClosedForm | None = None,
    momentum: float = 0.0,
    seeds: int = 20,
    seed: int = 0,
    tolerance: float = 0.05,
    max_steps: int = 100_000,
) -> TheoryLadder:
    """Run the rungs of a theory on one clock: stochastic -> descent -> flow -> closed form.

    Parameters
    ----------
    system : System
        A system without sequence classes, as `System.from_sympy` makes it: its rate gives descent and flow.
    t_eval : (N,) array
        Times of the flow, at least 0. They are rounded to whole steps (with momentum: to the step whose
        `momentum_clock` is nearest); 0 is added.
    step_size : float
        h of `descend`: the time of the flow that one step without momentum takes.
    sample_update : callable, optional
        As for `descend_samples`; without it there is no stochastic rung.
    closed_form : callable, optional
        ``closed_form(t)`` returns the states (N, size) at N times, or a mapping from names of observables or state
        values to their values (N, ...): the ladder then compares these.
    momentum : float
        Heavy ball, of both rungs that make steps; for rates that do not depend on time.
    seeds : int
        Number of stochastic runs, whose mean is the rung; at least 2.
    seed : int
        The runs have the seeds seed, ..., seed + seeds - 1.
    tolerance : float
        Gap, relative to the largest change of the observable, at which a rung counts as broken.
    max_steps : int
        Stochastic and descent are left out if they need more steps.

    Returns
    -------
    TheoryLadder
        With the gaps of `Ladder`, and `orders()`.

    Raises
    ------
    InputError
        An argument out of range, a system with sequence classes (see `ladder`), or a closed form of another shape.

    Examples
    --------
    >>> import numpy as np
    >>> import snapdyn as sd, sympy
    >>> u = sympy.Symbol("u")
    >>> decay = sd.System.from_sympy("Decay", {u: 1.0}, {u: -u})
    >>> rungs = sd.ladder_of(decay, [0.5, 1.0], 0.01, closed_form=lambda t: {"u": np.exp(-t)})
    >>> [rung.name for rung in rungs.rungs]
    ['descent', 'flow', 'closed form']
    >>> rungs.first_break() is None
    True
    """
    instance("system", system, System, "make it with System.from_sympy")
    if system.has_z:
        raise InputError(f"expected a system without attention logits, received {system.name}; use sd.ladder")
    size = positive("step_size", step_size)
    if fraction("momentum", momentum) and not system.is_autonomous:
        raise InputError(
            f"expected momentum=0 for a rate that depends on time, received {momentum:g}; with momentum, steps "
            "take the rate at other times than the flow"
        )
    positive("tolerance", tolerance)
    optional_function("sample_update", sample_update)
    seed, seeds = whole("seed", seed, 0), whole("seeds", seeds, 2)
    scaled = np.append(finite_array("t_eval", t_eval).ravel() / size, 0.0)
    times, steps = rounded_steps(scaled, momentum, whole("max_steps", max_steps, 1))
    times = times * size
    given = None if closed_form is None else function("closed_form", closed_form)(times)
    names = tuple(given) if isinstance(given, Mapping) else None

    def observe(run: Trajectory) -> dict[str, Floats]:
        if names is not None:
            return {name: run.observable(name).reshape(run.t.size, -1) for name in names}
        found = {"state": run.require_state()} | run.observables
        return {name: values.reshape(run.t.size, -1) for name, values in found.items()}

    def stepped() -> Ints:
        if steps is None:
            raise NotApplicable(f"more than max_steps = {max_steps} steps to t = {times[-1]:.4g}")
        return steps

    def stochastic() -> list[Trajectory]:
        if sample_update is None:
            raise NotApplicable("no sample_update")
        record = stepped()
        chosen = range(seed, seed + seeds)
        runs = descend_samples(system, sample_update, int(record[-1]), size, chosen, momentum, record)
        assert isinstance(runs, list)
        return [run.changed(t=times) if run.success else run for run in runs]

    def descent() -> Trajectory:
        record = stepped()
        run = descend(system, int(record[-1]), size, momentum, record)
        return run.changed(t=times) if run.success else run

    def closed() -> Trajectory:
        if given is None:
            raise NotApplicable("no closed_form")
        return _closed_trajectory(system, times, given)

    effective = size / (1 - momentum)
    plans: list[tuple[str, str, Callable[[], Any]]] = [
        (STOCHASTIC, "", stochastic),
        (DESCENT, f"Samples are averaged: seeds spread by the order of sqrt({effective:.2g}).", descent),
        (
            FLOW,
            f"Steps become a flow: order step_size/(1 - momentum) = {effective:.2g}.",
            lambda: ladder_run(system, times),
        ),
        (CLOSED, "Nothing is given up if the closed form solves the flow.", closed),
    ]
    rungs: list[Rung] = []
    absent: dict[str, str] = {}
    for name, approximation, run in plans:
        outcome = attempt(run)
        if isinstance(outcome, str):
            absent[name] = outcome
        else:
            rungs.append(Rung(name, outcome, approximation if rungs else "", observe))
    return TheoryLadder(
        times, tuple(rungs), absent, tolerance, system=system, step_size=size, momentum=momentum,
        sample_update=sample_update, seeds=seeds, seed=seed, steps=steps,
    )  # fmt: skip


def _closed_trajectory(system: System, times: Floats, given: Any) -> Trajectory:
    """The closed form as a trajectory."""
    state, observables = None, {}
    if isinstance(given, Mapping):
        of_start = system.observables(system.initial_state()[None])
        shapes = dict(system.state_shapes) | {name: values.shape[1:] for name, values in of_start.items()}
        for name, values in given.items():
            observables[name] = finite_array(f"closed_form {name!r}", values)
            expected = (times.size, *shapes.get(name, observables[name].shape[1:]))
            if observables[name].shape != expected:
                raise InputError(
                    f"expected {times.size} values of {name!r}, together of shape {expected}, from closed_form, "
                    f"received shape {observables[name].shape}; return one for each time"
                )
    else:
        state = finite_array("closed_form", given)
        if state.shape != (times.size, system.size):
            raise InputError(
                f"expected states of shape {(times.size, system.size)} from closed_form, received {state.shape}; "
                "return a row for each time, or a mapping of names to values"
            )
        observables = system.observables(state)
    lacking: Any = None
    return Trajectory(
        classes=None,
        t=times,
        z_support=lacking,
        z_initial=lacking,
        loss=lacking,
        system=f"closed form of {system.name}",
        parameters=dict(system.parameters),
        observables=observables,
        state=state,
        value_names=system.value_names,
        state_shapes=dict(system.state_shapes) if state is not None else {},
    )
