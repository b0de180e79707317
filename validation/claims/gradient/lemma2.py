"""Lemma 2: attention of long sequences."""

from __future__ import annotations

import numpy as np

from snapdyn.dynamics import SequenceClasses, sgd
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.assumptions import Condition
from snapdyn.validation.dense_algebra import IDENTITY_ERROR, softmax
from snapdyn.validation.evidence import Evidence
from snapdyn.validation.pictures import Picture
from snapdyn.validation.properties import Measured, Property
from snapdyn.validation.register import claim
from snapdyn.validation.search import Family, Instance
from snapdyn.validation.visits import FROZEN

# Contextual tokens of the sequences that are drawn on an instance: the rarest token, of share 1e-4, occurs 1e8 times.
LONG = 10**12
# Standard errors: 40,000 instances of up to 60 tokens exceed it with probability 3e-9.
STANDARD_ERRORS = 8.0

DOMAIN = Family(
    "any classes",
    "any",
    uniform=False,
    num_classes=(1, 6),
    num_common=(0, 6),
    num_distinct=(0, 8),
    vocab_size=(100, 100),
    ratio=(1.0, 1.0),
    horizon=(1.0, 1.0),
)


def limit(P: Floats, z: Floats) -> tuple[Floats, Floats]:
    """c_n of (5) and the standard deviation of sqrt(T-1) q, (M,) each, for frequencies P and logits z.

    Delta method: q = w p^/(w.p^) has slopes J = (diag w - c w^T)/(P.w), J P = 0, and Cov(p^) = (diag P - P P^T)/(T-1).
    """
    weight = np.exp(z - z.max())
    c = P * weight / (P @ weight)
    jacobian = (np.diag(weight) - np.outer(c, weight)) / (P @ weight)
    return c, np.sqrt(jacobian**2 @ P)


def in_standard_errors(instance: Instance, forgotten: float = 0.0) -> Measured:
    """Largest |q - c_n| over its standard error for one drawn sequence of LONG tokens per class.

    The logits are drawn at random: c_n differs from P. The wrong theory forgets a share of them in c_n.
    """
    rng = np.random.default_rng(np.random.SeedSequence(instance.seed, spawn_key=(instance.number, 2)))
    classes = instance.classes
    z = rng.normal(size=(classes.queries.size, classes.num_tokens))
    worst, where, error = 0.0, "", 0.0
    for n, P in enumerate(classes.P.toarray()):
        held = P > 0
        if held.sum() < 2:
            continue  # a class of one token has q = c_n = 1
        logits = z[classes.query_index[n], held]
        frequency = rng.multinomial(LONG, P[held] / P[held].sum()) / LONG
        c, deviation = limit(P[held], (1 - forgotten) * logits)
        q = frequency * np.exp(logits) / (frequency @ np.exp(logits))
        distance = np.abs(q - c) * np.sqrt(LONG) / deviation
        token = int(distance.argmax())
        if distance[token] >= worst:
            worst, where = float(distance[token]), f"token {np.flatnonzero(held)[token]} of class {n}"
            # A token of small expected count m is not normal: Bernstein's inequality for counts allows 2 L/3 more than
            # sqrt(2 L m), L = STANDARD_ERRORS^2/2, which is STANDARD_ERRORS^2/(3 sqrt(m)) standard errors.
            rare = STANDARD_ERRORS**2 / 3 / np.sqrt(LONG * P[held][token])
            error = float(4 * np.finfo(float).eps * c[token] * np.sqrt(LONG) / deviation[token] + rare)
    return Measured(worst, at_most=STANDARD_ERRORS, error=error, where=where)


