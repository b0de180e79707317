"""Numbers of captions are those of the drawn data (figures 3, 8 and 9: in their own tests)."""

import json

import numpy as np
import pytest
import xarray

from snapdyn.dynamics import single_common_token
from snapdyn.figures import DrawnFigure
from snapdyn.figures.register import FIGURES
from snapdyn.figures.shared_runs import DOMINANT
from tests.helpers import ROOT

pytestmark = pytest.mark.slow


def test_figure_2(data: dict[str, xarray.Dataset]) -> None:
    """Assert the start of the common token and the lead of the dominant token: start, largest, end."""
    attention = data["2"].attention.values[:, 0]
    lead = attention[:, 0] / attention[:, 1]
    caption = FIGURES["2"].caption
    assert f"starts with attention {attention[0, 3]:.1f}" in caption
    assert f"rises from {lead[0]:.2f} to {lead.max():.2f} and comes back to {lead[-1]:.2f}" in caption


def test_attention(data: dict[str, xarray.Dataset]) -> None:
    """Assert the times of the iterations, who moves first, when the order changes, and the entropies."""
    figure, caption = data["attention"], FIGURES["attention"].caption
    clock = dict(zip(figure.iteration.values.tolist(), figure.t_of_iteration.values.tolist(), strict=True))
    assert f"(iteration 10 at t = {clock[10]:.0f}, 48 at t = {clock[48]:.0f})" in caption
    time = figure.time.values
    slow, fast = figure.attention.values[:, :, 0, DOMINANT[0]]
    assert f"({np.interp(9, time, fast):.3f} against {np.interp(9, time, slow):.3f} at t = 9)" in caption
    lead = slow - fast
    last_behind = np.flatnonzero(lead <= 0)[-1]
    overtakes = np.interp(0.0, lead[last_behind : last_behind + 2], time[last_behind : last_behind + 2])
    assert f"overtakes near t = {overtakes:.0f} " in caption
    entropies = [np.interp(clock[48], time, values) for values in figure.entropy.values[:, :, 0]]
    start = figure.entropy.values[0, 0, 0]
    assert f"the entropy is {entropies[0]:.2f} nats against {entropies[1]:.2f} (start {start:.2f})" in caption


def test_phase(data: dict[str, xarray.Dataset], drawn: dict[str, DrawnFigure]) -> None:
    """Assert the overlaps of two diagrams, and how far above its line attention has snapped."""

    def overlap(common_probability: float) -> float:
        return float(single_common_token(5, 5, common_probability, 1000).gram()[0, 1])

    figure, caption = data["phase"], FIGURES["phase"].caption
    times = json.loads(figure.attrs["settings_times"])["classes"]["common_probability"]
    assert f"(here rho = {overlap(times):.3f})" in caption
    assert f"(rho up to {overlap(float(figure.gaps_common_probability.max())):.2f})" in caption
    assert {variable.shape for variable in figure.data_vars.values()} == {(61, 61)}  # in CHANGELOG.md
    name = "2K(K-1) u_+^2 (eta_Z/eta_Y)/rho0^4 where attention has snapped, smallest"
    snapped = next(check.value for check in drawn["phase"].checks if check.name == name)
    assert f"by a factor of {int(snapped)} or more" in caption
    docs = " ".join((ROOT / "docs" / "how_to" / "sweeps.md").read_text(encoding="utf-8").split())
    assert f"only at {int(snapped)} times this value or more" in docs
