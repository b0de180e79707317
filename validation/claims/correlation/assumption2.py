"""Assumption 2: how large a vocabulary weak correlation needs."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from snapdyn.dynamics import syn_medium, syn_small
from snapdyn.validation.claims.correlation._shared import (
    OVERLAPPING_CLASSES,
    UNITS,
    equal_overlap_instance,
    overlap_property,
    with_attention,
)
from snapdyn.validation.claims.language import (
    EPS,
    MUCH_LARGER,
    ONE_COMMON_TOKEN,
    Claim,
    Floats,
    Instance,
    Measured,
    Requirement,
)
from snapdyn.validation.claims.sample_classes import star

# Where V <= 1e12 is enough, |lambda_1|/min|lambda| < sqrt(V)/(6 K) is below 1e5; eigenvalues err by eps times it.
LARGEST_QUOTIENT = 1e5


def best_slack(E: Floats, vocab_size: float) -> float:
    """Largest factor by which a multiple of E (K, K) satisfies both bounds of Assumption 2; below 1 no multiple does.

    A multiple s E satisfies |lambda_1| < 1/K by the factor 1/(K s |lambda_1|), and min|lambda| >= 6/sqrt(V) by the
    factor sqrt(V) s min|lambda|/6. The first falls with s and the second rises, so the best s makes them equal. The
    factors are measured on that multiple. The result is 0 where E has an eigenvalue 0.
    """
    size = np.abs(np.linalg.eigvalsh(E))
    if size.min() == 0:
        return 0.0
    scale = np.sqrt(6 / (np.sqrt(vocab_size) * len(E) * size.max() * size.min()))
    size = np.abs(np.linalg.eigvalsh(scale * E))
    return float(min(1 / (len(E) * size.max()), np.sqrt(vocab_size) * size.min() / 6))


def condition_number(instance: Instance) -> float:
    """|lambda_1|/min|lambda| of E; infinite where an eigenvalue is 0."""
    size = np.abs(np.linalg.eigvalsh(instance.overlaps))
    return float(size.max() / size.min()) if size.min() > 0 else np.inf


def needed(instance: Instance) -> float:
    """Vocabulary that the classes need, 36 K^2 (|lambda_1|/min|lambda|)^2."""
    return 36 * instance.num_classes**2 * condition_number(instance) ** 2


def slack(instance: Instance, share: Callable[[int], float] | None = None) -> Measured:
    """`best_slack` of the instance's overlaps; if `share`(K) replaces the needed V, V is scaled in proportion."""
    E, V = instance.overlaps, float(instance.vocab_size)
    if share is not None:
        V *= share(len(E)) / needed(instance)
    return Measured(best_slack(E, V), at_least=1 - UNITS * len(E) * EPS * LARGEST_QUOTIENT)


def over_least_quotient(
    instance: Instance, least: Callable[[float, float], float] = lambda K, c: max(1.0, (K - c) / c)
) -> Measured:
    """The lower bound `least`(K, common tokens) of |lambda_1|/min|lambda|, over |lambda_1|/min|lambda|; at most 1."""
    K, c = instance.num_classes, ONE_COMMON_TOKEN.measure(instance)
    quotient = least(K, c) / condition_number(instance) if c else 0.0
    return Measured(quotient, at_most=1 + UNITS * K * EPS * max(quotient, 1.0))


def in_pairs(vocab_size: int) -> Instance:
    """Ten classes that overlap in pairs."""
    return with_attention(np.kron(np.eye(5), star(2, 0.3)).astype(float), vocab_size)


def data_sets() -> dict[str, Instance]:
    """Classes that miss Assumption 2: two whose V is one below what they need, and default data sets."""
    return {
        "10 equal overlaps, V = 291,599": equal_overlap_instance(10, 291_599),
        "10 classes in pairs, V = 3,599": in_pairs(3599),
        "300 equal overlaps, V one part in 1e4 below": equal_overlap_instance(300, round(35.9964 * (300 * 299) ** 2)),
        "syn_small()": Instance.of(syn_small(), 1.0, 1.0, 1.0),
        **{f"syn_medium({Q})": Instance.of(syn_medium(Q), 1.0, 1.0, 1.0) for Q in (1, 10)},
    }


