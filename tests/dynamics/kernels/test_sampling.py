"""Drawn counts: numpy's stream, exact binomials, and multinomials against token-by-token drawing."""

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from numba import njit
from scipy import special, stats

from snapdyn.dynamics.kernels import sampling
from snapdyn.dynamics.kernels.sampling import acceptance, draw_classes, multinomial, normals, random

SIGNIFICANCE = 0.001


def stream(seed: int) -> Any:
    return np.random.SFC64(seed).state["state"]["state"]


@pytest.mark.kernel
def test_stream_is_numpys() -> None:
    """Assert that the inlined generator gives the numbers of numpy's Generator(SFC64), bit for bit."""
    state = stream(7)
    with np.errstate(over="ignore"):
        ours = [random(state) for _ in range(1000)]
    np.testing.assert_array_equal(ours, np.random.Generator(np.random.SFC64(7)).random(1000))


@njit(cache=True)
def multinomials(state, n, conditional, log_q, counts, values, out):  # type: ignore[no-untyped-def]
    for i in range(0, out.shape[0], counts.shape[1]):
        multinomial(state, n, conditional, log_q, counts, values)
        out[i : i + counts.shape[1]] = counts.T


def drawn_counts(P: Any, n: int, together: int, draws: int, seed: int) -> Any:
    """Counts (draws, tokens), drawn `together` sequences at a time."""
    conditional = P / np.cumsum(P[::-1])[::-1]
    log_q = np.log1p(-np.minimum(conditional, 1 - conditional))
    out = np.empty((-(-draws // together) * together, P.size), np.int64)
    scratch = np.empty((P.size, together)), np.empty(3 * together)
    multinomials(stream(seed), n, conditional, log_q, *scratch, out)
    return out[:draws]


def binned(observed: Any, expected: Any, least: float = 8.0) -> tuple[Any, Any]:
    """Neighbouring cells joined until each expects at least `least`."""
    edges, total = [0], 0.0
    for k, value in enumerate(expected):
        total += value
        if total >= least:
            edges.append(k + 1)
            total = 0.0
    edges[-1] = expected.size
    return np.add.reduceat(observed, edges[:-1]), np.add.reduceat(expected, edges[:-1])


# Both methods (variances below and above 12), both sides of the switch, sizes at which rounding could show.
BINOMIALS = [
    (5, 0.5), (49, 0.5), (127, 0.105), (127, 0.106), (127, 0.9), (1000, 0.25), (10**6, 1.3e-5), (10**9, 1e-8),
    (10**9, 0.5),
]  # fmt: skip
TOGETHER = (1, 8)  # inverted one by one, and together
DRAWS = 200_000
BINOMIAL_SIGNIFICANCE = SIGNIFICANCE / (len(TOGETHER) * len(BINOMIALS))


def binomial_p_value(n: int, p: float, together: int, wrong: float = 1.0) -> float:
    """Chi-square p value of the first of two counts against scipy's binomial with probability p wrong."""
    first = drawn_counts(np.array([p, 1.0 - p]), n, together, DRAWS, seed=1)[:, 0]
    assert first.min() >= 0
    assert first.max() <= n
    law = stats.binom(n, p * wrong)
    edges = np.unique(law.ppf(np.linspace(0.0005, 0.9995, 400)))  # cells of about equal probability
    expected = DRAWS * np.diff(np.concatenate([[0.0], law.cdf(edges), [1.0]]))
    observed, expected = binned(np.bincount(np.searchsorted(edges, first), minlength=expected.size), expected)
    return float(stats.chisquare(observed, expected * observed.sum() / expected.sum()).pvalue)


@pytest.mark.slow
@pytest.mark.parametrize("together", TOGETHER)
@pytest.mark.parametrize(("n", "p"), BINOMIALS)
def test_binomial_distribution(n: int, p: float, together: int) -> None:
    """Assert that drawn binomials follow scipy's law: chi-square at level 0.001 over all sizes."""
    assert binomial_p_value(n, p, together) > BINOMIAL_SIGNIFICANCE


@pytest.mark.parametrize(("n", "p"), [(127, 0.0645), (1000, 0.0645)])
def test_wrong_binomial_is_rejected(n: int, p: float) -> None:
    """Assert that a law whose mean is off by a twentieth of a standard deviation is rejected."""
    wrong = 1.0 + 0.05 * np.sqrt((1 - p) / (n * p))
    assert binomial_p_value(n, p, 64, wrong) < BINOMIAL_SIGNIFICANCE


@njit(cache=True)
def fill_normals(state, out):  # type: ignore[no-untyped-def]
    normals(state, out)


def test_normals_are_normal() -> None:
    """Assert that normals follow scipy's law, in the bulk and beyond the last layer, and not one 2 % wider."""
    drawn = np.empty(2_000_000)
    fill_normals(stream(11), drawn)
    edges = np.concatenate([stats.norm.ppf(np.linspace(0.505, 0.995, 99)), [3.0, 3.654, 3.8, 4.1, 4.4]])
    edges = np.concatenate([-edges[::-1], edges])
    observed = np.bincount(np.searchsorted(edges, drawn), minlength=edges.size + 1)

    def p_value(width: float) -> float:
        law = np.concatenate([[0.0], stats.norm.cdf(edges, scale=width), [1.0]])
        return float(stats.chisquare(observed, drawn.size * np.diff(law)).pvalue)

    assert p_value(1.0) > SIGNIFICANCE
    assert p_value(1.02) < SIGNIFICANCE


def log_masses(k: Any, n: int, p: float) -> Any:
    """ln of the binomial's mass at neighbouring k: mpmath at the first one possible, then ratios; -inf outside 0..n."""
    inside = (k >= 0) & (k <= n)
    first = int(k[inside][0])
    with mpmath.workdps(50):
        start = float(
            mpmath.log(mpmath.binomial(n, first) * mpmath.mpf(p) ** first * (1 - mpmath.mpf(p)) ** (n - first))
        )
    here = k[inside][:-1]
    steps = np.log((n - here) / (here + 1) * (p / (1 - p)))
    found = np.full(k.size, -np.inf)
    found[inside] = start + np.concatenate([[0.0], np.cumsum(steps)])
    return found


VARIANCES = (12.0, 13.0, 16.0, 25.0, 60.0, 400.0, 1e4)


@pytest.mark.kernel
@pytest.mark.parametrize("p", [0.5, 0.4, 0.1, 1e-4])
def test_proposals_enclose_the_binomial(p: float) -> None:
    """Assert the bounds that make rejection exact and quick, from the ratios of masses and scipy's normal law.

    With g the normal that is nearest to 0 among those that lead to k: mass <= e^(_EXCESS/variance) proposed, so that
    accepting with probability mass/(that) is possible; and mass >= (1 - (_SHORT + _SHORT_4 g^4)/variance) of it, so
    that the quick acceptance never accepts what the exact one would not. A lower bound half as far off does not hold.
    """
    largest, shortfall = 0.0, 0.0
    for variance in VARIANCES:
        n = math.ceil(variance / (p * (1 - p)))
        variance, mean = n * p * (1 - p), n * p
        k = np.arange(max(-3, math.floor(mean - 12 * math.sqrt(variance))), mean + 20 * math.sqrt(variance))
        k = k[k <= n + 3]
        edges = np.append(k - 0.5, k[-1] + 0.5)
        width, skew = math.sqrt(variance - 1 / 12), (1 - 2 * p) / 6
        roots = 1 + 4 * skew / width**2 * (edges - mean + skew)
        edges, roots = edges[roots > 0], roots[roots > 0]  # no normal leads further down
        k = k[-edges.size + 1 :]
        g = 2 * (edges - mean + skew) / width / (1 + np.sqrt(roots))
        np.testing.assert_allclose(mean + width * g + skew * (g * g - 1), edges, rtol=1e-12, atol=1e-12)
        upper = g[:-1] > 0
        low, high = np.where(upper, -g[1:], g[:-1]), np.where(upper, -g[:-1], g[1:])
        log_ratio = log_masses(k, n, p) - np.log(special.ndtr(high) - special.ndtr(low))
        nearest = np.where(g[:-1] * g[1:] < 0, 0.0, np.minimum(*np.abs([g[:-1], g[1:]])))
        short = variance * -np.expm1(log_ratio - sampling._EXCESS / variance)
        largest = max(largest, (variance * log_ratio).max())
        shortfall = max(shortfall, (short / (sampling._SHORT + sampling._SHORT_4 * nearest**4)).max())
        near = np.abs(k - mean) < 5 * math.sqrt(variance)
        ours = [acceptance(at, float(n), p) for at in k[near]]
        # Rounding: a sum of some thousand ratios, and differences of normal probabilities 1/deviation apart.
        np.testing.assert_allclose(ours, np.exp(log_ratio[near] - sampling._EXCESS / variance), rtol=1e-10)
    assert largest <= sampling._EXCESS
    assert shortfall <= 1.0
    assert shortfall > 0.5
    assert acceptance(-1.0, 100.0, 0.3) == acceptance(101.0, 100.0, 0.3) == 0.0


PROFILES = {
    "one dominant token last": np.array([0.01, 0.02, 0.07, 0.9]),
    "one dominant token first": np.array([0.9, 0.07, 0.02, 0.01]),
    "Syn-Small": np.append(np.ones(10), np.linspace(0.1, 1.0, 10)) / 15.5,
}


@pytest.mark.kernel
@pytest.mark.parametrize("size", [3, 40])
def test_classes_of_batches_are_independent_draws(size: int) -> None:
    """Assert mean and covariance of the counts of batches, smaller and larger than the number of classes."""
    prior = np.array([0.5, 0.2, 0.15, 0.1, 0.05])
    state, batch = stream(5), np.empty(size, np.int64)
    counts = np.empty((4000, prior.size))
    with np.errstate(over="ignore"):
        for row in counts:
            draw_classes(state, np.cumsum(prior) / prior.sum(), batch)
            assert (np.diff(batch) >= 0).all()
            row[:] = np.bincount(batch, minlength=prior.size)
    assert_multinomial(counts, size, prior)


def assert_multinomial(counts: Any, n: int, P: Any) -> None:
    """Assert mean n P and covariance n (diag P - P P^T) of counts (draws, tokens), each within its standard error.

    Counts that do not vary, and independent ones (a diagonal covariance), are rejected.
    """
    bound = stats.norm.isf(SIGNIFICANCE / 2 / P.size**2)
    assert (np.abs(counts.mean(axis=0) - n * P) / np.sqrt(n * P * (1 - P) / len(counts))).max() < bound
    centered = counts - n * P
    products = centered[:, :, None] * centered[:, None, :]
    found, error = products.mean(axis=0), products.std(axis=0) / np.sqrt(len(counts))
    expected = n * (np.diag(P) - np.outer(P, P))
    assert (np.abs(found - expected) / error).max() < bound
    for wrong in (n * np.diag(P), 0 * expected):
        assert (np.abs(found - wrong) / error).max() > bound


@pytest.mark.parametrize(("n", "together"), [(7, 1), (127, 64)])
@pytest.mark.parametrize("profile", PROFILES)
def test_counts_of_tokens_are_multinomial(profile: str, n: int, together: int) -> None:
    """Assert sum, mean and covariance of the counts of tokens, also of the only token of a class."""
    P = PROFILES[profile]
    counts = drawn_counts(P, n, together, 50_000, seed=5)
    assert (counts.sum(axis=1) == n).all()
    assert_multinomial(counts, n, P)
    assert (drawn_counts(np.ones(1), n, together, 10, seed=5) == n).all()
