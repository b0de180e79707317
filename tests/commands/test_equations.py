"""`snapdyn equations`."""

from tests.helpers import Command


def test_equations_are_listed(command: Command) -> None:
    """Assert that every displayed equation of the paper is counted, with what recomputes it."""
    shown = command("equations").out
    assert shown.startswith("138 displayed equations: ")
    assert "by lemma6" in shown
