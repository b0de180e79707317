"""Equivalent classes in any number: first gaps against the closed form."""

import pytest

from snapdyn.analytic import first_ladder_gaps
from snapdyn.validation.instances import equal_overlap
from snapdyn.validation.many_classes import first_gaps_of_runs, share_of


@pytest.mark.parametrize("K", [2, 10**3, 10**9])
@pytest.mark.parametrize("rho", [0.01, 0.5])
def test_first_gaps_of_runs_are_the_closed_form(K: int, rho: float) -> None:
    """Assert the integrated gap of the modified decoder against its closed form at t -> 0, V = K to 1e6 K."""
    for V in (K, 3 * K, 10**6 * K):
        modified, leading = first_gaps_of_runs(K, V, rho)
        closed = first_ladder_gaps(K, V, rho)
        # The gap falls with t: by the order of u = 1e-4.
        assert modified == pytest.approx(closed.modified, rel=1e-3)
        assert leading == pytest.approx(-closed.leading, rel=1e-3, abs=1e-12)


def test_share_gives_the_overlap() -> None:
    assert share_of(0.3) == pytest.approx(equal_overlap(4, 9, 0.3).P.toarray()[0, 0], rel=1e-12)
