"""Theorem 2(b): the common token loses attention."""

from __future__ import annotations

from dataclasses import replace

from snapdyn.dynamics import log_times
from snapdyn.validation.assumptions import assumption_2
from snapdyn.validation.claims.attention._shared import (
    A_COMMON_TOKEN,
    A_DISTINCT_TOKEN,
    FLOWS,
    MODIFIED,
    common_rate,
    common_tokens,
    falls,
    without_normalisation,
)
from snapdyn.validation.dense_algebra import attention_drift, growth_rate, modified_decoder_gradient
from snapdyn.validation.evidence import Evidence
from snapdyn.validation.linear_response import FROZEN_SPEED, LITTLE_MEMORY_COMMON
from snapdyn.validation.maps.fallen_tokens import common_rise_map
from snapdyn.validation.pictures import Picture
from snapdyn.validation.properties import Property
from snapdyn.validation.register import claim
from snapdyn.validation.requirements import ONE_COMMON_TOKEN, OWN_NEXT_TOKENS
from snapdyn.validation.rungs.run import EXACT, MEAN_FIELD, run_on_rung
from snapdyn.validation.sample_classes import weak_instances

ONE_COMMON = replace(FLOWS, name="one common token", num_common=(1, 2), num_distinct=(1, 4), shared_by_all=True)


@claim(
    "theorem2b",
    source="Theorem 2(b), Eq. (100)",
    title="The common token loses attention at all times",
    answer="Holds under Eq. (10) for one common token, whatever priors and correlation; in the full mean field it can "
    "rise.",
    statement="With one common token and a class that has a distinct token, the common logit falls: "
    "z_ml' = -eta_Z sum_n [p_n] (1 - f_nl^2) xi_n < 0.",
    latex=r"\dot z_{ml}=-\eta_Z\sum_n[p_n](1-f_{nl}^2)\,\xi_n<0",
    expected="conditional",
    assumptions=(
        "a single common token",
        "one class per next token",
        "mean field: memory takes less than the common logit's rate, by linear response",
    ),
    properties=(
        Property(
            "largest rise of a common logit over the largest |z|",
            "mean field",
            falls(MEAN_FIELD, common_tokens, -1.0),
            ONE_COMMON,
            conditions=(
                A_COMMON_TOKEN,
                A_DISTINCT_TOKEN,
                ONE_COMMON_TOKEN,
                replace(OWN_NEXT_TOKENS, defining=False),
                FROZEN_SPEED,
                LITTLE_MEMORY_COMMON,
            ),
            controls={
                "wrong theory: no division by |q|, z' = c o (g - c.g)": without_normalisation(common_tokens, -1.0)
            },
            evaluations=(40, 1500),
        ),
        Property(
            "largest rate of a common logit over the largest rate",
            "modified decoder",
            common_rate,
            replace(ONE_COMMON, num_classes=(2, 12), horizon=(1e-2, 1e12), ratio=(1e-6, 1e6)),
            conditions=(A_COMMON_TOKEN, A_DISTINCT_TOKEN, *MODIFIED, ONE_COMMON_TOKEN),
            controls={
                "wrong theory: no division by |q|, z' = c o (g - c.g)": without_normalisation(common_tokens, -1.0)
            },
            evaluations=(400, 40_000),
        ),
        Property(
            "largest rise of a common logit over the largest |z|",
            "modified decoder",
            falls(EXACT, common_tokens, -1.0),
            ONE_COMMON,
            conditions=(A_COMMON_TOKEN, A_DISTINCT_TOKEN, *MODIFIED, ONE_COMMON_TOKEN),
            controls={
                "wrong theory: no division by |q|, z' = c o (g - c.g)": without_normalisation(common_tokens, -1.0)
            },
            evaluations=(30, 1500),
        ),
    ),
)
def theorem2b(evidence: Evidence) -> None:
    evidence.proved("common-rate")
    times = log_times(1e-2, 1e5, 60)
    instances = weak_instances(60 if evidence.full else 3, first_seed=200)
    error = 0.0
    for classes in instances:
        run = run_on_rung(EXACT, classes, 1.0, 0.5, times)
        for z, h in zip(run.z[::10], run.extra["h"][::10], strict=True):
            drift = attention_drift(classes, z, modified_decoder_gradient(classes, z, h), 0.5)[0, 0]
            f = classes.decoder_inputs(z).toarray()[:, 0]
            predicted = -0.5 * float(classes.prior @ ((1 - f**2) * growth_rate(classes, z, h)))
            error = max(error, abs(drift / predicted - 1))
    evidence.holds("rate against -eta_Z sum p_n (1 - f^2) xi_n, relative", "modified decoder", error, at_most=1e-8)
    slow = run_on_rung(MEAN_FIELD, classes, 1.0, 1e-3, times)
    evidence.maps = [common_rise_map(evidence.level)]
    evidence.conclusion = (
        "Under Eq. (10) weak correlation is not needed: a single common token makes every coefficient of f_n regressed "
        "on the other f_k positive, so xi_n > 0 for any priors and correlation. One of several common tokens can rise. "
        "In the mean field the only one can rise when the decoder's memory of old attention takes more than its rate."
    )
    evidence.picture = Picture(
        "t (batch-size-1 steps)",
        "z / eta_Z, one instance",
        (
            Picture.line("common token, Eq. (10)", times, run.z[:, 0, 0] / 0.5),
            Picture.line("dominant distinct token, Eq. (10)", times, run.z[:, 0, 1:].max(axis=1) / 0.5, "bound"),
            Picture.line("common token, mean field, eta_Z = 0.001", times, slow.z[:, 0, 0] / 1e-3, "simulation"),
        ),
    )
    evidence.conditions = assumption_2(instances[0])[1:2]
