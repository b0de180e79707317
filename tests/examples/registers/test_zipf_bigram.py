"""The linear bigram model: closed forms against descent entry by entry, laws of growth, and the register's claims."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from snapdyn.dynamics.files.user_files import load_file
from snapdyn.figures import FIGURES, compute
from snapdyn.validation import validate
from tests.helpers import EXAMPLES

FOLDER = EXAMPLES / "registers" / "zipf_bigram"


@pytest.fixture
def bigram(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module that the files share."""
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.delitem(sys.modules, "bigram", raising=False)
    import bigram  # type: ignore[import-not-found]

    return bigram


def descended(p: Any, steps: int, eta: float, sign: bool) -> float:
    """Relative error of row frequencies p, entry by entry, in fractions of the start."""
    left, first = 0.0, 0.0
    for frequency in p:
        for target in p:
            w = 0.0
            for _ in range(steps):
                slope = frequency * (w - target)
                w -= eta * (np.sign(slope) if sign else slope)
            left, first = left + frequency * (w - target) ** 2, first + frequency * target**2
    return left / first


@pytest.mark.parametrize(
    ("alpha", "d", "steps", "share"), [(1.0, 7, 12, 0.137), (1.7, 5, 31, 0.0613), (0.3, 6, 8, 0.91)]
)
def test_closed_forms_against_descent(bigram: Any, alpha: float, d: int, steps: int, share: float) -> None:
    """Assert both closed forms, the sum over many entries, and that another number of steps gives another error."""
    p = bigram.law(alpha, d)
    assert bigram.descent_error(p, steps, share) == pytest.approx(descended(p, steps, share / p[0], False), rel=1e-12)
    found = np.sum(bigram.sign_errors(p, steps, share * p[0]) ** 2) / np.sum(p**2)
    assert found == pytest.approx(descended(p, steps, share * p[0], True), rel=1e-9)
    assert found != pytest.approx(descended(p, steps + 1, share * p[0], True), rel=1e-3)
    grid = np.array([[share * p[0]], [1.3 * share * p[0]]])
    split = bigram.sign_error(p, steps, grid, even=False)
    whole = [max(descended(p, each, float(eta[0]), True) for each in (steps, steps + 1)) for eta in grid]
    np.testing.assert_allclose(split, whole, rtol=1e-9)


def test_growth_at_zipf_s_law(bigram: Any) -> None:
    """Assert the powers 1 - epsilon e^s of descent and 1/2 of sign descent, and no growth after even steps."""
    few, many = bigram.law(1.0, 10_000), bigram.law(1.0, 40_000)
    power = np.log(bigram.descent_steps(many, 0.05) / bigram.descent_steps(few, 0.05)) / np.log(4)
    assert power == pytest.approx(1 - 0.05 * np.exp(bigram.scaled_steps(20_000, 0.05)), abs=2e-3)
    assert np.log(bigram.sign_steps(many, 0.3) / bigram.sign_steps(few, 0.3)) / np.log(4) == pytest.approx(
        0.5, abs=0.05
    )
    assert bigram.sign_steps(many, 0.3, even=True) == bigram.sign_steps(few, 0.3, even=True)


@pytest.mark.slow
def test_verdicts_and_figure() -> None:
    """Assert the verdicts of the register, and that the figure's checks and their controls are as they must be."""
    for name in ("claims.py", "figure.py"):
        load_file(FOLDER / name)
    names = ("descent", "sign", "descent-zipf", "descent-steps", "descent-finite", "sign-zipf")
    assert validate([f"bigram-{name}" for name in names], jobs=1).as_expected
    data = compute("bigram-steps")
    assert all(number.as_expected for prop in FIGURES["bigram-steps"].properties for number in prop.on(data))
