"""Stiff runs end by default; other runs say early that they would take very many evaluations."""

from __future__ import annotations

import math
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

from snapdyn.dynamics import MeanField, SequenceClasses, integrate, log_times
from snapdyn.dynamics.integration import steps
from snapdyn.dynamics.integration.steps import MOST_EVALUATIONS_LEFT, Outlook


def stiff_system() -> MeanField:
    """Figure 2's classes at eta_Z/eta_Y = 1e8: 28 state values."""
    P = np.array([[0.2, 0.12, 0.08, 0.6, 0, 0, 0], [0, 0, 0, 0.6, 0.2, 0.12, 0.08]])
    return MeanField(SequenceClasses(P, query=[0, 0], vocab_size=100), 1e-4, 1e4)


def test_a_stiff_run_ends_by_default() -> None:
    """Assert that a run at eta_Z/eta_Y = 1e8 ends at t = 1e9, by CVODE and in less than 50,000 evaluations."""
    run = integrate(stiff_system(), log_times(1.0, 1e9, 20), rtol=1e-9)
    assert (run.status, run.stats["method"]) == ("finished", "CVODE")
    assert run.stats["evaluations"] < 50_000


@pytest.mark.parametrize("method", ["compiled", "DOP853"])
def test_an_explicit_run_says_what_is_left(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert evaluations, both times, the estimate and a remedy, in runs with and without Python between steps."""
    monkeypatch.setattr(steps, "MOST_EVALUATIONS_LEFT", 100_000)
    words = r"at most 100000 .* estimate of \S+ from t = \S+, reached by \d+, to t_end = 1e\+09; try method='CVODE', "
    with pytest.raises(UserWarning, match=words):
        integrate(stiff_system(), [1e9], method)


def test_a_run_with_a_limit_of_its_own_gives_no_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that `most_evaluations` ends the run in place of a warning."""
    monkeypatch.setattr(steps, "MOST_EVALUATIONS_LEFT", 100_000)
    for method in ("compiled", "DOP853"):
        assert integrate(stiff_system(), [1e9], method, most_evaluations=100_000).status == "failed"


def warned(per_factor: float, t_end: float) -> list[str]:
    """Messages about a run that takes `per_factor` evaluations, 12 a step, for each further factor e of t."""
    solver = SimpleNamespace(nfev=0)
    seen = Outlook(solver, t_end)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        while (t := math.exp(solver.nfev / per_factor)) < t_end:
            solver.nfev += 12_000
            seen.look(solver.nfev // 12, t)
    return [str(each.message) for each in caught]


def test_the_estimate_is_right_where_steps_grow_with_time() -> None:
    """Assert one warning for 1.1 times the number after the second look, with what is left then, and none for .9."""
    t_end, before = 1e12, 48_000  # evaluations at the second look
    for factor, count in ((0.9, 0), (1.1, 1)):
        whole = factor * MOST_EVALUATIONS_LEFT + before
        messages = warned(whole / math.log(t_end), t_end)
        assert len(messages) == count
    assert "estimate of 1.1e+07 from t = " in messages[0]
    assert "reached by 48000, to t_end = 1e+12" in messages[0]
