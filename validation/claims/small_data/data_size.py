"""What more data suppress: the number of spurious tokens, and attention to them (the paper's last statement)."""

import math
from dataclasses import replace
from functools import partial

import numpy as np

from snapdyn import analytic
from snapdyn.dynamics import MeanField, SequenceClasses, data_set, integrate
from snapdyn.validation.claims.language import (
    ZERO_START,
    Claim,
    Instance,
    Map,
    Measured,
    Picture,
    Property,
    Requirement,
    most_evaluations,
)
from snapdyn.validation.claims.small_data._shared import (
    A_COMMON_TOKEN,
    ANY_SEQUENCES,
    STORED,
    common_absences,
    length_of,
    size_of,
    source_of,
    stored,
)
from snapdyn.validation.claims.small_data.spurious_sign import early_rates, three_classes, unstructured
from snapdyn.validation.grid import Grid

SMALLEST = 1e-200  # expected numbers below this are not compared
GROWTH = 1.1  # of attention on spurious tokens that counts as none


def growth_of_number(instance: Instance, of: str = "number") -> Measured | None:
    """Expected number, or attention at z = 0, with twice the sequences over that with N per class."""
    classes, N, length = source_of(instance), size_of(instance), length_of(instance)
    if of == "distinct":  # wrong theory: really distinct tokens are suppressed too
        P, draws = classes.P.toarray()[:, classes.omega_size == 1], float(N * length)
        with np.errstate(divide="ignore"):
            log = np.log1p(-np.minimum(P, 1.0)).sum(axis=0)
        before, after = -np.expm1(draws * log).sum(), -np.expm1(2.0 * draws * log).sum()
    else:
        law = analytic.expected_spurious if of == "number" else analytic.expected_spurious_attention
        before, after = (law(classes.P, classes.next_token, size, length) for size in (N, 2 * N))
    if not before > SMALLEST:
        return None
    return Measured(float(after / before), at_most=1.0, error=1e-9)


def least_occurrence(instance: Instance) -> float:
    """Smallest q_n(l) sum_k r_k(l)/r_n(l) over common tokens l of n, r = -ln(1 - P): above 1 all terms fall with N."""
    P, log_absent = common_absences(instance)
    draws = float(size_of(instance) * length_of(instance))
    r = np.minimum(-log_absent, 1e300)
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.where(P > 0, -np.expm1(-draws * r) * r.sum(axis=0) / r, np.inf).min())


def growth_of_attention(instance: Instance, wrong: str = "") -> Measured | None:
    """Attention on spurious tokens at the end of a run on stored sequences, over its start."""
    data = stored(instance)
    tokens = data.spurious[:, 1]
    if wrong == "distinct":  # of tokens that are really distinct
        tokens = np.flatnonzero((data.omega_size == 1) & (data.source.omega_size == 1))
    if not tokens.size:
        return None
    system: MeanField = MeanField(data, instance.eta_Y, instance.eta_Z)
    run = integrate(
        system, [0.0, instance.t_end], rtol=1e-6, atol=1e-8, most_evaluations=most_evaluations(system.size, True)
    )
    if not run.success:
        return None
    chosen = np.isin(data.P.indices, tokens)
    on = np.add.reduceat(run.attention_entries * chosen, data.P.indptr[:-1], axis=1) @ data.prior
    if not on[0] > 1e-12:
        return None
    return Measured(float(on[1] / on[0]), at_most=GROWTH, error=1e-3)


def largest_early_rate(instance: Instance) -> float:
    """Largest early rate of the logit of a spurious token, over the largest rate of any logit."""
    data = stored(instance)
    rates, tokens = early_rates(data), data.z_coordinates[1]
    spurious = np.isin(tokens, data.spurious[:, 1])
    return float(rates[spurious].max() / np.abs(rates).max()) if spurious.any() and rates.any() else -1.0


def least_distinct_share(instance: Instance) -> float:
    """Smallest share of really distinct tokens in a stored sequence."""
    data = stored(instance)
    return float((data.P @ (data.source.omega_size == 1).astype(float)).min())


