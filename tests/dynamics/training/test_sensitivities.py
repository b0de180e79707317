"""Sensitivities: against finite differences of runs, a complex step on plain numpy, and a solved equation."""

from typing import Any

import numpy as np
import pytest
import sympy

from snapdyn.core.errors import InputError
from snapdyn.dynamics import (
    MeanField,
    SequenceClasses,
    System,
    integrate,
    random_classes,
    sensitivity,
    syn_small,
)

CLASSES = random_classes(3, 2, 3, num_queries=2, seed=1, uniform_prior=False)
TIMES = np.linspace(0.0, 100.0, 6)
ETA_Y, ETA_Z = 0.7, 0.4


def directions() -> tuple[Any, Any]:
    """Random directions of P and of the initial logits."""
    rng = np.random.default_rng(0)
    P = CLASSES.P.toarray()
    of_P = np.where(P > 0, rng.normal(size=P.shape), 0.0)
    for row, support in zip(of_P, P > 0, strict=True):
        row[support] -= row[support].mean()
    of_z = np.zeros((2, CLASSES.num_tokens))
    of_z[CLASSES.z_coordinates] = rng.normal(size=CLASSES.z_coordinates[0].size)
    return 0.01 * of_P, of_z


def run(parameter: int, change: float) -> Any:
    """The mean field with one parameter changed."""
    of_P, of_z = directions()
    classes, rates, z = CLASSES, [ETA_Y, ETA_Z], None
    if parameter < 2:
        rates[parameter] += change
    elif parameter == 2:
        P = CLASSES.P.toarray() + change * of_P
        classes = SequenceClasses(P, CLASSES.query, CLASSES.next_token, CLASSES.prior, CLASSES.vocab_size)
    else:
        z = change * of_z
    return integrate(MeanField(classes, *rates, z), TIMES, rtol=1e-12, atol=1e-13)


@pytest.mark.slow
def test_derivatives_are_finite_differences_of_runs() -> None:
    """Assert attention, entropy and loss, by rates, P and initial logits, to 1e-6 of central differences.

    The differences err by h^2/6 times third derivatives and by the tolerance over h, each below 1e-7 of the largest.
    """
    of_P, of_z = directions()
    result = sensitivity(MeanField(CLASSES, ETA_Y, ETA_Z), TIMES, ("eta_Y", "eta_Z", ("P", of_P), ("z_initial", of_z)))
    assert np.allclose(result.trajectory.attention, run(0, 0.0).attention, rtol=1e-7)
    for parameter, h in enumerate((1e-4, 1e-4, 1e-3, 1e-4)):
        above, below = run(parameter, h), run(parameter, -h)
        for name in ("attention", "entropy", "loss"):
            values = [getattr(each, name)() if name == "entropy" else getattr(each, name) for each in (above, below)]
            expected = (values[0] - values[1]) / (2 * h)
            own = result.entropy() if name == "entropy" else getattr(result, name)
            assert np.abs(own[:, parameter] - expected).max() < 1e-6 * np.abs(expected).max()


X, A, T = sympy.symbols("x a t")


@pytest.mark.parametrize("rate", [sympy.Piecewise((1, X < A), (2, True)), 2 - sympy.Heaviside(A - X)])
def test_a_parameter_that_moves_a_jump_is_refused(rate: Any) -> None:
    """Assert a refusal where the derivative lacks what the jump adds: at x = a the rate of x jumps."""
    system = System.from_sympy("Jump", {X: 0.0}, {X: rate}, {A: 0.7})
    with pytest.raises(InputError, match="whose jumps do not move with a"):
        sensitivity(system, [0.5, 2.0], ("a",))


def test_a_jump_in_a_function_is_seen() -> None:
    """Assert the same for a rate in Python, whose jump nobody declares, and the derivative where it stands still."""

    def rate(t: float, state: Any, out: Any, a: float, b: float) -> None:
        out[0] = 2.0 * b if state[0] > a else b

    system = System.from_function("Jump", rate, [0.0], {"a": 0.7, "b": 1.0})
    with pytest.raises(InputError, match="whose jumps do not move with a"):
        sensitivity(system, [0.5, 2.0], ("a",))
    assert sensitivity(system, [0.25, 0.5], ("b",)).state.ravel() == pytest.approx([0.25, 0.5], rel=1e-6)


@pytest.mark.parametrize(
    ("rate", "time", "expected"),
    [
        (sympy.Max(T - A, 0), T, [0.0, -1.3]),  # x = (t - a)^2/2
        (sympy.Piecewise((A, T < 1), (2 * A, True)), T, [0.5, 3.0]),  # the jump stands still
        (sympy.Piecewise((1, T < A), (2, True)), T, [0.0, -1.0]),  # at t = a, where the steps begin anew
        (2 + sympy.sign(T - A), T, [0.0, -2.0]),
        (1 + sympy.Abs(X - 0.25) * 0 + A * X, None, None),
    ],
)
def test_bends_and_jumps_in_time_are_differentiated(rate: Any, time: Any, expected: Any) -> None:
    """Assert derivatives by a at t = 0.5 and 2 of rates that bend, or jump at known times, against solutions."""
    system = System.from_sympy("Bend", {X: 0.0}, {X: rate}, {A: 0.7}, time=time)
    found = sensitivity(system, [0.5, 2.0], ("a",)).state.ravel()
    if expected is None:  # x = (exp(a t) - 1)/a
        t = np.array([0.5, 2.0])
        expected = t * np.exp(0.7 * t) / 0.7 - (np.exp(0.7 * t) - 1) / 0.49
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"wrt": [("P", np.ones((2, 3)))]}, r"direction of P of shape"),
        ({"wrt": [("P", np.eye(2, 30))]}, "0 where P is 0|sum to 0"),
    ],
)
def test_wrong_arguments_are_refused(options: dict[str, Any], sentence: str) -> None:
    """Assert one sentence per wrong direction."""
    with pytest.raises(InputError, match=sentence):
        sensitivity(MeanField(syn_small(), 1.0, 1.0), [1.0, 2.0], **options)


class Decay(System):
    """x' = -x from start^2."""

    def __init__(self, start: float) -> None:
        self.parameters = {"start": start}

    def initial_state(self) -> Any:
        return np.array([self.parameters["start"] ** 2])

    def write_rate(self, state: Any, out: Any) -> None:
        out[0] = -state[0]


def test_time_at_which_the_loss_crosses_a_level() -> None:
    """Assert that the derivatives by the rates obey eta_Y dt/deta_Y + eta_Z dt/deta_Z = -t: both rates scale time."""
    result = sensitivity(MeanField(CLASSES, ETA_Y, ETA_Z), np.linspace(0.0, 20.0, 401))
    at, slopes = result.crossing("loss", level=float(result.trajectory.loss[200]))
    assert at == pytest.approx(10.0, rel=1e-9)
    assert np.array([ETA_Y, ETA_Z]) @ slopes == pytest.approx(-at, rel=1e-3)
    with pytest.raises(InputError, match="observable"):
        result.crossing("los", level=1.0)
