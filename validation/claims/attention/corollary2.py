"""Corollary 2: several common tokens, and where some common token grows."""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.dynamics import sgd
from snapdyn.validation.claims.attention._laws import rate_law
from snapdyn.validation.claims.attention._shared import (
    RANGES,
    Reshaped,
    common_tokens,
    common_under_eq_10,
    drift_at_end,
    one_way,
)
from snapdyn.validation.claims.language import (
    IDENTITY_ERROR,
    LINEAR_ALGEBRA,
    MEAN_FIELD,
    ONE_QUERY,
    SGD,
    Box,
    Claim,
    Grid,
    Instance,
    Map,
    Measured,
    Picture,
    Property,
    Requirement,
    load,
    standard_error,
    starts,
)


def spread_of_profiles(instance: Instance) -> float:
    """Largest difference between classes in a token's share of the common part, relative to its largest share."""
    common = (instance.P * np.exp(starts(instance)))[:, common_tokens(instance.classes)]
    shares = common / np.maximum(common.sum(axis=1, keepdims=True), 1e-300)
    return (np.ptp(shares, axis=0) / shares.max(axis=0)).max(initial=0.0)


PROPORTIONAL = Requirement(
    "common parts proportional",
    "relative differences of a common token's share of the common part <= 1e-9",
    spread_of_profiles,
    at_most=1e-9,
)
CONDITIONS = (ONE_QUERY, PROPORTIONAL)
SHARED = Reshaped(
    "proportional common parts",
    "any",
    uniform=False,
    # The size of a class's common part is kept.
    reshape=lambda rng, common: common.sum(axis=1, keepdims=True) * (rng.dirichlet(np.ones(common.shape[1])) + 1e-3),
    num_common=(1, 5),
    num_queries=(1, 1),
    shared_by_all=True,
    **RANGES,
)
TWO_CLASSES = Box(ratio=(1.0, 1e3, "log"), overlap=(0.01, 0.6, "log"))


def instance_of(common: ArrayLike, own: ArrayLike, query: ArrayLike, vocab_size: int) -> Instance:
    """Classes with the probabilities `common` (K, c), and `own` (K,) of a distinct token each, up to t = 1e6."""
    P = np.hstack([common, np.diag(own)])
    return Instance(P, np.array(query), np.ones(len(P)), vocab_size, 1.0, 1.0, 1e6)


PERMUTED = instance_of([[0.021, 0.471, 0.345, 0.068]] * 3, [0.095] * 3, [0, 0, 0], 161)
# Common token 1 falls at first and then grows for the query of one class.
UNEQUAL = instance_of([[0.373, 0.555]] * 3, [0.072] * 3, [0, 1, 1], 16)


def trained(instance: Instance) -> Measured:
    """Common logits after 2000 steps on single sequences: largest mean over seeds plus three standard errors."""
    runs = sgd(instance.classes, 0.2, 0.2, 2000, seed=range(8), record=[2000])
    last = np.array([run.z[-1, 0, common_tokens(instance.classes)] for run in runs])
    return Measured((last.mean(axis=0) + 3 * standard_error(last)).max(), at_most=0.0)


def two_classes(ratio: float, overlap: float) -> float:
    """Rate of a common token with f_1l/f_2l = `ratio`, over the largest rate, by dense algebra; f_1.f_2 = `overlap`.

    The token contributes at most half of the overlap; a second common token, equal in both classes, gives the rest.
    """
    token = np.sqrt(overlap / 2) / np.array([1.0, ratio])
    common = np.column_stack([token, [np.sqrt(overlap - token.prod())] * 2])
    (rates,), _ = drift_at_end(instance_of(common, np.sqrt(1 - (common**2).sum(axis=1)), [0, 0], 100))
    return rates[0] / np.abs(rates).max()


def grows(ratio: float, overlap: float, mean: float) -> Measured:
    """Rate of a common token; its sign is changed where the token falls by theory, that is where f_1.f_2 `mean` < 1.

    `mean` is that of f_1l/f_2l and f_2l/f_1l.
    """
    return Measured(two_classes(ratio, overlap) * np.sign(overlap * mean - 1), at_least=0.0, error=IDENTITY_ERROR)


