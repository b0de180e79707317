"""Theorem 2(a): distinct tokens gain attention."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from snapdyn import analytic
from snapdyn.dynamics import log_times
from snapdyn.validation.assumptions import assumption_2
from snapdyn.validation.claims.attention._shared import (
    A_DISTINCT_TOKEN,
    FLOWS,
    MODIFIED,
    SCALARS,
    SMALL_OVERLAPS,
    distinct_tokens,
    falls,
    heights,
    logits_of,
    speed,
    without_normalisation,
)
from snapdyn.validation.dense_algebra import attention_drift, growth_rate, modified_decoder_gradient
from snapdyn.validation.evidence import Evidence
from snapdyn.validation.headlines import Headline
from snapdyn.validation.linear_response import FROZEN_SPEED, LITTLE_MEMORY, response
from snapdyn.validation.maps.fallen_tokens import distinct_fall_map
from snapdyn.validation.maps.rates_and_correlation import flow_at_ratio
from snapdyn.validation.observables import FALL, largest_fall
from snapdyn.validation.pictures import Picture
from snapdyn.validation.properties import Measured, Property
from snapdyn.validation.register import claim
from snapdyn.validation.requirements import OWN_NEXT_TOKENS
from snapdyn.validation.rungs.run import EXACT, MEAN_FIELD, run_on_rung
from snapdyn.validation.sample_classes import counterexample, weak_instances
from snapdyn.validation.search import Instance, load


def opposite_sign(instance: Instance) -> Measured:
    """Wrong theory: xi_n/gamma with E' = (I+E)^{-1} - I, as appendix D.1 prints it; smallest over the largest."""
    E_prime = np.linalg.inv(instance.gram) - np.eye(instance.num_classes)
    _, beta = analytic.speed_coefficients(E_prime, instance.vocab_size)
    xi = (beta * instance.gram).sum(axis=1)
    return Measured(float(xi.min() / np.abs(xi).max()), at_least=0.0)


def distinct_rate(instance: Instance) -> float:
    """Lowest rate of a distinct logit at z = 0 and t_end under Eq. (10) by dense linear algebra, over the highest."""
    classes = instance.classes
    z = np.zeros((classes.queries.size, classes.num_tokens))
    drift = attention_drift(classes, z, modified_decoder_gradient(classes, z, heights(instance)), 1.0)
    return float(drift[logits_of(classes, classes.distinct_tokens())].min() / np.abs(drift).max())


def first_peak(instance: Instance) -> float:
    """First time at which the logit of a distinct token peaks in the mean field, of 2000 times; steps."""
    times = np.geomspace(1, instance.t_end, 2000)
    z = flow_at_ratio(instance.classes, instance.ratio, times).z[:, 0, instance.classes.distinct_tokens()]
    return float(times[z.argmax(axis=0).min()])


