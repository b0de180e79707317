"""Claims of Figure 9 on its data: B(t) at a fixed ratio of the rates."""

import numpy as np
import pytest
import xarray

from snapdyn.figures import FIGURES


@pytest.fixture
def figure(data: dict[str, xarray.Dataset]) -> xarray.Dataset:
    return data["9"]


def test_dots_lie_on_the_curves_at_one_height(figure: xarray.Dataset) -> None:
    """Assert that B(t0) lies on its curve and is the same for all eta_Z; half-way to t0 it does not lie there."""
    B = figure.B.sel(form="printed")
    for panel in figure.panel.values:
        data = figure.isel(panel=panel)
        np.testing.assert_allclose(data.B_t0, data.B_t0[0], rtol=1e-12)
        for eta_Z in figure.eta_Z.values:
            t0, dot = data.t0.sel(eta_Z=eta_Z).item(), data.B_t0.sel(eta_Z=eta_Z).item()
            curve = B.isel(panel=panel).sel(eta_Z=eta_Z).values
            after = np.searchsorted(data.time.values, t0)
            # B rises, so the dot is between its two neighbours on the curve.
            assert curve[after - 1] <= dot <= curve[after]
            half = np.searchsorted(data.time.values, t0 / 2)
            assert dot > curve[half]


def test_B_rises_with_eta_Z_at_a_fixed_ratio(figure: xarray.Dataset) -> None:
    """Assert that B rises with eta_Z at every t > 0 in both panels; at t = 0 all are 0."""
    B = figure.B.sel(form="printed").transpose("panel", "point", "eta_Z").values
    assert np.all(np.diff(B[:, 1:], axis=-1) > 0)
    assert np.all(B[:, 0] == 0)


def test_ratio_is_eta_Y_over_eta_Z(figure: xarray.Dataset) -> None:
    """Assert that every t0 is inside its axis if nu = eta_Y/eta_Z, and outside, where the caption says, otherwise."""
    last = figure.time.isel(point=-1)
    assert bool((figure.t0 < last).all())
    inverse = figure.t0_inverse_ratio.isel(panel=0).values
    assert figure.nu.values[0] == 10
    assert np.all(inverse > last.values[0])
    assert f"t = {inverse.min():.0f} to {inverse.max():.0f} on an axis that ends at {last.values[0]:.0f}" in (
        FIGURES["9"].caption
    )
    # At nu = 1 both readings are the same: that panel cannot decide.
    np.testing.assert_allclose(figure.t0_inverse_ratio.isel(panel=1), figure.t0.isel(panel=1))


def test_consistent_form_vanishes_for_one_class(figure: xarray.Dataset) -> None:
    """Assert that the consistent B is 0 throughout at K = 1, while the printed one is not."""
    assert figure.attrs["num_classes"] == 1
    assert np.all(figure.B.sel(form="consistent") == 0)
    assert float(figure.B.sel(form="printed").isel(point=-1).min()) > 0.5
