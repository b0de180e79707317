"""What more data suppress: the number of spurious tokens, and attention to them (the paper's last statement)."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from snapdyn.analytic import expected_spurious, expected_spurious_attention
from snapdyn.validation.claims.language import (
    FROM_ZERO,
    NOT_FASTER,
    ONE_QUERY,
    UNIFORM,
    Claim,
    Grid,
    Instance,
    Ints,
    Map,
    Measured,
    Picture,
    Property,
    Requirement,
    load,
)
from snapdyn.validation.claims.sample_classes import equal_classes, three_classes
from snapdyn.validation.claims.small_data._shared import (
    A_COMMON_TOKEN,
    A_SPURIOUS_TOKEN,
    ANY_SEQUENCES,
    IN_TRAINING,
    MANY_DISTINCT,
    STORED,
    arguments,
    log_absences,
    run_stored,
    size_of,
    stored,
    three_sequences,
)
from snapdyn.validation.claims.small_data.spurious_number_sign import rates_of

SMALLEST = 1e-200  # expected numbers below this are not compared
Law = Callable[..., float]
GROWTH = 1.1  # of attention on spurious tokens that counts as none


def growth_of_number(instance: Instance, law: Law = expected_spurious) -> Measured | None:
    """Expected number, or attention at z = 0, with twice the sequences over that with N per class."""
    P, next_token, _, length = arguments(instance)
    before, after = (law(P, next_token, size_of(instance) * factor, length) for factor in (1, 2))
    return Measured(after / before, at_most=1.0, error=1e-9) if before > SMALLEST else None


def really_distinct(P: Any, next_token: Ints, sequences: int, length: int) -> float:
    """Wrong theory: the expected number of really distinct tokens that occur, of which more data have more."""
    own = (P > 0).sum(axis=0) == 1
    return (1.0 - (1.0 - P.toarray()[:, own]) ** float(sequences * length)).sum(where=P.toarray()[:, own] > 0)


def least_occurrence(instance: Instance) -> float:
    """Smallest q_n(l) sum_k r_k(l)/r_n(l) over common tokens l of n, r = -ln(1 - P): above 1 all terms fall with N."""
    P, next_token, _, length = arguments(instance)
    r = np.minimum(-log_absences(P, next_token, np.full(len(next_token), size_of(instance)), length), 1e300)
    return np.min(-np.expm1(-r) * r.sum(axis=0) / np.where(r > 0, r, np.inf), where=r > 0, initial=np.inf)


def growth_of_attention(instance: Instance, distinct: bool = False) -> Measured | None:
    """Attention on spurious tokens at the end of a run on stored sequences, over its start."""
    data = stored(instance)
    # The wrong theory speaks of tokens that are really distinct.
    tokens = np.flatnonzero((data.omega_size == 1) & ((data.source.omega_size == 1) == distinct))
    if not tokens.size:
        return None
    run = run_stored(instance, data, [0.0, instance.t_end], rtol=1e-6, atol=1e-8)
    chosen = np.isin(data.P.indices, tokens) * data.prior[data.class_of_entry]
    on = run.attention_entries @ chosen
    return Measured(on[1] / on[0], at_most=GROWTH, error=1e-3)


def fastest_early_rise(instance: Instance) -> float:
    """Largest early rate of ln attention on a spurious token in a stored sequence, over that of any logit."""
    data = stored(instance)
    of_logits, of_class = rates_of(data), data.class_of_entry
    rates = of_logits[data.z_of_entry]
    rises = rates - np.bincount(of_class, data.P.data * rates)[of_class]  # d/dt ln c = dz/dt - sum c dz/dt, c = P
    spurious = np.isin(data.P.indices, data.spurious[:, 1])
    return float(rises[spurious].max() / np.abs(of_logits).max()) if spurious.any() and of_logits.any() else -1.0


def size_map(level: str) -> Map:
    """Expected number with 2 N over N, over N and the probability of one token that two classes share; T-1 = 20."""
    points = 25 if level == "full" else 13
    shares, sizes = np.geomspace(1e-4, 0.1, points), np.unique(np.geomspace(1, 20, points).round())

    def growth(at: tuple[float, float]) -> float:
        P, N = [[at[1], 1.0 - at[1], 0.0], [at[1], 0.0, 1.0 - at[1]]], round(at[0])
        return expected_spurious(P, [0, 1], 2 * N, 20) / expected_spurious(P, [0, 1], N, 20)

    # E(N) = 2 a (1-a), a = (1-P)^(20 N), so E(2N)/E(N) = a + a^2.
    golden = (math.sqrt(5.0) - 1.0) / 2.0
    boundary = Picture.line("(1-P)^(20 N) = 0.618", shares, math.log(golden) / (20.0 * np.log1p(-shares)))
    grid = Grid({"N": sizes, "share": shares}, lambda N, share: (N, share), growth)
    return Map.over(
        "where twice the data have fewer spurious tokens", ("P(l|n) of the common token", "sequences per class N"),
        "number at 2 N over N", grid, 1.0, [boundary],
    )  # fmt: skip


SEEN = Requirement(
    "every common token is seen often enough",
    "q_n(l) sum_k r_k(l)/r_n(l) >= 1 for all common tokens l of n, r = -ln(1-P)",
    least_occurrence,
    at_least=1.0,
)
FALLS_EARLY = Requirement(
    "attention on every spurious token falls early",
    "largest early rate of ln c of a spurious token in a stored sequence, over that of any logit <= -0.01",
    fastest_early_rise,
    at_most=-0.01,
)
CONDITIONS = (STORED, A_COMMON_TOKEN)

CLAIM = Claim(
    "data-size",
    source="Sec. 9",
    title="A large data set suppresses spurious tokens",
    statement=(
        '"Large dataset suppresses spurious tokens that are perceived as distinct in a small dataset but are actual '
        'common ones", in two halves. (1) Existence: the expected number of spurious tokens is lower with twice the '
        "sequences; the expected attention on them at z = 0 is lower at every size. (2) Attention: training on stored "
        "sequences does not raise attention on the spurious tokens that exist."
    ),
    latex=r"E(2N)\le E(N),\qquad \sum_{l\ \text{spurious}}c_s(l)\Big|_{t}\lesssim\sum_{l\ \text{spurious}}c_s(l)"
    r"\Big|_{0}",
    conditions=(
        "number: every common token seen often enough, q_n(l) >= r_n(l)/sum_k r_k(l), r = -ln(1-P)",
        "attention: equal priors, one query; early, attention on every spurious token falls in each stored sequence, "
        "which needs two or more sequences per next token",
        "attention: at least half of the tokens of each stored sequence are really distinct; eta_Z/eta_Y <= 1",
    ),
    conclusion=(
        "More data make spurious tokens fewer in the end, but do not always lower the attention to them. Where common "
        "tokens are rare the number first grows: doubling the data multiplies it by {rare common tokens:.2g}. The "
        "attention at z = 0 never grows. It is not the size of the data that lets training suppress them: under the "
        "conditions above, attention on spurious tokens stays below 1.1 times its start. "
        "Without distinct tokens it grows {no distinct tokens:.2g} times. That the logit of the token falls "
        "is not enough: where another token of its sequence falls more, it gains {another token falls more:.2g} times."
    ),
    expected="conditional",
    properties=(
        Property(
            "expected number with 2 N sequences per class over that with N",
            "closed form",
            growth_of_number,
            ANY_SEQUENCES,
            conditions=(*CONDITIONS, SEEN),
            controls={
                "wrong theory: really distinct tokens become fewer": partial(growth_of_number, law=really_distinct)
            },
            beyond={
                "rare common tokens": Instance.of(equal_classes(3, 50), 1.0, 1.0, 1.0, seq_len=1),
            },
            evaluations=(400, 10_000),
        ),
        Property(
            "expected attention on spurious tokens at z = 0 with 2 N sequences per class over that with N",
            "closed form",
            partial(growth_of_number, law=expected_spurious_attention),
            ANY_SEQUENCES,
            conditions=CONDITIONS,
            controls={"wrong theory: attention follows the number": growth_of_number},
            evaluations=(400, 10_000),
        ),
        Property(
            "attention on spurious tokens at the end over the start",
            "mean field",
            growth_of_attention,
            IN_TRAINING,
            conditions=(
                FROM_ZERO,
                UNIFORM,
                ONE_QUERY,
                STORED,
                A_COMMON_TOKEN,
                A_SPURIOUS_TOKEN,
                FALLS_EARLY,
                MANY_DISTINCT,
                NOT_FASTER,
            ),
            controls={"wrong theory: really distinct tokens": partial(growth_of_attention, distinct=True)},
            beyond={
                "no distinct tokens": three_sequences(equal_classes(3, 50)),
                "another token falls more": load("data-size-share").instance,
            },
            cases={"three classes": three_sequences(three_classes())},
            evaluations=(60, 2000),
        ),
    ),
    map=size_map,
)  # fmt: skip
