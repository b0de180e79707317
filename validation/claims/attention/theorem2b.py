"""Theorem 2(b): the common token loses attention."""

from dataclasses import replace
from functools import partial

from snapdyn.validation.claims.attention._laws import rate_law, response_law
from snapdyn.validation.claims.attention._shared import (
    FLOWS,
    SHORT_SEQUENCES,
    common_tokens,
    common_under_eq_10,
    one_way,
)
from snapdyn.validation.claims.language import MEAN_FIELD, ONE_COMMON_TOKEN, Claim, load
from snapdyn.validation.claims.maps import rates_map
from snapdyn.validation.phases import FALL

ONE_COMMON = replace(FLOWS, name="one common token", num_common=(1, 2), num_distinct=(1, 4), shared_by_all=True)
IN_MEAN_FIELD = one_way(
    MEAN_FIELD,
    common_tokens,
    ONE_COMMON,
    ONE_COMMON_TOKEN,
    beyond=lambda: {"eta_Z/eta_Y = 10": load("theorem2b-fast").instance},
)
CLAIM = Claim(
    "theorem2b",
    source="Theorem 2(b), Eq. (100)",
    title="The common token loses attention at all times",
    statement="With one common token and a class that has a distinct token, the common logit falls: "
    "z_ml' = -eta_Z sum_n [p_n] (1 - f_nl^2) xi_n < 0, where the paper omits the factor [p_n].",
    latex=r"\dot z_{ml}=-\eta_Z\sum_n[p_n](1-f_{nl}^2)\,\xi_n<0",
    conditions=(
        "a single common token",
        "one class per next token",
        "mean field: T infinite; by linear response, the decoder's memory slows but does not reverse the fall of the "
        "common logit",
    ),
    conclusion=(
        "Holds under (10) for one common token, at any priors and correlation; in the full mean field the token can "
        "rise. A single common token makes every coefficient of f_n regressed on the other f_k positive, so xi_n > 0. "
        "One of several common tokens can rise, by {two common tokens:.0%} of the largest logit at weak correlation. "
        "In the mean field a single one can rise too, where the decoder's memory exceeds the rate: by {eta_Z/eta_Y = "
        "10:.1%}, for two queries. The size of the rate is tested too: 1.1 times the law fails. With sequences of 300 "
        "tokens the logits miss it by {two classes, T - 1 = 300:.0%}."
    ),
    expected="conditional",
    properties=(
        IN_MEAN_FIELD,
        *common_under_eq_10(
            ONE_COMMON,
            ONE_COMMON_TOKEN,
            evaluations=(60, 2000),
            beyond=lambda: {"two common tokens": load("theorem2b-two-common").instance},
        ),
        response_law(common_tokens, ONE_COMMON, ONE_COMMON_TOKEN, beyond=SHORT_SEQUENCES),
        rate_law("-sum_n p_n (1 - f_nl^2) xi_n of the common token", common_tokens, ONE_COMMON, ONE_COMMON_TOKEN),
    ),
    proved=("common-rate",),
    map=partial(rates_map, prop=IN_MEAN_FIELD, name="theorem2b-fast", threshold=FALL),
)
