"""xi_n of Theorem 1(a) by dense algebra at 50 digits, where it is certified and where the wrong limits fail."""

import mpmath as mp
import numpy as np
import pytest

from tests.analytic.certificates.helpers import failure


def growth(E: mp.matrix, V: int, sign: int = -1) -> list[mp.mpf]:
    """xi_n/gamma = sum_{k != n} beta_nk E_nk by (88), `sign` of q0 corrected (-1) or as printed (+1)."""
    K = E.rows
    q1, q0 = mp.mpf(V) / (V - 1), -mp.mpf(V) / (V - 1) ** 2
    Ep = mp.eye(K) - (mp.eye(K) + E) ** -1
    return [
        mp.fsum(
            (q1 * Ep[k, n] + sign * q0 * (1 + sign * mp.fsum(Ep[k, j] for j in range(K) if j != n))) * E[n, k]
            for k in range(K)
            if k != n
        )
        for n in range(K)
    ]


def overlaps(K: int, entries: dict[tuple[int, int], mp.mpf]) -> mp.matrix:
    """E with the given entries above its diagonal."""
    E = mp.zeros(K)
    for (i, j), value in entries.items():
        E[i, j] = E[j, i] = value
    return E


def largest(E: mp.matrix) -> mp.mpf:
    """|lambda_1(E)|."""
    return max(abs(value) for value in mp.eigsy(E, eigvals_only=True))


def test_four_classes_up_to_the_certified_limit() -> None:
    """Assert xi_n > 0 by dense algebra for random overlaps of 4 classes scaled to |lambda_1| = 0.999/sqrt(2), V = 4."""
    rng = np.random.default_rng(1)
    with mp.workdps(30):
        for _ in range(60):
            # Sparse overlaps, as the limit is attained by stars.
            E = overlaps(4, {(i, j): mp.mpf(float(rng.random() ** 4)) for i in range(4) for j in range(i)})
            E *= mp.mpf("0.999") / mp.sqrt(2) / largest(E)
            assert min(growth(E, 4)) > 0


@pytest.mark.parametrize(("K", "scaled"), [(4, 0.999), (7, 0.5), (30, 0.999)])
def test_the_star_attains_the_limit(K: int, scaled: float) -> None:
    """Assert xi_n > 0 of a class that overlaps a star's centre a little below the limit, < 0 above it, V = K."""
    with mp.workdps(50):
        for ratio, sign in ((mp.mpf(scaled), 1), (mp.mpf("1.02"), -1)):
            E = overlaps(K, {(1, j): ratio / (K - 2) for j in range(2, K)} | {(0, 1): mp.mpf("1e-8")})
            assert largest(E) == pytest.approx(ratio / mp.sqrt(K - 2), rel=1e-10)
            assert sign * growth(E, K)[0] > 0


def test_the_other_sign_fails_where_the_prover_says() -> None:
    """Assert that (I - A)^-1 in place of (I + A)^-1 gives a negative margin where the right one is positive."""
    at = failure("xi-positive-4", "the other sign")
    a, b, c = at["radius"] * mp.cos(at["angle"]), at["radius"] * mp.sin(at["angle"]), at["opposite"]
    G = mp.eye(3) + overlaps(3, {(0, 1): a, (0, 2): b, (1, 2): c})
    ones = mp.matrix([1, 1, 1])
    assert 1 + c - a - b > 0 > 1 - c - a - b
    # (G^-1 1)_1 det G = (1-c)(1+c-a-b).
    assert mp.lu_solve(G, ones)[0] * mp.det(G) == pytest.approx((1 - c) * (1 + c - a - b), rel=1e-12)
