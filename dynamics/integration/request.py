"""What a run is asked for: the arguments of `integrate`, checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.dynamics.classes import Floats
from snapdyn.dynamics.integration.events import Event
from snapdyn.dynamics.integration.times import LATEST_TIME, checked_times
from snapdyn.errors import InputError, choice, flag, positive, shown, whole

METHODS = ("compiled", "DOP853", "RK45", "RK23", "LSODA", "BDF", "Radau", "CVODE", "RKC")
SMALLEST_RTOL = 100 * float(np.finfo(np.float64).eps)  # scipy raises smaller ones to this


@dataclass(frozen=True)
class Request:
    """Arguments of `integrate` except the system, with the same defaults; checked at construction.

    Attributes
    ----------
    times : (N,) array
        The checked `t_eval`.
    """

    t_eval: ArrayLike
    method: str = "auto"
    rtol: float = 1e-8
    atol: float = 1e-10
    log_time: bool | None = None
    events: Mapping[str, Event] | None = None
    save_decoder: bool = False
    progress: Callable[[float, float], None] | None = None
    z_only: bool = False
    most_evaluations: int | None = None
    reduce: bool | str = "auto"
    times: Floats = field(init=False)

    def __post_init__(self) -> None:
        checked: dict[str, Any] = {
            "times": checked_times(self.t_eval),
            "rtol": positive("rtol", self.rtol),
            "atol": positive("atol", self.atol),
        }
        if checked["times"][-1] > LATEST_TIME:
            raise InputError(
                f"expected times of at most {LATEST_TIME:g} in t_eval, received {checked['times'][-1]:.4g}; beyond it "
                "float64 does not resolve the error of a step"
            )
        if not SMALLEST_RTOL <= checked["rtol"] < 1:
            raise InputError(
                f"expected rtol of at least {SMALLEST_RTOL:.1e} and below 1, received {self.rtol:g}; 1e-8 is usual"
            )
        if not isinstance(self.events, Mapping | None):
            raise InputError(f"expected events as a mapping of name to Event, received {type(self.events).__name__}")
        checked["events"] = dict(self.events or {})
        for name, event in checked["events"].items():
            if not isinstance(event, Event):
                raise InputError(f"expected Event(function) for event {shown(name)}, received {type(event).__name__}")
        if self.log_time is not None:
            checked["log_time"] = flag("log_time", self.log_time)
        for name in ("save_decoder", "z_only"):
            checked[name] = flag(name, getattr(self, name))
        if self.most_evaluations is not None:
            checked["most_evaluations"] = whole("most_evaluations", self.most_evaluations, 1)
        if not isinstance(self.reduce, str):
            checked["reduce"] = flag("reduce", self.reduce)
        elif self.reduce != "auto":
            raise InputError(f"expected reduce to be true, false or 'auto', received {shown(self.reduce)}")
        if self.progress is not None and not callable(self.progress):
            raise InputError(f"expected progress to be a function (t, fraction), received {shown(self.progress)}")
        choice("method", self.method, ("auto", *METHODS))
        for name, value in checked.items():
            object.__setattr__(self, name, value)
