"""The joint training of attention and MLP against differences of the loss, mpmath, another solver, and its claims."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import solve_ivp

from snapdyn.dynamics.files.user_files import load_file
from snapdyn.figures import compute
from snapdyn.validation import validate
from snapdyn.validation.register import CLAIMS
from tests.helpers import EXAMPLES, restored_registries

FOLDER = EXAMPLES / "registers" / "joint_mlp_attention"
IDS = [
    f"joint-{name}"
    for name in (
        "exp-invariant", "linear-invariant", "softmax-law", "finite-steps", "divergence", "stationarity-ends", "order",
        "rebound", "rebound-boundary", "rebound-size",
    )
]  # fmt: skip


@pytest.fixture(scope="module")
def joint() -> Iterator[ModuleType]:
    """Load the files as --load does, and give the module that they share; everything is restored afterwards."""
    path = list(sys.path)
    with restored_registries():
        for name in ("claims_invariants.py", "claims_nodes.py", "figure.py"):
            load_file(FOLDER / name)
        yield sys.modules["joint_systems"]
    del sys.modules["joint_systems"]
    sys.path[:] = path


def mean_loss(joint: ModuleType, p: dict[str, Any], state: NDArray[Any], X: Any, y: Any, a: Any) -> float:
    """Mean loss of a state, written sample by sample from the docstring of joint_systems.py."""
    z, v, total = state[: p["M"]], state[p["M"] :].reshape(p["K"], p["M"]), 0.0
    for x, label in zip(X, y, strict=True):
        b = x * (z if p["attention"] == joint.LINEAR else np.exp(z))
        b = b / b.sum() if p["attention"] == joint.SOFTMAX else b
        h = v @ b
        f = a @ (h, np.maximum(h, 0), h**2 / 2)[p["activation"]]
        total += np.log1p(np.exp(-label * f)) if p["logistic"] else (label - f) ** 2 / 2
    return total / len(y)


@pytest.mark.parametrize("attention", [0, 1, 2])
@pytest.mark.parametrize("activation", [0, 1, 2])
@pytest.mark.parametrize("logistic", [0, 1])
def test_rates_against_differences_of_the_loss(
    joint: ModuleType, attention: int, activation: int, logistic: int
) -> None:
    """Assert that compiled rates and numpy's gradients are minus central differences of the loss, rates 1/3 and 1.

    The error of differences is of the order of the squared step, 1e-10, and of rounding over the step, 1e-11.
    """
    kinds = {"attention": attention, "activation": activation, "logistic": logistic}
    p: dict[str, Any] = {"M": 5, "K": 3, "ratio": 3.0, "absent": 0.3, "mean": 0.4, "seed": 1, **kinds}
    system = joint.flow(p)
    state, out = system.start, np.empty(system.start.size)
    system.write_rate_at(0.0, state, out)
    X, y, a = (np.array(system.parameters[name]) for name in ("X", "y", "a"))
    X, a = X[:, :5], a[:3]
    moves = 1e-5 * np.eye(state.size)
    slopes = [mean_loss(joint, p, state - d, X, y, a) - mean_loss(joint, p, state + d, X, y, a) for d in moves]
    expected = np.array(slopes) / 2e-5 * np.repeat([1.0, 1 / 3], [5, 15])
    np.testing.assert_allclose(out, expected, atol=1e-8)
    z, v = joint.split(np.repeat(state[None], y.size, axis=0), 5)
    of_v, of_z = joint.sample_gradients(z, v, X, y, a, **kinds)
    np.testing.assert_allclose(np.r_[of_z.mean(0), of_v.mean(0).ravel() / 3], expected, atol=1e-8)


@pytest.mark.parametrize(("mu", "epsilon"), [(0.01, 0.1), (1.0, 1e-3), (6.0, 1e-12), (30.0, 0.5), (1000.0, 1e-6)])
def test_time_to_converge_against_mpmath(joint: ModuleType, mu: float, epsilon: float) -> None:
    """Assert the time to (1 - epsilon) mu against the integral of dv/v' with 50 digits."""
    with mpmath.workdps(50):
        end = (1 - mpmath.mpf(epsilon)) * mu
        ends = [0, *(k for k in (1, 4, 12) if k < end), *(mu - mpmath.mpf(10) ** -k * mu for k in (1, 2, 4, 8)), end]
        ends = sorted({each for each in ends if 0 <= each <= end})
        exact = float(mpmath.quad(lambda v: mpmath.exp(-(v**2) / 2) / (mu - v), ends))
    assert joint.time_to(mu, epsilon) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("gradient", [1e-6, -1.0, 1e6])
def test_divergence_against_mpmath(joint: ModuleType, gradient: float) -> None:
    """Assert the law of a stationary gradient against the time of v' = Delta e^(v^2/2), and that of v at infinity."""
    with mpmath.workdps(50):
        exact = [mpmath.quad(lambda v: mpmath.exp(-(v**2) / 2), [0, v]) / abs(gradient) for v in (0.3, 2, 5)]
        last = float(mpmath.quad(lambda v: mpmath.exp(-(v**2) / 2), [0, 5, mpmath.inf]) / abs(gradient))
    found = joint.law_of_stationary(gradient, np.array([float(t) for t in exact]))
    np.testing.assert_allclose(found, np.sign(gradient) * np.array([0.3, 2.0, 5.0]), rtol=1e-9)
    assert last == pytest.approx(np.sqrt(np.pi / 2) / abs(gradient), rel=1e-12)


def turns(H: NDArray[Any]) -> int:
    steps = np.diff(H)
    return int((np.diff(np.sign(steps[np.abs(steps) > 1e-6])) != 0).sum())


def test_entropy_can_turn_three_times(joint: ModuleType) -> None:
    """Assert the entropy of 200 tokens against Radau's integration of v; it falls, rises, falls and rises again."""
    mu, counts = np.array([13**0.5, 3.447, 0.5]), np.array([1, 1, 198])
    t, H = joint.entropy_curve(mu, counts)
    late = (t > 0.1) & (t < 5.0)
    settings = {"method": "Radau", "rtol": 1e-10, "atol": 1e-12, "t_eval": t[late]}
    run = solve_ivp(lambda t, v: (mu - v) * np.exp(v**2 / 2), (0.0, 5.0), np.zeros(3), **settings)
    np.testing.assert_allclose(joint.entropy(run.y.T**2 / 2, counts), H[late], atol=1e-5)
    assert turns(H[late]) == turns(joint.entropy(run.y.T**2 / 2, counts)) == 3


@pytest.mark.long
@pytest.mark.parametrize("id_", IDS)
def test_claims(joint: ModuleType, id_: str) -> None:
    """Assert the verdict of each claim at the quick level; a wrong theory that passes would leave it without one."""
    assert validate([id_], jobs=1).as_expected


def test_every_claim_is_named_here(joint: ModuleType) -> None:
    """Assert that the files register these claims and no others."""
    assert {id_ for id_ in CLAIMS if id_.startswith("joint-")} == set(IDS)


@pytest.mark.slow
def test_figure(joint: ModuleType) -> None:
    """Assert that the figure's data show its claim and reject frozen attention, and that attention is sparse first."""
    data = compute("joint-rebound")
    (near,) = sys.modules["snapdyn.figures.gallery"].FIGURES["joint-rebound"].properties
    assert [check.holds for check in near.on(data)] == [True, False]
    for H in (data.flow, data.sgd.median("run")):
        assert (H.min("time") < H.isel(time=0) - 0.2).all()
        assert (H.isel(time=-1) > H.min("time") + 0.2).all()