def where_it_grows(level: str) -> Map:
    """Rate of a common token of two classes."""
    points = 81 if level == "full" else 21
    ratio, overlap = np.geomspace(1, 1000, points), np.geomspace(0.01, 0.6, points)
    boundary = Picture.line("(r + 1/r)/2 = 1/(f_1.f_2)", 1 / overlap + np.sqrt(1 / overlap**2 - 1), overlap)
    grid = Grid({"overlap": overlap, "ratio": ratio}, dict, lambda cell: two_classes(**cell))
    title, quantity = "Rate of a common token, two classes", "dz_l/dt over the largest rate"
    return Map.over(title, ("f_1l/f_2l", "f_1.f_2"), quantity, grid, 0.0, [boundary], scale="linear")


CLAIM = Claim(
    "corollary2",
    source="Corollary 2, Eqs. (10), (101)-(107)",
    title="All common tokens lose attention together",
    statement=(
        "All common tokens lose attention where there is a single query, the distinct-token profiles of the classes "
        "are permutations of each other, P(l|n) = rho_l for every common l, and Z(0) = 0. (Not in the paper: one query "
        "and P(l|n) = rho_l tau_n suffice, for any distinct profiles, Z(0), priors, V and correlation. In general "
        "dz_l/dt = eta_Z sum_n p_n f_nl (f_nl xi_n - gamma_n sum_{k != n} beta_nk f_kl); for K = 2 and equal priors "
        "token l grows if and only if (f_1l/f_2l + f_2l/f_1l)/2 > 1/(f_1.f_2).)"
    ),
    latex=r"\dot z_l=\eta_Z\sum_np_nf_{nl}\Bigl(f_{nl}\xi_n-\gamma_n\sum_{k\ne n}\beta_{nk}f_{kl}\Bigr)<0;"
    r"\qquad K=2:\ \dot z_l>0\iff\tfrac12\Bigl(\frac{f_{1l}}{f_{2l}}+\frac{f_{2l}}{f_{1l}}\Bigr)>\frac1{f_1\cdot f_2}",
    conditions=(
        "one query",
        "common parts of the classes proportional: P(l|n) = rho_l tau_n",
        "one class per next token",
        "mean field: T infinite; by linear response, the decoder's memory slows but does not reverse the fall of the "
        "common logits",
    ),
    conclusion=(
        "Under (10) it holds for one query and proportional common parts; in the mean field the decoder's memory must "
        "be small too. Then f_n.f_k and f_nl f_kl are proportional, so dz_l/dt = -eta_Z (rho_l^2/sum rho^2) sum_n p_n "
        "xi_n (1 - |f_n common|^2) < 0: permuted profiles and Z(0) = 0 are not needed. Where P(l|n) depends on n a "
        "common token can rise, by {P(l|n) depends on n:.0%} of the largest logit at weak correlation, and by {two "
        "queries of unequal size:.0%} with two queries of unequal size. The size of the rate is tested under Eq. (10) "
        "alone, where 1.1 times the law fails."
    ),
    expected="conditional",
    properties=(
        one_way(
            MEAN_FIELD,
            common_tokens,
            SHARED,
            *CONDITIONS,
            directed=False,
            beyond={"two queries of unequal size, eta_Z/eta_Y = 0.01": replace(UNEQUAL, eta_Z=0.01)},
        ),
        *common_under_eq_10(
            SHARED,
            *CONDITIONS,
            directed=False,
            beyond=lambda: {
                "P(l|n) depends on n": load("theorem2b-two-common").instance,
                "two queries of unequal size": UNEQUAL,
            },
        ),
        rate_law(
            "-(rho_l^2/sum rho^2) sum_n p_n xi_n (1 - |common part of f_n|^2) of a common token",
            common_tokens,
            SHARED,
            *CONDITIONS,
        ),
        Property(
            "common logits after training: largest mean of 8 seeds + 3 standard errors",
            SGD,
            trained,
            cases={"permuted profiles": PERMUTED},
        ),
        Property(
            "own: rate of a common token of two classes, with the sign of (r + 1/r)/2 - 1/(f_1.f_2) for r = f_1l/f_2l",
            LINEAR_ALGEBRA,
            lambda p: grows(**p, mean=(p["ratio"] + 1 / p["ratio"]) / 2),
            TWO_CLASSES,
            controls={"wrong theory: growth where f_1l/f_2l > 1/(f_1.f_2)": lambda p: grows(**p, mean=p["ratio"])},
            evaluations=(200, 20_000),
        ),
    ),
    map=where_it_grows,
)
