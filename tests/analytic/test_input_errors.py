"""Input errors of the numeric evaluators, and what importing them costs."""

import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from snapdyn import analytic
from snapdyn.errors import InputError

GROWTH = {"t": 1.0, "eta_Y": 1.0, "eta_Z": 1.0, "vocab_size": 10, "num_classes": 2, "rho0": 1.5}
CALLS: dict[str, tuple[Callable, dict]] = {
    "h": (analytic.h, {"s": 1.0, "eta_Y": 1.0, "vocab_size": 10}),
    "error_norm": (analytic.error_norm, {"s": 1.0, "eta_Y": 1.0, "vocab_size": 10}),
    "gamma": (analytic.gamma, {"t": 1.0, "eta_Y": 1.0, "vocab_size": 10, "num_classes": 2}),
    "gamma_integral": (analytic.gamma_integral, {"t": 1.0, "eta_Y": 1.0, "vocab_size": 10, "num_classes": 2}),
    "discrete_h": (analytic.discrete_h, {"num_steps": 3, "eta_Y": 1.0, "vocab_size": 10}),
    "transition_time": (analytic.transition_time, {"num_classes": 2, "vocab_size": 10, "eta_Y": 1.0}),
    "common_token_logit": (analytic.common_token_logit, GROWTH),
    "xi": (analytic.xi, GROWTH),
    "growth_exponent": (analytic.growth_exponent, GROWTH),
    "growth_exponent_pieces": (analytic.growth_exponent_pieces, GROWTH),
}
BAD_VALUES: dict[str, list] = {
    "t": [-1.0, np.nan, np.inf, [1.0, -2.0]],
    "s": [-1.0, np.nan, np.inf, "soon", None, True, 1j, [[1.0], [2.0, 3.0]]],
    "num_steps": [-1, 2.5, [3, 4], np.array([3, 4])],
    "eta_Y": [0.0, -1.0, np.nan, np.inf],
    "eta_Z": [0.0, -1.0, np.nan, np.inf],
    "rho0": [0.0, -1.0, np.nan],
    "vocab_size": [1, 0, 2.5, np.nan, [10, 1]],
    "num_classes": [0, 1.5, np.inf],
}
CASES = [
    pytest.param(call, name, value, id=f"{call}-{name}-{value}")
    for call, (_, arguments) in CALLS.items()
    for name in arguments
    for value in BAD_VALUES[name]
]


@pytest.mark.parametrize(("call", "name", "value"), CASES)
def test_a_bad_argument_is_named(call: str, name: str, value: object) -> None:
    """Assert that each argument out of range raises an InputError that names it and says what was wrong."""
    function, arguments = CALLS[call]
    function(**arguments)
    with pytest.raises(InputError, match=f"^expected {name} .*, received .*; "):
        function(**(arguments | {name: value}))


@pytest.mark.parametrize("function", [analytic.u_minus, analytic.u_plus, analytic.omega_1])
@pytest.mark.parametrize("vocab_size", [2, 3, [10, 3]])
def test_roots_need_four_outputs(function: Callable, vocab_size: object) -> None:
    """Assert that V = 2, 3, for which exp(u) = (V-1) u has no real root, are refused in plain words."""
    with pytest.raises(InputError, match=r"expected vocab_size >= 4.*no real root"):
        function(vocab_size)


def test_the_end_of_the_transition_needs_four_outputs() -> None:
    """Assert that kind="end" is refused for V = 3, where kind="peak" still works."""
    assert analytic.transition_time(2, 3, 1.0, kind="peak") > 0
    with pytest.raises(InputError, match="use kind='peak'"):
        analytic.transition_time(2, 3, 1.0, kind="end")


@pytest.mark.parametrize(
    ("function", "arguments", "nearest"),
    [
        (analytic.transition_time, {**CALLS["transition_time"][1], "kind": "peek"}, "peak"),
        (analytic.growth_exponent, {**GROWTH, "form": "consistant"}, "consistent"),
        (analytic.xi, {**GROWTH, "form": "print"}, "printed"),
        (analytic.common_token_logit, {**GROWTH, "form": "Printed"}, "printed"),
        (
            analytic.speed_coefficients,
            {"E_prime": np.zeros((2, 2)), "vocab_size": 9, "form": "leeding"},
            "leading",
        ),
    ],
)
def test_an_unknown_form_suggests_the_nearest(function: Callable, arguments: dict, nearest: str) -> None:
    """Assert that a misspelt kind or form is answered with the nearest known one."""
    with pytest.raises(InputError, match=f"did you mean '{nearest}'"):
        function(**arguments)


@pytest.mark.parametrize("value", [np.full((40, 40), "x"), ["a", None] * 500, np.full((30, 30), -1.0)])
@pytest.mark.parametrize("function", [analytic.h, lambda s, *rest: analytic.discrete_h(3, s, 10)])
def test_a_message_is_one_line(function: Callable, value: object) -> None:
    """Assert that a large array gives a message of one short line."""
    with pytest.raises(InputError) as caught:
        function(value, 1.0, 10)
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 200


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
