"""The linear-noise covariance against ensembles of SGD written here in plain numpy, many seeds at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from snapdyn.dynamics import (
    FiniteLengthMeanField,
    MeanField,
    fluctuations,
    integrate,
    random_classes,
    single_common_token,
    syn_medium,
    syn_small,
)
from snapdyn.dynamics.classes.table import Floats
from snapdyn.dynamics.training.linear_noise import LinearNoise, poisson_nodes
from snapdyn.errors import InputError

pytestmark = pytest.mark.slow

# A false alarm in one comparison of a family of m has probability ALARM/m.
ALARM = 1e-3
SIGMAS = 4.0
CLOCK = (5.0, 10.0, 20.0, 40.0)  # eta t


def steps(
    rng: np.random.Generator, P: Floats, n: Any, z: Floats, Y: Floats, copies: Floats, seq_len: int | None
) -> tuple[Floats, Floats]:
    """Eqs. (3)-(4) at unit rates for sequences of classes n (R,), each with its own z (R, M) and Y (R, M, C).

    Output n is class n's next token, column j counts copies[j] times. Returns dz (R, M) and dY (R, M, C).
    """
    frequencies = P[n] if seq_len is None else rng.multinomial(seq_len, P[n])
    q = frequencies * np.exp(z)
    f = q / np.linalg.norm(q, axis=1, keepdims=True)
    logits = (f[:, None] @ Y)[:, 0]
    alpha = np.exp(logits - logits.max(axis=1, keepdims=True))
    alpha /= (alpha * copies).sum(axis=1, keepdims=True)
    error = np.eye(copies.size)[n] - alpha
    g = (Y @ (error * copies)[:, :, None])[:, :, 0]
    return f * (g - f * (f * g).sum(axis=1, keepdims=True)), f[:, :, None] * error[:, None, :]


@cache
def ensemble(eta: float, seq_len: int | None, runs: int = 400) -> Floats:
    """Logits of Syn-Small's support, (times, runs, nz), of SGD at the updates t = CLOCK/eta."""
    classes, rng = syn_small(), np.random.default_rng(7)
    P, copies, every = classes.P.toarray(), np.array([1.0, 1.0, 32.0]), np.arange(runs)
    z, Y = np.zeros((runs, 2, 30)), np.zeros((runs, 30, 3))
    kept, record = [], np.rint(np.array(CLOCK) / eta).astype(int)
    for t in range(record[-1] + 1):
        if t in record:
            kept.append(z[:, *classes.z_coordinates].copy())
        n = rng.integers(0, 2, runs)
        dz, dY = steps(rng, P, n, z[every, n], Y, copies, seq_len)
        z[every, n] += eta * dz
        Y += eta * dY
    return np.array(kept)


@dataclass(frozen=True)
class Theory:
    """What a theory says of the logits at the times of an ensemble."""

    mean: Floats  # (times, nz)
    covariance: Floats  # (times, nz, nz)

    def outside(self, runs: Floats) -> float:
        """Farthest share of runs in the 90 % band, in half-widths of what a binomial allows over the family."""
        half = 1.6448536269514722 * np.sqrt(np.diagonal(self.covariance, axis1=1, axis2=2))
        inside = (np.abs(runs - self.mean[:, None]) < half[:, None]).sum(axis=1)
        lower, upper = binom.ppf([ALARM / inside.size / 2, 1 - ALARM / inside.size / 2], runs.shape[1], 0.9)
        middle = 0.9 * runs.shape[1]
        return float(
            np.where(inside < middle, (middle - inside) / (middle - lower), (inside - middle) / (upper - middle)).max()
        )

    def trace_ratio(self, runs: Floats) -> tuple[Floats, Floats]:
        """(trace of the sample covariance over theory's, its standard error for Gaussian runs), (times,) each."""
        trace = np.trace(self.covariance, axis1=1, axis2=2)
        error = np.sqrt(2.0 * (self.covariance**2).sum(axis=(1, 2)) / (runs.shape[1] - 1)) / trace
        return runs.var(axis=1, ddof=1).sum(axis=1) / trace, error


def band_theory(eta: float, seq_len: int | None, batch_size: int = 1) -> Theory:
    result = fluctuations(syn_small(), eta, eta, np.array(CLOCK) / eta, batch_size, seq_len)
    return Theory(result.trajectory.z_support, result.z_covariance)


class NoDrift(LinearNoise):
    """Wrong theory: steps diffuse, the drift does not pull deviations back or amplify them."""

    def jacobian(self, x: Floats) -> Floats:
        return np.zeros((x.size, x.size))


