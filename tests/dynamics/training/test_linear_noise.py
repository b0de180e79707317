"""The linear-noise covariance against ensembles of SGD written here in plain numpy, many seeds at once."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from snapdyn.core.errors import InputError
from snapdyn.dynamics import (
    FiniteLengthMeanField,
    fluctuations,
    integrate,
    random_classes,
    sgd,
    single_common_token,
    syn_medium,
    syn_small,
)
from snapdyn.dynamics.classes.table import Floats
from snapdyn.dynamics.training.linear_noise import LinearNoise, poisson_nodes
from tests.dynamics.dense_reference import attention, error_and_loss
from tests.dynamics.helpers import dense_state

pytestmark = pytest.mark.slow

# A false alarm in one comparison of a family of m has probability ALARM/m.
ALARM = 1e-3
CLOCK = np.array([5.0, 10.0, 20.0, 40.0])  # eta t


@cache
def ensemble(seq_len: int | None) -> Floats:
    """Logits of Syn-Small's support, (runs, times, nz), of SGD at the updates t = CLOCK/ETA."""
    record = np.rint(CLOCK / ETA).astype(int)
    runs = sgd(syn_small(), ETA, ETA, int(record[-1]), seq_len=seq_len, seed=range(400), record=record)
    return np.array([run.z_support for run in runs])


class NoDrift(LinearNoise):
    """Wrong theory: steps diffuse, the drift does not pull deviations back or amplify them."""

    def jacobian(self, x: Floats) -> Floats:
        return np.zeros((x.size, x.size))


@pytest.mark.parametrize("seq_len", [None, 60])
def test_noise_is_the_covariance_of_one_step(seq_len: int | None) -> None:
    """Assert that D is the covariance of 200,000 drawn steps, entry by entry, in a state away from the start.

    Standard error of an entry sqrt((D_ii D_jj + D_ij^2)/N) times a kurtosis of order 1: 4.5 sigma over the family,
    doubled for it; count noise beyond first order is O(count_noise) of the entry's scale.
    """
    draws, eta_Y, eta_Z = 200_000, 0.5, 0.8
    classes = random_classes(num_classes=3, num_common=1, num_distinct=1, seed=3, uniform_prior=False, vocab_size=3)
    mean = FiniteLengthMeanField(classes, eta_Y, eta_Z, seq_len, lump=False)
    rng = np.random.default_rng(0)
    x = rng.normal(0.0, 0.8, mean.size)
    Y, z = dense_state(mean, x)
    n = rng.choice(3, draws, p=classes.prior)
    P = classes.P.toarray()[n]
    frequencies = P if seq_len is None else rng.multinomial(seq_len, P)
    f = attention(frequencies, z)
    f /= np.linalg.norm(f, axis=1, keepdims=True)
    error, _ = error_and_loss(f @ Y, n)
    g = error @ Y.T
    dz, dY = f * (g - f * (f * g).sum(axis=1, keepdims=True)), f[:, :, None] * error[:, None, :]
    tokens = mean.layout.row_token
    drawn = np.cov(np.concatenate([eta_Z * dz[:, tokens], eta_Y * dY[:, tokens].reshape(draws, -1)], axis=1).T)

    system, F = LinearNoise(mean), np.empty(mean.size)
    mean.write_rate(x, F)
    of_class, of_counts = (B.T @ B for B in (system.class_noise(x, F), system.count_noise(x)))
    D = of_class + of_counts
    scale = np.sqrt(np.outer(np.diag(D), np.diag(D)) + D**2)
    allowed = scale * (9.0 / np.sqrt(draws) + mean.extra(x)["count_noise"].max())
    np.testing.assert_array_less(np.abs(drawn - D), allowed)
    assert seq_len is None or (np.abs(drawn - of_class) > 3.0 * allowed).any()


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
    expected = integrate(FiniteLengthMeanField(classes, 0.1, 0.2, seq_len, start), times)
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
        ({"t_eval": [3.0, 1.0]}, "t_eval to increase"),
        ({"classes": syn_medium(5)}, "whose covariance is dense, to be a whole number in 0..400, received 1"),
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


def outside(mean: Floats, covariance: Floats, runs: Floats) -> float:
    """Farthest share of runs in the 90 % band, in half-widths of what a binomial allows over the family."""
    half = 1.6448536269514722 * np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    inside = (np.abs(runs - mean) < half).sum(axis=0)
    lower, upper = binom.ppf([ALARM / inside.size / 2, 1 - ALARM / inside.size / 2], len(runs), 0.9)
    middle = 0.9 * len(runs)
    widths = np.where(inside < middle, middle - lower, upper - middle)
    return float((np.abs(inside - middle) / widths).max())


# With 2000 tokens the rarest token is expected 13 times, so what is left out of the count noise, O(1/13) of one
# token's variance, moves its coverage by 0.6 %, well inside the binomial width.
@pytest.mark.parametrize("seq_len", [None, 2000])
def test_band_covers_what_it_claims(seq_len: int | None) -> None:
    """Assert that of 400 runs a share of 90 % within the binomial width (family over 40 logits x 4 times) is inside.

    A band without the drift's part does not.
    """
    theory = fluctuations(syn_small(), ETA, ETA, CLOCK / ETA, seq_len=seq_len)
    assert outside(theory.trajectory.z_support, theory.z_covariance, ensemble(seq_len)) <= 1.0
    without = NoDrift(FiniteLengthMeanField(syn_small(), ETA, ETA, seq_len, lump=False))
    wrong = integrate(without, CLOCK / ETA, rtol=1e-6, atol=1e-8)
    covariance = wrong.extra["z_covariance"].reshape(len(CLOCK), 40, 40)
    assert outside(wrong.z_support, covariance, ensemble(seq_len)) > 1.0


def test_orders_in_rate_and_batch() -> None:
    """Assert that the covariance goes as eta/batch at fixed eta t."""
    base = fluctuations(syn_small(), ETA, ETA, CLOCK / ETA).z_covariance
    for eta, batch_size in ((0.08, 1), (ETA, 4)):
        found = fluctuations(syn_small(), eta, eta, CLOCK / eta, batch_size).z_covariance
        np.testing.assert_allclose(found, eta / ETA / batch_size * base, rtol=1e-4, atol=1e-9)


ETA = 0.02
