"""Attacks with seeded random damage: a small number of trials in `make test`, a large one in `make fuzz`.

Each attack counts how its trials ended. A summary of these counts stands at the end of the run.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

LARGE = os.environ.get("SNAPDYN_FUZZ") == "large"


@pytest.fixture
def trials() -> Callable[[int, int], int]:
    """The number of trials: the first number in `make test`, the second in `make fuzz`."""

    def chosen(small: int, large: int) -> int:
        return large if LARGE else small

    return chosen


@pytest.fixture
def seed() -> int:
    """Seed of the attack: 0 in `make test`; `make fuzz SEED=…` draws other trials."""
    return int(os.environ.get("SNAPDYN_FUZZ_SEED", "0"))


@pytest.fixture
def endings(record_property: Callable[[str, object], None]) -> Iterator[Counter[str]]:
    """Count of trials by how they ended, shown in the summary of the run: ``endings["refused"] += 1``."""
    counts: Counter[str] = Counter()
    yield counts
    record_property("endings", dict(counts))


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
