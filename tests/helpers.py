"""Files that tests of several rooms read."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
FABLE = ROOT / "tests" / "data" / "fable.txt"
Command = Callable[..., Any]  # the fixture `command`


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
