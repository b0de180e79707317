"""What a run keeps at the requested times: its states, or, where these are large, what is read from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from snapdyn.core.memory import require_memory
from snapdyn.dynamics.classes.table import Floats, SequenceClasses
from snapdyn.dynamics.integration.between_steps import DenseOutput
from snapdyn.dynamics.observables import class_logits
from snapdyn.dynamics.systems.base import ConservedSum, System
from snapdyn.dynamics.trajectories.run_parts import EventRecord, Representatives
from snapdyn.dynamics.trajectories.trajectory import Trajectory

IMPLICIT = ("LSODA", "BDF", "Radau", "CVODE")
STAGES = 16  # largest number of stages that a method other than Chebyshev's adds
MARGIN = 10.0


def violation_bound(conserved: ConservedSum, scale: Floats | float, run: Mapping[str, Any]) -> Floats:
    """Largest violation of a conserved sum, (N,), that rounding and the tolerance explain at N increasing times.

    Parameters
    ----------
    conserved : ConservedSum
    scale : (N,) array or 0
        Its largest scale up to these times; 0: the least that it can be.
    run : mapping
        The entries method, rtol, atol, state_size, evaluations and steps of `Trajectory.stats`.

    Returns
    -------
    (N,) array
    """
    gamma = (conserved.terms + STAGES) * np.finfo(np.float64).eps
    if run["method"] == "RKC":
        from snapdyn.dynamics.integration.scipy_solvers import MOST_STAGES

        gamma *= MOST_STAGES
    bound = run["evaluations"] * gamma * (scale + MARGIN)
    if run["method"] in IMPLICIT:
        remainder = run["atol"] * conserved.weight + run["rtol"] * scale
        bound = bound + run["steps"] * np.sqrt(run["state_size"]) * remainder
    return np.asarray(bound)


def violation_message(system: System, times: Floats, states: Floats, run: Mapping[str, Any]) -> str:
    """Say from which time on a run violates a conserved sum; "" for a run within the bounds at all times.

    Parameters
    ----------
    system : System
    times : (N,) array
        Increasing times, batch-size-1 steps.
    states : (N, size) array
        At these times.
    run : mapping
        As for `violation_bound`.
    """
    first, message = times.size, ""
    with np.errstate(all="ignore"):  # of a run that overflows
        for name, each in system.conserved_sums(states).items():
            if (each.violation <= violation_bound(each, 0.0, run)).all():
                continue
            bound = violation_bound(each, np.maximum.accumulate(each.scale()), run)
            beyond = np.flatnonzero(~(each.violation <= bound))  # also where one of them is not a number
            if beyond.size and beyond[0] < first:
                first = int(beyond[0])
                message = (
                    f"failed at t = {times[first]:.6g} or before: the {name}, which the flow conserves, changed by "
                    f"{each.violation[first]:.3g}, and rounding and the tolerances explain at most {bound[first]:.3g}; "
                    "try another method, a smaller rtol or log_time=True"
                )
    return message


# A run keeps whole states up to so many numbers (32 MB); of a larger run, what is read from as many at a time.
NUMBERS_AT_ONCE = 4_000_000


class Recorder:
    """Keeps the states of a run at the requested times, and makes its trajectory.

    The quantities of a trajectory are read from the states when they are asked for. Where the states are too large to
    be kept, logits, loss, invariants and the system's own quantities are read while the run goes on.

    Parameters
    ----------
    system : System
    times : (N,) array
        Batch-size-1 steps.
    save_decoder : bool
        Keep Y.
    z_only : bool
        Keep no loss, no invariants and no quantities of the system.
    numbers : int
        Up to so many numbers, whole states are kept; else so many numbers are read at a time.

    Attributes
    ----------
    width : int
        The first state values, as many as are kept.
    count : int
        Number of times kept.
    """

    def __init__(
        self, system: System, times: Floats, save_decoder: bool, z_only: bool, numbers: int = NUMBERS_AT_ONCE
    ) -> None:
        self._system, self.times = system, times
        self._save_decoder, self._z_only = save_decoder, z_only
        self._ids = system.decoder_ids() if save_decoder and not system.holds_kinds else (None, None)
        self.width = system.num_logit_values if z_only and not save_decoder else system.size
        fits = times.size * self.width <= numbers
        self.keeps_states = fits or save_decoder or z_only or system.holds_kinds or not system.has_z
        kept = self.width
        if not self.keeps_states and system.classes is not None:
            kept = system.classes.z_coordinates[0].size
        require_memory(
            f"{times.size} saved times of {kept} numbers each", 8.0 * times.size * kept, "fewer times in t_eval"
        )
        self.rows_at_once = times.size if self.keeps_states else max(1, numbers // self.width)
        self.count = 0
        self._states: list[Floats] = []
        self._losses: list[Floats | None] = []
        self._read: list[dict[str, Any]] = []

    def keep(self, states: Floats, losses: Floats | None) -> None:
        """Keep the states at the next times, (number of times, width), with their losses; none: they are not known."""
        if len(states):
            self._states.append(states)
            self._losses.append(losses if losses is not None and losses.size else None)
            self.count += len(states)
            if not self.keeps_states:
                self._read_waiting()

    def _read_waiting(self) -> None:
        """Read what is kept from the waiting states; nothing is stored before all of it is read, because of Ctrl-C."""
        values = {name: read() for name, read in self._readers().items()}
        self._read.append(values)
        self._states, self._losses = [], []

    def _readers(self) -> dict[str, Callable[[], Any]]:
        """Functions that read the quantities of a trajectory from the states, by name."""
        system: Any = self._system
        losses = None if any(each is None for each in self._losses) else self._losses
        states = _joined(self._states, self.width)
        readers: dict[str, Callable[[], Any]] = {}
        if system.has_z:
            readers["z_support"] = partial(_quietly, system.z_support, states)
        else:
            readers["state"] = partial(_quietly, system.full_state, states)
        if system.has_loss and not self._z_only:
            readers["loss"] = partial(_joined, losses, 0) if losses else partial(_quietly, _losses_of, system, states)
        elif system.has_loss:
            readers["loss"] = partial(np.full, len(states), np.nan)
        for name in ("invariants", "extra", "observables") if self.count and not self._z_only else ():
            readers[name] = partial(_quietly, getattr(system, name), states)
        return readers

    def violation(self, t: float, state: Floats, run: Mapping[str, Any]) -> str:
        """Say from which time on the run, which has ended in `state` at t, violates a conserved sum; "" if it does not.

        `run` is as for `violation_bound`.
        """
        message = violation_message(self._system, np.array([t]), state[None], run)
        if message and self.count and self.keeps_states and self.width == self._system.size:  # they say it more exactly
            states = _joined(self._states, self.width)
            message = violation_message(self._system, self.times[: self.count], states, run) or message
        return message

    def trajectory(
        self,
        status: str,
        message: str,
        stats: dict[str, Any],
        wall_time: float,
        events: Sequence[EventRecord] = (),
        dense: DenseOutput | None = None,
    ) -> Trajectory:
        """The trajectory of a run that has ended so."""
        system: Any = self._system
        if self._states and not self.keeps_states:  # Ctrl-C came while they were read: their integration is done
            self._read_waiting()
            message = message or "interrupted after the last time; all times are kept"
        values: dict[str, Any]
        if self.keeps_states:
            values = {**self._readers()}
            states = _joined(self._states, self.width)
            decoder = None if self.width < system.size else partial(_decoders, system, states)
        else:
            values, decoder = _concatenated(self._read or [{n: r() for n, r in self._readers().items()}]), None
        if type(system).extra is not System.extra and "extra" in values and self.keeps_states:
            values["extra"] = values["extra"]()  # it may warn of the states
        saves_decoder = self._save_decoder and self.count > 0
        if system.holds_kinds:
            first = system.num_logit_values
            z, Y = states[:, :first], None if self.width < system.size else states[:, first:]
            values.pop("z_support")
            values["representatives"] = Representatives(system.classes, z, Y, saves_decoder)
        elif system.has_z:
            values["z_initial"] = system.z_initial
            if saves_decoder:
                values |= {"Y": decoder, "decoder_rows": self._ids[0], "decoder_outputs": self._ids[1]}
            elif decoder and system.classes is not None and type(system).decoder is not System.decoder:
                values["speed"] = partial(_speed, system, values["z_support"], decoder)
        return Trajectory(
            classes=system.classes,
            t=self.times[: self.count],
            system=system.name,
            parameters=dict(system.parameters),
            status=status,
            message=message,
            stats=stats,
            events=events,
            wall_time=wall_time,
            value_names=() if system.has_z else system.value_names,
            state_shapes={} if system.has_z else dict(system.state_shapes),
            dense=dense,
            **values,
        )


def _joined(parts: Any, width: int) -> Floats:
    """The rows of all parts, (N, width); the part itself, not a copy, where it is the only one."""
    if len(parts) == 1:
        return np.asarray(parts[0])
    return np.concatenate(parts) if parts else np.empty((0, width) if width else 0)


def _quietly(read: Callable[..., Any], *arguments: Any) -> Any:
    """Read without numpy's warnings: the states may be those of a run that overflowed."""
    with np.errstate(all="ignore"):
        return read(*arguments)


def _losses_of(system: System, states: Floats) -> Floats:
    return np.array([system.loss(state) for state in states])


def _decoders(system: System, states: Floats) -> Floats:
    """Y at each of the times, (N, rows, columns)."""
    rows, columns = system.decoder(system.initial_state()).shape
    require_memory(f"Y of {rows} rows and {columns} columns at {len(states)} times", 8.0 * rows * columns * len(states),
                   "fewer times in t_eval")  # fmt: skip
    return np.array([system.decoder(state) for state in states]).reshape(-1, rows, columns)


def _speed(system: Any, z_support: Callable[[], Floats], decoders: Callable[[], Floats]) -> Floats:
    """The measured speed gamma_n of each class, (N, S)."""
    classes: SequenceClasses = system.classes
    attention = classes.attention_from_support(z_support())
    return class_logits(classes, attention, decoders(), *system.decoder_ids()).speed


def _concatenated(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Values of all parts by name; values may be arrays (N, ...) or such values by name."""
    return {
        name: _concatenated([each[name] for each in parts])
        if isinstance(value, dict)
        else np.concatenate([each[name] for each in parts])
        for name, value in parts[0].items()
    }
