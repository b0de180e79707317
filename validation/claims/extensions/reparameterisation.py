"""Sec. 3.1: how far independent Y and Z describe the trained model, which has embeddings."""

from dataclasses import dataclass
from functools import cache, cached_property, partial

import numpy as np

from snapdyn.dynamics import syn_small
from snapdyn.validation.claims.extensions._shared import order_gap
from snapdyn.validation.claims.language import (
    DESCENT,
    EPS,
    Claim,
    Floats,
    Grid,
    Map,
    Measured,
    Property,
    Requirement,
    run_on_rung,
    standard_error,
)
from snapdyn.validation.dense_algebra import Embedding, ascend, attention

STEPS = 100  # by then attention on the dominant token has grown by 60 %
BROKEN = 0.05  # gap at which a rung counts as broken, as on the ladder
INFINITE_T = "descent, T infinite"
CLASSES = syn_small()
V = CLASSES.vocab_size
ORTHONORMAL = np.linalg.qr(np.random.default_rng(0).standard_normal((V, V)))[0]


@cache
def theory(eta_Z: float) -> Floats:
    """Attention (2, S, M) at the start and after STEPS steps of descent on independent Y and Z, eta_Y = 1."""
    return run_on_rung(DESCENT, CLASSES, 1.0, eta_Z, [0, STEPS]).attention


@dataclass(frozen=True)
class Start:
    """Initial embeddings of width d, where W_V = 0, with the learning rates that give eta_Y = eta_Z = 1.

    While U is fixed only Gram matrices matter, so U (V, r), W_Q and W_K (r, r') may be any factors of them, and any d
    costs the same: sqrt(d) enters through the sizes of W_Q and W_K and their rates. The rates of U and of W_K are given
    over those of W_V and of W_Q. The Gram matrices of W_Q and W_K have the diagonal s^2 = `s2`.
    """

    d: float
    U: Floats
    W_Q: Floats
    W_K: Floats
    s2: float
    of_U: float = 0.0
    of_K: float = 1.0
    allowed: float = BROKEN

    @cached_property
    def reached(self) -> Floats:
        """Attention (S, M) after STEPS steps of gradient ascent on the embeddings."""
        r = self.U.shape[1]
        scale = (r / self.d) ** 0.25
        start = Embedding(self.U, scale * self.W_Q, scale * self.W_K, np.zeros((r, r)))
        rate = scale**2 * self.d / (2 * self.s2)
        return attention(CLASSES, ascend(CLASSES, start, (self.of_U, rate, self.of_K * rate, 1.0), STEPS).Z)


def apart(d: float, U: Floats, A: Floats, B: Floats, s2: float, of_U: float = 0.0) -> Start:
    """Start with W_Q = [A, 0] and W_K = [0, B], whose Gram matrices are s2 I and whose product is 0."""
    return Start(d, U, np.hstack([A, 0 * A]), np.hstack([0 * B, B]), s2, of_U)


def orthonormal(s2: float, d: float = 2 * V) -> Start:
    """Fixed U with orthonormal rows, W_Q and W_K with W_Q W_K^T = 0."""
    W = np.sqrt(s2) * np.eye(V)
    return apart(d, ORTHONORMAL, W, W, s2)


