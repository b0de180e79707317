"""A move of a slider in `snapdyn explore`: the curves, the drawing, and the verdicts that follow."""

from __future__ import annotations

from typing import Any

import pytest

from snapdyn.explorer.curves import compute_curves, verdicts
from snapdyn.explorer.drawing import png
from snapdyn.explorer.sliders import Settings

# The first setting, and the ends of the sliders.
CASES = {
    "K = 10": Settings(eta_Z=0.5),
    "K = 10, V = 10^6, eta_Z/eta_Y = 100": Settings(vocab_size=10**6, eta_Z=100.0),
    "K = 500, eta_Z/eta_Y = 1": Settings(num_classes=500, vocab_size=10**6, eta_Z=1.0),
    "K = 10, T-1 = 1000": Settings(eta_Z=0.5, seq_len=1000),
    "K = 100, eta_Z/eta_Y = 10, T-1 = 1000": Settings(num_classes=100, eta_Z=10.0, seq_len=1000),
}


@pytest.mark.benchmark(group="explorer: curves")
@pytest.mark.parametrize("name", CASES)
def test_curves(benchmark: Any, name: str) -> None:
    """Time from the settings to all curves."""
    benchmark(compute_curves, CASES[name])


@pytest.mark.benchmark(group="explorer: curves and drawing")
@pytest.mark.parametrize("name", CASES)
def test_move(benchmark: Any, name: str) -> None:
    """Time from the settings to the picture that the browser receives."""
    benchmark(lambda: png(compute_curves(CASES[name])))


@pytest.mark.benchmark(group="explorer: verdicts")
@pytest.mark.parametrize("num_classes", [10, 20])
def test_verdicts(benchmark: Any, num_classes: int) -> None:
    """Time of the statements that are checked after every move."""
    benchmark.pedantic(verdicts, (Settings(num_classes=num_classes, eta_Z=0.5),), rounds=5, warmup_rounds=1)