class ClassNoiseOnly(LinearNoise):
    """Wrong theory: every sequence of a class is its mean."""

    def count_noise(self, x: Floats) -> Floats:
        return np.zeros((1, x.size))


def wrong_theory(kind: type[LinearNoise], eta: float, seq_len: int | None) -> Theory:
    mean = FiniteLengthMeanField(syn_small(), eta, eta, seq_len, lump=False)
    trajectory = integrate(kind(mean), np.array(CLOCK) / eta, rtol=1e-6, atol=1e-8)
    return Theory(trajectory.z_support, trajectory.extra["z_covariance"].reshape(len(CLOCK), 40, 40))


def trace_excess(theory: Theory, runs: Floats, eta: float, seq_len: int | None) -> float:
    """Farthest trace ratio from 1, in units of 4 standard errors plus what theory leaves out, O(eta, 1/T)."""
    ratio, error = theory.trace_ratio(runs)
    count_noise = 16.3 / seq_len if seq_len else 0.0  # (1/sum P^2 - 1)/(T-1) of Syn-Small
    return float((np.abs(ratio - 1.0) / (SIGMAS * error + eta + count_noise)).max())


@pytest.mark.parametrize(
    ("kind", "seq_len"),
    [(NoDrift, None), (NoDrift, 2000), (ClassNoiseOnly, 2000)],
    ids=lambda v: getattr(v, "__name__", v),
)
def test_wrong_theories_are_rejected(kind: type[LinearNoise], seq_len: int | None) -> None:
    """Assert that a band without the drift's part, or with class noise only, fails both checks above."""
    runs = ensemble(0.02, seq_len)
    theory = wrong_theory(kind, 0.02, seq_len)
    assert theory.outside(runs) > 1.0
    assert trace_excess(theory, runs, 0.02, seq_len) > 1.0


@pytest.mark.parametrize("seq_len", [None, 60])
def test_noise_is_the_covariance_of_one_step(seq_len: int | None) -> None:
    """Assert that D is the covariance of 200,000 drawn steps, entry by entry, in a state away from the start.

    Standard error of an entry sqrt((D_ii D_jj + D_ij^2)/N) times a kurtosis of order 1: 4.5 sigma over the family,
    doubled for it; count noise beyond first order is O(count_noise) of the entry's scale.
    """
    draws, eta_Y, eta_Z = 200_000, 0.5, 0.8
    classes = random_classes(num_classes=3, num_common=1, num_distinct=1, seed=3, uniform_prior=False, vocab_size=3)
    mean = FiniteLengthMeanField(classes, eta_Y, eta_Z, seq_len, lump=False)
    L, rng = mean.layout, np.random.default_rng(0)
    x = rng.normal(0.0, 0.8, mean.size)
    z = np.zeros(classes.num_tokens)
    z[classes.z_coordinates[1]] = x[: L.num_slots][L.slot_of_z]
    Y = x[L.num_slots :].reshape(L.num_rows, 3)
    np.testing.assert_array_equal(L.row_token, np.arange(classes.num_tokens))
    n = rng.choice(3, draws, p=classes.prior)
    wide = np.broadcast_to(Y, (draws, *Y.shape))
    dz, dY = steps(rng, classes.P.toarray(), n, np.broadcast_to(z, (draws, z.size)), wide, np.ones(3), seq_len)
    drawn = np.cov(np.concatenate([eta_Z * dz[:, L.row_token], eta_Y * dY.reshape(draws, -1)], axis=1).T)

    system, F = LinearNoise(mean), np.empty(mean.size)
    mean.write_rate(x, F)
    of_class, of_counts = (B.T @ B for B in (system.class_noise(x, F), system.count_noise(x)))
    D = of_class + of_counts
    scale = np.sqrt(np.outer(np.diag(D), np.diag(D)) + D**2)
    count_noise = mean.extra(x)["count_noise"].max()
    np.testing.assert_array_less(np.abs(drawn - D), scale * (9.0 / np.sqrt(draws) + count_noise))
    if seq_len:
        assert (np.abs(drawn - of_class) > 3.0 * scale * (9.0 / np.sqrt(draws) + count_noise)).any()


def test_poisson_nodes_have_the_moments() -> None:
    """Assert that the rule has the first five moments of Poisson variables, rare and frequent."""
    mean = np.array([1e-3, 0.8, 40.0])
    nodes, weights = poisson_nodes(mean)
    central = [1.0 + 0 * mean, 0 * mean, mean, mean, mean + 3 * mean**2, mean + 10 * mean**2]
    for power, moment in enumerate(central):
        found = (weights * (nodes - mean[:, None]) ** power).sum(axis=1)
        np.testing.assert_allclose(found, moment, rtol=1e-9, atol=1e-12)


