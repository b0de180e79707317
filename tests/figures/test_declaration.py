"""Parameters of figures: declared, checked, followed through, and kept in names, captions and provenance."""

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest
import xarray
from matplotlib.figure import Figure
from matplotlib.text import Text
from pydantic import Field

import snapdyn as sd
from snapdyn.core.errors import InputError
from snapdyn.figures import FIGURES, FigureEntry, write
from snapdyn.figures.declaration import describe

# Other values for figures that are quick to compute.
OTHERS: dict[str, dict[str, Any]] = {
    "2": {"eta_Z": 0.5, "vocab_size": 200},
    "3": {"num_classes": 6, "eta_Z": 0.2},
    "8": {"vocab_size": [20, 500], "eta_Y_a": [0.3, 1.0], "eta_Y_b": [0.3, 3.0]},
    "9": {"ratio": [5.0, 2.0], "eta_Z": [1.0, 3.0]},
    "transition": {"num_classes": 4, "eta_Y": 0.5, "rho0": 2.0},
    "attention": {"eta_Y": [2.0, 3.0], "momentum": 0.5},
    "phase": {"cells": 7},
}


def test_every_figure_declares_its_parameters() -> None:
    """Assert a meaning for each parameter, and a default that the parameter itself accepts."""
    without = {id_ for id_, entry in FIGURES.items() if not entry.parameters.model_fields}
    assert without <= {"10"}
    for id_, entry in FIGURES.items():
        fields = entry.parameters.model_fields
        assert all(field.description for field in fields.values()), id_
        defaults = {name: field.default for name, field in fields.items()}
        assert dict(entry.read_parameters(defaults)) == defaults, id_


@pytest.mark.parametrize("id_", [pytest.param(id_, marks=[pytest.mark.long] * (id_ == "phase")) for id_ in OTHERS])
def test_other_parameters_are_followed_through(id_: str, tmp_path: Path) -> None:
    """Assert that what holds for all parameters holds, and that name, caption and provenance say which were used.

    The general checks compare closed forms with integrations, so a rho0 or a rate that stayed behind would fail them.
    A parameter that is equal to its default counts as not given.
    """
    entry = FIGURES[id_]
    name = next(name for name in entry.parameters.model_fields if name not in OTHERS[id_])
    (figure,) = write(
        id_,
        tmp_path,
        parameters={id_: OTHERS[id_] | {name: entry.parameters.model_fields[name].default}},
        formats=["png"],
    )
    assert figure.as_claimed
    assert {check.name for check in figure.checks} == set(entry.general)
    assert figure.png.name != f"figure_{id_}.png"
    assert "Drawn here with" in figure.caption
    record = json.loads(figure.provenance.read_text(encoding="utf-8"))
    assert set(record["changed_parameters"]) == set(OTHERS[id_])
    assert record["claims_of_the_defaults_only"] == list(figure.not_applicable)


OWN_CLASSES = """
[classes]
kind = "single_common_token"
num_classes = {}
num_distinct = 2
common_probability = 0.4
"""


@pytest.mark.parametrize(("id_", "shown"), [("4", [0, 2, 3, 4, 8]), ("5", 2)])
def test_own_classes(id_: str, shown: list[int] | int, tmp_path: Path) -> None:
    """Assert the tokens of chosen classes, ordered by their groups, in data and picture, which fits on a page."""
    file = tmp_path / "own.toml"
    file.write_text(OWN_CLASSES.format(9), encoding="utf-8")
    chosen = {"classes": str(file), "seeds": 2, "shown": shown}
    (figure,) = write(id_, tmp_path, parameters={id_: chosen}, formats=["png"])
    assert "own.toml" in figure.caption
    dataset = xarray.load_dataset(figure.data, engine="h5netcdf")
    assert list(dataset.attrs["groups"]) == ["common", *(f"distinct of class {n}" for n in np.atleast_1d(shown))]
    assert list(dataset.attrs["first_tokens"]) == [0, 1, 3, 5, 7, 9][: 1 + np.size(shown)]
    assert dataset.sizes["token"] == 1 + 2 * np.size(shown)
    drawn = sd.figures.draw(id_, dataset)
    assert drawn.get_figheight() <= 9
    assert any(text.get_text().startswith("own, ") for text in drawn.findobj(Text))
    with pytest.raises(InputError, match=r"expected the class to be a whole number in 0\.\.8, received 9"):
        sd.figures.compute(id_, classes=str(file), shown=9 if id_ == "5" else [9])
    file.write_text(
        '[classes]\nkind = "table"\nP = [[0.5, 0.5], [1.0, 0.0]]\nquery = [2, 2]\nvocab_size = 9\n', encoding="utf-8"
    )
    with pytest.raises(InputError, match=r"a distinct token of each class .* received \[1, 1, 0\]"):
        sd.figures.compute(id_, classes=str(file))


