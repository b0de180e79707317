"""Print after the table how many times faster each route is than the slowest route of its case in the same run."""

from __future__ import annotations

from typing import Any


def pytest_terminal_summary(terminalreporter: Any, config: Any) -> None:
    """Print one line per benchmark that names a case and a route."""
    session = getattr(config, "_benchmarksession", None)
    cases: dict[tuple[str, str], dict[str, float]] = {}
    for bench in session.benchmarks if session else ():
        if bench.params and {"case", "route"} <= set(bench.params) and bench.stats.rounds:
            cases.setdefault((bench.group, bench.params["case"]), {})[bench.params["route"]] = bench.stats.min
    if not cases:
        return
    terminalreporter.section("ratios (minimum times)")
    for (group, case), times in cases.items():
        slowest = max(times, key=times.__getitem__)
        for route, seconds in times.items():
            if route != slowest:
                ratio = times[slowest] / seconds
                terminalreporter.write_line(f"{group} {case}: {route} is {ratio:.2f} times faster than {slowest}")