LARGE = Requirement(
    "V >> K^2", f"V >= {MUCH_LARGER:g} K^2",
    lambda instance: instance.vocab_size / instance.num_classes**2, at_least=MUCH_LARGER, defining=True,
)  # fmt: skip
ENOUGH = Requirement(
    "a vocabulary as large as Assumption 2 needs", "V/(36 K^2 (|lambda_1|/min|lambda|)^2) > 1",
    lambda instance: instance.vocab_size / needed(instance), at_least=float(np.nextafter(1, 2)),
)  # fmt: skip

POSSIBLE = overlap_property(
    "factor by which the best multiple of E satisfies both bounds on |lambda|",
    slack,
    ENOUGH,
    domain=OVERLAPPING_CLASSES,
    controls={
        "wrong theory: V > 36 K^2 is enough for any classes, as for pairs": partial(slack, share=lambda K: 36 * K**2),
        "wrong theory: V > 36 K^2 (K-1)^2 is enough for any classes": partial(
            slack, share=lambda K: 36 * K**2 * (K - 1) ** 2
        ),
    },
    corrected=True,
    cases={
        "10 equal overlaps, V = 291,601": equal_overlap_instance(10, 291_601),
        "10 classes in pairs, V = 3,601": in_pairs(3601),
        "300 equal overlaps, V one part in 1e4 above": equal_overlap_instance(300, round(36.0036 * (300 * 299) ** 2)),
    },
    beyond=data_sets,
)

CLAIM = Claim(
    "assumption2",
    of_rule="any",
    source="Assumption 2, Eq. (93)",
    title="A vocabulary V >> K^2 for K classes is enough for weak correlation (Assumption 2)",
    statement=(
        "V >> K^2 (taken as V = 10 K^2), |lambda_1(E)| < 1/K and |lambda_i(E)| >= 6/sqrt(V) can hold together. "
        "Corrected: the two bounds need V > 36 K^2 (|lambda_1|/min|lambda|)^2, and then a multiple of E satisfies "
        "both; this V is at least 36 K^2 for any classes, 36 K^2 ((K-c)/c)^2 with c < K/2 common tokens, and 36 K^2 "
        "(K-1)^2 for equal overlaps or a single common token. (The last step of (93), for which the paper needs the "
        "lower bound, needs only sqrt(6/V) in place of 6/sqrt(V); then 36 becomes 6.)"
    ),
    latex=r"V\gg K^2\ \to\ V>36K^2\left(\frac{|\lambda_1|}{\min_i|\lambda_i|}\right)^2"
    r"\ge 36K^2\left(\frac{K-c}{c}\right)^2",
    conclusion=(
        "Assumption 2 needs V > 36 K^2 (|lambda_1|/min|lambda|)^2, which none of the paper's data sets has. With "
        "equal overlaps V must be above 36 K^2 (K-1)^2, which is 291,600 at K = 10: with 50 classes and V = 10 K^2 "
        "the best multiple of E misses both bounds (bound over value: {50 equal overlaps, V = 25,000}, where 1 is "
        "required). The condition on V follows from the two bounds for any K; that with c common tokens follows since "
        "E is a Gram matrix of rank c less a positive diagonal, of trace 0. Tested on 2 to 300 classes."
    ),
    expected="corrected",
    findings=("F6",),
    properties=(
        replace(
            POSSIBLE,
            name=f"V >= 10 K^2: {POSSIBLE.name}",
            conditions=(LARGE,),
            controls={},
            corrected=False,
            cases={"50 equal overlaps, V = 25,000": equal_overlap_instance(50, 25_000)},
            beyond={},
        ),
        POSSIBLE,
        overlap_property(
            "max(1, (K-c)/c) min|lambda|/|lambda_1|, c common tokens",
            over_least_quotient,
            domain=OVERLAPPING_CLASSES,
            controls={
                "wrong theory: max(1, K/c), which counts K negative eigenvalues in place of K-c": partial(
                    over_least_quotient, least=lambda K, c: max(1.0, K / c)
                )
            },
            corrected=True,
        ),
    ),
)
