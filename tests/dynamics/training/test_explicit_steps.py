"""Explicit steps and steps along samples, against closed forms of linear recursions."""

from typing import Any

import numpy as np
import pytest
import sympy

import snapdyn as sd

u, t = sympy.symbols("u t")


@pytest.fixture(scope="module")
def decay() -> sd.System:
    """u' = -u."""
    return sd.System.from_sympy("Decay", {u: 1.0}, {u: -u}, observables={"square": u**2})


def rate(t: float, state: Any, out: Any) -> None:
    """The same as a function."""
    out[0] = -state[0]


class Plain(sd.System):
    """The same, called from Python."""

    def initial_state(self) -> Any:
        return np.ones(1)

    def write_rate(self, state: Any, out: Any) -> None:
        out[:] = -state


def noisy(state: Any, rng: Any, out: Any) -> None:
    """A sample of the rate, with noise of variance 1."""
    out[0] = -state[0] + rng.normal()


@pytest.mark.parametrize("momentum", [0.0, 0.6])
@pytest.mark.parametrize("kind", ["sympy", "function", "plain"])
def test_heavy_ball_of_a_linear_rate(decay: sd.System, kind: str, momentum: float) -> None:
    """Assert u_i = powers of the matrix of one step, for each way to state a system."""
    system = {"sympy": decay, "function": sd.System.from_function("F", rate, [1.0]), "plain": Plain()}[kind]
    h = 0.3
    run = sd.descend(system, 40, h, momentum, record=[0, 1, 7, 40])
    step = np.array([[1 - h, h * momentum], [-1.0, momentum]])  # of (u, v), with v the velocity before the step
    expected = [(np.linalg.matrix_power(step, i) @ [1.0, 0.0])[0] for i in (0, 1, 7, 40)]
    assert run.success
    np.testing.assert_allclose(run.state[:, 0], expected, rtol=1e-12)
    np.testing.assert_allclose(run.t, h * np.array([0, 1, 7, 40]))
    if kind == "sympy":
        np.testing.assert_allclose(run.observable("square"), run.state[:, 0] ** 2)
    schedule = np.linspace(0.0, 2.0, 40)
    value, velocity = 1.0, 0.0
    for multiplier in schedule:
        velocity = momentum * velocity - value
        value += h * multiplier * velocity
    scheduled = sd.descend(system, 40, h, momentum, record=[0, 40], schedule=schedule)
    np.testing.assert_allclose(scheduled.state[-1], [value], rtol=1e-12)
    np.testing.assert_allclose(scheduled.t, [0.0, h * 40], rtol=1e-12)


def test_a_rate_that_depends_on_time_takes_the_integral_of_the_schedule() -> None:
    """Assert x = sum of h m_j t_j for x' = t, with t_j the sum of h m over the steps before."""

    def growth(time: float, state: Any, out: Any) -> None:
        out[0] = time

    schedule, h = np.array([0.5, 0.0, 2.0, 1.0]), 0.1
    before = h * np.array([0.0, 0.5, 0.5, 2.5])
    for system in (sd.System.from_sympy("G", {u: 0.0}, {u: t}, time=t), sd.System.from_function("G", growth, [0.0])):
        run = sd.descend(system, 4, h, schedule=schedule)
        np.testing.assert_allclose(run.state[-1], [(h * schedule * before).sum()], rtol=1e-14)
        np.testing.assert_allclose(run.t, [*before, h * 3.5], rtol=1e-14)


def test_rate_that_depends_on_time() -> None:
    """Assert that step i takes the time i h: u' = t gives h^2 i (i - 1)/2."""
    ramp = sd.System.from_sympy("Ramp", {u: 0.0}, {u: t}, time=t)
    np.testing.assert_allclose(sd.descend(ramp, 5, 0.5).state[:, 0], 0.25 * np.array([0, 0, 1, 3, 6, 10]))


def test_our_systems_make_the_steps_of_sgd() -> None:
    """Assert that descent on the mean field is SGD on the expected loss."""
    classes = sd.syn_small()
    ours = sd.descend(sd.MeanField(classes, 1.0, 0.5), 20, 0.5, 0.3)
    theirs = sd.sgd(classes, 0.5, 0.25, 20, batch_size=None, momentum=0.3)
    np.testing.assert_allclose(ours.z, theirs.z, atol=1e-13)


def test_samples(decay: sd.System) -> None:
    """Assert mean and variance of an Ornstein-Uhlenbeck recursion, and the same bits whatever the threads."""
    h, steps, runs = 0.05, 400, 1000
    one, two = (
        sd.descend_samples(decay, noisy, steps, h, seed=range(runs), record=[0, steps], threads=n) for n in (1, 2)
    )
    ends = np.array([run.state[1, 0] for run in one])
    np.testing.assert_array_equal(ends, [run.state[1, 0] for run in two])
    variance = h**2 / (1 - (1 - h) ** 2)
    assert abs(ends.mean() - (1 - h) ** steps) < 4 * np.sqrt(variance / runs)
    assert abs(ends.var() / variance - 1) < 4 * np.sqrt(2 / runs)
    single = sd.descend_samples(decay, noisy, steps, h, seed=5, record=[0, steps])
    assert single.state[1, 0] == ends[5]


def test_divergence_keeps_the_record(decay: sd.System) -> None:
    """Assert the status of a run that overflows, with what it recorded until then."""
    for system in (decay, Plain()):
        run = sd.descend(system, 10_000, 3.0)
        assert run.status == "diverged"
        assert np.isfinite(run.state).all()
        assert run.t.size == 1024  # (-2)^1024 overflows
        assert "try a smaller step_size" in run.message


def missing(state: Any, rng: Any, out: Any) -> None:
    """Not numba."""
    out[0] = rng.nothing()


def beyond(state: Any, rng: Any, out: Any) -> None:
    """Write beyond the state."""
    out[0] = out[7] = rng.normal()


def adding(state: Any, rng: Any, out: Any) -> None:
    """Add to what an earlier sample left."""
    out[0] += rng.normal()


def moving(state: Any, rng: Any, out: Any) -> None:
    """Change the state itself."""
    out[0] = rng.normal()
    state[0] = 5.0


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"record": [3, 2]}, r"record to increase"),
        ({"system": 3}, "System.from_sympy"),
        ({"sample_update": missing}, f"line {missing.__code__.co_firstlineno + 2} of test_explicit_steps.py.*nothing"),
        ({"sample_update": lambda state: None}, r"\(state, rng, out\)"),
        ({"sample_update": beyond}, "uses another entry"),
        ({"sample_update": adding}, "leaves some out or adds"),
        ({"sample_update": moving}, "changes state"),
    ],
)
def test_one_sentence(decay: sd.System, changed: dict[str, Any], message: str) -> None:
    """Assert one sentence for each mistake."""
    arguments: dict[str, Any] = {"system": decay, "sample_update": noisy, "steps": 10, "step_size": 0.1}
    with pytest.raises(sd.InputError, match=message):
        sd.descend_samples(**{**arguments, **changed})
