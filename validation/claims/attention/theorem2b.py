"""Theorem 2(b): the common token loses attention."""

from __future__ import annotations

from dataclasses import replace

from snapdyn.validation.claims.attention._shared import FLOWS, common_logits_fall, logit_picture
from snapdyn.validation.maps.rates_and_correlation import rates_map
from snapdyn.validation.observables import FALL
from snapdyn.validation.requirements import ONE_COMMON_TOKEN
from snapdyn.validation.sample_classes import dominant_token, weak_instances
from snapdyn.validation.statement import EXACT, MEAN_FIELD, Claim, Instance, Picture, load

ONE_COMMON = replace(FLOWS, name="one common token", num_common=(1, 2), num_distinct=(1, 4), shared_by_all=True)
IN_MEAN_FIELD, RATES, UNDER_EQ_10 = common_logits_fall(ONE_COMMON, ONE_COMMON_TOKEN)


def picture() -> Picture:
    """Logits of one instance under Eq. (10) and in the mean field."""
    (classes,) = weak_instances(1, first_seed=200)
    instance = Instance.of(classes, 1.0, 1e-3, 1e5)
    shown = {
        "common token, Eq. (10)": (instance, EXACT, 0, "theory"),
        "dominant distinct token of class 0, Eq. (10)": (instance, EXACT, dominant_token(classes), "bound"),
        "common token, mean field": (instance, MEAN_FIELD, 0, "simulation"),
    }
    return logit_picture("z / eta_Z, eta_Z/eta_Y = 0.001", shown)


CLAIM = Claim(
    "theorem2b",
    source="Theorem 2(b), Eq. (100)",
    title="The common token loses attention at all times",
    statement="With one common token and a class that has a distinct token, the common logit falls: "
    "z_ml' = -eta_Z sum_n [p_n] (1 - f_nl^2) xi_n < 0.",
    latex=r"\dot z_{ml}=-\eta_Z\sum_n[p_n](1-f_{nl}^2)\,\xi_n<0",
    conditions=(
        "a single common token",
        "one class per next token",
        "mean field: memory takes less than the common logit's rate, by linear response",
    ),
    conclusion="Holds under (10) for one common token, whatever priors and correlation; in the full mean field it can "
    "rise. A single common token makes every coefficient of f_n regressed on the other f_k positive, so xi_n > 0. One "
    "of several common tokens can rise, by {two common tokens:.0%} of the largest logit at weak correlation. In the "
    "mean field the only one can rise when the decoder's memory of old attention takes more than its rate: by "
    "{eta_Z/eta_Y = 10:.1%} of the largest logit of two classes of different queries.",
    expected="conditional",
    properties=(
        replace(IN_MEAN_FIELD, beyond=lambda: {"eta_Z/eta_Y = 10": load("theorem2b-fast").instance}),
        RATES,
        replace(
            UNDER_EQ_10,
            evaluations=(30, 1500),
            beyond=lambda: {"two common tokens": load("theorem2b-two-common").instance},
        ),
    ),
    proved=("common-rate",),
    picture=picture,
    map=lambda level: rates_map(level, IN_MEAN_FIELD, "theorem2b-fast", FALL),
)
