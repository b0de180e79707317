"""Trajectories: observables against their definitions, files that round-trip, refuse damage and lose nothing."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from snapdyn.core.errors import InputError
from snapdyn.dynamics import (
    MeanField,
    SingleCommonToken,
    Trajectory,
    integrate,
)
from tests.dynamics.dense_reference import Array, Instance, attention
from tests.dynamics.helpers import ROUNDING

# Token 3 is distinct to class 0 and token 6 to class 1; classes 2 and 3 have none; 5 and 7 are equal columns.
INSTANCE = Instance(
    P=np.array(
        [
            [0.25, 0.00, 0.00, 0.31, 0.28, 0.080, 0.00, 0.080, 0.00],
            [0.10, 0.14, 0.14, 0.00, 0.07, 0.110, 0.24, 0.110, 0.09],
            [0.20, 0.10, 0.20, 0.00, 0.00, 0.125, 0.00, 0.125, 0.25],
            [0.05, 0.15, 0.15, 0.00, 0.15, 0.180, 0.00, 0.180, 0.14],
        ]
    ),
    query=np.array([5, 2, 5, 2]),
    next_token=np.arange(4),
    prior=np.array([0.1, 0.2, 0.3, 0.4]),
    vocab_size=12,
)
START = np.random.default_rng(3).integers(-1, 2, (2, 9)).astype(float)
TIMES = [0.0, 0.5, 10.0, 200.0]


@pytest.fixture(scope="module")
def run() -> Trajectory:
    return integrate(MeanField(INSTANCE.classes(), 1.0, 1.0, z_initial=START), TIMES)


def test_attention_is_the_softmax_over_the_support(run: Trajectory) -> None:
    """Assert c_n[l] = P(l|n) exp(z) / sum at every time, zero outside the support."""
    for i in range(4):
        expected = attention(INSTANCE.P, run.z[i][INSTANCE.query_row])
        np.testing.assert_allclose(run.attention[i], expected, rtol=ROUNDING, atol=0)
    assert run.attention_entries.shape == (4, (INSTANCE.P > 0).sum())


def entropy_of(c: Array) -> float:
    c = c[c > 0] / c.sum()
    return float(-(c * np.log(c)).sum())


def test_entropy_by_definition(run: Trajectory) -> None:
    """Assert -sum c ln c, and over renormalised distinct tokens with NaN where a class has none."""
    distinct = (INSTANCE.P > 0).sum(axis=0) == 1  # each class has a next token of its own
    plain, restricted = run.entropy(), run.entropy(distinct_only=True)
    without = ~(distinct & (INSTANCE.P > 0)).any(axis=1)
    assert without.tolist() == [False, False, True, True]
    assert np.isnan(restricted[:, without]).all()
    for i, n in np.ndindex(4, 4):
        assert plain[i, n] == pytest.approx(entropy_of(run.attention[i, n]), rel=ROUNDING)
        if not without[n]:
            own = np.where(distinct, run.attention[i, n], 0.0)
            assert restricted[i, n] == pytest.approx(entropy_of(own), rel=ROUNDING, abs=ROUNDING)


def test_relative_gain_and_growth_factor_by_definition(run: Trajectory) -> None:
    """Assert r = f_l^2/f_l0^2 - 1 with its sign, and chi = exp(2 (z(t) - z(0))), including initial logits."""
    for n in range(4):
        tokens = np.flatnonzero(INSTANCE.P[n])
        row = INSTANCE.query_row[n]
        for l, l0 in zip(tokens, np.roll(tokens, 1), strict=True):
            c = run.attention[:, n]
            gain = run.relative_gain(n, int(l), int(l0))
            ratio = c[:, l] ** 2 / c[:, l0] ** 2
            assert (np.abs(gain - (ratio - 1)) <= 10 * ROUNDING * (1 + ratio)).all()
            np.testing.assert_array_equal(gain > 0, c[:, l] > c[:, l0])
            growth = run.growth_factor(n, int(l))
            np.testing.assert_allclose(growth, np.exp(2 * (run.z[:, row, l] - START[row, l])), rtol=ROUNDING)
            assert growth[0] == 1.0


def test_to_xarray_is_labelled(run: Trajectory) -> None:
    """Assert dimensions, coordinates and values of the labelled dataset; `test_run_parts` compares it with the file."""
    assert repr(run) == "Trajectory(MeanField, 4 times, t = 0..200, finished)"
    data = run.to_xarray()
    assert data["z"].dims == ("time", "query", "token")
    for name, values in {
        "query": [2, 5], "token": np.arange(9), "time": TIMES, "next_token": INSTANCE.next_token,
        "prior": INSTANCE.prior, "entropy": run.entropy(), "loss": run.loss,
    }.items():  # fmt: skip
        np.testing.assert_array_equal(data[name], values)
    np.testing.assert_array_equal(data["attention"].isel(sequence_class=2), run.attention[:, 2])
    assert "violation of row sum of Z" in data


def test_what_does_not_exist_is_refused(run: Trajectory) -> None:
    """Assert one sentence for a class, a token or a name that there is not, and for a run without classes."""
    reduced = integrate(SingleCommonToken(5, 100, 1.0, 0.5, 3.0), [1.0])
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: run.growth_factor(4, 0), "class"),
        (lambda: run.relative_gain(0, 9, 0), "received token 9"),
        (lambda: run.observable("entropi"), "one of .*entropy.*, received"),
        (lambda: reduced.attention, "a trajectory with sequence classes"),
    ]
    for call, words in calls:
        with pytest.raises(InputError, match=f"^expected .*{words}"):
            call()
