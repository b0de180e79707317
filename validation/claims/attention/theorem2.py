"""Theorem 2: distinct tokens gain attention (a), and the common token loses it (b)."""

from dataclasses import replace
from functools import partial

import numpy as np

from snapdyn import analytic
from snapdyn.validation.claims.attention._finite_length import counts_over_overlaps
from snapdyn.validation.claims.attention._laws import rate_law, response_law
from snapdyn.validation.claims.attention._linear_response import response
from snapdyn.validation.claims.attention._shared import (
    FLOWS,
    MODIFIED_FLOW,
    SCALARS,
    SHORT_SEQUENCES,
    SMALL_OVERLAPS,
    common_tokens,
    common_under_eq_10,
    distinct_tokens,
    falls,
    one_way,
    speed,
)
from snapdyn.validation.claims.language import (
    EXACT,
    MEAN_FIELD,
    ONE_COMMON_TOKEN,
    Claim,
    Headline,
    Instance,
    Measured,
    Picture,
    Property,
    flow,
    load,
)
from snapdyn.validation.claims.maps import distinct_fall_map, rates_map
from snapdyn.validation.claims.sample_classes import counterexample
from snapdyn.validation.phases import FALL


def opposite_sign(instance: Instance) -> Measured:
    """Wrong theory: smallest over largest |xi_n|, with E' = (I+E)^{-1} - I as appendix D.1 prints it."""
    E_prime = np.linalg.inv(instance.gram) - np.eye(instance.num_classes)
    _, beta = analytic.speed_coefficients(E_prime, instance.vocab_size)
    xi = (beta * instance.gram).sum(axis=1)
    return Measured(xi.min() / np.abs(xi).max(), at_least=0.0)


def at_infinite_length(instance: Instance) -> Measured | None:
    """Wrong theory: length does not matter; the falls in a run with sequences 100 times shorter than long enough."""
    share = counts_over_overlaps(instance)
    if not 0.0 < share < np.inf:
        return None
    return falls(replace(instance, seq_len=max(1, round((instance.seq_len or 1) * share / 100))), MEAN_FIELD)


def onset_error(instance: Instance, factor: float = 1.0) -> Measured:
    """|ln of a ratio of times|: first fall by linear response, times `factor`, over the first peak of the run."""
    run = flow(instance, MEAN_FIELD, 2000)
    peak = float(run.t[run.z[:, 0, distinct_tokens(instance.classes)].argmax(axis=0).min()])
    return Measured(abs(np.log(factor * response(instance).onset / peak)), at_most=0.06, where=f"t = {peak:.3g}")


def of_f10(ratio: float, t_end: float = 1e4) -> Instance:
    """The instance of finding F10 at eta_Z/eta_Y = `ratio`."""
    return Instance.of(counterexample(), 1.0, ratio, t_end)


def picture() -> Picture:
    """Logit of the token of F10 that falls, over eta_Z."""
    lines = []
    for label, ratio, rung, kind in (
        ("Eq. (10)", 0.3, EXACT, "theory"),
        ("mean field, eta_Z/eta_Y = 0.001", 1e-3, MEAN_FIELD, "simulation"),
        ("mean field, eta_Z/eta_Y = 0.3", 0.3, MEAN_FIELD, "control"),
    ):
        run = flow(of_f10(ratio), rung)
        lines.append(Picture.line(label, run.t, run.z[:, 0, 9] / ratio, kind))
    return Picture("t (batch-size-1 steps)", "z of the .041 token / eta_Z", tuple(lines), yscale="symlog")