def random(d: int, seed: int = 0) -> Start:
    """Fixed U with entries N(0, 1/d), and normal A and B (d, d/2) of variance 1: s^2 = d/2, and one rate serves all.

    The Gram matrix of U is Wishart's over d, and given U the rows U A are normal with covariance U U^T.
    """
    from scipy.stats import wishart  # takes half a second

    rng = np.random.default_rng((seed, d))
    U, A, B = (np.linalg.cholesky(wishart.rvs(n, np.eye(V), random_state=rng)) for n in (d, d // 2, d // 2))
    return apart(d, U / np.sqrt(d), A, B, d / 2)


def trained(d: int) -> Start:
    """Start of a model with random U, W_Q and W_K, all of which are trained at one rate."""
    rng = np.random.default_rng((0, d))
    U, (A, B) = rng.standard_normal((V, d)), rng.standard_normal((2, d, d // 2))
    return apart(d, U / np.sqrt(d), A, B, d / 2, of_U=1.0)


def gap(start: Start, eta_Z: float = 1.0) -> float:
    """Distance in attention from the theory of Y and Z, over the movement of attention in the theory."""
    begin, end = theory(eta_Z)
    return float(np.linalg.norm(start.reached - end) / np.linalg.norm(end - begin))


def small(start: Start, eta_Z: float = 1.0) -> Measured:
    """`gap` from a theory with this eta_Z, against the bound of `start`."""
    return Measured(gap(start, eta_Z), at_most=start.allowed)


# The expected order of the gap in 1/x, and a row of starts for each x.
Fall = tuple[float, dict[float, list[Start]]]


def order_of(fall: Fall, eta_Z: float = 1.0) -> Measured | None:
    """Distance of the order of the gap from the expected one."""
    order, rows = fall
    gaps = np.array([[gap(start, eta_Z) for start in row] for row in rows.values()])
    error = standard_error(gaps, axis=1) if gaps.shape[1] > 1 else None
    return order_gap(order, 1 / np.array(list(rows)), gaps.mean(axis=1), error, next_order=order)


def settings() -> dict[str, Start]:
    """Embeddings for which the theory holds."""
    W_K, rounding = np.sqrt(V) * np.eye(V), 10 * STEPS * V * EPS  # of STEPS products of matrices
    return {
        "one matrix W_Q W_K^T, d = 34": Start(V, ORTHONORMAL, 0 * W_K, W_K, V / 2, of_K=0.0, allowed=rounding),
        "W_Q and W_K apart, s^2 = 320, d = 68": orthonormal(320.0),
        "random U, d = 262144": random(262_144),
    }


def falls() -> dict[str, Fall]:
    """Settings that show how the gap falls with s^2 and with the width."""
    return {
        "2 in 1/s^2, W_Q and W_K apart": (2.0, {s2: [orthonormal(s2)] for s2 in (40.0, 80.0, 160.0, 320.0)}),
        "1/2 in 1/d, random fixed U, one rate": (
            0.5,
            {4**k: [random(4**k, seed) for seed in range(12)] for k in range(5, 10)},
        ),
    }


def size_map(level: str) -> Map:
    """Gap over s^2 and d, U orthonormal, W_Q and W_K apart."""
    title = "U orthonormal, W_Q and W_K apart: gap in attention over its movement"
    sizes, widths = np.geomspace(10, 320, 6), np.geomspace(2 * V, 128 * V, 7).round()
    return Map.over(title, ("s^2", "width d"), "gap", Grid({"d": widths, "s2": sizes}, orthonormal, gap), BROKEN)


CLAIM = Claim(
    "reparameterisation",
    source="Sec. 3.1, own derivation",
    title="Independent Y and Z stand for a model with embeddings",
    statement=(
        "Gradient descent on embeddings moves Y = U W_V^T U^T and Z = U W_Q W_K^T U^T/sqrt(d) as if they were "
        "independent, exactly when U is fixed with orthonormal rows and W_Q W_K^T is one matrix. With separate W_Q "
        "and W_K, which start with Gram matrices s^2 I and W_Q W_K^T = 0, eta_Z = 2 s^2 eta/d, and the gap of "
        "attention over its movement is O(d/s^4). With fixed random U and one rate for all matrices the gap is "
        "O(1/sqrt(d)). With W_Q and W_K of the usual size, or with U trained at the same rate, the gap is large at "
        "the widths measured (up to 1024 and 256)."
    ),
    latex=r"\dot Z=\frac{\eta}{d}\left[K B\,UW_KW_K^\top U^\top+UW_QW_Q^\top U^\top B\,K\right],\quad K=UU^\top",
    conditions=("U fixed, rows orthonormal or the width large", "W_Q, W_K large: s^4 much above d |Z|^2/2"),
    conclusion=(
        "Exact for fixed orthonormal embeddings and one matrix W_Q W_K^T; with trained embeddings a large gap remains "
        "at the widths measured. On Syn-Small at t = 100 the gap of attention, over its movement, is {one matrix W_Q "
        "W_K^T, d = 34:.0e} for one matrix W_Q W_K^T, {W_Q and W_K apart, s^2 = 320, d = 68:.1e} for W_Q and W_K "
        "apart at s^2 = 320, and {random U, d = 262144:.1%} for random fixed U at d = 262,144. A large gap remains at "
        "the widths measured: {s^2 = 1, d = 1024:.0%} for s^2 = 1 (entries of variance 1/d) and d = 1024, and {U "
        "trained too, d = 256:.0%} for U trained at the same rate and d = 256."
    ),
    expected="conditional",
    properties=(
        Property(
            "gap in attention over its movement",
            INFINITE_T,
            small,
            conditions=(
                Requirement("U fixed", "eta_U = 0", lambda start: start.of_U, at_most=0),
                Requirement("large W_Q, W_K", "s^4/d >= 5", lambda start: start.s2**2 / start.d, at_least=5),
            ),
            controls={"wrong theory: eta_Z = s^2 eta/d, only one of W_Q and W_K counted": partial(small, eta_Z=0.5)},
            cases=settings,
            beyond=lambda: {"s^2 = 1, d = 1024": orthonormal(1.0, 1024), "U trained too, d = 256": trained(256)},
        ),
        Property(
            "order of that gap, less the theory's",
            INFINITE_T,
            order_of,
            controls={"wrong theory: eta_Z = s^2 eta/d": partial(order_of, eta_Z=0.5)},
            cases=falls,
        ),
    ),
    map=size_map,
)
