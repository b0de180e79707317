"""Maps of where claims hold: their instances, their numbers by other routes, and the laws drawn on them."""

import numpy as np
import pytest

from snapdyn import analytic
from snapdyn.dynamics import (
    SequenceClasses,
    log_times,
    single_common_token,
)
from snapdyn.validation.claims.maps import (
    classes_of_overlap,
    common_logit_ratio,
    distinct_fall_map,
    flow_at_ratio,
    momentum_map,
    rates_map,
)
from snapdyn.validation.claims.sample_classes import correlated_classes
from snapdyn.validation.measured import Measured
from snapdyn.validation.phases import fallen
from snapdyn.validation.properties import Property
from snapdyn.validation.search.instance import Instance


@pytest.mark.parametrize("rho", [1e-5, 0.01, 0.3])
def test_classes_have_the_overlap_asked_for(rho: float) -> None:
    """Assert f_n.f_k = rho for every pair."""
    G = classes_of_overlap(rho, 4, 100).gram()
    np.testing.assert_allclose(G[~np.eye(4, dtype=bool)], rho, rtol=1e-12)


def law_of_ratio(classes: SequenceClasses, t: float) -> float:
    """F4's law for equal overlaps rho, (1 + V E')/(2 (exp(X) - 1)/X - 1) with X = rho V h; derived here.

    Under the modified flow beta = E' + 1/V to leading order; under the original flow beta (V-1)/iota = (exp(x)-1)/x +
    exp(x) - 1, x = rho u, whose mean with the weight gamma dt ~ u du is the denominator.
    """
    V, K, rho = classes.vocab_size, classes.num_classes, float(classes.gram()[0, 1])
    X = rho * V * float(analytic.h(t / K, 1.0, V))
    return (1 + V * float(classes.E_prime()[0, 1])) / (2 * np.expm1(X) / X - 1)


def test_published_finding_F4_follows_the_law() -> None:
    """Assert the law at the two instances of F4, 6.6 and 560, to what it leaves out: K/V + (K-1) rho."""
    for V, expected in ((1000, 6.6), (100_000, 560.0)):
        classes, t = single_common_token(10, 5, 0.04, V), 20 * np.log(V)
        measured = common_logit_ratio(classes, t)
        # F4 is given at t = 3 K ln V/eta_Y, where the denominator, about 1 + X, is larger by about rho ln 1.5.
        assert measured == pytest.approx(expected, rel=0.03)
        assert law_of_ratio(classes, t) == pytest.approx(measured, rel=10 / V + 9 * float(classes.gram()[0, 1]))


def test_momentum_map_by_its_closed_form() -> None:
    """Assert the error of the clock i/(1-mu): D (1-mu^i)/(i - D (1-mu^i)), D = mu/(1-mu), up to eta t."""
    found = momentum_map("quick")
    for row, inverse in enumerate(found.y):
        mu, i = 1 - 1 / inverse, found.x
        lag = mu / (1 - mu) * (1 - mu**i)
        # The gradient changes by the share eta t <= 1e-6 * 1000/0.03 over the run; each side by half of it.
        np.testing.assert_allclose(found.violation[row], lag / (i - lag), rtol=0.05, atol=0.03)
    fitted = found.boundaries[1]
    D = fitted.y - 1
    np.testing.assert_allclose(D / (fitted.x - D), found.threshold, rtol=1e-12)


def test_map_holds_the_mean_over_its_instances() -> None:
    """Assert that a cell is the share of tokens that fall, mean over instances, at its own ratio and correlation."""
    found = distinct_fall_map("quick", points=5, instances=2)
    assert found.violation.shape == (5, 5)
    assert found.violation[2, 0] <= found.threshold < found.violation[2, 4]
    members = [correlated_classes(float(found.y[2]), seed) for seed in range(2)]
    times = log_times(1e-1, 1e4, 60)
    shares = [fallen(flow_at_ratio(classes, float(found.x[4]), times))[-1].mean() for classes in members]
    assert found.violation[2, 4] == np.mean(shares)
    assert {line.kind for line in found.boundaries} == {"printed"}


def test_map_of_a_property_over_the_rates() -> None:
    """Assert that every cell is the property's number at its own eta_Z/eta_Y and V, NaN where there is none."""

    def measure(instance: Instance) -> Measured | None:
        return Measured(instance.ratio * instance.vocab_size, at_most=1.0) if instance.vocab_size > 5 else None

    found = rates_map("quick", Property("product", "test", measure), "theorem2b-fast", 1.0)
    assert np.isnan(found.violation[0]).all()
    np.testing.assert_allclose(found.violation[1:], np.outer(found.y[1:], found.x), rtol=1e-12)
    assert (found.quantity, found.threshold) == ("product", 1.0)
