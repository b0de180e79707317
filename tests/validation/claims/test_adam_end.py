"""The end of Adam's motion, and what it conserves, by plain numpy."""

from dataclasses import replace

import numpy as np
import pytest

import snapdyn as sd
from snapdyn.validation.claims.adam._winner import base
from snapdyn.validation.claims.adam.adam_end import CLAIM, late_loss, left, rate, run_of, slope
from snapdyn.validation.claims.adam.adam_gain_conserved import weighted_sums

SETTING = {"K": 1, "distinct": 1, "V": 50, "eta": 0.02, "beta1": 0.9, "beta2": 0.99}


def error_of_adam(steps: int, epsilon: float = 0.0) -> np.ndarray:
    """1 - alpha after each update of Adam on the logits of one token: one class, V = 50, attention on this token."""
    y, m, v, errors = np.zeros(50), np.zeros(50), np.zeros(50), []
    for k in range(1, steps + 1):
        alpha = np.exp(y - y.max())
        alpha /= alpha.sum()
        g = -alpha
        g[0] = alpha[1:].sum()
        m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
        y = y + 0.02 * (m / (1 - 0.9**k)) / (np.sqrt(v / (1 - 0.99**k)) + epsilon)
        errors.append(g[0])
    return np.array(errors)


def test_rate_of_the_end_is_that_of_adam_in_numpy() -> None:
    """Assert the law and the claim's measure; neither the memory alone nor no memory gives this rate."""
    errors = error_of_adam(9000)
    found = np.log(errors[6000] / errors[8000]) / 2000
    assert found == pytest.approx(rate(SETTING), rel=1e-6)
    assert slope(SETTING).value < 1e-6
    assert abs(found / (-np.log(0.99) / 2) - 1) > 1e-2
    assert abs(found / 0.04 - 1) > 0.5


def test_a_jump_of_the_first_updates_is_waited_for() -> None:
    """Assert that a run whose error jumps to 1e-8 at once stands still before the law holds, and is not measured."""
    setting = {"K": 1, "distinct": 6, "V": 2, "eta": 1.0, "beta1": 0.8431769094393073, "beta2": 0.8885537846382012}
    standing = run_of(setting, np.array([60, 160]))
    assert standing[0] < 1e-7
    assert np.log(standing[0] / standing[1]) < 0.01 * 100 * rate(setting)
    assert not slope(setting).holds
    assert [each.name for each in CLAIM.properties[0].at(setting).unmet] == ["the rate has settled"]


def test_disturbances_count_from_even_odds() -> None:
    """Assert that errors of the law are in proportion to what is left of a disturbance, whatever V.

    Counted from the start of the run, what is left would fall by a factor of 1e5 from the first V to the last.
    """
    setting = {"K": 3, "distinct": 1, "eta": 0.069, "beta1": 0.7, "beta2": 0.546}
    ratios = [slope(at).value / left(at) for at in ({**setting, "V": V} for V in (1e3, 1e6, 5e8))]
    assert 0.0 < max(ratios) < 1.05 * min(ratios)


def test_late_loss_with_epsilon_is_that_of_adam_in_numpy() -> None:
    """Assert that 1/error grows by eta/(epsilon (1 - 1/V)) at each update."""
    errors = error_of_adam(20_000, 1e-4)
    growth = (1 / errors[-1] - 1 / errors[10_000]) / (19_999 - 10_000)
    assert growth == pytest.approx(0.02 / (1e-4 * 0.98), rel=0.02)
    assert late_loss({**SETTING, "epsilon": 1e-4}).value < 0.05


def test_weighted_steps_sum_to_zero() -> None:
    """Assert the weighted sums on three classes, and that plain sums are not 0."""
    instance = replace(base(), number=1)
    weighted, plain = weighted_sums(instance), weighted_sums(instance, weighted=False)
    assert weighted.value < 1e-9
    assert plain.value > 0.1
    run = sd.sgd(instance.classes, 0.01, 0.01, 500, None, optimizer="adam", record=[500])
    assert np.abs(run.z.sum(axis=-1)).max() > 0.1
