"""Compilation of the kernels: the decorators, the floating-point options, and where compiled code is kept."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import config, njit
from numba.core import event
from numba.core.options import DefaultOptions
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

# Sums may be reassociated (vector lanes) and contracted (fused multiply-add). NaN and infinity keep their
# meaning, so that a diverging run is detected.
REASSOCIATE = {"reassoc", "contract", "nsz", "arcp"}
EXACT: set[str] = {"contract"}

# numba counts references to every view of an array by two atomic operations, which take a quarter of the time of a
# small system. Kernels keep and return no array, so a kernel that allocates no array needs no count. The option is not
# documented by numba; in a version without it, kernels are slower but correct.
COUNTS_REFERENCES = "_nrt" if hasattr(DefaultOptions, "_nrt") else None

# Not empty where not even a temporary folder can be written to.
_without_cache: list[bool] = []


def kernel(allocates: bool = False, **options: Any) -> Callable[..., Any]:
    """Return a decorator that compiles a kernel; a kernel must neither return an array nor store a reference to one.

    Parameters
    ----------
    allocates : bool
        Whether the kernel allocates arrays. numba's option for this is set for every kernel, since a kernel without it
        would inherit it from the caller that compiles it first.
    **options : dict
        Options of `numba.njit`. `forceinline` saves the call and avoids two versions: a function that is not inlined is
        compiled twice, alone and with its caller, and the versions may round differently. The process that compiles
        uses one version, all later processes use the other. A test compares results of two such processes; a function
        whose results differ must be inlined.

    Returns
    -------
    callable
        The decorator.
    """
    if COUNTS_REFERENCES:
        options[COUNTS_REFERENCES] = allocates
    return cached_njit(error_model="numpy", **options)


def cached_njit(**options: Any) -> Callable[..., Any]:
    """Return `numba.njit` with a cache on disk: in $NUMBA_CACHE_DIR, else beside the source, else in the user's cache.

    Where none of them can be written to, a temporary folder holds the compiled code of this process and its workers.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        try:
            return njit(cache=True, **options)(function)
        except RuntimeError as error:
            if "cannot cache function" not in str(error):
                raise
        return njit(cache=_use_temporary_cache(), **options)(function)

    return decorate


class Compilation(event.TimingListener):
    """Measure the time of compiling; at a terminal or in a notebook, say once per process that kernels are compiled.

    numba calls this listener only for functions that its cache on disk does not hold.
    """

    said = False

    def on_start(self, event: event.Event) -> None:
        """Print the sentence before the first compilation."""
        super().on_start(event)
        if self.said or not (sys.stderr.isatty() or "ipykernel" in sys.modules):
            return
        self.said = True
        print(
            "snapdyn: compiling, once per installation and kind of system; this takes 1 to 20 seconds", file=sys.stderr
        )


COMPILATION = Compilation()
event.register("numba:compile", COMPILATION)


def seconds_of_running() -> float:
    """Seconds on a clock that stops while kernels are compiled."""
    return time.perf_counter() - (COMPILATION.duration if COMPILATION.done else 0.0)


def _use_temporary_cache() -> bool:
    """Let numba use a folder that is removed when this process ends; False where no such folder can be made."""
    if _without_cache:
        return False
    try:
        folder = tempfile.mkdtemp(prefix="snapdyn-kernels-")
    except OSError:
        _without_cache.append(True)
        kept = "it is not kept"
    else:
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        # numba reads the option when a function is decorated; workers read the variable.
        os.environ["NUMBA_CACHE_DIR"] = folder
        vars(config)["CACHE_DIR"] = folder
        kept = "it is kept in a temporary folder until the command ends"
    print(
        f"snapdyn: no folder for compiled code can be written to; {kept}: set NUMBA_CACHE_DIR to a folder of yours "
        "to compile once only",
        file=sys.stderr,
    )
    return not _without_cache
