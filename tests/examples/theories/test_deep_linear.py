"""The theory of two linear layers against sympy, mpmath, an implicit solution, its samples, and its claims."""

from typing import Any

import mpmath
import numpy as np
import pytest

from snapdyn.dynamics import integrate
from snapdyn.figures import draw
from snapdyn.validation import validate


@pytest.mark.long
@pytest.mark.parametrize("start", [(0.25, 0.25), (0.6, 0.1), (0.3, 0.0), (-0.2, 0.7), (0.25, -0.25)])
def test_closed_form_against_mpmath(theory: dict[str, Any], start: tuple[float, float]) -> None:
    """Assert u at t = 0, early and late against a Taylor solver with 30 digits."""
    with mpmath.workdps(30):
        s = mpmath.mpf(0.8)
        solve = mpmath.odefun(lambda _, y: [y[1] * (s - y[0] * y[1]), y[0] * (s - y[0] * y[1])], 0, start)
        exact = [float(mpmath.fprod(solve(t))) for t in (0.0, 0.3, 2.0, 6.0)]
    found = theory["overlap"](np.array([0.0, 0.3, 2.0, 6.0]), *start, s=0.8)
    np.testing.assert_allclose(found, exact, rtol=1e-12, atol=1e-14)


def test_ratio_against_its_implicit_solution(theory: dict[str, Any]) -> None:
    """Assert 2 tau = ln(q)/N - (1/N + 1/M) ln((N - M q)/(N - M)) on the flow of q, and its end N/M."""
    N, M, tau = 6, 2, np.array([0.05, 0.1, 0.3, 5.0])
    q = integrate(theory["RATIO"], tau).observable("q")
    found = np.log(q[:3]) / N - (1 / N + 1 / M) * np.log((N - M * q[:3]) / (N - M))
    np.testing.assert_allclose(found, 2 * tau[:3], rtol=1e-6)
    assert q[2] == pytest.approx(2.03, abs=5e-3)
    assert q[3] == pytest.approx(N / M, abs=1e-5)


@pytest.mark.parametrize("id_", ["sigmoid", "unbalanced", "sgd", "label-noise"])
def test_claims(theory: dict[str, Any], id_: str) -> None:
    """Assert the verdict of each claim."""
    assert validate(f"deep-linear-{id_}").as_expected


def test_figure(theory: dict[str, Any]) -> None:
    """Assert that the figure's data show its claims, and that it draws."""
    data = theory["compute"]("quick")
    drawn = theory["DRAWN"]
    assert drawn.measure(data).holds
    assert not any(wrong(data).holds for wrong in drawn.controls.values())
    assert len(draw("deep-linear", data).axes) == 2
