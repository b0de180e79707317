"""What fits into memory: asked before arrays are allocated whose size a user chooses."""

from __future__ import annotations

import math
import os
from pathlib import Path

from snapdyn.errors import InputError

# Less is given without looking at what is free.
ALWAYS_FREE = 2**27  # bytes


def require_memory(what: str, size: float, remedy: str) -> None:
    """Check before an allocation that it fits into what is free.

    Parameters
    ----------
    what : str
        What is to be held, with its numbers.
    size : float
        Bytes that it takes.
    remedy : str
        What to use instead: "fewer classes".

    Raises
    ------
    InputError
        More than `free_memory`.
    """
    if size <= ALWAYS_FREE:
        return
    free = free_memory()
    if size > free:
        raise InputError(
            f"expected {what} to fit into the free memory of {free / 2**30:.3g} GiB, received a need of "
            f"{size / 2**30:.3g} GiB; use {remedy}"
        )


def free_memory() -> float:
    """Bytes that this process may still take: of the machine, and of the limits of its container and its shell.

    Infinite where the system does not say.
    """
    limits = [math.inf]
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                limits.append(1024.0 * int(line.split()[1]))
    except (OSError, ValueError, IndexError):
        limits.append(_free_pages())
    try:
        group = Path("/sys/fs/cgroup")
        limits.append(float((group / "memory.max").read_text()) - float((group / "memory.current").read_text()))
    except (OSError, ValueError):  # no group, or "max"
        pass
    try:
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[0]
        if most != resource.RLIM_INFINITY:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            limits.append(most - pages * float(os.sysconf("SC_PAGE_SIZE")))
    except (ImportError, OSError, ValueError, IndexError):
        pass
    return max(0.0, min(limits))


def _free_pages() -> float:
    try:
        return float(os.sysconf("SC_AVPHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return math.inf
