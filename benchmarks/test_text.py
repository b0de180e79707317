"""Text: time to classes, cost of one evaluation as a function of nnz(P) times output columns, and a whole run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from snapdyn.analytic import transition_time
from snapdyn.dynamics import MeanField, SequenceClasses, from_text, integrate

WIKITEXT = Path(os.environ.get("SNAPDYN_WIKITEXT", Path(__file__).parents[2] / "shared" / "data" / "wikitext-2"))
pytestmark = pytest.mark.skipif(not WIKITEXT.is_dir(), reason=f"no WikiText-2 at {WIKITEXT}; set SNAPDYN_WIKITEXT")
CLASSES = (60, 125, 250, 500, 1000)
ETA_Y, ETA_Z = 1.0, 0.1
COSTS: list[tuple[float, float]] = []


@pytest.mark.benchmark(group="text to classes")
def test_wikitext_to_classes(benchmark: Any) -> None:
    """Time from the files to 1000 classes at the defaults."""
    classes = benchmark.pedantic(from_text, args=(WIKITEXT,), rounds=3)
    assert classes.num_classes == 1000


@pytest.mark.benchmark(group="text: one evaluation")
@pytest.mark.parametrize("number", CLASSES)
def test_evaluation(benchmark: Any, number: int) -> None:
    """Time of one evaluation of the mean field for the most frequent classes; the exponent of its cost is printed."""
    classes: SequenceClasses = from_text(WIKITEXT, max_classes=number)
    system = MeanField(classes, ETA_Y, ETA_Z)
    state, out = 0.01 * np.random.default_rng(0).normal(size=system.size), np.empty(system.size)
    benchmark.pedantic(system.write_rate, args=(state, out), rounds=5, warmup_rounds=1)
    work = float(classes.P.nnz) * system.layout.num_columns
    seconds = benchmark.stats.stats.min
    benchmark.extra_info.update({"nnz(P) times columns": work, "state": system.size})
    COSTS.append((work, seconds))
    print(
        f"{number} classes: nnz(P) x columns = {work:.3g}, {seconds * 1e3:.3g} ms, {seconds / work * 1e9:.2f} ns each"
    )
    if len(COSTS) == len(CLASSES):
        works, times = np.log(np.array(COSTS)).T
        exponent, constant = np.polyfit(works, times, 1)
        print(f"time = {np.exp(constant):.3g} s (nnz(P) x columns)^{exponent:.3f}")


@pytest.mark.benchmark(group="text: past the transition")
def test_past_the_transition(benchmark: Any) -> None:
    """Time of the mean field of 1000 classes over 6939 words to the peak of gamma, as `snapdyn text` runs it."""
    classes = from_text(WIKITEXT)
    end = float(transition_time(classes.num_classes, classes.vocab_size, ETA_Y, kind="peak"))
    integrate(MeanField(classes, ETA_Y, ETA_Z), [1e-3], "RKC")
    run = benchmark.pedantic(
        integrate, args=(MeanField(classes, ETA_Y, ETA_Z), [0.1 * end, end], "RKC", 5e-4, 5e-5), rounds=1
    )
    benchmark.extra_info.update(run.stats)
    assert run.status == "finished"


def test_memory() -> None:
    """Peak memory in a fresh process: below 1 GB to classes, below 4 GB with the first steps of the mean field."""
    code = """if True:
        import sys
        from snapdyn.dynamics import MeanField, from_text, integrate
        def peak():
            return next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
        classes = from_text(sys.argv[1])
        print(peak())
        integrate(MeanField(classes, 1.0, 0.1), [5.0, 10.0], "RKC", 1e-3, 1e-4)
        print(peak())
    """
    run = subprocess.run([sys.executable, "-c", code, str(WIKITEXT)], capture_output=True, text=True, check=True)
    classes, field = (int(line) / 1e6 for line in run.stdout.split())
    print(f"text: peak {classes:.2f} GB to classes, {field:.2f} GB with the mean field")
    assert classes < 1.0
    assert field < 4.0
