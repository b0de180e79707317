"""Input errors of the numeric evaluators, and what importing them costs."""

import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from snapdyn import analytic
from snapdyn.errors import InputError


@pytest.mark.parametrize("function", [analytic.u_minus, analytic.u_plus, analytic.omega_1])
@pytest.mark.parametrize("vocab_size", [2, 3, [10, 3]])
def test_roots_need_four_outputs(function: Callable, vocab_size: object) -> None:
    """Assert that V = 2, 3, for which exp(u) = (V-1) u has no real root, are refused in plain words."""
    with pytest.raises(InputError, match=r"expected vocab_size to be a whole number of at least 4.*no real root"):
        function(vocab_size)


def test_the_end_of_the_transition_needs_four_outputs() -> None:
    """Assert that kind="end" is refused for V = 3, where kind="peak" still works."""
    assert analytic.transition_time(2, 3, 1.0, kind="peak") > 0
    with pytest.raises(InputError, match="use kind='peak'"):
        analytic.transition_time(2, 3, 1.0, kind="end")


def test_long_integers_and_fractions_are_numbers() -> None:
    """Assert that numbers which numpy holds as objects are computed with."""
    assert analytic.h(10**20, Fraction(1, 2), 10) == analytic.h(1e20, 0.5, 10)


def test_overflowing_products_are_refused() -> None:
    """Assert that V eta_Y s beyond the largest float is refused instead of returned as infinity."""
    with pytest.raises(InputError, match="overflows"):
        analytic.h(1e308, 1e3, 100)


def test_the_evaluators_import_numpy_only() -> None:
    """Assert that the evaluators load neither sympy, numba, matplotlib, scipy, nor another room."""
    # The package `snapdyn` may load anything, so a bare module replaces it.
    program = """
import importlib.util, sys, types
face = types.ModuleType("snapdyn")
face.__path__ = importlib.util.find_spec("snapdyn").submodule_search_locations
sys.modules["snapdyn"] = face
import snapdyn.analytic
loaded = {name.split(".")[0] for name in sys.modules} & {"sympy", "numba", "matplotlib", "scipy"}
ours = {name for name in sys.modules if name.startswith("snapdyn.")}
rooms = {name for name in ours - {"snapdyn.errors"} if not name.startswith("snapdyn.analytic")}
print(sorted(loaded | rooms))
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


TIME = {"num_classes": 2, "vocab_size": 10, "eta_Y": 1.0}
ORBIT = {
    "distinct_probabilities": [0.5], "common_probability": 0.5, "num_classes": 3, "vocab_size": 10, "eta_Y": 1.0,
    "eta_Z": 1.0, "t": 1.0,
}  # fmt: skip
GAPS = {"t": 1.0, "eta_Y": 1.0, "vocab_size": 10, "num_classes": 5, "overlap": 0.2}
PROFILE = {"Gamma": 1.0, "num_classes": 5, "rho0": 3.0, "wbar": 0.5, "vocab_size": 10}
SPEED = {"E_prime": np.zeros((2, 2)), "vocab_size": 100}
EARLY = {"t": 1.0, "eta_Y": 1.0, "eta_Z": 1.0, "num_classes": 10, "vocab_size": 100, "common_attention": 0.5}


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (analytic.transition_time, TIME | {"kind": "peek"}, "did you mean 'peak'"),
        (analytic.h, {"s": -1.0, "eta_Y": 1.0, "vocab_size": 10}, "expected s "),
        (analytic.gamma, TIME | {"t": [1.0, np.nan]}, "expected t "),
        (analytic.error_norm, {"s": 1.0, "eta_Y": 1.0, "vocab_size": [10, 1]}, "expected vocab_size "),
        (analytic.discrete_h, {"num_steps": 2.5, "eta_Y": 1.0, "vocab_size": 10}, "expected num_steps "),
        (analytic.xi, TIME | {"t": 1.0, "eta_Z": 1.0, "rho0": 0.0}, "expected rho0 "),
        (analytic.transition_time, TIME | {"prior": 1.5}, "expected prior to be"),
        (analytic.single_common_token_orbit, ORBIT | {"distinct_probabilities": [0.2, 0.2]}, "sum to 1"),
        (
            analytic.single_common_token_orbit,
            ORBIT | {"distinct_probabilities": [[0.5]]},
            "_probabilities of shape",
        ),
        (analytic.single_common_token_orbit, ORBIT | {"vocab_size": 2}, "vocab_size of at least num_classes"),
        (analytic.ladder_gaps, GAPS | {"overlap": 1.0}, "overlap to be finite, at least 0 and below 1, received 1; "),
        (analytic.ladder_gaps, GAPS | {"t": 0.0}, "expected t "),
        (analytic.largest_ladder_gap, GAPS | {"overlap": [0.1, 0.2]}, "overlap to be a finite number"),
        (analytic.growth_and_common_logit, PROFILE | {"rho0": 1.0}, "rho0 to be finite and above 1, received 1; "),
        (
            analytic.growth_and_common_logit,
            PROFILE | {"wbar": 1.5},
            "wbar to be finite and from 0 to 1",
        ),
        (analytic.distinct_profile, {"distinct_probabilities": []}, "expected distinct_probabilities"),
        (analytic.speed_coefficients, SPEED | {"E_prime": np.zeros((2, 3))}, "shape"),
        (analytic.speed_coefficients, SPEED | {"form": "leeding"}, "did you mean 'leading'"),
        (analytic.relative_gain, {"initial_gain": -1.0, "growth_of_logit": 0.1}, "expected initial_gain"),
        (
            analytic.growth_exponent_of_many_classes,
            {"x": -1.0, "num_classes": 5, "rho0": 2.0},
            "expected x ",
        ),
        (
            analytic.early_common_logit_of_many_classes,
            EARLY | {"common_attention": 1.0},
            "number below 1",
        ),
    ],
)
def test_own_checks_are_one_sentence(function: Callable, arguments: dict, message: str) -> None:
    """Assert each check that a function makes beside those of numbers and ranges."""
    with pytest.raises(InputError, match=message):
        function(**arguments)
