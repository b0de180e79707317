"""Compilation of the kernels: the decorators, the floating-point options, and where compiled code is kept.

This module imports nothing of snapdyn: everything that computes is built on it.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numba import config, njit
from numba.core import event
from numba.core.caching import FunctionCache
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

PREFIX, FOLDERS_KEPT = "snapdyn-", 3


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
    """Return `numba.njit` with a cache on disk, `cache_of_kernels`; without one, each process compiles."""

    def decorate(function: Callable[..., Any]) -> Any:
        folder = cache_of_kernels()
        settings: dict[str, Any] = vars(config)
        before = settings["CACHE_DIR"]
        # numba reads the option when a function is decorated. Functions of other packages keep their own folder.
        settings["CACHE_DIR"] = folder
        try:
            compiled = njit(cache=bool(folder), **options)(function)
            if folder:
                compiled._cache = KernelCache(function)
            return compiled
        finally:
            settings["CACHE_DIR"] = before

    return decorate


class KernelCache(FunctionCache):
    """numba's cache of one kernel, where a damaged or unreadable file, or a full disk, costs a compilation only."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load compiled code, or return None, so that numba compiles."""
        try:
            return super().load_overload(sig, target_context)
        except Exception as error:  # whatever unpickling raises
            self._go_on("is damaged and made again", error)
            with suppress(OSError):
                self.flush()
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save compiled code where this is possible."""
        try:
            super().save_overload(sig, data)
        except Exception as error:
            self._go_on("is not kept", error)
            self.disable()

    def _go_on(self, what: str, error: Exception) -> None:
        if not WARNED:
            WARNED.append(what)
            print(f"snapdyn: compiled code in {self.cache_path} {what} ({type(error).__name__})", file=sys.stderr)


WARNED: list[str] = []  # said once per process


@cache
def cache_of_kernels() -> str:
    """Folder of the compiled code: in $NUMBA_CACHE_DIR, else beside the kernels, else in the user's cache, else "".

    numba does not see a change of a kernel that another one calls, so the folder's name has the hash of the sources of
    all kernels. Folders of earlier sources are removed, but for the newest. Where no folder can be written to, a
    temporary one holds the compiled code of this process and its workers.
    """
    beside = Path(__file__).parent
    sources = hashlib.sha256(b"".join(file.read_bytes() for file in sorted(beside.glob("*.py")))).hexdigest()
    bases: list[str | Path] = [os.environ.get("NUMBA_CACHE_DIR") or beside / "__pycache__"]
    with suppress(RuntimeError):  # there is no home folder
        bases.append(cache_folder() / "kernels")
    name = f"{PREFIX}{sources[:16]}"
    for base in map(Path, bases):
        folder = base / name
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                folder.touch()
            earlier = sorted(base.glob(f"{PREFIX}*"), key=lambda each: each.stat().st_mtime)
            for each in earlier[:-FOLDERS_KEPT]:
                shutil.rmtree(each, ignore_errors=True)
            return str(folder)
    return _temporary_cache(name)


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


def cache_folder() -> Path:
    """Folder of files that can be made again: $SNAPDYN_CACHE, else $XDG_CACHE_HOME/snapdyn, else ~/.cache/snapdyn."""
    if own := os.environ.get("SNAPDYN_CACHE"):
        return Path(own)
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # The XDG rule: a relative path counts as none.
    return (base if base.is_absolute() else Path.home() / ".cache") / "snapdyn"


def _temporary_cache(name: str) -> str:
    """Folder `name` in a folder that is removed when this process ends; "" where no such folder can be made."""
    folder = ""
    try:
        folder = tempfile.mkdtemp(prefix="snapdyn-kernels-")
    except OSError:
        kept = "it is not kept"
    else:
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        os.environ["NUMBA_CACHE_DIR"] = folder  # which workers read
        kept = "it is kept in a temporary folder until the command ends"
    print(
        f"snapdyn: no folder for compiled code can be written to; {kept}: set NUMBA_CACHE_DIR to a folder of yours "
        "to compile once only",
        file=sys.stderr,
    )
    return folder and str(Path(folder) / name)