@claim(
    "theorem2a",
    source="Theorem 2(a), Eq. (98)",
    title="Distinct tokens gain attention at all times",
    answer="A distinct token can lose attention in the full mean field: the decoder remembers earlier attention, and "
    "Eq. (10) leaves this memory out.",
    headline=Headline(
        3,
        printed=r"\dot z_{ml}=\eta_Z\,p_nf_{nl}^2\,\xi_n>0",
        recomputed=r"\dot z_{ml}=\eta_Z\,p_nf_{nl}^2\left(\xi_n-\int_0^t\left(1-\frac{f_{nl}(t')}{f_{nl}(t)}\right)"
        r"w_n(t',t)\,dt'\right)",
    ),
    statement="The logit of every distinct token rises: z_ml' = eta_Z [p_n] f_nl^2 xi_n > 0. (own: in the full mean "
    "field z_ml' = eta_Z p_n f_nl^2 (xi_n - memory), memory = int (1 - f_nl(t')/f_nl(t)) w_n(t', t) dt' with w_n >= 0: "
    "the decoder remembers attention as it was.)",
    latex=r"\dot z_{ml}=\eta_Z[p_n]\,f_{nl}^2\,\xi_n>0",
    expected="conditional",
    assumptions=(
        "Eq. (10): for all k and n, sum_{j != k, n} f_k.f_j max(1, p_j/p_k) <= 1 (equal priors: |lambda_1(E)| <= "
        "1/sqrt(K-2) is enough), or a single common token",
        "mean field: memory takes less than xi_n, by linear response; no number for (eta_Z/eta_Y) (V h)^2 is enough",
        "one class per next token",
    ),
    findings=("F10",),
    properties=(
        Property(
            "largest fall of a distinct logit over the largest |z|",
            "mean field",
            falls(MEAN_FIELD, distinct_tokens),
            FLOWS,
            conditions=(A_DISTINCT_TOKEN, replace(OWN_NEXT_TOKENS, defining=False), FROZEN_SPEED, LITTLE_MEMORY),
            controls={"wrong theory: no division by |q|, z' = c o (g - c.g)": without_normalisation(distinct_tokens)},
            evaluations=(40, 1500),
        ),
        Property(
            "smallest xi_n over the size of its terms",
            "modified decoder",
            speed,
            SCALARS,
            conditions=(*MODIFIED, SMALL_OVERLAPS),
            controls={"wrong theory: E' with the sign of appendix D.1": opposite_sign},
            evaluations=(400, 40_000),
        ),
        Property(
            "largest fall of a distinct logit over the largest |z|",
            "modified decoder",
            falls(EXACT, distinct_tokens),
            FLOWS,
            conditions=(A_DISTINCT_TOKEN, *MODIFIED, SMALL_OVERLAPS),
            controls={"wrong theory: no division by |q|, z' = c o (g - c.g)": without_normalisation(distinct_tokens)},
            evaluations=(30, 1500),
        ),
    ),
)
def theorem2a(evidence: Evidence) -> None:
    evidence.proved("distinct-rate")
    instances = weak_instances(60 if evidence.full else 3)
    times = log_times(1e-2, 1e5, 60)
    error = 0.0
    for classes in instances:
        run = run_on_rung(EXACT, classes, 1.0, 0.5, times)
        distinct = classes.distinct_tokens()
        owner = np.array([np.flatnonzero(classes.P.toarray()[:, token])[0] for token in distinct])
        for z, h in zip(run.z[::10], run.extra["h"][::10], strict=True):
            drift = attention_drift(classes, z, modified_decoder_gradient(classes, z, h), 0.5)[0, distinct]
            f = classes.decoder_inputs(z).toarray()[owner, distinct]
            predicted = 0.5 * classes.prior[owner] * f**2 * growth_rate(classes, z, h)[owner]
            error = max(error, float(np.max(np.abs(drift / predicted - 1))))
    evidence.holds("rate against eta_Z p_n f^2 xi_n, relative", "modified decoder", error, at_most=1e-8)

    case = counterexample()
    t = log_times(1e-1, 1e4, 200)
    paths = {ratio: run_on_rung(MEAN_FIELD, case, 1.0, ratio, t) for ratio in (1e-3, 0.3)}
    frozen = run_on_rung(EXACT, case, 1.0, 0.3, t)
    fall = {ratio: largest_fall(run, case.distinct_tokens()) for ratio, run in paths.items()}
    evidence.holds("fall on the F10 instance, eta_Z/eta_Y = 1e-3, t <= 1e4", "mean field", fall[1e-3], at_most=FALL)
    evidence.outside("F10: the same at eta_Z/eta_Y = 0.3", "mean field", fall[0.3], at_most=FALL)
    for name in ("theorem2a-priors", "theorem2a-strong"):
        stored = load(name)
        what = f"lowest rate of a distinct logit, stored counterexample {name}: {stored.statement}"
        evidence.outside(what, stored.rung, distinct_rate(stored.instance), at_least=0.0)

    # The law gives the time of the fall without a run of attention.
    errors, wrong, onsets = [], [], []
    for instance in (
        Instance(case.P.toarray(), np.zeros(3, dtype=np.int64), np.ones(3), case.vocab_size, 1.0, 0.3, 1e3),
        load("theorem2a-memory").instance,
    ):
        V, K, ratio = instance.vocab_size, instance.num_classes, instance.eta_Z
        onset = first_peak(instance)
        u = np.sqrt(4.5 / ratio)
        at_memory = K * (np.expm1(u) + (V - 1) * u) / V  # V h = u (45)
        onsets.append(onset)
        errors.append(abs(np.log(response(instance).onset / onset)))
        wrong.append(abs(np.log(at_memory / onset)))
    name = "time at which a token falls against the run's, largest |ln| on F10 and theorem2a-memory"
    evidence.corrected(f"linear response: {name}", "mean field", max(errors), at_most=0.1)
    evidence.control(f"wrong theory: (eta_Z/eta_Y) (V h)^2 = 4.5: {name}", "mean field", max(wrong), at_most=0.1)
    evidence.maps = [distinct_fall_map(evidence.level)]
    late = run_on_rung(MEAN_FIELD, case, 1.0, 0.3, [17.0, 120.0]).z[:, 0, 9]
    evidence.difference = (
        f"A logit that should only rise falls by {fall[0.3]:.0%} of the largest logit (K = {case.num_classes}, "
        "eta_Z/eta_Y = 0.3, weak correlation)."
    )
    evidence.conclusion = (
        "Under Eq. (10) xi_n > 0 while overlaps are small, or with a single common token whatever the overlaps and "
        "priors; at strong correlation or unequal priors it can fail. In the mean field the decoder remembers old "
        "attention, and a token falls when that memory exceeds xi_n: linear response tells when, to "
        f"{max(errors):.0%} in time on two instances (t = {onsets[0]:.3g} and {onsets[1]:.3g}); no number for "
        f"(eta_Z/eta_Y) (V h)^2 does. Token 9 of the F10 instance is at {late[0]:+.2e} at "
        f"t = 17 and {late[1]:+.2e} at t = 120 (eta_Z/eta_Y = 0.3)."
    )
    evidence.picture = Picture(
        "t (batch-size-1 steps)",
        "z of the .041 token / eta_Z",
        (
            Picture.line("Eq. (10)", t, frozen.z[:, 0, 9] / 0.3),
            Picture.line("mean field, eta_Z/eta_Y = 0.001", t, paths[1e-3].z[:, 0, 9] / 1e-3, "simulation"),
            Picture.line("mean field, eta_Z/eta_Y = 0.3", t, paths[0.3].z[:, 0, 9] / 0.3, "control"),
        ),
        yscale="symlog",
    )
    evidence.conditions = assumption_2(instances[0])
