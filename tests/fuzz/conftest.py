"""Attacks with seeded random damage: a small number of trials in `make test`, a large one in `make fuzz`.

Each attack counts how its trials ended. A summary of these counts stands at the end of the run.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import HealthCheck, seed, settings

LARGE = os.environ.get("SNAPDYN_FUZZ") == "large"
SEED = int(os.environ.get("SNAPDYN_FUZZ_SEED", "0"))


def searched(small: int, large: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A property that hypothesis searches with `small` examples in `make test`, with `large` ones in `make fuzz`."""
    chosen = settings(
        deadline=None, database=None, derandomize=not LARGE, max_examples=large if LARGE else small,
        suppress_health_check=[HealthCheck.too_slow],
    )  # fmt: skip
    return lambda test: chosen(seed(SEED)(test) if LARGE else test)


@dataclass
class Attack:
    """Seed of an attack, 0 in `make test` (`make fuzz SEED=…` draws others), and how often its trials ended how."""

    seed: int = SEED
    endings: Counter[str] = field(default_factory=Counter)

    def trials(self, small: int, large: int) -> range:
        """The trials: the first number of them in `make test`, the second in `make fuzz`."""
        return range(large if LARGE else small)

    def draws(self, number: int = 0) -> np.random.Generator:
        """Random numbers of a trial, or of a part of the attack."""
        return np.random.default_rng([self.seed, number])


@pytest.fixture
def attack(record_property: Callable[[str, object], None]) -> Iterator[Attack]:
    """An attack; its endings are shown in the summary of the run."""
    made = Attack()
    yield made
    record_property("endings", dict(made.endings))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show the counts of every attack."""
    lines = [
        f"{report.nodeid.rpartition('::')[2]}: " + ", ".join(f"{count} {how}" for how, count in counts.items())
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", "") == "teardown"
        for name, counts in report.user_properties
        if name == "endings"
    ]
    if lines:
        terminalreporter.write_sep("-", "how the trials ended")
        for line in sorted(set(lines)):
            terminalreporter.write_line(line)
