"""What `fit` can run: the curves of a theory at its free parameters, and simulated runs under the design of a trace."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import least_squares
from scipy.special import expit, logit  # importing scipy.stats takes half a second

from snapdyn.core.errors import InputError, finite_array
from snapdyn.dynamics.classes.table import Floats, Ints, SequenceClasses
from snapdyn.dynamics.integration.driver import whole_run
from snapdyn.dynamics.systems.base import System
from snapdyn.dynamics.systems.finite_length import FiniteLengthMeanField
from snapdyn.dynamics.systems.mean_field import MeanField
from snapdyn.dynamics.systems.own.own_system import OwnSystem
from snapdyn.dynamics.training.descent import sgd
from snapdyn.dynamics.training.explicit_steps import descend
from snapdyn.dynamics.training.steps import TraceClock
from snapdyn.dynamics.trajectories.trajectory import Trajectory
from snapdyn.validation.fitting import observations
from snapdyn.validation.rungs.run import of_rule, require_complete

PRECISION: dict[str, Any] = {"rtol": 1e-8, "atol": 1e-10}
MOST_STEPS = 2_000_000  # updates that a curve makes one by one
FIRST_SEED = 2**40  # runs of the user have other seeds
AT_ONCE = 50  # simulated runs between two reports of the progress
STEP = 1e-3  # of central differences, in coordinates
FARTHEST = 1e6  # residual, in units of the data, where the theory cannot be run

Progress = Callable[[int, int], None]
Process = Callable[[dict[str, float], int], Mapping[str, Any]]


class Scale(NamedTuple):
    """Coordinate in which a parameter is fitted and its interval is symmetric: to it, back, d(parameter)/d(it)."""

    to: Callable[[Any], Any]
    back: Callable[[Any], Any]
    slope: Callable[[Any], Any]


LOGARITHM = Scale(np.log, np.exp, lambda value: value)
ODDS = Scale(logit, expit, lambda value: value * (1.0 - value))
LINEAR = Scale(float, float, lambda value: 1.0)


@dataclass(frozen=True, eq=False, kw_only=True)
class Theory:
    """Curves of a theory at the N records of a trace, (N, m), as a function of the coordinates of free parameters.

    Attributes
    ----------
    free : tuple of str
    scales : mapping of str to Scale
        Of the free parameters.
    fixed : mapping of str to float
        Values of the parameters that are not free.
    t : (N,) array
        Times of the theory by the clock of the trace.
    """

    free: tuple[str, ...]
    scales: Mapping[str, Scale]
    fixed: Mapping[str, float]
    t: Floats

    def values(self, x: Floats) -> dict[str, float]:
        """Parameters by name, free and fixed, at the coordinates x (k,)."""
        return {
            **self.fixed,
            **{name: float(self.scales[name].back(each)) for name, each in zip(self.free, x, strict=True)},
        }

    def coordinates(self, values: Mapping[str, float]) -> Floats:
        """Coordinates of the free parameters, (k,)."""
        return np.array([self.scales[name].to(values[name]) for name in self.free])

    def in_words(self, x: Floats) -> str:
        """The free parameters."""
        values = self.values(x)
        return ", ".join(f"{name} = {values[name]:.3g}" for name in self.free)

    def curves(self, x: Floats) -> Floats:
        """What the theory expects of the mean of many seeds, (N, m); RuntimeError where it cannot be run."""
        raise NotImplementedError

    def flow(self, x: Floats, t: Floats) -> Floats:
        """Curves of the flow at other times, increasing from 0, (len(t), m)."""
        raise NotImplementedError

    def simulated(self, x: Floats, runs: int, progress: Progress | None = None) -> Floats:
        """Simulated runs of one seed each, (runs, N, m); RuntimeError where one of them diverges."""
        raise NotImplementedError

    def rounding(self, x: Floats, draws: int) -> Floats:
        """What the digits of the trace add to the values, drawn at random: (draws, N, m), or 0 in one number."""
        return np.zeros((1, 1, 1))

    def trajectory(self, x: Floats) -> Trajectory | None:
        """Run of the flow at the records; None where it cannot be integrated though finite steps can."""
        try:
            return whole_run(self.build(x), np.unique(self.t), **PRECISION)
        except RuntimeError:
            return None

    def build(self, x: Floats) -> System:
        """The system at the parameters."""
        raise NotImplementedError

    @property
    def for_search(self) -> Theory:
        """The theory whose minima are sought first."""
        return self

    def start(self, x: Floats) -> Floats:
        """Values at t = 0, (m,)."""
        return self.flow(x, np.zeros(1))[0]

    def derivatives(self, x: Floats) -> Floats:
        """Derivatives (k, N, m) of the curves by the coordinates."""
        moves = STEP * np.eye(x.size)
        return np.array([(self.curves(x + move) - self.curves(x - move)) / (2 * STEP) for move in moves])

    def without(self, name: str, value: float) -> Theory:
        """The theory with one free parameter fixed."""
        rest = tuple(other for other in self.free if other != name)
        return replace(self, free=rest, fixed={**self.fixed, name: value})


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassTheory(Theory):
    """A theory of sequence classes, laid over a trace of training.

    Attributes
    ----------
    system : type of System
        Built as system(classes, eta_Y, eta_Z), with seq_len and z_initial where it takes them.
    classes : SequenceClasses
    quantity : str
        "attention", "entropy" or "loss", as `observations` takes them from runs.
    clock : TraceClock
    updates : (N,) array
        Updates at the records.
    seq_len : int or None
    z_initial : (Q, M) array or None
    digits : Digits
        With which the trace was written.
    """

    system: type[System]
    classes: SequenceClasses
    quantity: str
    clock: TraceClock
    updates: Floats
    seq_len: int | None
    z_initial: Floats | None
    digits: observations.Digits

    def curves(self, x: Floats) -> Floats:
        """Expected curves: those of steps on the expected gradient where these are few, else those of the flow.

        With a rule such as Adam they are those of its mean map; for finite sequences, whose bias Adam makes as large as
        its other steps, they are means of a few simulated runs, always of the same seeds and so smooth in x.
        """
        if self.clock.has_rule and self.seq_len:
            return np.mean(self.simulated(x, AT_ONCE), axis=0)
        run, place = self._expected(x)
        return self._observed(run)[place]

    def rounding(self, x: Floats, draws: int) -> Floats:
        run, place = self._expected(x)
        found = observations.rounding(run, self.quantity, self.digits, draws)
        return found[:, place] if len(found) > 1 else found

    def flow(self, x: Floats, t: Floats) -> Floats:
        run, place = self._flow(x, t)
        return self._observed(run)[place]

    def simulated(self, x: Floats, runs: int, progress: Progress | None = None) -> Floats:
        found: list[Floats] = []
        for first in range(FIRST_SEED, FIRST_SEED + runs, AT_ONCE):
            seeds = range(first, min(first + AT_ONCE, FIRST_SEED + runs))
            made = self._trained(x, batch_size=self.clock.batch_size, seq_len=self.seq_len, seed=seeds)
            found += [self._observed(run) for run in made]
            if progress:
                progress(len(found), runs)
        values = np.array(found)
        if not np.isfinite(values).all():
            raise RuntimeError("the attention of a simulated run underflows to 0")
        return values

    def trajectory(self, x: Floats) -> Trajectory | None:
        return self._flow(x, self.t)[0] if self.clock.has_rule else super().trajectory(x)

    @property
    def for_search(self) -> Theory:
        """With a rule such as Adam that of infinitely long sequences, which needs no simulated runs."""
        return replace(self, seq_len=None) if self.clock.has_rule else self

    def _expected(self, x: Floats) -> tuple[Trajectory, Ints]:
        """Run of many seeds' mean, and the places of the records in it: that of steps, or that of the flow."""
        if self.makes_steps:
            return self._trained(x, batch_size=None)[0], np.arange(self.t.size)
        return self._flow(x, self.t)

    def _flow(self, x: Floats, t: Floats) -> tuple[Trajectory, Ints]:
        """Run of the flow, and the places of the times in it: updates with the multiplier 0 take no time.

        With a rule such as Adam it is the mean map at whole updates, which exists for every schedule.
        """
        different, place = np.unique(np.rint(t) if self.clock.has_rule else t, return_inverse=True)
        if self.clock.has_rule:
            return self._mean_map(x, different.astype(int)), place
        return whole_run(self.build(x), different, **PRECISION), place

    def _mean_map(self, x: Floats, made: Ints) -> Trajectory:
        """The mean map of the rule of the trace after whole updates, increasing."""
        values = self.values(x)
        clock, schedule = values.get("clock", 1.0), self.clock.schedule
        rates = clock * values["eta_Y"], clock * values["eta_Z"]
        system = of_rule(self.classes_at(values), *rates, self.clock, z_initial=self.z_initial)
        last = int(made[-1])
        run = descend(system, last, 1.0, record=made, schedule=None if schedule is None else schedule[:last])
        require_complete([run])
        return run

    def _trained(self, x: Floats, **options: Any) -> list[Trajectory]:
        """Training with the updates, rule and start of the trace, whose clock multiplies both rates."""
        values, made = self.values(x), np.rint(self.updates).astype(int)
        factor = values.get("clock", 1.0)
        runs = sgd(
            self.classes_at(values), factor * values["eta_Y"], factor * values["eta_Z"], int(made[-1]),
            momentum=self.clock.momentum, optimizer=self.clock.optimizer, record=made,
            schedule=None if self.clock.schedule is None else self.clock.schedule[: made[-1]],
            init="zeros" if self.z_initial is None else {"z": self.z_initial}, **({"seed": [0]} | options),
        )  # fmt: skip
        require_complete(runs)
        return list(runs)

    @property
    def knows_steps(self) -> bool:
        """Whether the records are whole updates, whose training can be repeated."""
        return self.clock.counts != "theory" and np.allclose(np.rint(self.updates), self.updates, rtol=0, atol=1e-6)

    @property
    def is_training(self) -> bool:
        """Whether the theory is that of the training itself, and not an approximation that training may leave."""
        return self.system in (MeanField, FiniteLengthMeanField)

    @property
    def makes_steps(self) -> bool:
        """Whether `curves` are those of finite steps on the expectation, which exists for infinitely long sequences."""
        few = self.updates[-1] <= MOST_STEPS
        return self.knows_steps and self.system is MeanField and not self.clock.has_rule and bool(few)

    def classes_at(self, values: Mapping[str, float]) -> SequenceClasses:
        """Classes with the given common_probability; the profiles within common and within distinct tokens are kept."""
        share = values.get("common_probability")
        return self.classes if share is None else observations.with_common_probability(self.classes, share)

    def build(self, x: Floats) -> System:
        """The system at the parameters; the clock multiplies both rates."""
        values, accepted = self.values(x), inspect.signature(self.system).parameters
        clock, options = values.get("clock", 1.0), {"seq_len": self.seq_len, "z_initial": self.z_initial}
        constructor: Any = self.system
        system: System = constructor(
            self.classes_at(values), clock * values["eta_Y"], clock * values["eta_Z"],
            **{name: value for name, value in options.items() if name in accepted},
        )  # fmt: skip
        return system

    def _observed(self, run: Trajectory) -> Floats:
        return observations.of_run(run, self.quantity)


