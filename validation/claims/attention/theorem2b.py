"""Theorem 2(b): the common token loses attention."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from snapdyn.dynamics import log_times
from snapdyn.validation.claims.attention._shared import FLOWS, common_logits_fall
from snapdyn.validation.design import over_grid
from snapdyn.validation.maps.rates_and_correlation import MUCH_SMALLER, boundary, flow_at_ratio
from snapdyn.validation.observables import FALL, drop_below_maximum
from snapdyn.validation.pictures import Map, Picture
from snapdyn.validation.register import Claim
from snapdyn.validation.requirements import ONE_COMMON_TOKEN
from snapdyn.validation.rungs.run import EXACT, MEAN_FIELD, run_on_rung
from snapdyn.validation.sample_classes import weak_instances
from snapdyn.validation.search import load

ONE_COMMON = replace(FLOWS, name="one common token", num_common=(1, 2), num_distinct=(1, 4), shared_by_all=True)
IN_MEAN_FIELD, RATES, UNDER_EQ_10 = common_logits_fall(ONE_COMMON, ONE_COMMON_TOKEN)


def rises_in_mean_field(level: str) -> Map:
    """Rise of the only common token over eta_Z/eta_Y and V, t <= 1e4/eta_Y, of the counterexample theorem2b-fast."""
    full = level == "full"
    ratios = np.geomspace(0.1, 100, 13 if full else 7)
    sizes = np.geomspace(5, 5e4, 13 if full else 5).round()
    stored, times = load("theorem2b-fast").instance, log_times(1e-1, 1e4, 60)

    def rise(V: float, ratio: float) -> float:
        classes = replace(stored, vocab_size=int(V)).classes
        z = flow_at_ratio(classes, ratio, times).z
        # A rise of the logit is a fall of its negative.
        return float(drop_below_maximum(-np.vstack([np.zeros(2), z[:, :, 0]])).max() / np.abs(z).max())

    return Map(
        title="Rise of the only common token, t <= 1e4/eta_Y",
        xlabel="eta_Z/eta_Y",
        ylabel="V",
        quantity="rise over the largest logit",
        x=ratios,
        y=sizes,
        violation=over_grid(rise, {"V": sizes, "ratio": ratios}),
        threshold=FALL,
        boundaries=(
            boundary("printed: eta_Z << eta_Y, read as 1/10", [MUCH_SMALLER] * 2, sizes[[0, -1]]),
            boundary("printed: V >> K^2, read as 10 K^2", ratios[[0, -1]], [40.0, 40.0]),
        ),
        scale="linear",
    )


def picture() -> Picture:
    """Logits of one instance under Eq. (10) and in the mean field."""
    (classes,) = weak_instances(1, first_seed=200)
    times = log_times(1e-2, 1e5, 60)
    z = run_on_rung(EXACT, classes, 1.0, 0.5, times).z[:, 0] / 0.5
    slow = run_on_rung(MEAN_FIELD, classes, 1.0, 1e-3, times).z[:, 0, 0] / 1e-3
    return Picture(
        "t (batch-size-1 steps)",
        "z / eta_Z, one instance",
        (
            Picture.line("common token, Eq. (10)", times, z[:, 0]),
            Picture.line("dominant distinct token, Eq. (10)", times, z[:, 1:].max(axis=1), "bound"),
            Picture.line("common token, mean field, eta_Z = 0.001", times, slow, "simulation"),
        ),
    )


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
    "of several common tokens can rise. In the mean field the only one can rise when the decoder's memory of old "
    "attention takes more than its rate.",
    expected="conditional",
    properties=(IN_MEAN_FIELD, RATES, replace(UNDER_EQ_10, evaluations=(30, 1500))),
    proved=("common-rate",),
    picture=picture,
    map=rises_in_mean_field,
)
