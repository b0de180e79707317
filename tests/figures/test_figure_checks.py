"""Every figure's claims hold on its data, reject a wrong theory, and notice data that do not show them."""

from collections.abc import Callable

import numpy as np
import pytest
import xarray

from snapdyn.figures import FIGURES, DrawnFigure


def backwards(name: str, dimension: str) -> Callable[[xarray.Dataset], xarray.Dataset]:
    """The variable with its values in reverse order along a dimension: a figure that shows the opposite."""

    def change(dataset: xarray.Dataset) -> xarray.Dataset:
        values = dataset[name].isel({dimension: slice(None, None, -1)}).values
        return dataset.assign({name: dataset[name].copy(data=values)})

    return change


def scaled(name: str, factor: float) -> Callable[[xarray.Dataset], xarray.Dataset]:
    return lambda dataset: dataset.assign({name: dataset[name] * factor})


def exchanged(first: str, second: str) -> Callable[[xarray.Dataset], xarray.Dataset]:
    return lambda dataset: dataset.assign(
        {
            first: dataset[first].copy(data=dataset[second].values),
            second: dataset[second].copy(data=dataset[first].values),
        }
    )


COMPUTED = list(FIGURES)
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
    "phase": scaled("times_transition_time", 2.0),
}


@pytest.mark.parametrize("id_", COMPUTED)
def test_figure_shows_what_it_claims(id_: str, drawn: dict[str, DrawnFigure]) -> None:
    """Assert that every check is as it must be, with statements that pass and wrong theories that are rejected."""
    checks = drawn[id_].checks
    assert [check.name for check in checks if not check.as_expected] == []
    assert {"statement", "control"} <= {check.role for check in checks}
    assert all(np.isfinite(check.value) for check in checks)


@pytest.mark.parametrize("id_", COMPUTED)
def test_data_that_show_something_else_are_noticed(id_: str, data: dict[str, xarray.Dataset]) -> None:
    """Assert that the checks fail on data with one variable reversed or scaled."""
    checks = FIGURES[id_].numbers(WRONG_DATA[id_](data[id_]))
    assert not all(check.as_expected for check in checks)


def test_numbers_in_the_caption_of_figure_2(data: dict[str, xarray.Dataset]) -> None:
    """Assert the dominant token's lead at the start, at its largest and at the end."""
    own = data["2"].attention.isel({"class": 0})
    lead = own.sel(token=0) / own.sel(token=1)
    quoted = f"rises from {float(lead[0]):.2f} to {float(lead.max()):.2f} and comes back to {float(lead[-1]):.2f}"
    assert quoted in FIGURES["2"].caption


def test_figure_4_says_which_theory_is_how_far_off(data: dict[str, xarray.Dataset]) -> None:
    """Assert the caption: at eta_Y = 1 descent is closer to SGD than the mean field, at 10 the errors cancel."""
    final = data["4"].sel(iteration=48)
    off = {
        name: np.abs(final.sgd.mean("seed") - final[name]).max(["class", "token"]) for name in ("descent", "mean_field")
    }
    assert off["descent"].sel(eta_Y=1.0) < 0.5 * off["mean_field"].sel(eta_Y=1.0)
    assert off["mean_field"].sel(eta_Y=10.0) < 0.5 * off["descent"].sel(eta_Y=10.0)


def test_figure_5_the_most_frequent_token_leads_at_rate_1_only(data: dict[str, xarray.Dataset]) -> None:
    """Assert the caption: a rarer distinct token leads in every seed at rates 0.1 and 0.5, at 1 mostly the dominant."""
    leader = data["5"].attention.sel(iteration=48).idxmax("token")
    assert (leader.sel(rate=[0.1, 0.5]) < 19).all()
    assert (leader.sel(rate=1.0) == 19).mean() >= 0.7


def test_figure_6_rises_with_the_ratio_for_one_query(data: dict[str, xarray.Dataset]) -> None:
    """Assert the caption's second half: for one query the mean entropy rises from ratio to ratio."""
    assert (data["6"].entropy.sel(num_queries=1).mean("seed").diff("ratio") > 0).all()


def test_growth_in_the_mean_field_is_less_than_a_tenth(data: dict[str, xarray.Dataset]) -> None:
    """Assert the caption: at the end Eq. (10) grows more than ten times as far as the mean field."""
    end = data["growth"].exponent.isel(time=-1)
    assert end.sel(theory="modified decoder") > 10 * end.sel(theory="mean field")


@pytest.mark.parametrize(
    ("wrong", "panel"),
    [
        (backwards("entropy_entropy", "entropy_eta_Z"), "entropy"),
        (lambda dataset: dataset.assign(fallen_fallen_share=dataset.fallen_fallen_share + 0.1), "fall"),
        (scaled("gaps_largest_gap", 2.0), "gap"),
        (scaled("number_gaps_largest_gap", 2.0), "gap"),
        (scaled("rate_gaps_largest_gap", 2.0), "gap"),
        (backwards("rate_gaps_largest_gap", "rate_gaps_eta_Z"), "gap"),
        (exchanged("flow_phase", "modified_phase"), "winner"),
        (backwards("flow_phase", "flow_eta_Z"), "snapped"),
        (backwards("modified_phase", "modified_eta_Z"), "snapped"),
    ],
)
def test_every_diagram_of_phase_is_checked(
    wrong: Callable[[xarray.Dataset], xarray.Dataset], panel: str, data: dict[str, xarray.Dataset]
) -> None:
    """Assert that a check of the diagram itself notices it reversed, doubled, shifted or exchanged."""
    failed = [check.name for check in FIGURES["phase"].numbers(wrong(data["phase"])) if not check.as_expected]
    assert any(panel in name for name in failed)
