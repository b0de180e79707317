"""LayerNorm, with the mean subtracted or with epsilon under the root: which statements on attention stand."""

from dataclasses import replace
from functools import partial

import numpy as np

from snapdyn.validation.claims.extensions._shared import alike
from snapdyn.validation.claims.language import (
    FROM_ZERO,
    INFINITE_LENGTH,
    ONE_COMMON_TOKEN,
    ONE_QUERY,
    OWN_NEXT_TOKENS,
    SEVERAL,
    SEVERAL_CLASSES,
    UNIFORM,
    Claim,
    Floats,
    Grid,
    Instance,
    Map,
    Measured,
    NoNumber,
    Picture,
    Property,
    Requirement,
    by_scipy,
    kept_on_instance,
)

EPSILONS = (1e-5, 1e-3, 0.1)  # of the root mean square, by the number of the instance
LEAD = 1e-3  # smallest difference of ln P of two tokens that are not a tie
DOMAIN = replace(
    SEVERAL, name="classes with LayerNorm", num_classes=(2, 4), num_common=(1, 3), num_distinct=(1, 4),
    num_queries=(1, 2), vocab_size=(2, 10**4), ratio=(1e-2, 10.0), horizon=(1.0, 1e3), eta_Y=(1.0, 1.0),
)  # fmt: skip


EQUAL_PROFILES = Requirement(
    "equal profiles", "largest difference of the sorted rows of P <= 1e-9",
    lambda i: np.ptp(np.sort(i.P / i.P.sum(axis=1, keepdims=True), axis=1), axis=0).max(), at_most=1e-9,
)  # fmt: skip


def rate(instance: Instance, z: Floats, Y: Floats, epsilon: float | None = None) -> tuple[Floats, Floats]:
    """z' (Q, M) and Y' (M, K+1) by the chain rule; the last column stands for the V - K outputs of no class.

    The decoder's input is u = (c - 1/M)/|c - 1/M|: attention c has sum 1 over the M tokens, so its mean is 1/M. With
    `epsilon` it is c/sqrt(|c|^2 + M epsilon), the root mean square. NoNumber where |c - 1/M| = 0.
    """
    centred = epsilon is None
    (K, _), V = instance.P.shape, instance.vocab_size
    c = instance.P * np.exp(z[instance.classes.query_index])
    c /= c.sum(axis=1, keepdims=True)
    u = c - centred * c.mean(axis=1, keepdims=True)
    length = np.sqrt((u**2).sum(axis=1, keepdims=True) + c.shape[1] * (epsilon or 0.0))
    if length.min() < 1e-12:
        raise NoNumber("attention is 1/M on all M tokens of a class, and LayerNorm divides by 0")
    u /= length
    copies, logits = np.append(np.ones(K), V - K), u @ Y
    weights = copies * np.exp(logits - logits.max(axis=1, keepdims=True))
    error = instance.prior[:, None] * (np.eye(K, K + 1) - weights / weights.sum(axis=1, keepdims=True))
    g = error @ Y.T
    h = (g - centred * g.mean(axis=1, keepdims=True) - u * (u * g).sum(axis=1, keepdims=True)) / length
    of_classes = c * (h - (c * h).sum(axis=1, keepdims=True))
    queries = np.arange(len(z))[:, None] == instance.classes.query_index
    return instance.eta_Z * queries @ of_classes, instance.eta_Y * u.T @ (error / np.maximum(copies, 1.0))


