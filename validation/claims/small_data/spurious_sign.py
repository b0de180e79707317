"""Which tokens of stored sequences rise early: those that one stored sequence alone has."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from snapdyn.dynamics import MeanField, SequenceClasses, data_set
from snapdyn.validation.claims.language import (
    ZERO_START,
    Claim,
    Floats,
    Instance,
    Ints,
    Map,
    Measured,
    Picture,
    Property,
    Requirement,
)
from snapdyn.validation.claims.small_data._shared import ANY_SEQUENCES, STORED, stored
from snapdyn.validation.grid import Grid

EARLY = 1e-7  # eta_Y t at which the rate is read: it grows like t
RESOLVED = 1e-9  # of the prior of a sequence: smaller rates are rounding
# Those of the same next token, those of other ones, and V: all overlaps weighted by priors, self left out.
Law = Callable[[Floats, Floats, int], Floats]


def right_law(same: Floats, others: Floats, V: int) -> Floats:
    """z_l'/(eta_Z eta_Y t p_s f_sl^2): overlaps with other next tokens lift, those with the own next token lower."""
    return others / V - same * (V - 1) / V


def alone(data: SequenceClasses) -> tuple[Ints, Ints]:
    """Tokens that exactly one stored sequence has, and this sequence."""
    tokens = np.flatnonzero(np.bincount(data.P.indices, minlength=data.num_tokens) == 1)
    of = np.empty(data.num_tokens, np.int64)
    of[data.P.indices] = data.class_of_entry
    return tokens, of[tokens]


def overlaps(data: SequenceClasses, labels: Ints) -> tuple[Floats, Floats]:
    """Sum of p_m f_s.f_m over the other sequences m of the same label, and over those of other labels, (S,) each."""
    from scipy import sparse

    f, S = data.decoder_inputs(), data.num_classes
    of = sparse.csr_array((data.prior, (labels, np.arange(S))), shape=(int(labels.max()) + 1, S)) @ f
    same = np.asarray(f.multiply(of[labels]).sum(axis=1)).ravel()
    every = np.asarray(f @ (f.T @ data.prior)).ravel()
    return same - data.prior, every - same


def early_rates(data: SequenceClasses) -> Floats:
    """Rates of z over eta_Z eta_Y t from a zero start, on `z_coordinates`, by the mean field."""
    system = MeanField(data, 1.0, 1.0)
    start, rate = system.initial_state(), np.empty(system.size)
    system.write_rate(start, rate)
    step = EARLY / max(1.0, np.abs(rate).max())
    system.write_rate(start + step * rate, rate)
    return system.z_support(rate) / step


def law_error(instance: Instance, law: Law = right_law, permuted: bool = False) -> Measured | None:
    """Largest error of the rate of a token of one stored sequence, over the sizes of the terms of the law."""
    data = stored(instance)
    tokens, of = alone(data)
    if not tokens.size:
        return None
    labels = np.roll(data.next_index, 1) if permuted else data.next_index
    same, others = overlaps(data, labels)
    entry = np.searchsorted(data.class_of_entry * data.num_tokens + data.P.indices, of * data.num_tokens + tokens)
    f, p, V = data.decoder_inputs().data[entry], data.prior[of], data.vocab_size
    found = early_rates(data)[data.z_of_entry[entry]] / (p * f**2)
    size = others[of] / V + same[of] * (V - 1) / V + RESOLVED * p
    return Measured(float(np.abs((found - law(same, others, V)[of]) / size).max()), at_most=0.02)


def smallest_rise(instance: Instance, one_label: bool = False) -> Measured | None:
    """Smallest early rate of a token of one stored sequence, over eta_Z eta_Y t p_s f_sl^2 times its lifting term."""
    data: SequenceClasses = stored(instance, size=1)
    if one_label:  # wrong theory: all sequences have one next token, so nothing tells them apart
        data = SequenceClasses(data.P, data.query, np.zeros(data.num_classes, int), data.prior, data.vocab_size)
    same, others = overlaps(data, data.next_index)
    every = (same + others) / data.vocab_size
    tokens, of = alone(data)
    kept = every[of] > RESOLVED * data.prior[of]
    if not kept.any():
        return None
    tokens, of = tokens[kept], of[kept]
    entry = np.searchsorted(data.class_of_entry * data.num_tokens + data.P.indices, of * data.num_tokens + tokens)
    f, p = data.decoder_inputs().data[entry], data.prior[of]
    found = early_rates(data)[data.z_of_entry[entry]] / (p * f**2)
    return Measured(float((found / every[of]).min()), at_least=0.5)


def sequences_per_next_token(instance: Instance) -> float:
    """Largest number of different stored sequences of one next token."""
    return float(np.bincount(stored(instance, size=1).next_index).max())


def unstructured(num_classes: int, vocab_size: int) -> SequenceClasses:
    """Classes that all have the same 30 tokens, of weights 1/rank: their next tokens say nothing about tokens."""
    row = 1.0 / np.arange(1.0, 31.0)
    P = np.tile(row / row.sum(), (num_classes, 1))
    return SequenceClasses(P, np.zeros(num_classes, int), vocab_size=vocab_size)


