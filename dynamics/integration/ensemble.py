"""Ensembles: many systems integrated in parallel, one thread per core."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from numpy.typing import ArrayLike

from snapdyn.dynamics.integration.driver import run
from snapdyn.dynamics.integration.request import Request
from snapdyn.dynamics.parallel import cores, in_threads
from snapdyn.dynamics.systems.base import System
from snapdyn.dynamics.trajectory import Trajectory
from snapdyn.errors import InputError, optional_function, whole


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
        The same system may occur more than once.
    t_eval : (N,) array
        Times in batch-size-1 steps, for every member.
    threads : int or None
        Number of threads; None: all cores. Results do not depend on it. Only the compiled integrator runs in parallel.
    progress : callable, optional
        Called as progress(finished, total) in the calling thread after each member.
    **options : Any
        Further arguments of `integrate`: method, rtol, atol, log_time, events, z_only, save_decoder.

    Returns
    -------
    list of Trajectory
        A member that fails has status "failed" and a message; the others continue. After Ctrl-C, finished members
        are complete, and the others have status "interrupted" and the times that they reached.

    Raises
    ------
    InputError
        As in `integrate`, or if a member is not a System; the message names the member.

    Examples
    --------
    >>> import snapdyn as sd
    >>> systems = [sd.MeanField(sd.syn_small(), 1.0, eta_Z) for eta_Z in (0.1, 1.0)]
    >>> [float(run.loss[-1].round(4)) for run in sd.integrate_many(systems, [1.0, 10.0])]
    [0.729, 0.7154]
    """
    if not isinstance(systems, Iterable):
        raise InputError(
            f"expected a list of systems, received {type(systems).__name__}; write [system], or take integrate for one"
        )
    optional_function("progress", progress)
    try:
        systems = list(systems)
    except MemoryError as error:
        raise InputError(
            "expected a list of systems that fits into memory, received a longer one; give fewer"
        ) from error
    for number, system in enumerate(systems):
        if not isinstance(system, System):
            raise InputError(
                f"expected systems such as MeanField(classes, eta_Y, eta_Z), received {type(system).__name__} "
                f"(systems[{number}])"
            )
    threads = cores() if threads is None else whole("threads", threads, 1)
    stop = threading.Event()
    request = Request(t_eval, **options)

    def member(number: int, system: System) -> Trajectory:
        try:
            return run(system, request, stop)
        except InputError as error:
            raise InputError(f"{error} (systems[{number}])") from error

    calls = [partial(member, number, system) for number, system in enumerate(systems)]
    return in_threads(calls, threads, stop, progress)
