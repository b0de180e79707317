"""Claims of Figure 8 on its data: h* against h (Lemma 7)."""

import numpy as np
import pytest
import xarray

from snapdyn.figures import FIGURES


@pytest.fixture
def figure(data: dict[str, xarray.Dataset]) -> xarray.Dataset:
    return data["8"]


@pytest.fixture
def relative_gap(figure: xarray.Dataset) -> np.ndarray:
    """(h* - h)/(2 eta_Y/V) at whole visits, (panel, curve, step)."""
    h = figure.h.sel(visit=figure.step)
    return ((figure.h_star - h) * figure.vocab_size / (2 * figure.eta_Y)).transpose("panel", "curve", "step").values


def test_gap_stays_within_lemma_7(figure: xarray.Dataset, relative_gap: np.ndarray) -> None:
    """Assert h <= h* <= h + 2 eta_Y/V at every whole visit; one visit late, the lower bound fails."""
    rounding = 1e-12
    assert np.all((relative_gap >= -rounding) & (relative_gap <= 1))
    late = figure.h_star.shift(step=1) - figure.h.sel(visit=figure.step)
    assert np.any(late.isel(step=slice(1, None)) < -1e-4 * figure.h_star.max())


def test_growth_rises_with_eta_Y(figure: xarray.Dataset) -> None:
    """Assert that both h* and h rise with eta_Y from the first visit on, and not at visit 0, where all start."""
    assert np.all(np.diff(figure.h_star.isel(step=slice(1, None)), axis=1) > 0)
    assert np.all(np.diff(figure.h.isel(visit=slice(1, None)), axis=1) > 0)
    assert np.all(figure.h_star.isel(step=0) == 0)
    assert np.all(figure.h.isel(visit=0) == 0)


def test_continuous_form_solves_lemma_6(figure: xarray.Dataset) -> None:
    """Assert that the curve satisfies exp(V h) + (V-1) V h = V eta_Y s + 1, and that the steps do not."""

    def residual(values: xarray.DataArray, visits: xarray.DataArray) -> float:
        V = figure.vocab_size
        right = V * figure.eta_Y * visits + 1
        return float(np.abs((np.exp(V * values) + (V - 1) * V * values) / right - 1).max())

    assert residual(figure.h, figure.visit) < 1e-12
    assert residual(figure.h_star, figure.step) > 1e-2


def test_largest_gap_is_the_captions(relative_gap: np.ndarray) -> None:
    """Assert that the largest gap of every curve is 9 to 11 % of the bound, as the caption says."""
    largest = 100 * relative_gap.max(axis=-1)
    assert f"{largest.min():.0f} to {largest.max():.0f} % of that bound" in FIGURES["8"].caption
