"""What all systems share: a derivative is a fresh array, and a broken state shows in it."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sympy

from snapdyn.core.errors import InputError
from snapdyn.dynamics import (
    Event,
    FrozenDecoder,
    MeanField,
    ModifiedDecoder,
    SingleCommonToken,
    System,
    integrate,
    symmetric_classes,
    syn_small,
)
from snapdyn.dynamics.classes.table import Floats
from snapdyn.dynamics.systems.reduction import reduced
from tests.dynamics.helpers import EPS
from tests.dynamics.systems.helpers import TWO_QUERIES

TIMES = np.array([0.0, 0.5, 1.0, 3.0, 7.0])
RTOL, ATOL = 1e-9, 1e-11


class Oscillator(System):
    """x'' = -omega^2 x from x = 1 at rest: x = cos(omega t), x' = -omega sin(omega t)."""

    value_names = ("position", "velocity")

    def __init__(self, omega: float) -> None:
        self.parameters = {"omega": omega}

    def initial_state(self) -> Floats:
        return np.array([1.0, 0.0])

    def write_rate(self, state: Floats, out: Floats) -> None:
        out[0] = state[1]
        out[1] = -(self.parameters["omega"] ** 2) * state[0]


def cosine(t: Floats) -> Floats:
    return np.stack([np.cos(2.0 * t), -2.0 * np.sin(2.0 * t)], axis=-1)


def test_events_see_the_state_values() -> None:
    """Assert zeros of the position at odd multiples of pi/4, their states, and a terminal stop."""
    event = Event(lambda t, state: float(state.values[0]))
    run = integrate(Oscillator(2.0), [7.0], events={"zero": event}, rtol=RTOL, atol=ATOL)
    np.testing.assert_allclose([record.t for record in run.events], np.arange(1, 9, 2) * math.pi / 4, atol=1e-6)
    for record in run.events:
        assert record.state is not None
        np.testing.assert_allclose(record.state, cosine(np.array(record.t)), atol=1e-6)
    stopped = integrate(Oscillator(2.0), TIMES, events={"zero": Event(event.function, terminal=True)})
    assert (stopped.status, stopped.success, stopped.t.size) == ("terminated", True, 2)


def test_what_the_system_lacks_is_said_in_one_sentence() -> None:
    """Assert InputError for attention, loss, classes, decoder and the compiled integrator."""
    system = Oscillator(2.0)
    run = integrate(system, TIMES)
    assert (run.has_z, run.has_loss, run.classes, run.Y) == (False, False, None, None)
    calls: dict[str, Callable[[], Any]] = {
        "attention logits": lambda: run.z,
        "sequence classes": lambda: run.attention,
        "a loss": lambda: run.loss,
        "compiled": lambda: integrate(system, TIMES, "compiled"),
        "a decoder Y": lambda: integrate(system, TIMES, save_decoder=True),
        "logits": lambda: integrate(system, TIMES, events={"z": Event(lambda t, state: float(state.z[0, 0]))}),
    }
    for words, call in calls.items():
        with pytest.raises(InputError, match=rf"^expected a (system|trajectory) .*{words}.*received .*Oscillator"):
            call()


class Explosion(Oscillator):
    """The velocity is squared: infinite after a finite time."""

    def write_rate(self, state: Floats, out: Floats) -> None:
        out[0] = 1.0
        out[1] = 1.0 + state[1] ** 2


def test_the_base_class_is_no_system() -> None:
    """Assert one sentence that says so and what to do."""
    with pytest.raises(InputError, match="the base class System, which cannot be instantiated; make one with"):
        System()  # type: ignore[abstract]


def test_an_unknown_keyword_is_answered_with_the_right_name() -> None:
    """Assert a suggestion for a misspelt keyword, and a refusal where a subclass has no arguments of its own."""
    with pytest.raises(
        TypeError, match=r"MeanField\(\) got an unexpected keyword argument 'eta_y'; did you mean 'eta_Y'"
    ):
        MeanField(syn_small(), eta_y=1.0, eta_Z=1.0)  # type: ignore[call-arg]

    class Still(System):
        def initial_state(self) -> Floats:
            return np.zeros(1)

        def write_rate(self, state: Floats, out: Floats) -> None:
            out[:] = 0.0

    Still()
    with pytest.raises(TypeError, match=r"Still\(\) got an unexpected keyword argument 'rate'"):
        Still(rate=1.0)