@pytest.mark.kernel
def test_jacobian_predicts_small_changes_of_the_rate() -> None:
    """Assert that F(x + d) - F(x) = A d up to the curvature, |d|^2 relative, for random directions."""
    mean = FiniteLengthMeanField(random_classes(seed=1, num_classes=2), 0.4, 1.1, 50, lump=False)
    rng = np.random.default_rng(0)
    x, d = rng.normal(0.0, 0.5, mean.size), 1e-4 * rng.normal(size=mean.size)
    change = mean.derivative(0.0, x + d) - mean.derivative(0.0, x - d)
    predicted = 2.0 * LinearNoise(mean).jacobian(x) @ d
    np.testing.assert_allclose(change, predicted, rtol=0, atol=1e-6 * np.abs(change).max())


@pytest.mark.parametrize("seq_len", [None, 127])
def test_mean_is_the_mean_field(seq_len: int | None) -> None:
    """Assert that the mean is the system's own, the spread 0 at t = 0, and row sums never spread."""
    classes, times, start = syn_small(), [0.0, 30.0, 300.0], np.full((2, 30), 0.1)
    result = fluctuations(classes, 0.1, 0.2, times, seq_len=seq_len, z_initial=start)
    system = (
        FiniteLengthMeanField(classes, 0.1, 0.2, seq_len, start) if seq_len else MeanField(classes, 0.1, 0.2, start)
    )
    expected = integrate(system, times)
    assert result.trajectory.system == expected.system
    np.testing.assert_allclose(result.trajectory.z_support, expected.z_support, rtol=0, atol=1e-6)
    np.testing.assert_allclose(result.trajectory.loss, expected.loss, rtol=1e-6)
    lower, upper = result.band(0.5)
    np.testing.assert_array_equal(lower[0], upper[0])
    np.testing.assert_allclose((upper - lower)[1:], 2 * 0.6744897501960817 * result.z_std[1:], rtol=1e-12)
    assert (result.z_std[1:] > 0).all()
    # The sum over a row of z never fluctuates. Differences are good to 1e-10, and add up over eta t = 60.
    for query in range(2):
        sums = result.z_covariance[:, classes.z_coordinates[0] == query].sum(axis=1)
        assert np.abs(sums).max() < 1e-7 * result.z_std.max() ** 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batch_size": 0}, "batch_size"),
        ({"t_eval": [3.0, 1.0]}, "increasing t_eval"),
        ({"classes": syn_medium(5)}, "at most 400 values of z and Y for a dense covariance, received 1"),
    ],
)
def test_bad_input_is_one_sentence(change: dict[str, Any], message: str) -> None:
    """Assert that bad input is refused with what was expected and received."""
    arguments: dict[str, Any] = {"classes": syn_small(), "eta_Y": 1.0, "eta_Z": 1.0, "t_eval": [1.0]}
    with pytest.raises(InputError, match=message):
        fluctuations(**(arguments | change))


def test_a_logit_without_noise_has_a_band_of_no_width() -> None:
    """Assert no NaN in a band whose variance vanishes up to the solver's tolerance; a wrong level is refused."""
    found = fluctuations(single_common_token(5, 4, 0.3, 50), 0.1, 0.1, [1.0, 10.0, 100.0])
    assert np.isfinite(found.z_std).all()
    assert np.isfinite(found.band()).all()
    with pytest.raises(InputError, match="expected level"):
        found.band(90.0)


# With 2000 tokens the rarest token is expected 13 times, so what is left out of the count noise, O(1/13) of one
# token's variance, moves its coverage by 0.6 %, well inside the binomial width.
@pytest.mark.parametrize("seq_len", [None, 2000])
def test_band_and_trace_are_those_of_an_ensemble(seq_len: int | None) -> None:
    """Assert that of 400 runs a share of 90 % within the binomial width is inside, and that their spread is theory's.

    The family has 40 logits x 4 times.
    """
    theory, runs = band_theory(0.02, seq_len), ensemble(0.02, seq_len)
    assert theory.outside(runs) <= 1.0
    assert trace_excess(theory, runs, 0.02, seq_len) <= 1.0


def test_orders_in_rate_and_batch() -> None:
    """Assert that the covariance goes as eta/batch at fixed eta t."""
    base = band_theory(0.02, None)
    for eta, batch_size in ((0.08, 1), (0.02, 4)):
        theory = band_theory(eta, None, batch_size)
        np.testing.assert_allclose(theory.covariance, eta / 0.02 / batch_size * base.covariance, rtol=1e-4, atol=1e-9)