def size_map(level: str) -> Map:
    """Expected number with 2 N over N, over N and the probability of one token that two classes share; T-1 = 20."""
    points = 25 if level == "full" else 13
    shares, sizes = np.geomspace(1e-4, 0.3, points), np.unique(np.geomspace(1, 300, points).round())

    def measure(cell: tuple[float, float]) -> float | None:
        P, N = [[cell[0], 1.0 - cell[0], 0.0], [cell[0], 0.0, 1.0 - cell[0]]], round(cell[1])
        before, after = (analytic.expected_spurious(P, [0, 1], size, 20) for size in (N, 2 * N))
        return after / before if before > SMALLEST else None

    # E(N) = 2 a (1-a), a = (1-P)^(20 N), so E(2N)/E(N) = a + a^2.
    golden = (math.sqrt(5.0) - 1.0) / 2.0
    boundary = Picture.line("(1-P)^(20 N) = 0.618", shares, math.log(golden) / (20.0 * np.log1p(-shares)))
    grid = Grid({"N": sizes, "share": shares}, lambda N, share: (share, N), measure)
    return Map.over(
        "where twice the data have fewer spurious tokens", ("P(l|n) of the common token", "sequences per class N"),
        "number at 2 N over N", grid, 1.0, [boundary],
    )  # fmt: skip


def three_sequences(classes: SequenceClasses) -> Instance:
    """Three stored sequences per class of 20 tokens, at eta_Y = eta_Z = 1 until t = 2000."""
    return Instance.of(data_set(classes, 3, 20, seed=1), 1.0, 1.0, 2000.0)


ZERO = replace(ZERO_START, defining=True)
SEEN = Requirement(
    "every common token is seen often enough",
    "q_n(l) sum_k r_k(l)/r_n(l) >= 1 for all common tokens l of n, r = -ln(1-P)",
    least_occurrence,
    at_least=1.0,
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
        "attention: equal priors, one query; every spurious token falls early, which needs two or more sequences per "
        "next token",
        "attention: at least half of the tokens of each stored sequence are really distinct",
    ),
    conclusion=(
        "Existence is suppressed, attention is not always. The number first grows with the data where common tokens "
        "are rare: {rare common tokens:.2g} times on doubling; the attention at z = 0 never grows. Training does not "
        "suppress because the data are large: with two or more sequences per next token and really distinct tokens, "
        "attention on spurious tokens stays below 1.1 times its start. Without distinct tokens training memorises: "
        "there it grows {no distinct tokens:.2g} times."
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
                "wrong theory: the same for tokens that are really distinct": partial(growth_of_number, of="distinct")
            },
            beyond={
                "rare common tokens": replace(
                    Instance.of(unstructured(3, 50), 1.0, 1.0, 1.0, seq_len=1), number=0
                ),
            },
            evaluations=(400, 10_000),
        ),
        Property(
            "expected attention on spurious tokens at z = 0 with 2 N sequences per class over that with N",
            "closed form",
            partial(growth_of_number, of="attention"),
            ANY_SEQUENCES,
            conditions=CONDITIONS,
            controls={"wrong theory: attention follows the number": growth_of_number},
            evaluations=(400, 10_000),
        ),
        Property(
            "attention on spurious tokens at the end over the start",
            "mean field",
            growth_of_attention,
            replace(
                ANY_SEQUENCES,
                name="stored sequences in training",
                num_classes=(2, 6),
                num_common=(1, 12),
                num_distinct=(1, 4),
                ratio=(0.1, 10.0),
                horizon=(10.0, 1e4),
                uniform=True,
                num_queries=(1, 1),
                shared_next_tokens=False,
                vocab_size=(2, 10**6),
                seq_len=(1, 300),
            ),
            conditions=(
                ZERO,
                STORED,
                A_COMMON_TOKEN,
                Requirement(
                    "every spurious token falls early",
                    "largest early rate of a spurious token over that of any token <= -0.01",
                    largest_early_rate,
                    at_most=-0.01,
                ),
                Requirement(
                    "really distinct tokens in every sequence",
                    "smallest share of really distinct tokens in a stored sequence >= 1/2",
                    least_distinct_share,
                    at_least=0.5,
                ),
            ),
            controls={"wrong theory: really distinct tokens": partial(growth_of_attention, wrong="distinct")},
            beyond={"no distinct tokens": three_sequences(unstructured(3, 50))},
            cases={"three classes": three_sequences(three_classes())},
            evaluations=(200, 2000),
        ),
    ),
    map=size_map,
)  # fmt: skip