def attention_logits(instance: Instance, epsilon: float | None = None) -> Floats:
    """ln(P exp(z)) of each class over time, (N, K, M), from Y = z = 0; -inf where P = 0."""
    K, M = instance.P.shape
    split = np.unique(instance.query).size * M

    def both(t: float, state: Floats) -> Floats:
        rates = rate(instance, state[:split].reshape(-1, M), state[split:].reshape(M, -1), epsilon)
        return np.concatenate([x.ravel() for x in rates])

    start = np.zeros(split + M * (K + 1))
    times = np.linspace(0.0, instance.t_end, 30)
    states = by_scipy(both, instance.t_end, start, times, rtol=1e-8, atol=1e-11)
    z = states[:, :split].reshape(-1, split // M, M)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(instance.P) + z[:, instance.classes.query_index])


@kept_on_instance
def centred_logits(instance: Instance) -> Floats:
    """`attention_logits` with the mean subtracted."""
    return attention_logits(instance)


def largest_lead_at_start(instance: Instance) -> float:
    """Largest difference of ln P of two distinct tokens of a class."""
    single = instance.of_one_class
    of_classes = (row[single & (row > 0)] for row in instance.P)
    return max((float(np.ptp(np.log(own))) for own in of_classes if own.size), default=0.0)


LEADING = Requirement(
    "distinct tokens of unequal probability", f"largest difference of ln P in a class >= {LEAD:g}",
    largest_lead_at_start, at_least=LEAD, defining=True,
)  # fmt: skip


def epsilon_of(instance: Instance) -> float:
    """Epsilon of the root mean square for an instance."""
    return EPSILONS[instance.number % len(EPSILONS)]


@kept_on_instance
def root_mean_square_logits(instance: Instance) -> Floats:
    """`attention_logits` with `epsilon_of` the instance."""
    return attention_logits(instance, epsilon_of(instance))


def smallest_lead(instance: Instance, of_distinct: bool = True, rms: bool = False) -> Measured:
    """Smallest lead of a token over a rarer one of its class, over its start; wrong theory: of any token.

    Tokens of one class with c_a = c_b have z_a' - z_b' = eta_Z p (c_a/|c - 1/M|)(g_a - g_b), and g_a - g_b is, as
    without the mean, an integral of positive terms if a has been ahead. With epsilon only the norm differs.
    """
    paths = root_mean_square_logits(instance) if rms else centred_logits(instance)
    single = instance.of_one_class
    found = []
    for n in range(instance.num_classes):
        tokens = np.flatnonzero((instance.P[n] > 0) & (single | (not of_distinct)))
        for a in tokens:
            for b in tokens:
                lead = paths[:, n, a] - paths[:, n, b]
                if lead[0] >= LEAD:
                    found.append(float(lead.min() / lead[0]))
    return Measured(min(found), at_least=0.0, error=1e-4)


def early_drift(instance: Instance, epsilon: float | None = None) -> tuple[Floats, Floats]:
    """Rates of the logits of one query soon after zero start, over the largest; P of the class of a distinct token."""
    P = instance.P / instance.P.sum(axis=1, keepdims=True)
    z = np.zeros((1, P.shape[1]))
    Y = 1e-7 / instance.eta_Y * rate(instance, z, np.zeros((z.size, len(P) + 1)), epsilon)[1]
    drift = rate(instance, z, Y, epsilon)[0][0]
    return drift / max(np.abs(drift).max(), 1e-300), np.where(np.count_nonzero(P, axis=0) == 1, P.sum(axis=0), 0.0)


def least_rise(instance: Instance, of_distinct: bool = True, rms: bool = False) -> Measured:
    """Smallest early rate of a distinct token, over the largest rate of a token; wrong theory: of any token."""
    drift, P = early_drift(instance, epsilon_of(instance) if rms else None)
    chosen = P > 0 if of_distinct else np.ones_like(P, bool)
    return Measured(drift[chosen].min(initial=1.0), at_least=0.0, error=1e-6)


def largest_rise(instance: Instance, common: bool = True) -> Measured | None:
    """Largest rise of the common logit between saved times, over the largest |z|; wrong theory: of a distinct one."""
    z = centred_logits(instance)[:, 0, instance.P[0] > 0]
    z = z - z[0]
    shared = np.isin(np.flatnonzero(instance.P[0]), instance.classes.common_tokens())
    rise, largest = np.diff(z[:, shared == common], axis=0).max(), np.abs(z).max()
    return Measured(rise / largest, at_most=0.0, error=1e-6) if largest else None


def lasting_overlap(instance: Instance) -> float:
    """M times the smallest product of attention vectors of two classes, over the run.

    A common token that falls takes c_n.c_k with it.
    """
    paths = centred_logits(instance)
    c = np.exp(paths - paths.max(axis=2, keepdims=True))
    c /= c.sum(axis=2, keepdims=True)
    return c.shape[2] * (c @ c.transpose(0, 2, 1) + 2.0 * np.eye(c.shape[1])).min()


def growth_gap(setting: tuple[int, float | None]) -> Measured:
    """|growth of the logit of a dominant token to t = 100, over that with the paper's norm, - 1| of (M, epsilon)."""
    growths = []
    for M, epsilon in (setting, (10, 0.0)):
        logit = attention_logits(over(M), epsilon)[:, 0, 1]
        growths.append(logit[-1] - logit[0])
    return Measured(abs(growths[0] / growths[1] - 1.0), at_most=0.01)


def error_of_squares(M: int, power: float = 2.0) -> Measured:
    """Early rates of three distinct tokens over M tokens, over those in proportion to P^2: largest |ratio - 1|."""
    drift, P = early_drift(over(M))
    found = drift[1:4] / P[1:4] ** power
    return Measured(np.abs(found / found[0] - 1.0).max(), at_most=0.01)


def over(M: int, common: float = 0.3) -> Instance:
    """Three classes of one common and three distinct tokens each, over M tokens of which most occur in no class."""
    P = alike(common, *(np.array([4.0, 2.0, 1.0]) / 7.0 * (1.0 - common)))
    P = np.hstack([P, np.zeros((3, M - P.shape[1]))])
    return Instance(P, np.zeros(3, int), np.ones(3), 60, 1.0, 1.0, 100.0)


def least_overlap(instance: Instance) -> float:
    """M times the smallest product of attention vectors of two classes at zero start."""
    P = instance.P / instance.P.sum(axis=1, keepdims=True)
    return P.shape[1] * (P @ P.T + 2.0 * np.eye(len(P))).min()


def small_epsilon(instance: Instance) -> float:
    """Smallest margin of the law of distinct tokens l with epsilon, over its terms, 1 where all of them rise surely.

    In equivalent classes z_l' ~ S (c_l + M epsilon) - M epsilon (V-1)(|c|^2 - c_l), S = sum_k c_n.c_k over k != n.
    """
    P, added = instance.P / instance.P.sum(axis=1, keepdims=True), instance.P.shape[1] * epsilon_of(instance)
    c = P[0, (P[0] > 0) & (np.count_nonzero(P, axis=0) == 1)]
    lifts = (P[0] @ P[1:].T).sum() * (c + added)
    lowers = added * (instance.vocab_size - 1) * (P[0] @ P[0] - c)
    terms = lifts + np.abs(lowers)
    return float(((lifts - lowers)[terms > 0] / terms[terms > 0]).min(initial=1.0))


def overlap_map(level: str) -> Map:
    """Smallest early rate of a distinct token over the probability of the common one and M."""
    points = 25 if level == "full" else 9
    sizes, shares = np.geomspace(10, 1000, points).round(), np.geomspace(0.02, 0.6, points)
    grid = Grid({"M": sizes, "P": shares}, lambda M, P: over(round(M), P), lambda i: least_rise(i).value)
    line = Picture.line("M c_n.c_k = 1", shares, shares**-2.0)
    return Map.over(
        "where distinct tokens rise early with LayerNorm", ("P of the common token", "tokens M"),
        "least rate of a distinct token", grid, 0.0, [line], scale="linear",
    )  # fmt: skip


EQUIVALENT = replace(DOMAIN, equal_profiles=True, num_queries=(1, 1), uniform=True, shared_by_all=True)
OF_RUNS = (FROM_ZERO, INFINITE_LENGTH, OWN_NEXT_TOKENS)
OF_EQUIVALENT = (*OF_RUNS, SEVERAL_CLASSES, replace(ONE_QUERY, defining=True), UNIFORM, EQUAL_PROFILES)
OVERLAP = Requirement("overlap above the mean", "M min c_n.c_k >= 1", least_overlap, at_least=1.0)

CLAIM = Claim(
    "layer-norm",
    source="Sec. 3 (extension to LayerNorm)",
    title="LayerNorm keeps the order of distinct tokens; Theorems 2 to 4 then need conditions",
    statement=(
        'The normalisation "can also be extended to standard LayerNorm, which also subtracts the mean" over the M '
        "tokens. (1) Of two distinct tokens of a class the one with the larger P stays ahead. (2) Theorem 2 in "
        "equivalent classes with c_n.c_k >= 1/M: distinct tokens rise early, and a single common one falls as long as "
        "this lasts. (3) On three classes over M = 10,000 tokens, distinct tokens rise early in proportion to f_l^2 "
        "(Theorem 3), and the dominant one grows as with the paper's norm (Theorem 4), to 1 %. With the root mean "
        "square c/sqrt(|c|^2 + M epsilon) (1) stands, and distinct tokens of equivalent classes rise early where "
        "M epsilon (V-1)(|c|^2 - c_l) <= S (c_l + M epsilon), S = sum_k c_n.c_k over k != n."
    ),
    latex=r"u_n=\frac{c_n-1/M}{|c_n-1/M|},\qquad c_n\!\cdot\!c_k\ge\tfrac1M\Rightarrow\dot z_l\ge0;\qquad "
    r"v_n=\frac{c_n}{\sqrt{|c_n|^2+M\epsilon}}",
    conditions=(
        "zero start, T infinite, one-hot embedding",
        "(2): equal profiles, one query; (3): M of 10,000",
        "epsilon: 1e-5, 1e-3 and 0.1 in the search",
    ),
    conclusion=(
        "The order of distinct tokens stands; Theorems 2 to 4 need overlap and many tokens, or a small M epsilon. "
        "Where c_n.c_k < 1/M subtracting the mean couples classes with the wrong sign. With P = 0.1 of the common "
        "token and M = 10 it rises, by {rare common token rises:.0%} of the largest logit, and a distinct one falls "
        "early. Rates in proportion to f_l^2 miss by a share of {M = 10:.1f} at M = 10, {M = 10,000:.3f} at "
        "M = 10,000. With epsilon = 1e-5 and M = 1,000 a rare distinct token falls early, and the dominant one grows "
        "more, by {growth, M = 1,000, epsilon = 1e-5:.0%}."
    ),
    expected="conditional",
    properties=(
        Property(
            "smallest lead of a distinct token over a rarer one of its class, over its start",
            "mean field with LayerNorm",
            smallest_lead,
            DOMAIN,
            conditions=(*OF_RUNS, LEADING),
            controls={"wrong theory: any two tokens of a class": partial(smallest_lead, of_distinct=False)},
            evaluations=(60, 1000),
        ),
        Property(
            "smallest early rate of a distinct token, over the largest rate",
            "mean field with LayerNorm",
            least_rise,
            EQUIVALENT,
            conditions=(*OF_EQUIVALENT, OVERLAP),
            controls={"wrong theory: any token": partial(least_rise, of_distinct=False)},
            beyond={"rare common token": over(10, 0.1)},
            evaluations=(200, 4000),
        ),
        Property(
            "largest rise of the common logit, over the largest |z|",
            "mean field with LayerNorm",
            largest_rise,
            replace(EQUIVALENT, num_common=(1, 1)),
            conditions=(
                *OF_EQUIVALENT,
                ONE_COMMON_TOKEN,
                Requirement("lasting overlap", "M min c_n.c_k >= 1 to t_end", lasting_overlap, at_least=1.0),
            ),
            controls={"wrong theory: distinct tokens fall": partial(largest_rise, common=False)},
            beyond={"rare common token rises": over(10, 0.1)},
            evaluations=(60, 1000),
        ),
        Property(
            "|early rate over one in proportion to P^2 - 1|",
            "mean field with LayerNorm",
            error_of_squares,
            conditions=(Requirement("many tokens", "M >= 10,000", float, at_least=1e4),),
            controls={"wrong theory: in proportion to P": partial(error_of_squares, power=1.0)},
            cases={"M = 10,000": 10_000},
            beyond={"M = 10": 10},
        ),
        Property(
            "|growth of the dominant logit over that with the paper's norm - 1|",
            "mean field with LayerNorm",
            growth_gap,
            conditions=(
                Requirement("many tokens", "M >= 10,000", lambda setting: setting[0], at_least=1e4),
                Requirement("no epsilon", "epsilon = 0", lambda setting: setting[1] or 0.0, at_most=0.0),
            ),
            controls={"wrong theory: no norm (epsilon = 1)": lambda setting: growth_gap((setting[0], 1.0))},
            cases={"growth, M = 10,000": (10_000, None)},
            beyond={"growth, M = 10": (10, None), "growth, M = 1,000, epsilon = 1e-5": (1000, 1e-5)},
        ),
        Property(
            "smallest lead of a distinct token, over its start, with epsilon",
            "mean field with root mean square",
            partial(smallest_lead, rms=True),
            DOMAIN,
            conditions=(*OF_RUNS, LEADING),
            controls={"wrong theory: any two tokens of a class": partial(smallest_lead, of_distinct=False, rms=True)},
            evaluations=(60, 1000),
        ),
        Property(
            "smallest early rate of a distinct token, over the largest rate, with epsilon",
            "mean field with root mean square",
            partial(least_rise, rms=True),
            EQUIVALENT,
            conditions=(
                *OF_EQUIVALENT,
                Requirement("small epsilon", "S (c_l + M epsilon) >= M epsilon (V-1)(|c|^2 - c_l)", small_epsilon,
                            at_least=0.0),
            ),
            controls={"wrong theory: any token": partial(least_rise, of_distinct=False, rms=True)},
            beyond={"M = 1,000, epsilon = 1e-5": over(1000)},
            evaluations=(200, 4000),
        ),
    ),
    map=overlap_map,
)  # fmt: skip
