"""Checks, before a computation starts, that its memory and its work are not too large; arrays for compiled loops."""

from __future__ import annotations

import math
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from snapdyn.core.errors import InputError

# Less is given without looking at what is free.
ALWAYS_FREE = 2**27  # bytes

# Multiplications that one measurement of a check may take: some 5 seconds on one core where nothing else runs. Whole
# checks of 150 to 1000 classes with one common token then took 3 to 24 seconds.
MOST_MULTIPLICATIONS = 2e10
# The same of a run that a user starts: 5 minutes on one core where the tables stay in the cache, up to four times as
# long where they do not (500 unlike classes of 2000 tokens, 1e12: 1e9 multiplications a second).
MOST_OF_A_RUN = 1.2e12
# Evaluations that a run takes: 300 to 2600 were counted on 300 classes.
EVALUATIONS = 1000


class Unaffordable(InputError):
    """A computation that is too large, refused before it starts."""


def require_affordable(
    what: str, multiplications: float, most: float = MOST_MULTIPLICATIONS, remedy: str = "fewer classes or tokens"
) -> None:
    """Raise Unaffordable where a computation is estimated to take more than `most` multiplications."""
    if multiplications > most:
        raise Unaffordable(
            f"expected {what} to take at most {most:.2g} multiplications, received an estimate of "
            f"{multiplications:.2g}, {multiplications / 4e9:.2g} seconds or more on one core; use {remedy}"
        )


def require_memory(what: str, size: float, remedy: str) -> None:
    """Check before an allocation that it fits into what is free.

    Parameters
    ----------
    what : str
        What is to be held in memory, with the numbers that set its size.
    size : float
        Bytes that it takes.
    remedy : str
        What to use instead: "fewer classes".

    Raises
    ------
    InputError
        More than `free_memory` would be needed.
    """
    if size <= ALWAYS_FREE:
        return
    free = free_memory()
    if size > free:
        raise InputError(
            f"expected {what} to fit into the free memory of {free / 2**30:.3g} GiB, received a need of "
            f"{size / 2**30:.3g} GiB; use {remedy}"
        )


def fits(size: float) -> bool:
    """Whether `size` bytes fit into what is free; small sizes are not looked up, which takes 0.3 ms."""
    return size <= ALWAYS_FREE or size < free_memory()


def affords(what: str, size: float, remedy: str, asked: bool) -> bool:
    """Whether `size` bytes fit; if not, and if the user `asked` for this memory, raise as `require_memory` does."""
    if asked:
        require_memory(what, size, remedy)
    return fits(size)


def free_memory() -> float:
    """Bytes that this process may still take, given the machine and the limits of its container and its shell.

    Infinite where the system does not say.
    """
    limits = [math.inf, *map(_free_of_group, _groups())]
    try:
        lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        limits.append(1024.0 * int(lines["MemAvailable"].split()[0]))
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[0]
        if most != resource.RLIM_INFINITY:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            limits.append(most - pages * float(resource.getpagesize()))
    except (ImportError, OSError):  # no Linux
        pass
    return max(0.0, min(limits))


def _groups() -> list[Path]:
    """Folders of the control groups of this process and of all groups around them, versions 1 and 2."""
    found: list[Path] = []
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers in ("", "memory"):
                root = Path("/sys/fs/cgroup") / controllers
                group = root / path.lstrip("/")
                found += [group, *group.parents[: len(group.parts) - len(root.parts)]]
    return found


def _free_of_group(group: Path) -> float:
    """Bytes below the limit of a control group; the cache of files counts as free, since the system gives it back."""
    for most, used in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
        with suppress(OSError, ValueError):  # no group, no limit ("max"), or the other version
            free = float((group / most).read_text()) - float((group / used).read_text())
            lines = dict(line.split(" ") for line in (group / "memory.stat").read_text().splitlines())
            return free + float(lines.get("total_inactive_file", lines.get("inactive_file", 0)))
    return math.inf


def scratch(*shape: int) -> NDArray[np.float64]:
    """Uninitialised array for compiled loops, with a wide margin to any other array.

    Compiled code runs a vectorised loop only after a check, on generous bounds, that the arrays it reads and writes do
    not overlap. Small arrays that happen to be adjacent in memory fail the check, and the loop that then runs rounds
    differently: the same inputs would give other last bits about once in a hundred runs.
    """
    size = math.prod(shape)
    margin = size + 512
    return np.empty(size + 2 * margin)[margin : margin + size].reshape(shape)
