"""Rules of descent: their steps, mean maps and flows against plain numpy programs, and what is refused."""

import math
import re
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import snapdyn as sd
from snapdyn.core.errors import InputError
from snapdyn.dynamics import SGD, SequenceClasses
from tests.dynamics.dense_reference import random_instance
from tests.dynamics.training.sgd_reference import Adam, Array, full_decoder, loss_gradient, train

CLASSES = SequenceClasses(
    [[0.3, 0.3, 0.4, 0, 0, 0], [0.2, 0.2, 0, 0.5, 0.1, 0], [0.1, 0.1, 0, 0, 0, 0.8]],
    [0, 0, 1],
    prior=[0.5, 0.3, 0.2],
    vocab_size=7,
)  # two equal tokens, which share a value of the state
RULE = sd.Adam(0.8, 0.95, 1e-6)


def gradients_of_classes(Y: Array, z: Array) -> tuple[Array, Array]:
    """Gradient of J of each class, for Y (S, rows, V) and z (S, Q, M), by the complex step of the plain program."""
    run = SGD(CLASSES, 1.0, 1.0, 1, None)
    P = CLASSES.P.toarray()
    found = [loss_gradient(run, (np.array([n]), np.ones(1), P[[n]]), Y, z)[1:] for n in range(CLASSES.num_classes)]
    return -np.array([each[0] for each in found]), -np.array([each[1] for each in found])


def moments_of_batch(g: Array, batch_size: float) -> tuple[Array, Array]:
    """Mean of the gradient, and E[g_B^2], from the gradients of the classes (S, ...)."""
    p = CLASSES.prior.reshape(-1, *[1] * (g.ndim - 1))
    mean, square = (p * g).sum(axis=0), (p * g**2).sum(axis=0)
    return mean, mean**2 + (square - mean**2) / batch_size


@pytest.mark.parametrize(
    ("rules", "betas"),
    [(sd.Adam(0.5, 0.9, 1e-4), (0.5, 0.9, 1e-4)), ((sd.GradientDescent(), RULE), (0.8, 0.95, 1e-6))],
)
def test_parameters_and_pairs_reach_the_steps(rules: Any, betas: tuple[float, float, float]) -> None:
    """Assert that SGD with given betas and epsilon, and with a rule for each layer, is that of the plain program."""
    classes = random_instance(3).classes()
    run = SGD(classes, 0.3, 0.05, 8, 6, 15, optimizer=rules, seed=2, save_decoder=True)
    ours, of_z = run.run(), partial(Adam, betas=betas[:2], eps=betas[2])
    Y = full_decoder(ours, run)
    both = {"of_z": of_z} if isinstance(rules, tuple) else {"optimizer": of_z}
    expected, z, _ = train(run, Y[0], ours.z[0], **both)
    query, token = classes.z_coordinates
    assert np.abs(ours.z - z)[:, query, token].max() < 1e-9
    assert np.abs(Y - expected)[:, np.unique(classes.P.indices)].max() < 1e-9
    plain = train(run, Y[0], ours.z[0])[1]
    assert np.abs(ours.z - plain)[:, query, token].max() > 1e-3  # the rules do make a difference


@pytest.mark.parametrize("batch_size", [None, 1, 5])
def test_the_mean_map_is_that_of_a_plain_program(batch_size: int | None) -> None:
    """Assert that `descend` makes Adam's steps with the mean gradient and E[g_B^2] over the classes."""
    system = sd.MeanField(CLASSES, 0.05, 0.02, optimizer=RULE, batch_size=batch_size)
    ours = sd.descend(system, 12, 1.0)
    Y, z = np.zeros((6, 7)), np.zeros((2, 6))
    steps = Adam(None, 0.05, (0.8, 0.95), 1e-6), Adam(None, 0.02, (0.8, 0.95), 1e-6)  # type: ignore[arg-type]
    for k in range(12):
        query, token = CLASSES.z_coordinates
        assert np.abs(ours.z[k] - z)[query, token].max() < 1e-9
        (g_Y, s_Y), (g_z, s_z) = (moments_of_batch(g, batch_size or math.inf) for g in gradients_of_classes(Y, z))
        Y, z = steps[0](Y, -g_Y, s_Y), steps[1](z, -g_z, s_z)
    other = sd.descend(sd.MeanField(CLASSES, 0.05, 0.02, optimizer=RULE, batch_size=2), 12, 1.0)
    assert np.abs(other.z - ours.z).max() > 1e-3


