"""`ladder_of`: the ladder of any theory that gives samples, a rate or a closed form, and the orders of its gaps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.core.errors import (
    InputError,
    finite_array,
    fraction,
    function,
    instance,
    optional_function,
    positive,
    whole,
)
from snapdyn.dynamics.classes.table import Floats, Ints
from snapdyn.dynamics.integration.driver import integrate
from snapdyn.dynamics.systems.base import System
from snapdyn.dynamics.training.explicit_steps import descend, descend_samples
from snapdyn.dynamics.training.steps import momentum_clock
from snapdyn.dynamics.trajectories.trajectory import Trajectory
from snapdyn.validation.rungs.build import PRECISION, RungPlan, climb, required_steps, rounded_steps
from snapdyn.validation.rungs.gaps import Ladder
from snapdyn.validation.rungs.orders import Fit
from snapdyn.validation.rungs.run import CLOSED, DESCENT, NotApplicable

STOCHASTIC, FLOW = "stochastic", "flow"
ClosedForm = Callable[[Floats], Any]
# Gaps below this are the errors of the flow's integration, not of the steps.
SMALLEST_GAP = 1e-7


@dataclass(frozen=True, eq=False)
class TheoryLadder(Ladder):
    """A ladder made by `ladder_of`, which can make its rungs at other step sizes.

    Attributes
    ----------
    system : System or None
    step_size : float
    momentum : float
    sample_update : callable or None
    seeds : int
    seed : int
    steps : (N,) array of int or None
        Steps at which the rungs are compared.
    """

    system: System | None = None
    step_size: float = 1.0
    momentum: float = 0.0
    sample_update: Callable[..., Any] | None = None
    seeds: int = 20
    seed: int = 0
    steps: Ints | None = None

    def orders(self, halvings: int = 4, seeds: int | None = None) -> dict[str, Fit]:
        """Halve the step size, at fixed times of the flow, and fit the orders of descent and of the stochastic rung.

        Parameters
        ----------
        halvings : int
            Number of halvings, at least 3.
        seeds : int, optional
            Seeds at each step size; default 10 times those of the ladder.

        Returns
        -------
        dict of str to Fit
            By rung, a fit with its `order` and whether it `agrees` with the expected order: 1 for the distance of
            descent, 1/2 for the spread of the seeds, both relative to the largest change of the state on the flow. A
            rung that the ladder does not have is left out, and so is descent where it equals the flow to the tolerance
            of the integration.

        Raises
        ------
        InputError
            The samples do not differ between seeds.

        Examples
        --------
        >>> import snapdyn as sd, sympy
        >>> u = sympy.Symbol("u")
        >>> decay = sd.System.from_sympy("Decay", {u: 1.0}, {u: -u})
        >>> sd.ladder_of(decay, [1.0], step_size=0.1).orders()["descent"].agrees
        True
        """
        whole("halvings", halvings, 3)
        names = {rung.name for rung in self.rungs} & {DESCENT, STOCHASTIC}
        if self.system is None or self.steps is None or not names:
            return {}
        seeds = 10 * self.seeds if seeds is None else whole("seeds", seeds, 2)
        sizes: Floats = self.step_size * 0.5 ** np.arange(halvings + 1.0)
        gaps, spreads, errors = np.zeros((3, sizes.size))
        for k, size in enumerate(sizes):
            record = self.steps * 2**k
            times = size * momentum_clock(record, self.momentum)
            flow = _kept(integrate(self.system, times, **PRECISION))
            change = float(np.abs(flow - self.system.initial_state()).max()) or 1.0
            arguments = (int(record[-1]), float(size))
            if DESCENT in names:
                run = descend(self.system, *arguments, self.momentum, record)
                gaps[k] = np.abs(_kept(run) - flow).max() / change
            if STOCHASTIC in names and self.sample_update is not None:
                first = self.seed + self.seeds + k * seeds
                runs = descend_samples(
                    self.system, self.sample_update, *arguments, range(first, first + seeds), self.momentum, record
                )
                assert isinstance(runs, list)
                states = np.array([_kept(run) for run in runs])
                variance = ((states - states.mean(axis=0)) ** 2).reshape(seeds, -1).mean(axis=1) * seeds / (seeds - 1)
                spreads[k] = np.sqrt(variance.mean()) / change
                errors[k] = variance.std(ddof=1) / np.sqrt(seeds) / (2 * np.sqrt(variance.mean())) / change
        found = {}
        if STOCHASTIC in names and not (errors > 0).all():
            raise InputError(
                "expected samples that differ between seeds, received runs without spread; draw from rng in "
                "sample_update"
            )
        if DESCENT in names and gaps.max() > SMALLEST_GAP:
            found[DESCENT] = Fit("descent to flow, in the step", DESCENT, sizes, gaps, None, 1.0, 1.0)
        if STOCHASTIC in names:
            found[STOCHASTIC] = Fit("spread of the seeds, in the step", STOCHASTIC, sizes, spreads, errors, 0.5, 1.0)
        return found


def _kept(run: Trajectory) -> Floats:
    """States of a complete run; an incomplete run raises an error with its message."""
    if not run.success:
        raise InputError(f"expected runs to the last time, received one that {run.message}")
    return run.require_state()


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
        Heavy-ball momentum of both rungs that make steps; only for rates that do not depend on time.
    seeds : int
        Number of stochastic runs, whose mean is the rung; at least 2.
    seed : int
        The runs have the seeds seed, ..., seed + seeds - 1.
    tolerance : float
        Gap, relative to the largest change of the observable, at which a rung counts as broken.
    max_steps : int
        The stochastic rung and descent are left out if they need more steps.

    Returns
    -------
    TheoryLadder
        With the gaps of `Ladder`, and `orders()`.

    Raises
    ------
    InputError
        An argument is out of range, the system has sequence classes (see `ladder`), or the closed form has a wrong
        shape.

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

    def on_the_clock(run: Trajectory) -> Trajectory:
        return run.changed(t=times) if run.success else run

    def stochastic() -> list[Trajectory]:
        if sample_update is None:
            raise NotApplicable("no sample_update")
        record, chosen = required_steps(steps, max_steps, times), range(seed, seed + seeds)
        runs = descend_samples(system, sample_update, int(record[-1]), size, chosen, momentum, record)
        assert isinstance(runs, list)
        return [on_the_clock(run) for run in runs]

    def descent() -> list[Trajectory]:
        record = required_steps(steps, max_steps, times)
        return [on_the_clock(descend(system, int(record[-1]), size, momentum, record))]

    def closed() -> list[Trajectory]:
        if given is None:
            raise NotApplicable("no closed_form")
        return [_closed_trajectory(system, times, given)]

    effective = size / (1 - momentum)
    plans: list[RungPlan] = [
        (STOCHASTIC, "", stochastic),
        (DESCENT, f"Samples are averaged: seeds spread by the order of sqrt({effective:.2g}).", descent),
        (
            FLOW,
            f"Steps become a flow: order step_size/(1 - momentum) = {effective:.2g}.",
            lambda: [integrate(system, times, **PRECISION)],
        ),
        (CLOSED, "Nothing is given up if the closed form solves the flow.", closed),
    ]
    rungs, absent = climb(plans, observe)
    return TheoryLadder(
        times, rungs, absent, tolerance, system=system, step_size=size, momentum=momentum,
        sample_update=sample_update, seeds=seeds, seed=seed, steps=steps,
    )  # fmt: skip


def _closed_trajectory(system: System, times: Floats, given: Any) -> Trajectory:
    """The closed form as a trajectory."""
    start = integrate(system, [0.0])
    changes: dict[str, Any] = {"state": None, "state_shapes": {}, "observables": {}}
    if isinstance(given, Mapping):
        shapes = dict(start.state_shapes) | {name: values.shape[1:] for name, values in start.observables.items()}
        for name, values in given.items():
            found = finite_array(f"closed_form {name!r}", values)
            expected = (times.size, *shapes.get(name, found.shape[1:]))
            changes["observables"][name] = finite_array(
                f"closed_form {name!r}", found, expected, advice="return one value for each time"
            )
    else:
        advice = "return a row for each time, or a mapping of names to values"
        state = finite_array("closed_form", given, (times.size, system.size), advice=advice)
        changes = {"state": state, "observables": system.observables(state)}
    return start.changed(t=times, system=f"closed form of {system.name}", **changes)