def rising_share(classes: SequenceClasses, sequences: int, seeds: int = 20) -> float | None:
    """Share of the tokens of one stored sequence of 20 tokens that rise early, over some data sets."""
    rises = []
    for seed in range(seeds):
        data = data_set(classes, sequences, 20, seed)
        same, others = overlaps(data, data.next_index)
        rises.append(right_law(same, others, data.vocab_size)[alone(data)[1]] > 0)
    every = np.concatenate(rises)
    return float(every.mean()) if every.size else None


def sign_map(level: str) -> Map:
    """Share that rises over the number of sequences and V, K = 8 next tokens whose classes are equal."""
    K, points = 8, 15 if level == "full" else 8
    sizes, outputs = np.arange(1.0, 9.0), np.unique(np.geomspace(K, 60, points).round())
    grid = Grid(
        {"V": outputs, "N": sizes},
        lambda V, N: (unstructured(K, round(V)), round(N)),
        lambda cell: rising_share(*cell),
    )
    # Equal overlaps: (V-1)(N-1) = N(K-1).
    line = np.linspace(1.05, 8.0, 60)
    boundary = Picture.line("N = R/(R-1), R = (V-1)/(K-1)", line, 1.0 + (K - 1) * line / (line - 1.0))
    return Map.over(
        "which tokens of one stored sequence rise early", ("sequences per next token N", "V"), "share that rises",
        grid, 0.5, [boundary],
    )  # fmt: skip


def three_classes() -> SequenceClasses:
    """Three classes of ten common tokens and three distinct ones each, which take 3/4 of the probability; V = 50."""
    rng = np.random.default_rng(np.random.SeedSequence(59))
    P = np.zeros((3, 19))
    for n in range(3):
        P[n, :10] = 0.25 * rng.dirichlet(np.ones(10))
        P[n, 10 + 3 * n : 13 + 3 * n] = 0.25
    return SequenceClasses(P, [0, 0, 0], vocab_size=50)


ONE = Requirement(
    "one stored sequence per next token",
    "different stored sequences of a next token <= 1",
    sequences_per_next_token,
    at_most=1,
)
DOMAIN = replace(ANY_SEQUENCES, name="stored sequences")
ZERO = replace(ZERO_START, defining=True)

CLAIM = Claim(
    "spurious-sign",
    source="own; Theorem 2(a) on stored sequences",
    title="A token of one stored sequence rises early unless its next token has other sequences",
    statement=(
        "From zero start, a token that one stored sequence s alone has rises early if and only if (V-1) times the sum "
        "of p_m f_s.f_m over the other sequences m of its next token is below the same sum over all sequences of other "
        "next tokens. So with one stored sequence per next token every such token rises, spurious or not, as in "
        "Theorem 2(a). With N sequences per next token and overlaps of one size it rises where N < R/(R-1), "
        "R = (V-1)/(K-1)."
    ),
    latex=r"(V-1)\sum_{m\ne s,\ \text{same}}p_m f_s\!\cdot\! f_m<\sum_{m,\ \text{other}}p_m f_s\!\cdot\! f_m",
    conditions=("zero start, early: eta_Y t V << 1", "rise of all: one stored sequence per next token"),
    conclusion=(
        "The law holds in the mean field of stored sequences. Theorem 2(a) speaks of one sequence per next token: "
        "there every token of one sequence rises, spurious or not. With two it falls where V - 1 >= 2 (K - 1) and "
        "overlaps are equal; only where V is near K does it rise at every N. On three classes with five sequences the "
        "smallest rate is {five sequences per class:.2g} times the lifting term. A token in many sequences of its next "
        "token rises again."
    ),
    expected="conditional",
    properties=(
        Property(
            "error of the early rate of a token of one stored sequence, over the size of its terms",
            "mean field",
            law_error,
            DOMAIN,
            conditions=(ZERO, STORED),
            controls={
                "wrong theory: Theorem 2(a) as if each sequence had its own next token": partial(
                    law_error, law=lambda same, others, V: others / V
                ),
                "wrong theory: next tokens permuted": partial(law_error, permuted=True),
                "wrong theory: 1.1 times the lowering term": partial(
                    law_error, law=lambda same, others, V: right_law(1.1 * same, others, V)
                ),
            },
            evaluations=(200, 2000),
        ),
        Property(
            "smallest early rate of a token of one stored sequence, over its lifting term",
            "mean field",
            smallest_rise,
            DOMAIN,
            conditions=(ZERO, STORED, ONE),
            controls={"wrong theory: all sequences have one next token": partial(smallest_rise, one_label=True)},
            beyond={
                "five sequences per class": Instance.of(data_set(three_classes(), 5, 20), 1.0, 1.0, 1.0),
            },
            evaluations=(200, 2000),
        ),
    ),
    map=sign_map,
)
