"""Start-up time of the import and of `snapdyn --help` in fresh processes."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest


@pytest.mark.benchmark(group="start")
@pytest.mark.parametrize(
    "command", ["pass", "import snapdyn", "from snapdyn.commands.main import main; main(['--help'])"]
)
def test_start(benchmark: Any, command: str) -> None:
    """Time of a fresh interpreter that runs only this command ("pass": the interpreter alone)."""
    benchmark.pedantic(
        lambda: subprocess.run([sys.executable, "-c", command], capture_output=True, check=False),
        rounds=10,
        warmup_rounds=1,
    )
