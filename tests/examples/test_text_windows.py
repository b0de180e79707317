"""Real windows against the mean field of their classes, against numbers made by hand."""

import runpy
from itertools import product

import numpy as np
import pytest
from scipy.stats import multinomial

from snapdyn.dynamics import MeanField, SequenceClasses, from_text, integrate
from tests.helpers import EXAMPLES, FABLE

SMALL = {"min_count": 2, "min_token_count": 2}
EXAMPLE = runpy.run_path(str(EXAMPLES / "text_windows.py"))
independent_fluctuation = EXAMPLE["independent_fluctuation"]
norm_fluctuation = EXAMPLE["norm_fluctuation"]


def every_window(p: np.ndarray, length: int) -> SequenceClasses:
    """All count vectors of `length` words of one class, weighted by their exact probability, as classes."""
    counts = np.array([c for c in product(range(length + 1), repeat=p.size) if sum(c) == length])
    ones = np.ones(len(counts), dtype=int)
    return SequenceClasses(counts / length, 0 * ones, ones, multinomial.pmf(counts, length, p), 10)


def test_short_windows_raise_the_frequent_word() -> None:
    """Assert what the page on text says of one class: no move in the mean field, P_l (P_l - |P|^2)/(T-1) in windows."""
    p = np.array([0.55, 0.3, 0.15])
    still = integrate(MeanField(SequenceClasses([p], [0], [1], vocab_size=10), 1.0, 0.01), [5.0])
    assert np.abs(still.z).max() < 1e-15
    law, moves = p * (p - p @ p), []
    for length in (4, 12, 36):
        moves.append(integrate(MeanField(every_window(p, length), 1.0, 0.01), [5.0], rtol=1e-7, atol=1e-12).z[-1, 0])
        assert (np.sign(moves[-1]) == [1, -1, -1]).all()
    # The next terms are smaller by |P|^-2/(T-1) = 2.3/36 each: a few of them.
    np.testing.assert_allclose(moves[-1] / moves[-1][0], law / law[0], atol=4 * 2.3 / 36)
    assert moves[1][0] / moves[2][0] == pytest.approx(3, rel=4 * 2.3 / 12)
    assert moves[0][0] > moves[1][0] > moves[2][0]


def test_example_holds_sgd_against_both_fields(capsys: pytest.CaptureFixture[str]) -> None:
    """Assert a line per length, SGD on the windows being nearer to their own mean field than to that of the classes."""
    (correlation,) = EXAMPLE["main"](str(FABLE), [4], 100, **SMALL)
    title, line = capsys.readouterr().out.splitlines()
    assert title.split()[:2] == ["length", "windows"]
    windows = from_text(FABLE, window=4, **SMALL, sequences=True)
    length, number, *_, of_windows, of_classes, _ = line.split()
    assert (int(length), int(number)) == (4, windows.num_classes)
    assert float(of_windows) == pytest.approx(correlation, abs=0.005)
    assert float(of_windows) > float(of_classes)