@dataclass(frozen=True, eq=False, kw_only=True)
class OwnTheory(Theory):
    """A system of the user, whose observables `names` a trace holds; its time is that of the trace.

    Attributes
    ----------
    system : OwnSystem
    names : tuple of str
    process : callable or None
        (parameters, seed) -> {name: (records of the trace,)}: one run with noise.
    rows : (N,) array
        Records of the trace that are used.
    """

    system: OwnSystem
    names: tuple[str, ...]
    process: Process | None
    rows: Ints

    def build(self, x: Floats) -> System:
        return self.system.with_parameters(**self.values(x))

    def curves(self, x: Floats) -> Floats:
        return self.flow(x, self.t)

    def flow(self, x: Floats, t: Floats) -> Floats:
        run = whole_run(self.build(x), t, **PRECISION)
        return self._columns({name: run.observable(name) for name in self.names}, t.size)

    def simulated(self, x: Floats, runs: int, progress: Progress | None = None) -> Floats:
        assert self.process is not None
        found, size = [], int(self.rows[-1]) + 1
        for seed in range(FIRST_SEED, FIRST_SEED + runs):
            made = self.process(self.values(x), seed)
            if not isinstance(made, Mapping) or not set(self.names) <= set(made):
                raise InputError(
                    f"expected the process to return a mapping with {', '.join(self.names)}, received "
                    f"{', '.join(map(str, made)) if isinstance(made, Mapping) else type(made).__name__}; return one "
                    "array for each observable of the trace"
                )
            values = {name: finite_array(f"{name} of the process", made[name], ("steps",)) for name in self.names}
            short = [name for name, each in values.items() if each.size < size]
            if short:
                raise InputError(
                    f"expected {short[0]} of the process at every step of the trace, received an array of shape "
                    f"{values[short[0]].shape}; return one value per step"
                )
            found.append(self._columns({name: each[self.rows] for name, each in values.items()}, self.rows.size))
            if progress and len(found) % AT_ONCE == 0:
                progress(len(found), runs)
        return np.array(found)

    def _columns(self, values: Mapping[str, Floats], records: int) -> Floats:
        return np.concatenate([np.reshape(values[name], (records, -1)) for name in self.names], axis=1)


