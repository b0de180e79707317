"""Which tokens of stored sequences rise early: those that one stored sequence alone has."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from snapdyn.dynamics import MeanField, SequenceClasses, data_set
from snapdyn.validation.claims.language import ZERO_START, Claim, Floats, Instance, Ints, Measured, Property
from snapdyn.validation.claims.sample_classes import equal_classes, three_classes
from snapdyn.validation.claims.small_data._shared import ANY_SEQUENCES, STORED, stored

EARLY = 1e-7  # eta_Y t at which the rate is read: it grows like t
RESOLVED = 1e-9  # of the prior of a sequence: smaller rates are rounding
# Overlaps with the other sequences of the same next token and with those of other ones, weighted by priors; and V.
Law = Callable[[Floats, Floats, int], Floats]


def right_law(same: Floats, others: Floats, V: int) -> Floats:
    """z_l'/(eta_Z eta_Y t p_s f_sl^2): overlaps with other next tokens lift, those with the own next token lower."""
    return others / V - same * (V - 1) / V


def alone(data: SequenceClasses) -> Ints:
    """Entries of P of the tokens that exactly one stored sequence has."""
    return np.flatnonzero(np.bincount(data.P.indices)[data.P.indices] == 1)


def overlaps(data: SequenceClasses, labels: Ints) -> tuple[Floats, Floats]:
    """Sum of p_m f_s.f_m over the other sequences m of the same label, and over those of other labels, (S,) each."""
    f, p = data.decoder_inputs(), data.prior
    same = np.empty(p.size)
    for label in np.unique(labels):
        of = labels == label
        same[of] = f[of] @ (f[of].T @ p[of])
    return same - p, f @ (f.T @ p) - same


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
    entry, V = alone(data), data.vocab_size
    if not entry.size:
        return None
    of, f = data.class_of_entry[entry], data.decoder_inputs().data[entry]
    same, others = overlaps(data, np.roll(data.next_index, 1) if permuted else data.next_index)
    found = early_rates(data)[data.z_of_entry[entry]] / (data.prior[of] * f**2)
    size = others / V + same * (V - 1) / V + RESOLVED * data.prior
    return Measured(float(np.abs((found - law(same, others, V)[of]) / size[of]).max()), at_most=0.02)


SETTINGS: dict[
    str, tuple[Callable[[], SequenceClasses], int, bool]
] = {  # classes, sequences of 20 tokens per next token, and whether most tokens of one sequence rise
    "three classes, N = 1": (three_classes, 1, True),
    "three classes, N = 2": (three_classes, 2, False),
    "equal classes, K = V = 8, N = 4": (partial(equal_classes, 8, 8), 4, True),
    "equal classes, K = 8, V = 24, N = 2": (partial(equal_classes, 8, 24), 2, False),
}


def rising_share(name: str) -> float:
    """Share of the tokens of one stored sequence that rise early in the mean field, over 20 data sets."""
    classes, N, _ = SETTINGS[name]
    rises = []
    for seed in range(20):
        data = data_set(classes(), N, 20, seed)
        rises.append(early_rates(data)[data.z_of_entry[alone(data)]] > 0)
    return float(np.concatenate(rises).mean())


def most(name: str) -> Measured:
    """Share of tokens that do as the law of equal overlaps says."""
    share = rising_share(name)
    return Measured(share if SETTINGS[name][2] else 1.0 - share, at_least=0.7)


def all_rise(name: str) -> Measured:
    """Wrong theory: Theorem 2(a) as if it held for stored sequences, so that all rise at every N."""
    return Measured(rising_share(name), at_least=0.7)


CLAIM = Claim(
    "spurious-sign",
    source="own; Theorem 2(a) on stored sequences",
    title="A token of one stored sequence rises early unless its next token has other sequences",
    statement=(
        "From zero start, a token that one stored sequence s alone has rises early if and only if (V-1) times the sum "
        "of p_m f_s.f_m over the other sequences m of its next token is below the same sum over all sequences of other "
        "next tokens. So with one stored sequence per next token every such token rises, spurious or not, as in "
        "Theorem 2(a), if its sequence overlaps another. With N sequences per next token and overlaps of one size it "
        "rises where N < R/(R-1), R = (V-1)/(K-1)."
    ),
    latex=r"(V-1)\sum_{m\ne s,\ \text{same}}p_m f_s\!\cdot\! f_m<\sum_{m,\ \text{other}}p_m f_s\!\cdot\! f_m",
    conditions=("zero start, early: eta_Y t V << 1",),
    conclusion=(
        "Holds in the mean field of stored sequences. Theorem 2(a) speaks of one sequence per next token: there every "
        "token of one sequence rises, spurious or not. With two, tokens fall where V - 1 >= 2 (K - 1) and overlaps are "
        "of one size; where V = K they can rise at every N. A token that many sequences of one next token have rises "
        "more easily."
    ),
    properties=(
        Property(
            "error of the early rate of a token of one stored sequence, over the size of its terms",
            "mean field",
            law_error,
            replace(ANY_SEQUENCES, name="stored sequences"),
            conditions=(replace(ZERO_START, defining=True), STORED),
            controls={
                "wrong theory: Theorem 2(a) as if each sequence had its own next token": partial(
                    law_error, law=lambda same, others, V: others / V
                ),
                "wrong theory: next tokens permuted": partial(law_error, permuted=True),
            },
            evaluations=(200, 2000),
        ),
        Property(
            "share of tokens of one stored sequence that do as equal overlaps say",
            "mean field",
            most,
            controls={"wrong theory: Theorem 2(a) for stored sequences, all rise": all_rise},
            cases={name: name for name in SETTINGS},
        ),
    ),
)
