"""The mean field of finite sequences against the exact expectation over counts, none of it from the package."""

from itertools import product
from math import factorial
from typing import Any

import numpy as np
import pytest

from snapdyn.core.errors import InputError
from snapdyn.dynamics import (
    ExpansionWarning,
    FiniteLengthMeanField,
    MeanField,
    SequenceClasses,
    integrate,
    syn_small,
)
from tests.dynamics.dense_reference import Array, Instance, mean_field
from tests.dynamics.helpers import dense_state
from tests.dynamics.systems.helpers import INSTANCES, random_state

ETA_Y, ETA_Z = 0.7, 1.3


NAMES = (
    "lumped tokens and shared column", "one query", "shared next token and query", "V equals number of next tokens",
    "one token per class",
)  # fmt: skip


def rate_by_frequencies(instance: Instance, frequencies: Any, Y: Array, z: Array) -> Array:
    """[dY, dz, loss] flat of dense numpy, class n averaged over frequencies(n) = (rows (R, M), weights (R,))."""
    rows, weights = zip(*map(frequencies, range(len(instance.prior))), strict=True)
    n = np.repeat(np.arange(len(rows)), [len(each) for each in weights])
    prior = instance.prior[n] * np.concatenate(weights)
    drawn = Instance(np.concatenate(rows), instance.query[n], instance.next_token[n], prior, instance.vocab_size)
    dY, dz, loss = mean_field(drawn, Y, z, ETA_Y, ETA_Z)
    return np.concatenate([dY.ravel(), dz.ravel(), [loss]])


def rate_of_system(system: MeanField, state: Array) -> Array:
    """The same flat array from a system."""
    dY, dz = dense_state(system, system.derivative(0.0, state))
    return np.concatenate([dY.ravel(), dz.ravel(), [system.loss(state)]])


@pytest.mark.kernel
@pytest.mark.parametrize("name", NAMES)
def test_correction_is_half_the_trace_of_hessian_and_covariance(name: str) -> None:
    """Assert that the correction of rate and loss is 1/2 tr(H Cov), Cov = (diag P - P P^T)/(T-1).

    Reference: dense numpy, fourth-order differences along every direction e_k - P, step h = 0.02 P_k. Truncation
    h^4 phi''''''/90 against phi'': (h/P_k)^4 = 2e-7 times a factor of order 1 to 10; rounding 1e-15/4e-4.
    """
    seq_len = 40
    instance = INSTANCES[name]

    def stencil(n: int) -> tuple[Array, Array]:
        rows, weights = [instance.P[n]], [0.0]
        for k in np.flatnonzero(instance.P[n]):
            P_k = instance.P[n, k]
            h = 0.02 * P_k
            for steps, weight in ((0, -30), (1, 16), (-1, 16), (2, -1), (-2, -1)):
                rows.append(instance.P[n] + steps * h * (np.eye(instance.P.shape[1])[k] - instance.P[n]))
                weights.append(0.5 * P_k / seq_len * weight / (12 * h**2))
        return np.array(rows), np.array(weights)

    system, infinite = (FiniteLengthMeanField(instance.classes(), ETA_Y, ETA_Z, length) for length in (seq_len, None))
    state = random_state(system, 3, size=1.0)
    corrected, plain = rate_of_system(system, state), rate_of_system(infinite, state)
    if name == "one token per class":  # nothing fluctuates
        np.testing.assert_allclose(corrected, plain, rtol=0, atol=1e-14)
        return
    expected = rate_by_frequencies(instance, stencil, *dense_state(system, state))
    tolerance = 1e-5 * np.abs(expected).max()
    np.testing.assert_allclose(corrected - plain, expected, rtol=0, atol=tolerance)
    for wrong in (0.0, 2.0, -1.0):  # no correction, the factor 1/2 forgotten, the sign flipped
        assert np.abs(wrong * expected - expected).max() > 1e4 * tolerance


def all_frequencies(P: Array, seq_len: int) -> tuple[Array, Array]:
    """Every vector of frequencies and its multinomial probability."""
    support = np.flatnonzero(P)
    heads = [c for c in product(range(seq_len + 1), repeat=support.size - 1) if sum(c) <= seq_len]
    counts = np.array([(*c, seq_len - sum(c)) for c in heads])
    log_factorial = np.array([float(np.log(float(factorial(i)))) for i in range(seq_len + 1)])
    log_weight = log_factorial[seq_len] - log_factorial[counts].sum(axis=1) + counts @ np.log(P[support])
    rows = np.zeros((len(counts), P.size))
    rows[:, support] = counts / seq_len
    return rows, np.exp(log_weight)


