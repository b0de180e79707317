"""Corollary 2: several common tokens, and where some common token grows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from snapdyn.validation.claims.attention._corollary2_settings import runs_and_boundary
from snapdyn.validation.claims.attention._shared import (
    A_COMMON_TOKEN,
    A_DISTINCT_TOKEN,
    MODIFIED,
    common_rate,
    common_tokens,
    falls,
    without_normalisation,
)
from snapdyn.validation.evidence import Evidence
from snapdyn.validation.linear_response import FROZEN_SPEED, LITTLE_MEMORY_COMMON
from snapdyn.validation.properties import Measured, Property, Requirement
from snapdyn.validation.register import claim
from snapdyn.validation.requirements import ONE_QUERY, OWN_NEXT_TOKENS
from snapdyn.validation.rungs.run import EXACT, MEAN_FIELD
from snapdyn.validation.search import Family, Instance


class Proportional(Family):
    """Family whose classes hold the common tokens in one proportion: P(l|n) = rho_l tau_n."""

    def _draw(self, rng: np.random.Generator, seed: int, number: int) -> Instance | None:
        instance = super()._draw(rng, seed, number)
        if instance is None:
            return None
        common = np.count_nonzero(instance.P, axis=0) > 1
        size = instance.P[:, common].sum(axis=1, keepdims=True)
        rho = rng.dirichlet(np.ones(int(common.sum()))) + 1e-3
        P = instance.P.copy()
        P[:, common] = size * rho
        return replace(instance, P=P)


def _spread_of_profiles(instance: Instance) -> float:
    """Largest difference of (classes' common profiles, each with sum 1), relative to the token's largest share."""
    weights = (
        instance.P if instance.start is None else instance.P * np.exp(instance.start[instance.classes.query_index])
    )
    common = weights[:, instance.classes.common_tokens()]
    if not common.size:
        return 0.0
    shares = common / np.maximum(common.sum(axis=1, keepdims=True), 1e-300)
    return float((np.ptp(shares, axis=0) / shares.max(axis=0)).max())


PROPORTIONAL = Requirement(
    "common parts proportional", "P(l|n) = rho_l tau_n for every common l, to 1e-9", _spread_of_profiles, at_most=1e-9
)
SHARED = Proportional(
    "proportional common parts",
    "any",
    uniform=False,
    num_classes=(2, 6),
    num_common=(1, 5),
    num_distinct=(1, 4),
    num_queries=(1, 1),
    shared_by_all=True,
    vocab_size=(2, 10**12),
    ratio=(1e-6, 1e2),
    horizon=(1e-2, 1e6),
    eta_Y=(1e-6, 1e6),
)
WIDE = replace(SHARED, num_classes=(2, 12), ratio=(1e-6, 1e6), horizon=(1e-2, 1e12))
OWN = replace(OWN_NEXT_TOKENS, defining=False)
WRONG: dict[str, Callable[[Instance], Measured | None]] = {
    "wrong theory: no division by |q|, z' = c o (g - c.g)": without_normalisation(common_tokens, -1.0)
}


def _property(rung: str, words: str, *conditions: Requirement) -> Property:
    return Property(
        "largest rise of a common logit over the largest |z|",
        words,
        falls(rung, common_tokens, -1.0),
        SHARED,
        conditions=(A_COMMON_TOKEN, A_DISTINCT_TOKEN, *conditions, ONE_QUERY, PROPORTIONAL),
        controls=WRONG,
        evaluations=(40, 1500),
        directed=False,
    )


@claim(
    "corollary2",
    source="Corollary 2, Eqs. (10), (101)-(107)",
    title="All common tokens lose attention together",
    answer="Under Eq. (10): for one query and proportional common parts; the mean field also needs little memory.",
    statement="All common tokens lose attention where there is a single query, the distinct-token profiles of the "
    "classes are permutations of each other, P(l|n) = rho_l for every common l, and Z(0) = 0. (own: one query and "
    "P(l|n) = rho_l tau_n suffice, for any distinct profiles, Z(0), priors, V and correlation. In general "
    "z_l' = eta_Z sum_n p_n f_nl (f_nl xi_n - gamma_n sum_{k != n} beta_nk f_kl); for K = 2 and equal priors token l "
    "grows if and only if (f_1l/f_2l + f_2l/f_1l)/2 > 1/(f_1.f_2).)",
    latex=r"\dot z_l=\eta_Z\sum_np_nf_{nl}\Bigl(f_{nl}\xi_n-\gamma_n\sum_{k\ne n}\beta_{nk}f_{kl}\Bigr)<0;"
    r"\qquad K=2:\ \dot z_l>0\iff\tfrac12\Bigl(\frac{f_{1l}}{f_{2l}}+\frac{f_{2l}}{f_{1l}}\Bigr)>\frac1{f_1\cdot f_2}",
    expected="conditional",
    assumptions=(
        "one query",
        "common parts of the classes proportional: P(l|n) = rho_l tau_n",
        "one class per next token",
        "mean field: memory takes less than the common logits' rate, by linear response",
    ),
    properties=(
        _property(MEAN_FIELD, "mean field", OWN, FROZEN_SPEED, LITTLE_MEMORY_COMMON),
        Property(
            "largest rate of a common logit over the largest rate",
            "modified decoder",
            common_rate,
            WIDE,
            conditions=(A_COMMON_TOKEN, A_DISTINCT_TOKEN, *MODIFIED, ONE_QUERY, PROPORTIONAL),
            controls=WRONG,
            evaluations=(400, 40_000),
            directed=False,
        ),
        _property(EXACT, "modified decoder", *MODIFIED),
    ),
)
def corollary2(evidence: Evidence) -> None:
    runs_and_boundary(evidence)
