"""The attention theory against prompts, attention on tokens, mpmath, sympy, and its claims."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from typing import Any

import mpmath
import numpy as np
import pytest
import sympy

from snapdyn import integrate
from snapdyn.validation import CLAIMS, validate
from tests.helpers import EXAMPLES

D, N = 4, 31


def prompts(runs: int, eigenvalues: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Tokens (runs, D + 1, N + 1), the query's label set to 0, and this label."""
    rng = np.random.default_rng(seed)
    tokens = np.empty((runs, D + 1, N + 1))
    tokens[:, :D] = rng.normal(size=(runs, D, N + 1)) * np.sqrt(eigenvalues)[:, None]
    tokens[:, D] = np.einsum("rd,rdn->rn", rng.normal(size=(runs, D)), tokens[:, :D])
    label = tokens[:, D, N].copy()
    tokens[:, D, N] = 0
    return tokens, label


def sampled_gradient(W: np.ndarray, eigenvalues: np.ndarray, runs: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard error of error x beta x^T over prompts."""
    tokens, label = prompts(runs, eigenvalues, 2)
    beta = np.einsum("rdn,rn->rd", tokens[:, :D], tokens[:, D]) / N
    error = label - np.einsum("rd,de,re->r", beta, W, tokens[:, :D, N])
    each = np.einsum("r,rd,re->rde", error, beta, tokens[:, :D, N])
    return each.mean(0), each.std(0) / np.sqrt(runs)


def test_rate_of_merged(theory: dict[str, Any]) -> None:
    """Assert that the rates of v and U are the means of the samples, within 5 standard errors, off the solution too."""
    rng = np.random.default_rng(3)
    v, U = 0.8, rng.normal(0, 0.5, (D, D))
    rate = np.empty(1 + D**2)
    theory["MERGED"].write_rate(np.append(v, U), rate)
    mean, error = sampled_gradient(v * U, np.ones(D), 200_000)
    assert (abs(rate[1:].reshape(D, D) - v * mean) <= 5 * v * error).all()
    assert rate[0] == pytest.approx((rate[1:].reshape(D, D) / v * U).sum(), rel=1e-12)


def test_rate_of_separate(theory: dict[str, Any]) -> None:
    """Assert the chain rule on the sampled gradient, within 5 standard errors, at random heads."""
    S = np.random.default_rng(4).normal(size=(2 * D + 1, D))
    v, K, Q = S[0], S[1 : D + 1], S[D + 1 :]
    mean, error = sampled_gradient(K * v @ Q.T, theory["EIGENVALUES"], 200_000)
    rate = np.empty(S.size)
    theory["separate_rate"](0.0, S.ravel(), rate, theory["EIGENVALUES"], float(N))
    for found, expected, allowed in (
        (rate[:D], (K * (mean @ Q)).sum(0), (abs(K) * (error @ abs(Q))).sum(0)),
        (rate[D : D + D**2], (mean @ Q * v).ravel(), (error @ abs(Q) * abs(v)).ravel()),
        (rate[D + D**2 :], (mean.T @ K * v).ravel(), (error.T @ abs(K) * abs(v)).ravel()),
    ):
        assert (abs(found - expected) <= 5 * allowed).all()


def test_sigma_solves_its_equation(theory: dict[str, Any]) -> None:
    """Assert in sympy that the sigmoid solves sigma' = 2 sqrt(D) sigma (1 - c sigma) from w0^2 / sqrt(D)."""
    t, c, d, w0 = sympy.symbols("t c D w0", positive=True)
    g = sympy.exp(2 * sympy.sqrt(d) * t)
    solution = g / (c * (g - 1) + sympy.sqrt(d) / w0**2)
    assert sympy.simplify(solution.diff(t) - 2 * sympy.sqrt(d) * solution * (1 - c * solution)) == 0
    assert sympy.simplify(solution.subs(t, 0) - w0**2 / sympy.sqrt(d)) == 0
    values = {c: 1 + sympy.Rational(1 + D, N), d: D, w0: theory["W0"], t: 1.3}
    assert theory["sigma"](1.3) == pytest.approx(float(solution.subs(values)), rel=1e-12)


def test_time_of_an_aligned_head(theory: dict[str, Any]) -> None:
    """Assert the hypergeometric form against the integral of 1/u' in mpmath."""
    c = float(theory["C"][1])
    with mpmath.workdps(30):
        integral = mpmath.quad(lambda u: 1 / (0.09 * u**2 * (1 - 0.3 * c * u**3)), [0.02, 0.1, 0.5, 1, 1.3])
    assert theory["time_of"](1.3, 0.02, 0.3, c) == pytest.approx(float(integral), rel=1e-12)


@pytest.mark.parametrize("learned", list(np.ndindex((2,) * D)))
def test_fixed_points(theory: dict[str, Any], learned: tuple[int, ...]) -> None:
    """Assert that each of the 2^D sets of learned eigenvectors is at rest, with the loss of the docstring."""
    L, C = theory["EIGENVALUES"], theory["C"]
    state, rate = theory["aligned"](np.cbrt(np.array(learned) / (L * C))).ravel(), np.empty(D + 2 * D**2)
    theory["separate_rate"](0.0, state, rate, L, float(N))
    assert abs(rate).max() < 1e-15
    assert theory["squared_error"](state)[0] == pytest.approx(L.sum() - (np.array(learned) * L / C).sum(), rel=1e-12)


def test_plateaus(theory: dict[str, Any]) -> None:
    """Assert the four drops of D = 4, N = 31 to four digits."""
    np.testing.assert_allclose(theory["plateaus"](), [1, 0.6406, 0.3774, 0.2098, 0.1360], atol=5e-5)


def drop_order(theory: dict[str, Any], start: np.ndarray, t_end: float) -> list[int]:
    """Order in which the diagonal entries of W reach half their final values."""
    times = np.geomspace(1, t_end, 3000)
    states = integrate(theory["separate"](start), times).require_state().reshape(-1, 2 * D + 1, D)
    grown = np.einsum("th,tdh,tdh->td", states[:, 0], states[:, 1 : D + 1], states[:, D + 1 :])
    reached = grown > 0.5 / (theory["EIGENVALUES"] * theory["C"])
    assert reached.any(0)[:-1].all()
    return np.where(reached.any(0), reached.argmax(0), times.size).argsort(kind="stable").tolist()


@pytest.mark.parametrize(("scale", "t_end", "in_order"), [(0.1, 2e3, 97), (0.01, 1e4, 100)])
def test_order_of_random_starts(theory: dict[str, Any], scale: float, t_end: float, in_order: int) -> None:
    """Assert the counts of the docstring: 97 and 100 of 100 Gaussian starts."""
    starts = (scale * np.random.default_rng(seed).normal(size=(2 * D + 1, D)) for seed in range(100))
    assert sum(drop_order(theory, start, t_end) == [0, 1, 2, 3] for start in starts) == in_order


def test_larger_start_of_the_second_head(theory: dict[str, Any]) -> None:
    """Assert that a head along e_2 that starts 1.9 times larger is first, and that the loss passes 0.7368 slowly."""
    start = theory["aligned"](0.001 * np.array([1, 1.9, 1, 1]))
    assert drop_order(theory, start, 1e5)[:2] == [1, 0]
    run = integrate(theory["separate"](start), np.linspace(1, 8000, 4000))
    loss = theory["squared_error"](run.require_state())
    waits = [float((abs(loss - level) < 1e-3).mean()) for level in (0.7368, 0.6406)]
    assert waits[0] > 0.02
    assert waits[1] == 0


@pytest.mark.parametrize(
    ("id_", "verdict"),
    [
        ("attention-sigmoid", "holds"),
        ("attention-orders", "holds"),
        ("attention-plateaus", "holds"),
        ("attention-drops", "conditional"),
    ],
)
def test_claims(theory: dict[str, Any], id_: str, verdict: str) -> None:
    """Assert the verdict of each claim, and that every control fails."""
    result = validate(id_).claims[0]
    assert result.verdict == verdict
    controls = [check for check in result.checks if check.role == "control"]
    assert controls
    assert not any(check.holds for check in controls)


def test_figure(theory: dict[str, Any]) -> None:
    """Assert that SGD's points lie near theory's lines: two panels, labelled with the clock."""
    left, right = theory["figure"]().axes
    line, points = left.lines
    np.testing.assert_allclose(points.get_ydata(), np.interp(points.get_xdata(), *line.get_data()), atol=0.06)
    assert "prompts" in left.get_xlabel()
    assert "prompts" in right.get_xlabel()