THEOREM2A = Claim(
    "theorem2a",
    under_rules="With Adam on both layers rare tokens rise and frequent ones lose their lead: see adam-winner",
    source="Theorem 2(a), Eq. (98)",
    title="Distinct tokens gain attention at all times",
    statement=(
        "The logit of every distinct token rises: dz_ml/dt = eta_Z [p_n] f_nl^2 xi_n > 0, where the paper omits the "
        "factor [p_n]. (Not in the paper: in the full mean field dz_ml/dt = eta_Z p_n f_nl^2 (xi_n - memory), memory = "
        "int (1 - f_nl(t')/f_nl(t)) m_n(t', t) dt' with m_n >= 0: the decoder remembers attention as it was.)"
    ),
    latex=r"\dot z_{ml}=\eta_Z[p_n]\,f_{nl}^2\,\xi_n>0",
    conditions=(
        "Eq. (10): for all k and n, sum_{j != k, n} f_k.f_j max(1, p_j/p_k) <= 1 (equal priors: |lambda_1(E)| <= "
        "1/sqrt(K-2) is enough), or a single common token",
        "mean field: T infinite, or overlaps that outweigh the counts twice (early-sign) at the start and at the end; "
        "the memory, by linear response, is less than xi_n; no bound on (eta_Z/eta_Y) (V h)^2 is enough, however small",
        "one class per next token",
    ),
    conclusion=(
        "A distinct token can lose attention in the full mean field: the decoder remembers earlier attention, which "
        "the modified decoder forgets. One logit falls by {F10, eta_Z/eta_Y = 0.3:.0%} of the largest logit (K = 3, "
        "weak correlation), and with sequences of 1000 tokens by {F10, eta_Z/eta_Y = 0.001, T - 1 = 1000:.0%} at "
        "eta_Z/eta_Y = 0.001. Linear response predicts the time of the fall to {theorem2a-memory:.0%} on two "
        "instances. Under Eq. (10) xi_n > 0 while overlaps are small, or with a single common token whatever the "
        "overlaps and priors. The size of the rate, (98) or linear response to 1 %, is tested too: 1.1 times the law "
        "fails."
    ),
    expected="conditional",
    properties=(
        one_way(
            MEAN_FIELD,
            distinct_tokens,
            FLOWS,
            cases={"F10, eta_Z/eta_Y = 0.001": of_f10(1e-3)},
            beyond={
                "F10, eta_Z/eta_Y = 0.3": of_f10(0.3),
                "F10, eta_Z/eta_Y = 0.001, T - 1 = 1000": replace(of_f10(1e-3, 100.0), seq_len=1000),
            },
        ),
        Property(
            "smallest xi_n over the size of its terms",
            "modified decoder",
            speed,
            SCALARS,
            conditions=(*MODIFIED_FLOW, SMALL_OVERLAPS),
            controls={"wrong theory: E' with the sign of appendix D.1": opposite_sign},
            evaluations=(400, 40_000),
            beyond=lambda: {
                "unequal priors": load("theorem2a-priors").instance,
                "strong correlation": load("theorem2a-strong").instance,
            },
        ),
        one_way(
            EXACT,
            distinct_tokens,
            FLOWS,
            SMALL_OVERLAPS,
            controls={
                "wrong theory: the mean field in place of the independent decoder": partial(
                    falls, rung=MEAN_FIELD, tokens=distinct_tokens
                )
            },
        ),
        response_law(distinct_tokens, FLOWS),
        rate_law("p_n f_nl^2 xi_n of a distinct token", distinct_tokens, SCALARS),
        Property(
            "time at which a token falls by linear response against the run's, |ln|",
            "mean field",
            onset_error,
            controls={"wrong theory: 1.1 times the time by linear response": partial(onset_error, factor=1.1)},
            corrected=True,
            cases=lambda: {
                "F10, time of the fall": of_f10(0.3, 1e3),
                "theorem2a-memory": load("theorem2a-memory").instance,
            },
        ),
        replace(
            one_way(
                MEAN_FIELD,
                distinct_tokens,
                replace(
                    FLOWS, name="finite sequences", seq_len=(10, 10**9), vocab_size=(2, 10**6), horizon=(1e-2, 1e4)
                ),
                controls={"wrong theory: T infinite": at_infinite_length},
                beyond={"a class 100 times as frequent": load("theorem2a-finite-priors").instance},
                evaluations=(40, 1000),
            ),
            name="the same for finite sequences",
        ),
    ),
    proved=("distinct-rate",),
    picture=picture,
    map=distinct_fall_map,
    findings=("F10",),
    headline=Headline(
        3,
        printed=r"\dot z_{ml}=\eta_Z\,p_nf_{nl}^2\,\xi_n>0",
        recomputed=r"\dot z_{ml}=\eta_Z\,p_nf_{nl}^2\left(\xi_n-\int_0^t\left(1-\frac{f_{nl}(t')}{f_{nl}(t)}\right)"
        r"m_n(t',t)\,dt'\right)",
        plain="A token that only one class has should always gain attention; it can lose attention, because the "
        "decoder still remembers where attention was before.",
        where="z_ml is the attention logit of token l for query m, f_nl its weight in the attention of class n (scaled "
        "to 2-norm 1), eta_Z the rate of attention, p_n the probability of class n, xi_n the drive of its distinct "
        "tokens, and m_n(t',t) >= 0 the memory that the decoder has at time t of time t'.",
    ),
)


ONE_COMMON = replace(FLOWS, name="one common token", num_common=(1, 2), num_distinct=(1, 4), shared_by_all=True)
IN_MEAN_FIELD = one_way(
    MEAN_FIELD,
    common_tokens,
    ONE_COMMON,
    ONE_COMMON_TOKEN,
    beyond=lambda: {"eta_Z/eta_Y = 10": load("theorem2b-fast").instance},
)
THEOREM2B = Claim(
    "theorem2b",
    source="Theorem 2(b), Eq. (100)",
    title="The common token loses attention at all times",
    statement="With one common token and a class that has a distinct token, the common logit falls: "
    "dz_ml/dt = -eta_Z sum_n [p_n] (1 - f_nl^2) xi_n < 0, where the paper omits the factor [p_n].",
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
