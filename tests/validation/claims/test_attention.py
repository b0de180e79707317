"""Claims on attention: several common tokens, the sign of xi_n, row sums, by routes of their own."""

import numpy as np
import pytest
from scipy.optimize import brentq

import snapdyn as sd
from snapdyn.dynamics.classes.table import Floats
from snapdyn.validation.claims.attention._shared import drift_at_end
from snapdyn.validation.claims.attention.corollary2 import PERMUTED, two_classes
from snapdyn.validation.claims.attention.lemma4_conservation import drift, without_projection
from snapdyn.validation.rungs.run import EXACT
from snapdyn.validation.search.instance import Instance
from snapdyn.validation.search.instance_runs import flow
from tests.dynamics import dense_reference


def of_gradient(instance: Instance) -> Floats:
    """Rates of Eq. (10) of one query by dense algebra, V h from (45) by bisection."""
    V, visits = instance.vocab_size, instance.prior * instance.t_end
    u = [brentq(lambda u, s=s: np.expm1(u) + (V - 1) * u - V * instance.eta_Y * s, 0, 99, xtol=1e-14) for s in visits]
    arrays = instance.P, np.zeros(visits.size, int), np.arange(visits.size), instance.prior, V
    reference = dense_reference.Instance(*arrays)
    return dense_reference.eq_10(
        reference, np.array(u), np.zeros((1, instance.P.shape[1])), instance.eta_Y, 1.0, False
    )[0][0]


def test_rates_against_the_sum_of_equation_10() -> None:
    """Assert the rates against Eq. (10) by dense algebra of its own, unequal priors."""
    rng = np.random.default_rng(0)
    instance = Instance(rng.uniform(0.1, 1, (3, 6)), np.zeros(3, dtype=int), rng.uniform(0.1, 1, 3), 7, 0.5, 1.0, 9.0)
    rates, _ = drift_at_end(instance)
    np.testing.assert_allclose(rates[0], of_gradient(instance), rtol=1e-9)


@pytest.mark.parametrize(("factor", "grows"), [(0.99, False), (1.01, True)])
@pytest.mark.parametrize("dot", [0.05, 0.4, 0.6])
def test_condition_for_two_classes_on_both_sides(dot: float, factor: float, grows: bool) -> None:
    """Assert that a common token grows just where (f_1l/f_2l + f_2l/f_1l)/2 > 1/(f_1.f_2)."""
    mean = factor / dot
    assert (two_classes(mean + np.sqrt(mean**2 - 1), dot) > 0) == grows


def test_common_tokens_keep_their_proportions() -> None:
    """Assert (exp(-2 z_l) - 1)/rho_l^2 equal for all common tokens at every time, to the solver's tolerance."""
    run = flow(PERMUTED, EXACT, rtol=1e-10, atol=1e-13)
    fall = np.expm1(-2 * run.z[10:, 0, :4]) / PERMUTED.P[0, :4] ** 2
    # atol 1e-13 per step against falls of 1e-3 of the smallest rho^2 and more.
    np.testing.assert_allclose(fall / fall[:, :1], 1, rtol=1e-6)


def test_rounding_grows_with_the_inverse_of_the_gram_matrix_along_the_run() -> None:
    """Assert that row sums are within rounding, and those of z' without I - f f^T are not.

    The smallest eigenvalue of G is 0.14 at the start and 1e-6 on the way. With the eigenvalue of the start the row sum
    at one of these times is up to 1.4 times what rounding allows.
    """
    P = np.array([[0.803, 0.187, 0.002, 0.008, 0.0], [0.501, 0.489, 0.0, 0.0, 0.01]])
    for t_end in (6048544.255169578, 1e7):
        instance = Instance(P, np.zeros(2, int), np.array([1e-6, 1]), 3, 1e-6, 1e-3, t_end, next_token=np.array([1, 0]))
        kept, wrong = drift(instance, EXACT), without_projection(instance, EXACT)
        assert kept.value < 1 < wrong.value


@pytest.mark.parametrize("seq_len", [1, 2, 300])
def test_finite_sequences_are_outside(seq_len: int) -> None:
    """Assert "outside" where the counts vary: there runs fail, or are not defined (one or two tokens)."""
    classes = sd.SequenceClasses([[0.3, 0.4, 0.3, 0, 0], [0.3, 0, 0, 0.5, 0.2]], [0, 0], vocab_size=60)
    ids = ["theorem2a", "theorem2b", "theorem3-gain", "slow-attention", "corollary2", "theorem3-bounds"]
    report = sd.check(classes, 1.0, 1e-3, 50.0, only=ids, seq_len=seq_len)
    assert [(each.id, each.status) for each in report.claims if each.status != "outside"] == []
    infinite = sd.check(classes, 1.0, 1e-3, 50.0, only=ids[:4])
    assert {each.status for each in infinite.claims} == {"holds"}
