"""Filters of the page's template."""

from snapdyn.report.filters import ranges


def test_ranges() -> None:
    """Assert that runs of neighbouring seeds are shortened, in order and without repeats."""
    assert ranges([7, 0, 1, 2, 9, 10, 2]) == "0-2, 7, 9-10"
    assert ranges([]) == ""