@claim(
    "lemma2",
    source="Lemma 2, Eqs. (5)-(6)",
    title="Attention of long sequences tends to c_n",
    answer="Holds: attention tends to c_n, and its spread falls as 1/sqrt(T).",
    statement=(
        "As T grows, the attended token frequencies X^T b tend to c_n with c_n[l] proportional to "
        "P(l|n) exp(z_l), and X^T diag(b) X tends to diag(c_n)."
    ),
    latex=r"X^\top b\to c_n,\quad c_n[l]\propto P(l|n)\,e^{z_l},\quad X^\top\mathrm{diag}(b)X\to\mathrm{diag}(c_n)",
    assumptions=("contextual tokens independent given the class, no positions",),
    properties=Property(
        "largest |q - c_n| at T-1 = 1e12, random logits, in standard errors",
        "SGD sample",
        in_standard_errors,
        DOMAIN,
        controls={
            "wrong theory: q tends to P, without exp(z)": lambda instance: in_standard_errors(instance, 1.0),
            "wrong theory: a temperature of 1.0001": lambda instance: in_standard_errors(instance, 1e-4),
        },
        evaluations=(300, 20_000),
        directed=False,
    ),
)
def lemma2(evidence: Evidence) -> None:
    evidence.proved("sequence-counts")
    rng = np.random.default_rng(20)
    P = rng.dirichlet(np.full(12, 2.0))
    z = rng.normal(size=12)
    weight = np.exp(z)
    c, deviation = limit(P, z)

    # Token by token, for one sequence: X^T b and X^T diag(b) X are functions of the counts alone.
    tokens = rng.choice(12, size=200, p=P)
    X = np.eye(12)[tokens]
    b = softmax(X @ z)
    counts = np.bincount(tokens, minlength=12)
    from_counts = counts * weight / (counts @ weight)
    identity = max(
        float(np.abs(X.T @ b - from_counts).max()), float(np.abs(X.T @ (b[:, None] * X) - np.diag(from_counts)).max())
    )
    evidence.holds("X^T b and X^T diag(b) X from the counts alone", "SGD sample", identity, at_most=IDENTITY_ERROR)

    lengths = np.array([10**k for k in range(2, 7)])
    runs = 2000 if evidence.full else 200
    spread, worst = [], 0.0
    for length in lengths:
        drawn = rng.multinomial(length, P, size=runs)
        q = drawn * weight / (drawn @ weight)[:, None]
        spread.append(float(np.sqrt(((q - c) ** 2).mean(axis=0)) @ np.ones(12)))
        # Mean over runs against c in standard errors, at the longest sequences only: the bias is O(1/T).
        worst = float(np.abs((q.mean(axis=0) - c) / (deviation / np.sqrt(length * runs))).max())
    slope = float(np.polyfit(np.log(lengths), np.log(spread), 1)[0])
    # A root mean square over `runs` draws has relative error 1/sqrt(2 runs); the slope of 5 points over 4 decades
    # inherits at most that over 4 ln 10 / sqrt(5); four of its standard errors are allowed, plus the O(1/T) bias.
    slope_bound = 4 / np.sqrt(2 * runs) / (4 * np.log(10) / np.sqrt(5)) + 0.01
    # 12 tokens at a family level of 1e-5: normal quantile 5.1.
    name = f"mean of q over {runs} sequences at T-1 = 1e6 against c_n, in standard errors"
    evidence.holds(name, "SGD sample", worst, at_most=5.1)
    evidence.holds("the same for the sequences that SGD draws", "SGD", _of_sgd(P, z, runs), at_most=5.1)
    name = "spread of q falls as (T-1)^-1/2: |fitted slope + 1/2|"
    evidence.holds(name, "SGD sample", abs(slope + 0.5), at_most=slope_bound)
    evidence.conclusion = f"Fitted slope of the spread {slope:.4f}; the limit is c_n within its standard error."
    evidence.picture = Picture(
        "contextual tokens T-1",
        "sum over tokens of rms(q - c)",
        (
            Picture.line("theory: delta method", lengths, deviation.sum() / np.sqrt(lengths)),
            Picture.line("sampled sequences", lengths, spread, "simulation"),
        ),
        yscale="log",
    )
    fewest = float(P.min() * lengths[-1])
    required = "P(l|n) (T-1) >= 100 for every token at the longest"
    evidence.conditions.append(Condition("long sequences", required, 100.0, fewest, fewest >= 100))
    evidence.seeds.extend((20, 0))


def _of_sgd(P: Floats, z: Floats, runs: int) -> float:
    """Mean of q over the sequences of T-1 = 1e6 that SGD draws against c_n, in standard errors: largest.

    Y moves by f (x - alpha)^T, and q is f over its sum.
    """
    classes = SequenceClasses(P[None], [0], vocab_size=20)
    trained = sgd(classes, 1e-6, FROZEN, runs, seq_len=10**6, init={"z": z[None]}, save_decoder=True)
    assert trained.Y is not None
    moved = np.diff(trained.Y[:, trained.decoder_rows, 0], axis=0)
    q = moved / moved.sum(axis=1, keepdims=True)
    c, deviation = limit(P, z)
    return float(np.abs((q.mean(axis=0) - c) / (deviation / np.sqrt(1e6 * runs))).max())
