"""Bounds of the parameters of figures: what is claimed of all parameters holds there."""

from typing import Any

import numpy as np
import pytest

import snapdyn as sd
from snapdyn.figures import FIGURES
from snapdyn.figures.figure_ladder import SMALLEST_SHOWN


def test_every_rate_has_bounds() -> None:
    """Assert that no figure takes a rate of any size; 7 takes those of its saved runs only."""
    for id_, entry in FIGURES.items():
        for name, schema in entry.parameters.model_json_schema().get("properties", {}).items():
            if schema["description"].endswith("per step") and id_ != "7":
                assert "maximum" in schema.get("items", schema), (id_, name)


@pytest.mark.parametrize(
    ("id_", "values"),
    [
        ("3", {"rho0": 2.0}),  # the printed B does not start at 0
        ("transition", {"eta_Y": 1e4}),  # t* and t0 before the axis
        ("2", {"eta_Y": 1e-4, "eta_Z": 1e4, "last_time": 1e9}),
        ("4", {"eta_Y": [0.1, 10.0], "eta_Z": 10.0, "seeds": 3}),
        ("5", {"rate": [1e-4, 1e4]}),
        ("8", {"eta_Y_a": [1e-4, 1e4], "eta_Y_b": [1e-4, 1e4]}),
        ("9", {"eta_Z": [1e-4, 1e4], "ratio": [1e-4, 1e4]}),
        ("growth", {"eta_Y": 0.01, "eta_Z": 100.0, "seeds": 2}),
        ("growth", {"vocab_size": 8, "num_classes": 2, "num_distinct": 1, "common_probability": 0.99}),
        ("ladder", {"eta_Y": 10.0, "eta_Z": 1e-4, "seeds": 4}),
        ("attention", {"eta_Y": [1e-4, 1e4], "eta_Z": 1e4}),
    ],
)
@pytest.mark.filterwarnings("error")
def test_what_is_general_holds_at_the_bounds(id_: str, values: dict[str, Any]) -> None:
    """Assert the checks that are called general where parameters are far from the defaults.

    Figure ladder: descent does not overshoot (the mean field stays within half of its largest change), and all gaps
    are large enough to be drawn.
    """
    entry, dataset = FIGURES[id_], sd.figures.compute(id_, **values)
    checks = [check for check in entry.numbers(dataset) if check.name in entry.general]
    assert checks
    assert all(check.as_expected for check in checks)
    if id_ == "ladder":
        assert np.isfinite(dataset.gap).all()
        assert float(dataset.gap.sel(rung="mean field").max()) < 0.5
        assert float(dataset.gap.sel(rung=["SGD", "descent"], observable="z").max("t").min()) > SMALLEST_SHOWN


def test_the_consistent_exponent_bounds_growth_at_all_rates() -> None:
    """Assert that with the default classes Eq. (10) stays below B at the ends of the rates; with others it does not."""

    def ratio(**values: Any) -> float:
        checks = FIGURES["growth"].numbers(sd.figures.compute("growth", seeds=2, **values))
        return next(check.value for check in checks if check.name.endswith("over B of the consistent form, largest"))

    assert ratio(eta_Y=0.01, eta_Z=100.0) < 1
    assert ratio(eta_Y=1e4, eta_Z=1e-4) < 1
    assert ratio(num_classes=2, num_distinct=1, vocab_size=8) == pytest.approx(1.90, abs=0.01)
    assert ratio(common_probability=0.9) == pytest.approx(1.98, abs=0.01)
