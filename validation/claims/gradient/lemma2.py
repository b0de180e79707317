"""Lemma 2: attention of long sequences."""

from dataclasses import replace
from functools import partial

import numpy as np

from snapdyn.dynamics import SequenceClasses, sgd
from snapdyn.validation.claims._shared import ONE_STATE
from snapdyn.validation.claims.decoder._visits import FROZEN
from snapdyn.validation.claims.language import SGD, Claim, Floats, Instance, Measured, Property

# Contextual tokens of the sequences that are drawn on an instance: the rarest token, of share 1e-4, occurs 1e8 times.
LONG = 10**12
# Standard errors: 40,000 instances of up to 60 tokens exceed it with probability 3e-9.
STANDARD_ERRORS = 8.0


def limit(P: Floats, z: Floats) -> tuple[Floats, Floats]:
    """c_n of (5) and the standard deviation of sqrt(T-1) q, (M,) each, for frequencies P and logits z.

    Delta method: q = w p^/(w.p^) has slopes J = (diag w - c w^T)/(P.w), J P = 0, and Cov(p^) = (diag P - P P^T)/(T-1).
    """
    slope = np.exp(z) / (P @ np.exp(z))
    c = P * slope
    return c, np.sqrt((np.diag(slope) - np.outer(c, slope)) ** 2 @ P)


def in_standard_errors(instance: Instance, forgotten: float = 0.0) -> Measured:
    """Largest |q - c_n| over its standard error for one drawn sequence of LONG tokens per class.

    The logits are drawn at random, so c_n differs from P. The wrong theory leaves the fraction `forgotten` of them out.
    """
    rng = np.random.default_rng(np.random.SeedSequence(instance.seed, spawn_key=(instance.number, 2)))
    classes = instance.classes
    z = rng.normal(size=(classes.queries.size, classes.num_tokens))
    found = [Measured(0.0, at_most=STANDARD_ERRORS)]
    for n, P in enumerate(classes.P.toarray()):
        held = np.flatnonzero(P)
        if held.size < 2:
            continue  # a class of one token has q = c_n = 1
        P, logits = P[held], z[classes.query_index[n], held]
        weights = rng.multinomial(LONG, P / P.sum()) * np.exp(logits)
        c, deviation = limit(P, (1 - forgotten) * logits)
        error = deviation / np.sqrt(LONG)
        distance = np.abs(weights / weights.sum() - c) / error
        i = int(distance.argmax())
        # A token of small expected count m is not normal: Bernstein's inequality for counts allows 2 L/3 more than
        # sqrt(2 L m), L = STANDARD_ERRORS^2/2, which is STANDARD_ERRORS^2/(3 sqrt(m)) standard errors.
        rare = STANDARD_ERRORS**2 / 3 / np.sqrt(LONG * P[i]) + 4 * np.finfo(float).eps * c[i] / error[i]
        found.append(Measured(distance[i], STANDARD_ERRORS, error=rare, where=f"token {held[i]} of class {n}"))
    return max(found, key=lambda measured: measured.value)


# Frequencies of twelve tokens, their logits, and the limit of their attention.
_rng = np.random.default_rng(20)
TOKENS, LOGITS = _rng.dirichlet(np.full(12, 2.0)), _rng.normal(size=12)
LIMIT, DEVIATION = limit(TOKENS, LOGITS)
RUNS = 200
DRAWN = 10_000


def spread(length: int, power: float = -0.5, deviation: Floats = DEVIATION) -> Measured:
    """|ratio - 1|, ratio of the root mean square of q - c_n over DRAWN sequences and tokens to the delta method's.

    The delta method's is (T-1)^power deviation. A root mean square over DRAWN draws has the relative standard error
    1/sqrt(2 DRAWN); four of these are allowed.
    """
    weights = np.random.default_rng(length).multinomial(length, TOKENS, size=DRAWN) * np.exp(LOGITS)
    q = weights / weights.sum(axis=1, keepdims=True)
    ratio = np.sqrt(((q - LIMIT) ** 2).mean(axis=0)).sum() / (deviation.sum() * length**power)
    return Measured(abs(ratio - 1), at_most=4 / np.sqrt(2 * DRAWN))


def sampled_mean(length: int) -> Measured:
    """Mean of q over RUNS sequences that SGD draws against c_n, in standard errors: largest.

    Y moves by f (x - alpha)^T, and q is f over its sum. For 12 tokens, 5.1 standard errors are exceeded with
    probability 4e-6.
    """
    classes = SequenceClasses(TOKENS[None], [0], vocab_size=20)
    trained = sgd(classes, 1e-6, FROZEN, RUNS, seq_len=length, init={"z": LOGITS[None]}, save_decoder=True)
    Y, rows, _ = trained.require_decoder()
    moved = np.diff(Y[:, rows, 0], axis=0)
    q = moved / moved.sum(axis=1, keepdims=True)
    return Measured((np.abs(q.mean(axis=0) - LIMIT) / DEVIATION).max() * np.sqrt(length * RUNS), at_most=5.1)


CLAIM = Claim(
    "lemma2",
    of_rule="any",
    source="Lemma 2, Eqs. (5)-(6)",
    title="Attention of long sequences tends to a limit that depends on the class alone",
    statement="As T grows, the attended token frequencies X^T b tend to c_n with c_n[l] proportional to "
    "P(l|n) exp(z_l), and X^T diag(b) X tends to diag(c_n).",
    latex=r"X^\top b\to c_n,\quad c_n[l]\propto P(l|n)\,e^{z_l},\quad X^\top\mathrm{diag}(b)X\to\mathrm{diag}(c_n)",
    conditions=("contextual tokens independent given the class, no positions",),
    conclusion="Holds: attention tends to c_n, and its spread falls as 1/sqrt(T). At T-1 = 1e6 the spread agrees "
    "with the delta method to {T-1 = 1e6:.1%}.",
    properties=(
        Property(
            "largest |q - c_n| at T-1 = 1e12, random logits, in standard errors",
            "SGD sample",
            in_standard_errors,
            replace(ONE_STATE, num_common=(0, 6), num_distinct=(0, 8), vocab_size=(100, 100)),
            controls={
                "wrong theory: q tends to P, without exp(z)": partial(in_standard_errors, forgotten=1.0),
                "wrong theory: a temperature of 1.0001": partial(in_standard_errors, forgotten=1e-4),
            },
            evaluations=(300, 20_000),
            directed=False,
        ),
        Property(
            "mean of q over 200 sequences that SGD draws against c_n, in standard errors",
            SGD,
            sampled_mean,
            cases={"1e6 tokens": 10**6},
        ),
        Property(
            "spread of q over 10,000 sequences against the delta method's, which falls as (T-1)^-1/2, relative",
            "SGD sample",
            spread,
            controls={
                "wrong theory: 1.1 times the spread": partial(spread, deviation=1.1 * DEVIATION),
                "wrong theory: it falls as (T-1)^-0.55": partial(spread, power=-0.55),
                "wrong theory: the spread of P, without exp(z)": partial(
                    spread, deviation=np.sqrt(TOKENS * (1 - TOKENS))
                ),
            },
            cases={"T-1 = 1e4": 10**4, "T-1 = 1e6": 10**6},
        ),
    ),
    proved=("sequence-counts",),
)
