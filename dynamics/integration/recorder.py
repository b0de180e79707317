"""Converts the states of a run at the requested times to observables, and checks what the run should conserve.

A run has failed if a conserved quantity changes by more than a bound that rounding and the tolerances set.

Every conserved quantity here is a sum q = sum_j m_j y_j of state values with weights m_j (`ConservedSum`): a row of Y
over all outputs, a row of z over all tokens. In every state the terms of its rate sum_j m_j dy_j/dt cancel. A
Runge-Kutta or multistep method adds multiples of rates, so it changes q by rounding only; an implicit method changes q
also by the residual that it leaves in its equations.

*Rounding.* By Higham's rule a sum of `terms` numbers, however ordered, errs by at most gamma times the sum of their
absolute values, gamma = terms * eps (Accuracy and Stability of Numerical Algorithms, 2nd ed., Sec. 3.1). `terms` counts
the additions behind one value of the rate: output columns or tokens, classes, and the stages of the method. One
evaluation adds at most step times rate to the state. In absolute value, the terms of the rate times the step are at
most about as large as the state. For the solver rejects a step that changes the state by more than the size of the
state; and where the terms of a rate cancel (two classes with equal attention and different next tokens), the
eigenvalues -eta_Y p_n alpha_n (1 - alpha_n) of the Jacobian keep the product of step and term within the stability
interval of an explicit method. So

    |change of q| <= evaluations * gamma * (scale + margin),

with scale the largest sum_j m_j |y_j| so far and margin = 10 for the interval of stability (DOP853: 6). For z there is
one more contribution: the terms of its rate are eta_Z/eta_Y times those of Y, times |Y|, so the scale contains
(eta_Z/eta_Y) (1 + |Y|)^2. A Chebyshev method of s stages amplifies the rounding of stage j by at most s - j + 1: hence
the factor MOST_STAGES in gamma.

*Tolerance.* Implicit methods (LSODA, BDF, Radau, CVODE) solve their equations until the residual, divided by
w_j = atol + rtol |y_j|, has a root mean square below 1. By Cauchy and Schwarz this residual moves q by at most
sqrt(n) sqrt(sum_j (m_j w_j)^2) <= sqrt(n) (atol sum_j m_j + rtol scale) a step, n the number of state values.

The scale at a saved time includes the next saved time, since the step around a saved time ends after it. Only linear
sums have such a bound; other invariants of a system are reported but not checked.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from snapdyn.core.memory import require_memory
from snapdyn.dynamics.classes.table import Floats
from snapdyn.dynamics.systems.base import ConservedSum, System
from snapdyn.dynamics.systems.mean_field import MeanField
from snapdyn.dynamics.trajectories.representatives import Representatives
from snapdyn.dynamics.trajectories.run_parts import EventRecord, Lifted
from snapdyn.dynamics.trajectories.trajectory import Trajectory

# States wait to be turned into observables in batches of at most about this many numbers (32 MB).
NUMBERS_AT_ONCE = 4_000_000
# Runs of up to so many numbers are observed together: for larger ones the overhead of calls does not matter.
MOST_TOGETHER = 20_000
IMPLICIT = ("LSODA", "BDF", "Radau", "CVODE")
STAGES = 16  # largest number of stages that a method other than Chebyshev's adds
MARGIN = 10.0
NAN = np.array([np.nan])


class Ended(NamedTuple):
    """How a run ended; `again` may hold two functions that repeat it, for its states and for a run with its decoder."""

    status: str
    message: str
    stats: dict[str, Any]
    wall_time: float
    again: tuple[Callable[[Floats], Floats], Callable[[Floats], Trajectory]] | tuple[()] = ()


class Recorder:
    """Collects the observables at the requested times; the states themselves are not kept in memory.

    Parameters
    ----------
    system : System
    times : (N,) array
        Batch-size-1 steps.
    save_decoder : bool
        Keep Y.
    z_only : bool
        Collect no loss, no invariants and no extra quantities.

    Attributes
    ----------
    last : (float, (size,) array) or None
        Time and state at the end of a run; with `z_only`, conserved quantities are checked only there.
    ended : Ended or None
        How the run ended.
    like : Trajectory or None
        Trajectory of a run that differs from this one in its rates only.
    """

    def __init__(self, system: System, times: Floats, save_decoder: bool, z_only: bool) -> None:
        self.system, self.times, self.z_only = system, times, z_only
        # The first state values, as many as the observables need: the logits come first.
        self.width = system.num_logit_values if z_only and not save_decoder else system.size
        self._symmetric: Any = system if system.holds_kinds else None
        if self._symmetric:
            kept = system.size
        elif system.has_z and not save_decoder and system.classes is not None:
            kept = system.classes.z_coordinates[0].size
        else:
            kept = system.full_state(system.initial_state()).size
        require_memory(
            f"{times.size} saved times of {kept} numbers each", 8.0 * times.size * kept, "fewer times in t_eval"
        )
        self.count = self.steps = 0
        self.events: list[EventRecord] = []
        self._ids = system.decoder_ids() if save_decoder and not self._symmetric else (None, None)
        self.keeps_states = save_decoder
        self.rows_at_once = max(1, NUMBERS_AT_ONCE // self.width)
        self._waiting: list[tuple[Floats, Floats | None]] = []
        self._collected: list[dict[Any, Floats]] = []
        self._sums: dict[str, ConservedSum] = {}
        self._keeps_sums = False  # whether the conserved sums have been checked and are kept
        self.last: tuple[float, Floats] | None = None
        self.ended: Ended | None = None
        self.like: Trajectory | None = None

    def save_up_to(self, t: float, states_at: Callable[[Floats], Floats]) -> None:
        """Save every requested time up to `t`; `states_at` returns one row per time."""
        stop = int(np.searchsorted(self.times, t, side="right"))
        while self.count < stop:
            times = self.times[self.count : min(stop, self.count + self.rows_at_once)]
            self.keep(states_at(times), None)

    def keep(self, states: Floats, losses: Floats | None) -> None:
        """Keep the states at the next times, (number of times, width), with their losses if they are known.

        States are converted to observables many at once, because the overhead of a call dominates.
        """
        if len(states):
            self._waiting.append((states, losses))
            self.count += len(states)
            if sum(len(waiting) for waiting, _ in self._waiting) >= self.rows_at_once:
                self._observe()

    def _observe(self) -> None:
        """Convert the waiting states to observables.

        Everything is computed before anything is stored, so that after Ctrl-C all columns have the same length.
        """
        if not self._waiting:
            return
        states, losses = zip(*self._waiting, strict=True)
        known = None if any(each is None for each in losses) else np.concatenate(losses)
        self._collected.append(self._observables(states[0] if len(states) == 1 else np.concatenate(states), known))
        self._waiting.clear()

    def _observables(self, states: Floats, losses: Floats | None = None) -> dict[Any, Floats]:
        system = self.system
        kept = states
        if self._symmetric or system.shares_logits:
            kept = states[:, : system.num_logit_values]
        elif system.has_z:
            kept = system.z_support(states)
        is_whole = kept.flags.owndata or (kept.base is not None and kept.size == kept.base.size)
        values: dict[Any, Floats] = {"z" if system.has_z else "state": kept if is_whole else kept.copy()}
        if self.z_only and system.has_loss:
            values["loss"] = NAN.repeat(len(states))
        elif not self.z_only:
            values |= self._more(states, losses)
        if self._symmetric and self.keeps_states:
            values["Y"] = states[:, self._symmetric.num_logit_values :].copy()
        elif self._ids[0] is not None:
            values["Y"] = np.array([system.decoder(state) for state in states])
        return values

    def _more(self, states: Floats, losses: Floats | None) -> dict[Any, Floats]:
        """Loss, invariants and extra quantities."""
        system = self.system
        with np.errstate(all="ignore"):  # of a run that overflows
            values: dict[Any, Floats] = {}
            if system.has_loss:
                values["loss"] = np.array([system.loss(state) for state in states]) if losses is None else losses.copy()
            values |= {("invariant", name): np.array(each) for name, each in system.invariants(states).items()}
            for name, each in system.conserved_sums(states).items():
                values["scale", name] = np.array(each.scale)
                self._sums[name] = each
            values |= {("observable", name): np.array(each) for name, each in system.observables(states).items()}
            return values | {("extra", name): np.array(each) for name, each in system.extra(states).items()}

    def trajectory(self) -> Trajectory:
        """The trajectory of a run that has ended."""
        assert self.ended is not None
        status, message = self.ended.status, self.ended.message
        interrupted = False
        while self._waiting:
            try:
                self._observe()
            except KeyboardInterrupt:  # finish: the states are computed already
                interrupted = True
        if interrupted and status == "finished":
            message = "interrupted after the last time; all times are kept"
        if self.like and self._keeps_sums and not interrupted:
            return self._changed(self.like)
        kept = self._collected[0] if self._collected else {}
        if len(self._collected) > 1:
            kept = {key: np.concatenate([values[key] for values in self._collected]) for key in kept}
        system = self.system
        invariants = {key[1]: values for key, values in kept.items() if key[0] == "invariant"}
        if status in ("finished", "terminated") and not self._keeps_sums:
            times, changes, note = self.times[: self.count], invariants, ""
            sums = {name: each._replace(scale=kept["scale", name]) for name, each in self._sums.items()}
            if self.z_only and self.last is not None:
                times, end = np.array([self.last[0]]), self.last[1][None]
                note = " (with z_only, only the end of a run is checked)"
                with np.errstate(all="ignore"):
                    changes, sums = system.invariants(end), system.conserved_sums(end)
            violated = violation_message(times, changes, sums, self.ended.stats)
            status, message = ("failed", violated + note) if violated else (status, message)
        state = None
        optional: dict[str, Any] = dict.fromkeys(("z_support", "z_initial", "loss"))
        representatives = None
        if self._symmetric:
            z = kept["z"] if kept else np.empty((0, self._symmetric.num_logit_values))
            representatives = Representatives(self._symmetric.classes, z, kept.get("Y"))
        elif system.has_z:
            z = kept["z"] if kept else np.empty((0, system.z_support(system.initial_state()).size))
            shares = kept and system.shares_logits
            lifted = Lifted(z, system.value_of_z) if shares else z  # type: ignore[attr-defined]  # those that share have it
            optional |= {"z_support": lifted, "z_initial": system.z_initial}
        else:
            state = kept["state"] if kept else np.empty((0, system.size))
        if system.has_loss:
            optional["loss"] = kept.get("loss", np.empty(0))
        run = Trajectory(
            classes=system.classes,
            t=self.times[: self.count],
            system=system.name,
            parameters=dict(system.parameters),
            status=status,
            message=message,
            stats=self.ended.stats,
            invariants=invariants,
            extra={key[1]: values for key, values in kept.items() if key[0] == "extra"},
            observables={key[1]: values for key, values in kept.items() if key[0] == "observable"},
            Y=None if representatives else kept.get("Y"),
            decoder_rows=self._ids[0],
            decoder_outputs=self._ids[1],
            events=self.events,
            **optional,
            wall_time=self.ended.wall_time,
            state=state,
            value_names=() if system.has_z else system.value_names,
            representatives=representatives,
            state_shapes={} if system.has_z else dict(system.state_shapes),
        )
        if self.ended.again:
            run.keep_system(*self.ended.again)
        return run

    def _changed(self, like: Trajectory) -> Trajectory:
        """Trajectory of a finished run, made in a third of the time: a copy of `like` with the values of this run."""
        system: Any = self.system
        (kept,), ended = self._collected, self.ended
        assert ended is not None
        run = object.__new__(Trajectory)
        vars(run).update(vars(like))
        vars(run).update(
            z_support=Lifted(kept["z"], system.value_of_z),
            loss=kept["loss"],
            parameters=dict(system.parameters),
            status=ended.status,
            message=ended.message,
            stats=ended.stats,
            invariants={key[1]: values for key, values in kept.items() if key[0] == "invariant"},
            extra={},
            observables={},
            events=self.events,
            state_shapes={},
            wall_time=ended.wall_time,
        )
        run.keep_system(*ended.again)
        return run

    @property
    def layout_key(self) -> Any:
        """Key that is equal for runs whose states can be converted together; None for a run converted by itself."""
        system = self.system
        is_whole = self.ended is not None and self.ended.status == "finished" and self.last is not None
        if not is_whole or self._collected or self.keeps_states:
            return None
        if self.times.size * self.width + system.size > MOST_TOGETHER:
            return None
        # A subclass may have other conserved sums. The last bits of the quotient's products of matrices depend on the
        # number of states; a check may differ there.
        if type(system) is MeanField and (system.quotient is None or self.z_only):
            return id(system.form), id(system.classes)
        return None


def trajectories(recorders: Sequence[Recorder]) -> list[Trajectory]:
    """Trajectories of runs that have ended, in their order; states of runs with equal keys are converted together."""
    alike = defaultdict(list)
    for recorder in recorders:
        if (key := recorder.layout_key) is not None:
            alike[key].append(recorder)
    for group in alike.values():
        _observe_together(group)
        first = group[0].trajectory()
        for recorder in group[1:]:
            recorder.like = None if first.representatives else first
    return [recorder.trajectory() for recorder in recorders]


def _observe_together(group: Sequence[Recorder]) -> None:
    """Convert the states of runs that differ in their rates only, and check their conserved sums."""
    first = group[0]
    ratios = np.array([each.system.rate_ratio for each in group])
    if first.z_only:
        system = with_ratios(first.system, ratios)
        ends = np.array([each.last[1] for each in group if each.last])
        with np.errstate(all="ignore"):
            changes, sums = system.invariants(ends), system.conserved_sums(ends)
    else:
        whole = Recorder(with_ratios(first.system, np.repeat(ratios, first.times.size)), first.times, False, False)
        whole._waiting = [waiting for each in group for waiting in each._waiting]
        whole._observe()
        (values,) = whole._collected
        for i, recorder in enumerate(group):
            part = slice(i * first.times.size, (i + 1) * first.times.size)
            recorder._waiting, recorder._sums = [], whole._sums
            recorder._collected.append({key: each[part] for key, each in values.items()})
        changes = {key[1]: each for key, each in values.items() if key[0] == "invariant"}
        sums = {name: each._replace(scale=values["scale", name]) for name, each in whole._sums.items()}
    stats = [each.ended.stats for each in group if each.ended]
    numbers = {name: np.array([[each[name]] for each in stats]) for name in ("evaluations", "steps")}
    kept = np.ones(len(group), bool)
    for name, each in sums.items():
        with np.errstate(all="ignore"):
            bound = violation_bound(each._replace(scale=each.scale.reshape(len(group), -1)), stats[0] | numbers)
            kept &= (changes[name].reshape(len(group), -1) <= bound).all(axis=1)
    for recorder, keeps in zip(group, kept.tolist(), strict=True):
        recorder._keeps_sums = keeps


def with_ratios(system: Any, ratios: Floats) -> Any:
    """Copy of the system for reading N states at once, where each state has its own ratio of the rates, (N,)."""
    whole = copy.copy(system)
    whole.eta_Y, whole.eta_Z = 1.0, ratios
    return whole


class StateRecorder(Recorder):
    """Collects the states themselves, whatever the system, at times that all lie within the run."""

    def __init__(self, system: System, times: Floats) -> None:
        super().__init__(system, times, False, True)
        self.width, self.keeps_states = system.size, True

    def _observables(self, states: Floats, losses: Floats | None = None) -> dict[Any, Floats]:
        return {"state": states.copy()}

    def states(self) -> Floats:
        """States at the times, (N, size)."""
        self._observe()
        return np.concatenate([np.empty((0, self.width)), *(each["state"] for each in self._collected)])


def violation_bound(conserved: ConservedSum, run: Mapping[str, Any]) -> Floats:
    """Largest violation of a conserved sum, (..., N), that rounding and the tolerance explain at the saved times.

    Parameters
    ----------
    conserved : ConservedSum
        Its scale at the N saved times of one or more runs.
    run : mapping
        The entries method, rtol, atol, state_size, evaluations and steps of `Trajectory.stats`; the last two may be
        arrays (runs, 1).

    Returns
    -------
    (..., N) array
    """
    following = np.concatenate([conserved.scale[..., 1:], conserved.scale[..., -1:]], axis=-1)
    scale = np.maximum(np.maximum.accumulate(following, axis=-1), conserved.scale)
    gamma = (conserved.terms + STAGES) * np.finfo(np.float64).eps
    if run["method"] == "RKC":
        from snapdyn.dynamics.integration.scipy_solvers import MOST_STAGES

        gamma *= MOST_STAGES
    bound = run["evaluations"] * gamma * (scale + MARGIN)
    if run["method"] in IMPLICIT:
        remainder = run["atol"] * conserved.weight + run["rtol"] * scale
        bound = bound + run["steps"] * np.sqrt(run["state_size"]) * remainder
    return np.asarray(bound)


def violation_message(
    times: Floats,
    invariants: Mapping[str, Floats],
    conserved: Mapping[str, ConservedSum],
    run: Mapping[str, Any],
) -> str | None:
    """Say from which time on a run violates a conserved sum; None for a run within the bounds at all times.

    Parameters
    ----------
    times : (N,) array
        Saved times, batch-size-1 steps.
    invariants : mapping of str to (N,) array
        Violation of each conserved quantity.
    conserved : mapping of str to ConservedSum
        The conserved quantities with a bound.
    run : mapping
        The entries method, rtol, atol, state_size, evaluations and steps of `Trajectory.stats`.
    """
    first = times.size
    message = None
    for name, each in conserved.items():
        violation = invariants[name]
        with np.errstate(all="ignore"):
            bound = violation_bound(each, run)
            beyond = np.flatnonzero(~(violation <= bound))  # also where one of them is not a number
        if beyond.size and beyond[0] < first:
            first = int(beyond[0])
            kept = f"use the times before it ({first} of {times.size})" if first else "use none of its times"
            message = (
                f"failed from t = {times[first]:.6g} on: the {name}, which the flow conserves, changed by "
                f"{violation[first]:.3g}, and rounding and the tolerances explain at most {bound[first]:.3g}; {kept}, "
                "or try another method, a smaller rtol or log_time=True"
            )
    return message
