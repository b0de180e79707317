"""Converts the states of a run at the requested times to observables, and collects them in a trajectory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from snapdyn.dynamics.classes import Floats
from snapdyn.dynamics.integration.conservation import violation_message
from snapdyn.dynamics.memory import require_memory
from snapdyn.dynamics.run_parts import EventRecord, Lifted
from snapdyn.dynamics.symmetry.representatives import Representatives
from snapdyn.dynamics.symmetry.systems import ReducedSystem
from snapdyn.dynamics.systems.base import ConservedSum, System
from snapdyn.dynamics.systems.mean_field import MeanField
from snapdyn.dynamics.trajectory import Trajectory

# States wait to be turned into observables in batches of at most about this many numbers (32 MB).
NUMBERS_AT_ONCE = 4_000_000


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
        Time and state at the end of a run, whose conserved quantities alone are checked with `z_only`.
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
        self._waiting: list[Floats] = []
        self._collected: list[dict[Any, Floats]] = []
        self._sums: dict[str, ConservedSum] = {}
        self.last: tuple[float, Floats] | None = None

    def save_up_to(self, t: float, states_at: Callable[[Floats], Floats]) -> None:
        """Save every requested time up to `t`; `states_at` returns one row per time."""
        stop = int(np.searchsorted(self.times, t, side="right"))
        while self.count < stop:
            times = self.times[self.count : min(stop, self.count + self.rows_at_once)]
            self._waiting.append(states_at(times))
            self.count += times.size
            if sum(map(len, self._waiting)) >= self.rows_at_once:
                self._observe()

    def _observe(self) -> None:
        """Convert the waiting states to observables: many at once, because the overhead of a call dominates.

        Everything is computed before anything is stored, so that after Ctrl-C all columns have the same length.
        """
        if not self._waiting:
            return
        self._collected.append(self._observables(np.concatenate(self._waiting)))
        self._waiting.clear()

    def keep(self, states: Floats, losses: Floats | None) -> None:
        """Convert the states at the next times, (number of times, width), to observables at once."""
        self._observe()
        if len(states):
            self._collected.append(self._observables(states, losses))
            self.count += len(states)

    def _observables(self, states: Floats, losses: Floats | None = None) -> dict[Any, Floats]:
        system = self.system
        if self._symmetric:
            kept = states[:, : self._symmetric.num_logit_values]
        elif system.shares_logits:
            kept = states[:, : system.num_logit_values]
        else:
            kept = system.z_support(states) if system.has_z else states
        values: dict[Any, Floats] = {"z" if system.has_z else "state": kept if kept.flags.owndata else kept.copy()}
        if self.z_only and system.has_loss:
            values["loss"] = np.full(len(states), np.nan)
        elif not self.z_only:
            values |= self._more(states, losses)
        if self._symmetric and self.keeps_states:
            values["Y"] = states[:, self._symmetric.num_logit_values :].copy()
        elif self._ids[0] is not None:
            carried = isinstance(getattr(system, "full", system), MeanField)  # Y is part of the state
            values["Y"] = system.decoder(states) if carried else np.array([system.decoder(state) for state in states])
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

    def trajectory(self, status: str, message: str, stats: dict[str, Any], wall_time: float) -> Trajectory:
        interrupted = False
        while self._waiting:
            try:
                self._observe()
            except KeyboardInterrupt:  # finish: the states are computed already
                interrupted = True
        if interrupted and status == "finished":
            message = "interrupted after the last time; all times are kept"
        kept = self._collected[0] if self._collected else {}
        if len(self._collected) > 1:
            kept = {key: np.concatenate([values[key] for values in self._collected]) for key in kept}
        system = self.system
        invariants = {key[1]: values for key, values in kept.items() if key[0] == "invariant"}
        if status in ("finished", "terminated"):
            times, changes, note = self.times[: self.count], invariants, ""
            sums = {name: each._replace(scale=kept["scale", name]) for name, each in self._sums.items()}
            if self.z_only and self.last is not None:
                times, end = np.array([self.last[0]]), self.last[1][None]
                note = " (with z_only, the end of a run alone is checked)"
                with np.errstate(all="ignore"):
                    changes, sums = system.invariants(end), system.conserved_sums(end)
            violated = violation_message(times, changes, sums, stats)
            status, message = ("failed", violated + note) if violated else (status, message)
        state = None
        optional: dict[str, Any] = dict.fromkeys(("z_support", "z_initial", "loss"))
        representatives = None
        if self._symmetric:
            z = kept["z"] if kept else np.empty((0, self._symmetric.num_logit_values))
            representatives = Representatives(self._symmetric.classes, z, kept.get("Y"))
        elif system.has_z:
            z = kept["z"] if kept else np.empty((0, system.z_support(system.initial_state()).size))
            lifted = (
                Lifted(z, system.value_of_z)
                if kept and isinstance(system, ReducedSystem) and system.shares_logits
                else z
            )
            optional |= {"z_support": lifted, "z_initial": system.z_initial}
        else:
            state = kept["state"] if kept else np.empty((0, system.size))
        if system.has_loss:
            optional["loss"] = kept.get("loss", np.empty(0))
        return Trajectory(
            classes=system.classes,
            t=self.times[: self.count],
            system=system.name,
            parameters=dict(system.parameters),
            status=status,
            message=message,
            stats=stats,
            invariants=invariants,
            extra={key[1]: values for key, values in kept.items() if key[0] == "extra"},
            observables={key[1]: values for key, values in kept.items() if key[0] == "observable"},
            Y=None if representatives else kept.get("Y"),
            decoder_rows=self._ids[0],
            decoder_outputs=self._ids[1],
            events=self.events,
            **optional,
            wall_time=wall_time,
            state=state,
            value_names=() if system.has_z else system.value_names,
            representatives=representatives,
            state_shapes={} if system.has_z else dict(system.state_shapes),
        )


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
