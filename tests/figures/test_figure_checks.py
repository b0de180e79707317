"""Every figure's claims hold on its data, reject a wrong theory, and notice other data; captions quote the data."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import xarray

from snapdyn.analytic import growth_exponent
from snapdyn.figures import FIGURES, DrawnFigure
from snapdyn.figures.shared_runs import DOMINANT, RAREST

Data = Callable[[str], xarray.Dataset]
Change = Callable[[xarray.Dataset], xarray.Dataset]


def backwards(name: str, dimension: str) -> Change:
    """The variable with its values in reverse order along a dimension: a figure that shows the opposite."""

    def change(dataset: xarray.Dataset) -> xarray.Dataset:
        values = dataset[name].isel({dimension: slice(None, None, -1)}).values
        return dataset.assign({name: dataset[name].copy(data=values)})

    return change


def scaled(name: str, factor: float) -> Change:
    return lambda dataset: dataset.assign({name: dataset[name] * factor})


def exchanged(first: str, second: str) -> Change:
    return lambda dataset: dataset.assign(
        {one: dataset[one].copy(data=dataset[other].values) for one, other in ((first, second), (second, first))}
    )


WRONG_DATA = {
    "2": backwards("attention", "time"),
    "3": backwards("chi", "eta_Y"),
    "4": backwards("sgd", "iteration"),
    "5": backwards("attention", "rate"),
    "6": backwards("entropy", "ratio"),
    "7": backwards("entropy", "record"),
    "8": scaled("h", 1.2),
    "9": backwards("B", "eta_Z"),
    "10": backwards("entropy", "learning_rate"),
    "11": backwards("recall", "ratio"),
    "12": backwards("recall", "eta_Z"),
    "attention": backwards("attention", "time"),
    "growth": scaled("sgd", 1.2),
    "transition": scaled("gamma_integrated", 1.001),
    "ladder": backwards("gap", "rung"),
    "orders": lambda dataset: dataset.assign(gap=dataset.gap**2),
    "maps": scaled("violation_0", 0.0),
    "spurious": backwards("number", "N"),
    "phase": scaled("times_transition_time", 2.0),
    "winner": backwards("share_training", "rule"),
}


@pytest.mark.parametrize("id_", FIGURES)
def test_figure_shows_what_it_claims(id_: str, drawn: Callable[[str], DrawnFigure], data: Data) -> None:
    """Assert that every check is as it must be, wrong theories are rejected, and wrong data fail the checks."""
    checks = drawn(id_).checks
    assert [check.name for check in checks if not check.as_expected] == []
    assert {"statement", "control"} <= {check.role for check in checks}
    assert all(np.isfinite(check.value) for check in checks)
    assert not all(check.as_expected for check in FIGURES[id_].numbers(WRONG_DATA[id_](data(id_))))


@pytest.mark.long
@pytest.mark.parametrize(
    ("wrong", "panel"),
    [
        (backwards("entropy_entropy", "entropy_eta_Z"), "entropy"),
        (lambda dataset: dataset.assign(fallen_fallen_share=dataset.fallen_fallen_share + 0.1), "fall"),
        (scaled("gaps_largest_gap", 2.0), "gap"),
        (scaled("number_gaps_largest_gap", 2.0), "gap"),
        (backwards("rate_gaps_largest_gap", "rate_gaps_eta_Z"), "gap"),
        (exchanged("flow_phase", "modified_phase"), "winner"),
        (backwards("flow_phase", "flow_eta_Z"), "snapped"),
        (backwards("modified_phase", "modified_eta_Z"), "snapped"),
    ],
)
def test_every_diagram_of_phase_is_checked(wrong: Change, panel: str, data: Data) -> None:
    """Assert that a check of the diagram itself notices it reversed, doubled, shifted or exchanged."""
    of_panel = tuple(each for each in FIGURES["phase"].properties if panel in each.name)
    checks = replace(FIGURES["phase"], properties=of_panel).numbers(wrong(data("phase")))
    assert not all(check.as_expected for check in checks)


@pytest.mark.long
def test_caption_of_figure_2(data: Data) -> None:
    """Assert the start of the common token, and the lead of the dominant token: start, largest, end."""
    attention = data("2").attention.values[:, 0]
    lead = attention[:, 0] / attention[:, 1]
    caption = FIGURES["2"].caption
    assert f"starts with attention {attention[0, 3]:.1f}" in caption
    assert f"rises from {lead[0]:.2f} to {lead.max():.2f} and comes back to {lead[-1]:.2f}" in caption


def test_caption_of_figure_3(data: Data) -> None:
    """Assert the scale of both forms at t = 700, by the closed form, and at rho0 = 1; in between no order holds."""
    figure = data("3")
    values, end = figure.attrs, figure.chi.isel(time=-1).max("eta_Y")

    def smallest(form: str) -> np.ndarray:
        sizes = values["vocab_size"], values["num_classes"]
        return np.exp(2 * growth_exponent(np.array([0.0, 700.0]), 0.5, values["eta_Z"], *sizes, 1.0, form))

    printed = smallest("printed")
    numbers = {
        "45.2": end.sel(form="printed").item(),
        "1.46": end.sel(form="consistent").item(),
        "1.778": values["rho0"],
        "1.63": smallest("consistent")[1],
        "143": printed[1] / printed[0],
    }
    for text, value in numbers.items():
        assert text in FIGURES["3"].caption
        assert f"{value:.{len(text.partition('.')[2])}f}" == text
    between = np.diff(figure.chi.sel(time=50).values)
    assert between.min() < 0 < between.max()


@pytest.mark.long
def test_figures_5_and_6(data: Data) -> None:
    """Assert the captions: a rarer token leads at rates 0.1 and 0.5; for one query entropy rises with the ratio."""
    leader = data("5").attention.sel(iteration=48).idxmax("token")
    assert (leader.sel(rate=[0.1, 0.5]) < DOMINANT[0]).all()
    assert (data("6").entropy.sel(num_queries=1).mean("seed").diff("ratio") > 0).all()


def test_captions_of_figures_8_and_9(data: Data) -> None:
    """Assert the largest gap of every curve in 8, and in 9 where t0 would lie at the inverse ratio of the rates."""
    figure = data("8")
    share = (figure.h_star - figure.h.sel(visit=figure.step)) * figure.vocab_size / (2 * figure.eta_Y)
    largest = 100 * share.max("step")
    assert f"{float(largest.min()):.0f} to {float(largest.max()):.0f} % of that bound" in FIGURES["8"].caption
    figure = data("9")
    inverse, last = figure.t0_inverse_ratio.isel(panel=0).values, figure.time.isel(point=-1).values[0]
    assert f"t = {inverse.min():.0f} to {inverse.max():.0f} on an axis that ends at {last:.0f}" in FIGURES["9"].caption
    np.testing.assert_allclose(figure.t0_inverse_ratio.isel(panel=1), figure.t0.isel(panel=1))  # nu = 1: the same


@pytest.mark.long
def test_figure_attention(data: Data) -> None:
    """Assert the times of the iterations, and mirrored classes.

    Control: the rarest token does not correspond to the dominant one.
    """
    figure, caption = data("attention"), FIGURES["attention"].caption
    clock = dict(zip(figure.iteration.values.tolist(), figure.t_of_iteration.values.tolist(), strict=True))
    assert f"(iteration 10 at t = {clock[10]:.0f}, 48 at t = {clock[48]:.0f})" in caption
    mirrored = figure.attention.values[:, :, 1, DOMINANT[1]]
    np.testing.assert_allclose(figure.attention.values[:, :, 0, DOMINANT[0]], mirrored, atol=1e-9)
    assert np.abs(figure.attention.values[:, :, 0, RAREST] - mirrored).max() > 1e-2