def test_the_flow_is_that_of_a_plain_program() -> None:
    """Assert that the flow with moments is that of m' = k1 (g - m), v' = k2 (E[g_B^2] - v) by another solver."""
    B, rates = 3, np.concatenate([np.full(42, 0.05), np.full(12, 0.02)])
    k1, k2 = -math.log(0.8), -math.log(0.95)

    def rate(t: float, state: Array) -> Array:
        x, m, v = state.reshape(3, -1)
        found = [moments_of_batch(g, B) for g in gradients_of_classes(x[:42].reshape(6, 7), x[42:].reshape(2, 6))]
        g, square = (np.concatenate([found[0][i].ravel(), found[1][i].ravel()]) for i in (0, 1))
        root = np.sqrt(np.maximum(v, 0.0) / -math.expm1(-k2 * t)) + 1e-6
        return np.concatenate([rates * (m / -math.expm1(-k1 * t)) / root, k1 * (g - m), k2 * (square - v)])

    # From a time so early that the values have moved by 1e-5 of what they do later.
    start = 1e-4
    (g, s), _ = (moments_of_batch(g, B) for g in gradients_of_classes(np.zeros((6, 7)), np.zeros((2, 6))))
    first = np.concatenate([g.ravel(), np.zeros(12)]), np.concatenate([s.ravel(), np.zeros(12)])
    y0 = np.concatenate(
        [rates * start * first[0] / (np.sqrt(first[1]) + 1e-6), k1 * start * first[0], k2 * start * first[1]]
    )
    times = [1.0, 5.0, 20.0]
    plain = solve_ivp(rate, (start, 20.0), y0, "LSODA", times, rtol=1e-7, atol=1e-12).y.T
    ours = sd.integrate(sd.MeanField(CLASSES, 0.05, 0.02, optimizer=RULE, batch_size=B), times)
    query, token = CLASSES.z_coordinates
    z = plain[:, 42:54].reshape(3, 2, 6)
    assert np.abs(ours.z - z)[:, query, token].max() < 1e-4 * np.abs(z).max()
    without = sd.integrate(sd.MeanField(CLASSES, 0.05, 0.02, optimizer=RULE, batch_size=B, memory=False), times[:2])
    assert np.abs(without.z - z[:2])[:, query, token].max() > 1e-2 * np.abs(z[:2]).max()


def test_the_flow_of_momentum() -> None:
    """Assert that momentum is a rate 1/(1 - mu) times larger without memory, and with memory the limit of its steps."""
    times, rule = np.array([50.0, 400.0]), sd.GradientDescent(0.9)
    plain = sd.integrate(sd.MeanField(CLASSES, 0.1, 0.05), times)
    fast = sd.integrate(sd.MeanField(CLASSES, 0.01, 0.005, optimizer=rule, memory=False), times)
    np.testing.assert_allclose(fast.z, plain.z, rtol=1e-6, atol=1e-9)
    gaps = []
    for eta in (4e-3, 2e-3):
        steps = round(2.0 / eta)
        made = sd.sgd(CLASSES, eta, eta, steps, None, momentum=0.9, record=[steps]).z
        late = sd.integrate(sd.MeanField(CLASSES, eta, eta, optimizer=rule), [steps])
        gaps.append(np.abs(late.z - made).max() / np.abs(made).max())
    assert gaps[0] < 0.05
    assert 1.7 < gaps[0] / gaps[1] < 2.3  # of first order in the rate
    assert "row sum of Y" in late.invariants
    assert max(values.max() for values in late.invariants.values()) < 1e-9


def test_a_sliding_flow_is_refused() -> None:
    """Assert that the flow of sign descent says that it slides, and the mean map goes on."""
    system = sd.MeanField(sd.random_classes(3, 2, 3, seed=0), 0.1, 0.1, optimizer="sign")
    run = sd.integrate(system, [300.0])
    assert not run.success
    assert "slides along a jump" in run.message
    assert sd.descend(system, 300, 1.0, record=[300]).success


BAD: dict[str, tuple[Any, str]] = {
    "unknown name": (lambda: sd.MeanField(CLASSES, 1, 1, optimizer="adan"), "did you mean 'adam'"),
    "no rule": (lambda: sd.sgd(CLASSES, 1, 1, 1, optimizer=3), "a rule such as sd.Adam()"),
    "a rule with momentum": (lambda: sd.sgd(CLASSES, 1, 1, 1, momentum=0.5, optimizer=sd.Adam()), "leave momentum out"),
    "steps with momentum": (lambda: sd.descend(sd.MeanField(CLASSES, 1, 1, optimizer="adam"), 1, 1.0, 0.5), "the rule"),
    "beta": (lambda: sd.Adam(beta1=1.0), "below 1"),
    "epsilon": (lambda: sd.Adam(epsilon=-1.0), "at least 0"),
    "noise without memory": (lambda: sd.MeanField(CLASSES, 1, 1, optimizer="sign", batch_size=4), "batch_size=None"),
    "noise and residual": (
        lambda: sd.MeanField(CLASSES, 1, 1, residual=True, optimizer="adam", batch_size=4),
        "residual connection",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_refused(name: str) -> None:
    make, words = BAD[name]
    with pytest.raises(InputError, match=re.escape(words)):
        make()


def test_what_a_run_says_of_its_rule() -> None:
    """Assert the JSON form of rules in parameters, and that plain gradient descent stays the mean field itself."""
    run = sd.sgd(CLASSES, 0.1, 0.1, steps=1, optimizer=(sd.GradientDescent(0.5), sd.Adam(beta2=0.9)))
    assert run.parameters["optimizer"] == {"Y": {"name": "sgd", "momentum": 0.5}, "z": {"name": "adam", "beta2": 0.9}}
    assert sd.sgd(CLASSES, 0.1, 0.1, steps=1, optimizer=sd.GradientDescent(0.5)).parameters["momentum"] == 0.5
    assert type(sd.MeanField(CLASSES, 1, 1, optimizer=sd.GradientDescent())) is sd.MeanField
    system = sd.MeanField(CLASSES, 1, 1, optimizer="adam")
    names = [system.value_name(i) for i in range(system.size)]
    assert len({each for each in names if each != "the bias correction"}) == system.size - 4
