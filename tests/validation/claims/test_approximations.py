"""Claims on approximations, against runs and algebra of their own."""

import numpy as np
import pytest

import snapdyn as sd
from snapdyn import analytic
from snapdyn.dynamics.observables import OBSERVABLES
from snapdyn.validation.claims.approximations import ladder, theorem1b
from snapdyn.validation.evidence import SEED


@pytest.mark.parametrize("number", [2, 7, 12])
def test_the_time_of_the_largest_speed_is_located(number: int) -> None:
    """Assert the maximum over t >= t0 by explicit steps at 2000 times; among 60 saved times it was up to 13 % less."""
    prop = theorem1b.CLAIM.properties[2]
    drawn = (prop.domain.draw(SEED, k) for k in range(50))
    instances = [each for each in drawn if each is not None and not prop.at(each, beyond=False).unmet]
    instance = instances[number]
    V, rates = instance.vocab_size, instance.eta_Y * instance.prior
    t = np.geomspace(2 * analytic.u_plus(V) / rates.max(), instance.t_end, 2000)
    system = sd.MeanField(instance.classes, instance.eta_Y, instance.eta_Z)
    run = sd.integrate(system, t, save_decoder=True, method="DOP853", rtol=1e-10, atol=1e-13)
    visits = np.multiply.outer(run.t, rates)
    expected = (OBSERVABLES["speed"].values(run) * visits / np.log1p(V * visits)).max()
    measured = prop.measure(instance)
    assert measured.error < 1e-4
    # The two grids miss a smooth maximum by (step in ln t)^2/8, 4e-6 or less.
    assert measured.value == pytest.approx(expected, abs=measured.error + 1e-5)


def test_a_star_of_six_classes_has_a_larger_gap_below_one_half() -> None:
    """Assert the gaps of leaf 1 by hand: xi_1 over f_0.f_1 is 1/V, E'_01 + (1 - S)/V or E'_01, V = 32, up to 1/V."""
    instance = ladder.star()
    assert instance.correlation == pytest.approx(0.9999, abs=1e-5)
    inverse, V = np.eye(6) - np.linalg.inv(instance.gram), instance.vocab_size
    drive, S = inverse[0, 1], inverse[0, 1:].sum()
    exact = drive + (1 - S) / V
    by_hand = abs(V * exact - 1), abs(1 - drive / exact)
    assert ladder.first_gaps(instance) == pytest.approx(by_hand, abs=2 / V)
    measured = ladder.largest_first_gap(instance)
    assert (round(measured.value, 3), measured.holds) == (0.483, True)