def test_a_fault_with_the_defaults_stays_an_error() -> None:
    """Assert that only parameters of the user turn a failed integration into wrong input."""

    def fails(level: str, rate: float = 1.0) -> xarray.Dataset:
        raise RuntimeError("no convergence")

    def draws(dataset: object) -> Figure:
        return Figure()

    FIGURES.add(FigureEntry("fails", "Fails", "It fails.", fails, draws))
    with pytest.raises(RuntimeError, match=r"^no convergence"):
        sd.figures.compute("fails")
    with pytest.raises(InputError, match=r"received rate = 2 \(RuntimeError: no convergence\); choose values nearer"):
        sd.figures.compute("fails", rate=2.0)


@pytest.mark.parametrize(
    ("id_", "values", "message"),
    [
        ("3", {"num_clases": 6}, "only known keys in .* figure 3, received 'num_clases'; did you mean 'num_classes'"),
        ("3", {"num_classes": 10**30}, "to be less than or equal to 9223372036854775807, received 10*;"),
        ("2", {"eta_Y": 1e4, "eta_Z": 1e-4, "last_time": 1e30}, "give a later one, or rates nearer to each other"),
        ("growth", {"steps": 800}, r"^expected steps .* above 911\.688, received 800; give more than t0$"),
        ("growth", {"num_classes": 200}, "expected steps .* above 36467.*, received 30000; give more"),
        ("3", {"eta_Y": []}, "one number or more, received "),
        ("3", {"eta_Y": "fast"}, "one number or more, received 'fast'; write for example"),
        ("3", {"eta_Y": [1, 0.5, 2, 0.5, 0.5]}, r"received 0\.5 more than once"),
        ("2", {"last_time": 100.0}, "give a later one"),
        ("8", {"eta_Y_a": [1.0]}, "as many rates"),
        ("orders", {"K": 5}, "parameters of figure orders, received 'K'; remove it, or use one of seeds"),
    ],
)
def test_wrong_parameters_are_refused(id_: str, values: dict[str, Any], message: str) -> None:
    """Assert one sentence that names the parameter, what is expected and what was received."""
    with pytest.raises(InputError, match=message):
        sd.figures.compute(id_, **values)


def test_a_figure_of_ones_own_declares_parameters_in_its_signature() -> None:
    """Assert that arguments with a default are parameters of the types of their annotations; numpy's values pass."""

    def compute(
        level: str,
        runs: object = None,
        K: int = 3,
        rates: Annotated[list[float], Field(description="rates")] = [1.0],  # noqa: B006
        name: str = "x",
        limit: Annotated[float | None, Field(gt=0)] = None,
        other: Any = 0,
    ) -> xarray.Dataset:
        raise AssertionError("not called")

    entry = FigureEntry("own", "Own", "Own.", compute, lambda dataset: Figure())
    read = entry.read_parameters({"K": np.int64(5), "rates": np.array([3.0, 4.0]), "name": "y", "other": "any"})
    assert dict(read) == {"K": 5, "rates": [3.0, 4.0], "name": "y", "limit": None, "other": "any"}
    assert read.model_dump(exclude_defaults=True).keys() == {"K", "rates", "name", "other"}
    with pytest.raises(InputError, match="expected limit in the parameters of figure own to be greater than 0, rec"):
        entry.read_parameters({"limit": 0.0})
    assert describe(entry.parameters)[:2] == ["K = 3: K; whole number", "rates = 1: rates; numbers"]
