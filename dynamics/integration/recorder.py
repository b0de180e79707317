"""What a run keeps: states turned into observables at the asked times."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from snapdyn.dynamics.classes import Floats
from snapdyn.dynamics.integration.dormand_prince import NOTHING, logit_values
from snapdyn.dynamics.systems.base import System
from snapdyn.dynamics.systems.mean_field import MeanField
from snapdyn.dynamics.trajectory import EventRecord, Trajectory

# States wait to be turned into observables in batches of at most about this many numbers (32 MB).
NUMBERS_AT_ONCE = 4_000_000


class Recorder:
    """Keeps observables at the asked times, so that memory holds z and observables only.

    Parameters
    ----------
    system : System
    times : (N,) array
        Batch-size-1 steps.
    save_decoder : bool
        Keep Y.
    z_only : bool
        Keep no loss, no invariants, no extra quantities.
    """

    def __init__(self, system: System, times: Floats, save_decoder: bool, z_only: bool) -> None:
        self.system, self.times, self.z_only = system, times, z_only
        # State values that are enough for what is kept: where only z is, the logits, which stand first.
        self.width = logit_values(system) if z_only and system.has_z and not save_decoder else system.size
        self.count = self.steps = 0
        self.events: list[EventRecord] = []
        self._ids = system.decoder_ids() if save_decoder else (None, None)
        self.keeps_states = save_decoder
        self.rows_at_once = max(1, NUMBERS_AT_ONCE // self.width)
        self._waiting: list[Floats] = []
        self._found: list[dict[Any, Floats]] = []

    def save_up_to(self, t: float, states_at: Callable[[Floats], Floats]) -> None:
        """Save every asked time that is not later than `t`; states_at gives one row per time."""
        stop = int(np.searchsorted(self.times, t, side="right"))
        while self.count < stop:
            times = self.times[self.count : min(stop, self.count + self.rows_at_once)]
            self._waiting.append(states_at(times))
            self.count += times.size
            if sum(map(len, self._waiting)) >= self.rows_at_once:
                self._observe()

    def _observe(self) -> None:
        """Turn the waiting states into observables: many at once, because each call costs more than its work.

        Everything is computed before anything is kept, so that Ctrl-C leaves columns of one length.
        """
        if not self._waiting:
            return
        self._found.append(self._observables(np.concatenate(self._waiting)))
        self._waiting.clear()

    def keep(self, states: Floats, losses: Floats | None) -> None:
        """Turn the states at the next times, (number of times, width), into observables at once."""
        self._observe()
        if len(states):
            self._found.append(self._observables(states, losses))
            self.count += len(states)

    def _observables(self, states: Floats, losses: Floats | None = None) -> dict[Any, Floats]:
        system = self.system
        kept = system.z_support(states) if system.has_z else states
        found: dict[Any, Floats] = {"z" if system.has_z else "state": kept if kept.flags.owndata else kept.copy()}
        if self.z_only and system.has_loss:
            found["loss"] = np.full(len(states), np.nan)
        elif not self.z_only:
            found |= self._more(states, losses)
        if self._ids[0] is not None:
            # The mean field's Y is part of its state.
            carried = isinstance(system, MeanField)
            found["Y"] = system.decoder(states) if carried else np.array([system.decoder(state) for state in states])
        return found

    def _more(self, states: Floats, losses: Floats | None) -> dict[Any, Floats]:
        """Loss, invariants and extra quantities."""
        system = self.system
        with np.errstate(all="ignore"):  # of a run that overflows
            found: dict[Any, Floats] = {}
            if system.has_loss:
                found["loss"] = np.array([system.loss(state) for state in states]) if losses is None else losses.copy()
            found |= {("invariant", name): np.array(values) for name, values in system.invariants(states).items()}
            return found | {("extra", name): np.array(values) for name, values in system.extra(states).items()}

    def trajectory(self, status: str, message: str, stats: dict[str, Any], wall_time: float) -> Trajectory:
        interrupted = False
        while self._waiting:
            try:
                self._observe()
            except KeyboardInterrupt:  # what is computed is worth more than a quick end
                interrupted = True
        if interrupted and status == "finished":
            message = "interrupted after the last time; all times are kept"
        kept = self._found[0] if self._found else {}
        if len(self._found) > 1:
            kept = {key: np.concatenate([found[key] for found in self._found]) for key in kept}
        system = self.system
        state = None
        optional: dict[str, Any] = dict.fromkeys(("z_support", "z_initial", "loss"))
        if system.has_z:
            z = kept["z"] if kept else np.empty((0, system.z_support(system.initial_state()).size))
            optional |= {"z_support": z, "z_initial": system.z_initial}
        else:
            state = kept["state"] if kept else np.empty((0, system.size))
        if system.has_loss:
            optional["loss"] = kept.get("loss", NOTHING)
        return Trajectory(
            classes=system.classes,
            t=self.times[: self.count],
            system=system.name,
            parameters=dict(system.parameters),
            status=status,
            message=message,
            stats=stats,
            invariants={key[1]: values for key, values in kept.items() if key[0] == "invariant"},
            extra={key[1]: values for key, values in kept.items() if key[0] == "extra"},
            Y=kept.get("Y"),
            decoder_rows=self._ids[0],
            decoder_outputs=self._ids[1],
            events=self.events,
            **optional,
            wall_time=wall_time,
            state=state,
            value_names=() if system.has_z else system.value_names,
        )
