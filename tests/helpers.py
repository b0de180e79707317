"""Files that tests of several rooms read."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from snapdyn.core.registry import registries
from snapdyn.dynamics.files.storage import replacing

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
FABLE = ROOT / "tests" / "data" / "fable.txt"
Command = Callable[..., Any]  # the fixture `command`


def made_once(file: Path, make: Callable[[Path], Any]) -> Path:
    """The file, made by the first process that asks for it, for which others wait."""
    import fcntl  # not on Windows

    with file.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            with replacing(file) as temporary:
                make(temporary)
    return file


@contextmanager
def restored_registries() -> Iterator[None]:
    """Leave every registry as it was: what is loaded or registered meanwhile is forgotten."""
    before = {id(registry): dict(registry) for registry in registries()}
    yield
    for registry in registries():
        entries = before.get(id(registry), registry.own)
        if registry != entries:
            registry.restore(entries)


def group_has_ended(group: int) -> bool:
    """Whether all processes of a group end within some seconds; joblib's own helper process takes a moment."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False
