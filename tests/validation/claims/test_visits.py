"""Visits of classes: the discrete decoder and its lag, against references that share no code."""

import mpmath
import numpy as np
import pytest

from snapdyn import analytic
from snapdyn.validation.claims.decoder._shared import (
    WHOLE_VISITS,
    WholeVisits,
    discrete_logits,
    visits_of,
)


@pytest.mark.kernel
@pytest.mark.parametrize(("V", "eta"), [(2, 3.0), (10, 0.3), (1000, 1.0)])
def test_compensated_recursion_is_the_recursion(V: int, eta: float) -> None:
    """Assert that u = V h* after 1, 5 and 400 visits is that of 30-digit arithmetic, to the last digits."""
    visits = np.array([0, 1, 5, 400])
    with mpmath.workdps(30):
        u, reference = mpmath.mpf(0), []
        for step in range(401):
            if step in visits:
                reference.append(float(u))
            u += V * mpmath.mpf(eta) / (V - 1 + mpmath.exp(u))
    assert discrete_logits(float(V), eta, visits) == pytest.approx(reference, rel=1e-15, abs=0)


@pytest.mark.parametrize(("V", "eta"), [(2.0, 1.0), (1000.0, 0.3)])
def test_lag_by_its_integral_is_the_recursions(V: float, eta: float) -> None:
    """Assert that X(s) of the integral from s = 4000 on is that of the recursion at s = 1e5."""
    s = 100_000
    u = discrete_logits(V, eta, np.array([s]))
    recursion = float(visits_of(u, eta, V)[0]) - s
    integral = float(WholeVisits.of(eta, V).lag(u)[0])
    # Rounding of u times s, and 1/(24 WHOLE_VISITS^2) of the Euler-Maclaurin sum.
    assert integral == pytest.approx(recursion, abs=4e-16 * s * u[0] + 4e-9)
    # Wrong theory: Remark 2's constant gap has a lag that does not grow.
    start = float(visits_of(discrete_logits(V, eta, np.array([10_000])), eta, V)[0]) - 10_000
    assert integral - start > 1.1


@pytest.mark.kernel
@pytest.mark.parametrize(("V", "eta"), [(2, 1.0), (1000, 0.3), (10**12, 5.0), (10**12, 1e-6), (10**6, 30.0)])
def test_late_whole_visits_are_the_recursion(V: int, eta: float) -> None:
    """Assert that V h* beyond the table, from its lag, is the recursion's, and that `visits` inverts it."""
    visits = np.array([3, WHOLE_VISITS, WHOLE_VISITS + 1, 300_000])
    reference = discrete_logits(float(V), eta, visits)
    decoder = WholeVisits.of(eta, V)
    assert decoder.logits(visits) == pytest.approx(reference, rel=1e-13, abs=0)
    assert decoder.visits(reference) == pytest.approx(visits, rel=1e-12)
    # Wrong theory: no lag. The flow is behind by its lag, the more the larger the rate.
    if eta >= 0.3:
        assert (V * analytic.h(visits.astype(float), eta, V) < reference).all()