def test_a_failure_names_the_value() -> None:
    """Assert that the report names the value as the system does, else by its number."""
    run = integrate(Explosion(1.0), [1.0, 3.0])
    assert (run.status, run.success, run.t.tolist()) == ("failed", False, [1.0])
    assert " in velocity (" in run.message
    Explosion.value_names = ()  # type: ignore[assignment]
    try:
        assert " in state value 1 (" in integrate(Explosion(1.0), [1.0, 3.0]).message
    finally:
        Explosion.value_names = Oscillator.value_names


def test_a_system_with_a_loss_of_its_own() -> None:
    """Assert that each further capability stands by itself: here a loss and a conserved energy."""

    class WithEnergy(Oscillator):
        def loss(self, state: Floats) -> float:
            return float(state[0] ** 2)

        def invariants(self, state: Floats) -> dict[str, Floats]:
            return {"energy": np.abs(4.0 * state[..., 0] ** 2 + state[..., 1] ** 2 - 4.0)}

    run = integrate(WithEnergy(2.0), TIMES, rtol=RTOL, atol=ATOL)
    np.testing.assert_allclose(run.loss, np.cos(2 * TIMES) ** 2, atol=1e-6)
    assert 0 < run.invariants["energy"].max() < 1e-6


def test_the_time_scale_is_one_over_the_fastest_rate() -> None:
    """Assert t_s = 1/max(eta_Y, eta_Z); 1 for a system without rates."""
    for eta_Y, eta_Z in ((0.5, 0.01), (2.0, 500.0)):
        for system in (MeanField(syn_small(), eta_Y, eta_Z), ModifiedDecoder(syn_small(), eta_Y, eta_Z)):
            assert system.time_scale == pytest.approx(1 / max(eta_Y, eta_Z), rel=4 * EPS)
            # The default variable of LSODA is log time for runs of more than 100 time scales.
            ends = 99 * system.time_scale, 101 * system.time_scale
            assert [integrate(system, [t], "LSODA", 1e-3, 1e-3).stats["log_time"] for t in ends] == [False, True]
    assert Oscillator(2.0).time_scale == 1.0


@pytest.mark.kernel
def test_derivative_is_fresh_and_leaves_the_state() -> None:
    """Assert that a call writes neither into the state nor into the result of an earlier call."""
    classes = TWO_QUERIES.classes()
    systems = [MeanField(classes, 1.0, 1.0), FrozenDecoder(classes, 1.0), ModifiedDecoder(classes, 1.0, 1.0)]
    for system in (*systems, SingleCommonToken(3, 10, 1.0, 1.0, 2.0)):
        state = np.abs(np.random.default_rng(1).normal(size=system.size))
        before = state.copy()
        first = system.derivative(0.0, state)
        kept = first.copy()
        system.derivative(0.0, 2 * state)
        np.testing.assert_array_equal(state, before)
        np.testing.assert_array_equal(first, kept)


X, V = sympy.symbols("x v")
MANY = symmetric_classes({"common": [0.3], "distinct": [0.7], "classes_per_query": 20})
COMPILED: dict[str, Callable[[], Any]] = {
    "mean field": lambda: MeanField(syn_small(), 1.0, 1.0),
    "reduced": lambda: reduced(MeanField(MANY, 1.0, 1.0)),
    "modified decoder": lambda: ModifiedDecoder(syn_small(), 1.0, 1.0),
    "sympy": lambda: System.from_sympy(
        "swing", {X: 1.0, V: 0.0}, {X: V, V: -X}, observables={"y": X**2}, conserved={"energy": X**2 + V**2}
    ),
}


@pytest.mark.parametrize("name", COMPILED)
def test_vectors_that_compiled_code_cannot_take_are_refused(name: str) -> None:
    """Assert InputError for states and rates of a wrong size, type or memory order, at every public method."""
    system = COMPILED[name]()
    good, n = system.initial_state(), system.size
    of_rates: list[Any] = [lambda v: system.write_rate(v, good.copy()), lambda v: system.write_rate_at(0.0, good, v)]
    if system.has_jacobian:
        of_rates.append(lambda v: system.write_jacobian_product(0.0, good, v, good.copy()))
    of_sizes = [lambda v: system.derivative(0.0, v), *[system.loss] * system.has_loss]
    of_sizes += [lambda v: system.observables(v[None]), system.invariants] * (name == "sympy")
    refused = rf"^expected contiguous float64 arrays of shape \({n},\) .*received"
    for vector in (np.ones(n + 7), np.ones(0), np.ones(2 * n)):
        for call in of_rates + of_sizes:
            with pytest.raises(InputError, match=refused):
                call(vector)
    for other in (np.ones((1, n)), np.ones(n, np.float32), np.ones(2 * n)[::2], list(good)):
        for call in of_rates:
            with pytest.raises(InputError, match=refused):
                call(other)
