"""Many trajectories at once: one thread per core over the members of an ensemble."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from numpy.typing import ArrayLike

from snapdyn.dynamics.integration.driver import checked_request, run
from snapdyn.dynamics.systems.base import System
from snapdyn.dynamics.threads import cores, in_threads
from snapdyn.dynamics.trajectory import Trajectory
from snapdyn.errors import InputError, whole


def integrate_many(
    systems: Iterable[System],
    t_eval: ArrayLike,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> list[Trajectory]:
    """Integrate many systems from t = 0; one trajectory per system, in their order.

    Parameters
    ----------
    systems : iterable of System
        The same system may stand there more than once.
    t_eval : (N,) array
        Times in batch-size-1 steps, for every member.
    threads : int, optional
        Default: all cores. It changes no number. Only the compiled integrator runs beside other threads.
    progress : callable (finished, total), optional
        Called in the calling thread after each member.
    options
        As in `integrate`: method, rtol, atol, log_time, z_only, save_decoder.

    Returns
    -------
    list of Trajectory
        A member that fails says so in `status` and `message`; the others go on. After Ctrl-C: finished members
        whole, the others "interrupted" with what they have.

    Raises
    ------
    InputError
        As `integrate`, and when a member is no system; what concerns a member names it.
    """
    if not isinstance(systems, Iterable):
        raise InputError(
            f"expected a list of systems, received {type(systems).__name__}; write [system], or take integrate for one"
        )
    if progress is not None and not callable(progress):
        raise InputError(f"expected progress to be a function (finished, total), received {progress!r}")
    systems = list(systems)
    for number, system in enumerate(systems):
        if not isinstance(system, System):
            raise InputError(
                f"expected systems such as MeanField(classes, eta_Y, eta_Z), received {type(system).__name__} "
                f"(systems[{number}])"
            )
    threads = cores() if threads is None else whole("threads", threads, 1)
    stop = threading.Event()
    request = checked_request(t_eval, **options)

    def member(number: int, system: System) -> Trajectory:
        try:
            return run(system, request, stop)
        except InputError as error:
            raise InputError(f"{error} (systems[{number}])") from error

    calls = [partial(member, number, system) for number, system in enumerate(systems)]
    return in_threads(calls, threads, stop, progress)
