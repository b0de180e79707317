"""Claims of Figure 3 on its data: order, transition times, scale."""

import numpy as np
import pytest
import xarray

from snapdyn.analytic import growth_exponent
from snapdyn.figures import FIGURES

FORMS = ["printed", "consistent"]


@pytest.fixture
def figure(data: dict[str, xarray.Dataset]) -> xarray.Dataset:
    return data["3"]


def steps_over_eta_Y(figure: xarray.Dataset, form: str, time: float) -> np.ndarray:
    """Change of exp(2 B) from each eta_Y to the next larger one."""
    return np.diff(figure.chi.sel(form=form, time=time).values)


@pytest.mark.parametrize("form", FORMS)
def test_larger_eta_Y_is_ahead_early_and_behind_late(figure: xarray.Dataset, form: str) -> None:
    """Assert that exp(2 B) rises with eta_Y before every transition (t = 10) and falls with it after all of them.

    In between neither order holds (t = 50), so the test tells the two apart.
    """
    assert figure.t0.values.min() > 10
    assert np.all(steps_over_eta_Y(figure, form, 10) > 0)
    after = figure.time.values[figure.time.values > figure.t0.values.max()]
    assert all(np.all(steps_over_eta_Y(figure, form, time) < 0) for time in after)
    between = steps_over_eta_Y(figure, form, 50)
    assert np.any(between > 0)
    assert np.any(between < 0)


def test_transition_comes_earlier_for_larger_eta_Y(figure: xarray.Dataset) -> None:
    """Assert that t0 falls with eta_Y and is 2 u_+ K/eta_Y, u_+ = 9.116883, clearly later than 2 K ln V/eta_Y."""
    K, V = figure.attrs["num_classes"], figure.attrs["vocab_size"]
    scaled = figure.t0.values * figure.eta_Y.values / (2 * K)
    np.testing.assert_allclose(scaled, 9.116883, atol=5e-7)
    assert np.all(scaled - np.log(V) > 2)
    assert np.all(np.diff(figure.t0.values) < 0)


@pytest.mark.parametrize("form", FORMS)
def test_closed_form_and_integration_agree(figure: xarray.Dataset, form: str) -> None:
    """Assert that the circles lie on the lines to the integrator's accuracy, and not on the other form's lines."""
    tolerance = 1e3 * figure.attrs["rtol"]
    lines = figure.chi.sel(time=figure.checked_time)
    circles = figure.chi_integrated.sel(form=form)
    error = np.abs(lines / circles - 1)
    assert float(error.sel(form=form).max()) < tolerance
    other = FORMS[1 - FORMS.index(form)]
    assert float(error.sel(form=other).max()) > 1e3 * tolerance


def test_exponents_differ_by_about_the_number_of_classes(figure: xarray.Dataset) -> None:
    """Assert that at the end the printed exponent is K times the consistent one within the factor (K-1)/K inside ln."""
    B = np.log(figure.chi.isel(time=-1)) / 2
    ratio = (B.sel(form="printed") / B.sel(form="consistent")).values
    K = figure.attrs["num_classes"]
    # ln(1 + x) against ln(1 + (K-1)/K x): apart by at most ln(K/(K-1)).
    largest = K / (1 - np.log(K / (K - 1)) / (4 * B.sel(form="printed").values))
    assert np.all((ratio >= K) & (ratio <= largest))


def test_scale_in_the_caption(figure: xarray.Dataset) -> None:
    """Assert the numbers of the caption: 45.2 and 1.46 at t = 700, 1.63 and a factor 143 at rho0 = 1, never 600."""
    caption = FIGURES["3"].caption
    assert figure.attrs["C0"] == pytest.approx(1)
    top = figure.chi.isel(time=-1).max("eta_Y")
    values = figure.attrs
    smallest = {
        form: np.exp(
            2
            * growth_exponent(
                np.array([0.0, 700.0]), 0.5, values["eta_Z"], values["vocab_size"], values["num_classes"], 1.0, form
            )
        )
        for form in FORMS
    }
    factor = smallest["printed"][1] / smallest["printed"][0]
    numbers = {
        "45.2": top.sel(form="printed").item(),
        "1.46": top.sel(form="consistent").item(),
        "1.778": figure.attrs["rho0"],
        "1.63": smallest["consistent"][1],
        "143": factor,
    }
    for text, value in numbers.items():
        assert text in caption
        assert f"{value:.{len(text.partition('.')[2])}f}" == text
    assert factor < 600