def least_deviation(
    theory: Theory, deviation: Callable[[Floats], Floats], start: Floats, reach: float
) -> tuple[Floats, bool]:
    """Coordinates of the least square of `deviation` of the curves (N, m), a linear function, near a start.

    Parameters
    ----------
    theory : Theory
    deviation : callable
        Curves (N, m) -> residuals (n,), linear up to a constant.
    start : (k,) array
    reach : float
        Factor within which positive parameters stay.

    Returns
    -------
    x : (k,) array
    far : bool
        Whether the search ended at this limit.
    """
    constant = deviation(np.zeros_like(theory.curves(start)))

    def residuals(x: Floats) -> Floats:
        try:
            found = deviation(theory.curves(x))
        except RuntimeError:
            return np.full_like(constant, FARTHEST)
        return found if np.isfinite(found).all() else np.full_like(constant, FARTHEST)

    def jacobian(x: Floats) -> Floats:
        return np.array([deviation(each) - constant for each in theory.derivatives(x)]).T

    width = np.array([np.inf if theory.scales[name] is LINEAR else np.log(reach) for name in theory.free])
    limits = start - width - 1e-9, start + width + 1e-9
    x = least_squares(residuals, start, jacobian, limits, "trf", xtol=1e-9, ftol=1e-12, x_scale="jac").x
    return x, bool((np.abs(x - start) > width - 1e-3).any())