@pytest.mark.kernel
def test_orders_in_the_length_against_the_exact_expectation() -> None:
    """Assert that the error of the drift falls as (T-1)^-2 with the correction and as (T-1)^-1 without.

    Exact: every count vector of three tokens, T-1 = 16, 32, 64. Next orders bend a slope fitted there by about
    their relative size, 1/((T-1) P_k) <= 0.2 at the middle length: tolerance 0.3, which tells 2 from 1.
    """
    P = np.array([[0.5, 0.3, 0.2, 0.0], [0.0, 0.25, 0.35, 0.4]])
    instance = Instance(P, np.array([0, 0]), np.array([0, 1]), np.array([0.4, 0.6]), 6)
    lengths = np.array([16, 32, 64])
    errors: dict[bool, list[float]] = {True: [], False: []}
    for seq_len in lengths.tolist():
        for corrected, found in errors.items():
            system = FiniteLengthMeanField(instance.classes(), ETA_Y, ETA_Z, seq_len if corrected else None)
            state = random_state(system, 5, size=1.0)
            exact = rate_by_frequencies(
                instance, lambda n, T=seq_len: all_frequencies(P[n], T), *dense_state(system, state)
            )
            found.append(float(np.linalg.norm(rate_of_system(system, state) - exact)))
    for corrected, order in ((True, 2.0), (False, 1.0)):
        slope = np.polyfit(np.log(lengths), np.log(errors[corrected]), 1)[0]
        assert abs(slope + order) < 0.3, (corrected, slope, errors)


@pytest.mark.kernel
def test_late_rates_keep_their_relative_accuracy() -> None:
    """Assert that at 1 - alpha_own < 1e-25 the rates still sum to 0 to 12 digits of their own size."""
    P = np.kron(np.eye(2), [0.5, 0.3, 0.2])
    system = FiniteLengthMeanField(SequenceClasses(P, [0, 0], vocab_size=9), ETA_Y, ETA_Z, 40)
    L = system.layout
    Y = np.zeros((L.num_rows, L.num_columns))
    for n in range(2):
        Y[L.entry_row[L.lists.indptr[n] : L.lists.indptr[n + 1]], L.lists.own[n]] = [39.0, 40.0, 41.0]
    rate = system.derivative(0.0, np.concatenate([np.zeros(L.num_slots), Y.ravel()]))
    for name, part in (("row sum of Z", rate[: L.num_slots]), ("row sum of Y", rate[L.num_slots :])):
        size = np.abs(part).max()
        assert 0.0 < size < 1e-25
        assert system.invariants(rate)[name] < 1e-12 * size


def test_count_noise_is_the_relative_variance_of_the_attended_frequencies() -> None:
    """Assert the expansion parameter: Var|f|^2-weighted counts, (1/sum P^2 - 1)/(T-1) at z = 0; 0 without length."""
    classes = syn_small()
    trajectory = integrate(FiniteLengthMeanField(classes, 1.0, 1.0, 127), [0.0, 50.0])
    expected = (1.0 / (classes.P.toarray() ** 2).sum(axis=1) - 1.0) / 127
    np.testing.assert_allclose(trajectory.extra["count_noise"][0], expected, rtol=1e-12)
    infinite = integrate(FiniteLengthMeanField(classes, 1.0, 1.0, None), [0.0, 50.0])
    assert not infinite.extra["count_noise"].any()


def _rare_token_logits(value: float) -> Array:
    """Initial logits of Syn-Small with `value` on the rarest token of each class."""
    z_initial = np.zeros((2, 30))
    z_initial[0, 10] = z_initial[1, 20] = value
    return z_initial


def test_a_run_that_leaves_the_expansion_says_so() -> None:
    """Assert a warning when count_noise passes 1 on the way, none below it, and none for infinite length.

    Attention on the rare tokens raises count_noise: it starts just below 1 at T-1 = 17 and just below 0.5 at 34.
    """
    arguments = syn_small(), 10.0, 1.0
    start = _rare_token_logits(0.9)
    with pytest.warns(ExpansionWarning, match=r"received count_noise up to 1\.0.*use sgd with seq_len=17") as caught:
        outside = integrate(FiniteLengthMeanField(*arguments, 17, start), [1.0, 30.0])
    assert len(caught) == 1
    assert outside.extra["count_noise"][0].max() <= 1.0 < outside.extra["count_noise"].max()
    for seq_len in (34, None):
        assert integrate(FiniteLengthMeanField(*arguments, seq_len, start), [1.0, 30.0]).status == "finished"


def test_sequences_too_short_for_the_expansion_are_refused() -> None:
    """Assert that the shortest length is the one at which (1/sum P^2 - 1)/(T-1) is 1, that one below is refused."""
    classes = syn_small()
    least = int(np.ceil((1.0 / (classes.P.toarray() ** 2).sum(axis=1) - 1.0).max()))
    assert FiniteLengthMeanField(classes, 1.0, 1.0, least).seq_len == least
    for seq_len, start in ((least - 1, None), (17, _rare_token_logits(4.0))):
        with pytest.raises(InputError, match=f"seq_len of at least .*received {seq_len} "):
            FiniteLengthMeanField(classes, 1.0, 1.0, seq_len, start)
    with pytest.raises(InputError, match="seq_len to be a whole number"):
        FiniteLengthMeanField(classes, 1.0, 1.0, 0)
