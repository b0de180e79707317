"""Initial logits as a prior: which of two distinct tokens of a class stays ahead."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from snapdyn.dynamics import SequenceClasses
from snapdyn.validation.claims.extensions._shared import INFINITE_T, WIDE, alike, on_flows, run_error, run_of
from snapdyn.validation.claims.language import (
    DESCENT,
    EXACT,
    FINITE_T,
    MEAN_FIELD,
    SGD,
    Claim,
    Floats,
    Grid,
    Instance,
    Ints,
    Map,
    Measured,
    Property,
    Requirement,
    flow,
    starts,
)

# Two tokens whose logarithms of P exp(z(0)) differ by less are a tie.
TIE = 1e-3

# ln of a token's prior from ln P (S, M) and z(0) by class (S, M).
Prior = Callable[[Floats, Floats], Floats]


def ranked(instance: Instance, prior: Prior = np.add) -> Iterator[tuple[int, Ints, Floats]]:
    """Give each class, its L tokens that no other class has in the order of a prior, and the prior's L - 1 leads."""
    with np.errstate(divide="ignore"):
        ahead = prior(np.log(instance.P), starts(instance))
    single = instance.of_one_class
    for n in range(instance.num_classes):
        tokens = np.flatnonzero((instance.P[n] > 0) & single)
        tokens = tokens[np.argsort(-ahead[n, tokens], kind="stable")]
        yield n, tokens, -np.diff(ahead[n, tokens])


RIVAL_TOKENS = Requirement(
    "rivals",
    f"two distinct tokens of a class whose ln(P exp(z(0))) differ by {TIE:g}",
    lambda instance: max(float(leads.sum()) for _, _, leads in ranked(instance)),
    at_least=TIE,
    defining=True,
)


def smallest_lead(instance: Instance, rung: str, prior: Prior = np.add) -> Measured | None:
    """Smallest lead of a token over the next one of its class in the order of a prior, over the prior's lead.

    The lead is the difference of ln(P exp(z)) of two neighbours; the result is the smallest over times, classes and
    neighbours.

    The mean field keeps the order: where f_a = f_b, z_a' - z_b' = eta_Z p f (g_a - g_b). From Y(0) = 0 the row of a
    token of one class is Y_l = eta_Y p int f_l (e_n - alpha_n) dt, so g_a - g_b = eta_Y p int (f_a - f_b)(t')
    error(t').error(t) dt' > 0 if a was ahead, error = e_n - alpha_n: two errors of a class have the product (1 -
    alpha)(1 - alpha') + sum of alpha_j alpha_j' > 0. In the modified flow z_l' depends on l only through f_l, so the
    paths of two tokens do not cross.
    """
    run = flow(instance, rung)
    error = run_error(instance, max(float(np.abs(run.z).max()), 1e-300))
    found = []
    for n, tokens, leads in ranked(instance, prior):
        paths = np.log(instance.P[n, tokens]) + run.z[:, instance.classes.query_index[n]][:, tokens]
        for k in np.flatnonzero(leads >= TIE):
            least = (paths[:, k] - paths[:, k + 1]).min() / leads[k]
            where = f"tokens {tokens[k]} and {tokens[k + 1]} of class {n}"
            found.append(Measured(least, at_least=0.0, error=error / leads[k], where=where))
    return min(found, key=lambda each: each.value, default=None)


# Three classes of one query. Tokens 1 and 2 of class 0 are its rivals, with probabilities in the ratio 6 : 5.
CLASSES = SequenceClasses(alike(0.4, 0.3, 0.25, 0.05), [0, 0, 0], vocab_size=10)
# Head start of the rarer rival at which P exp(z(0)) of both are equal.
CROSSING = float(np.log(6 / 5))


def final_lead(setting: dict[str, Any], head_start: float) -> float:
    """ln of the first rival's attention over the rarer one's after 200 steps; the rarer one has z(0) = `head_start`."""
    start = np.eye(1, CLASSES.num_tokens, 2) * head_start
    run = run_of(Instance.of(CLASSES, 0.5, 0.5, 200, start), **setting)
    return float(np.log(run.token_attention(0, 1)[-1] / run.token_attention(0, 2)[-1]))


def final_difference(setting: dict[str, Any], head_start: float = CROSSING) -> Measured:
    """|Final lead| from a head start at which the rivals are equal by a theory; the solver errs by less than 1e-9."""
    return Measured(abs(final_lead(setting, head_start)), at_most=1e-9)


def finite(length: float, seed: int = 0) -> dict[str, Any]:
    """Setting of SGD on sequences of `length` tokens."""
    return {"rung": FINITE_T, "seq_len": int(length), "batch_size": 8, "seed": seed}


def length_map(level: str) -> Map:
    """Share of SGD runs in which the token with the larger P exp(z(0)) loses, over its lead and the sequence length."""
    count, seeds = (11, 50) if level == "full" else (5, 10)
    lengths, leads = np.geomspace(4, 1e4, count).round(), np.geomspace(1e-2, 1, count)
    grid = Grid(
        {"lead": leads, "length": lengths},
        lambda lead, length: [final_lead(finite(length, seed), CROSSING - lead) for seed in range(seeds)],
        lambda ends: np.mean(np.array(ends) <= 0),
    )
    return Map.over(
        "Where P exp(z(0)) does not decide: SGD, 200 steps", ("T", "ln of P exp(z(0)) over the rival's"),
        "share of the runs in which the rival ends ahead", grid, 0.05,
        scale="linear",
    )  # fmt: skip


CLAIM = Claim(
    "initial-prior",
    source="Section 5 (initial value as prior), after Theorem 3",
    title="Initial logits are a prior: P exp(z(0)) decides which token dominates",
    statement=(
        "Of two distinct tokens of a class, the one with the larger c~_l(0) = P(l|n) exp(z_l(0)) stays ahead for "
        "ever: as initial logits vary, the winner changes exactly where the two values of P exp(z(0)) are equal."
    ),
    latex=r"r_{l/l'|n}(t)\gtrless0\iff P(l|n)\,e^{z_l(0)}\gtrless P(l'|n)\,e^{z_{l'}(0)}",
    conditions=("T infinite", "Y(0) = 0", "a distinct token occurs in one class only"),
    conclusion=(
        "Holds for long sequences and Y(0) = 0; short sequences or a random Y(0) can overrule it. Which token is "
        "ahead is tested as a sign, and equality at the crossing to 1e-9. Two tokens with equal P exp(z(0)) keep "
        "equal attention under flow, descent and SGD. With sequences of 16 tokens, whose counts scatter, "
        "|ln(f_1/f_2)| is {SGD, sequences of 16 tokens:.2f} at the end of a run; from a random Y(0) it is {descent, "
        "Y(0) uniform in +-1/sqrt(V):.2f}."
    ),
    expected="conditional",
    properties=(
        *on_flows(
            "smallest lead of a distinct token over the next one of its class, over the lead in ln(P exp(z(0)))",
            smallest_lead,
            {
                "wrong theory: frequency alone decides, whatever z(0)": {"prior": lambda log_P, start: log_P},
                "wrong theory: z(0) alone decides, whatever P": {"prior": lambda log_P, start: start},
            },
            WIDE,
            RIVAL_TOKENS,
            evaluations=(60, 2000),
        ),
        Property(
            "final |ln(f_1/f_2)| of two rivals with equal P exp(z(0))",
            "flow and training",
            final_difference,
            conditions=(
                INFINITE_T,
                Requirement("zero Y(0)", "Y(0) = 0", lambda setting: float("init" in setting), at_most=0),
            ),
            controls={
                "wrong theory: z(0) counts 1.1 times, P exp(1.1 z(0)) equal": partial(
                    final_difference, head_start=CROSSING / 1.1
                )
            },
            cases={
                "mean field": {"rung": MEAN_FIELD},
                "modified decoder": {"rung": EXACT},
                "descent": {"rung": DESCENT},
                "SGD": {"rung": SGD, "seed": 3},
            },
            beyond={
                "SGD, sequences of 16 tokens": finite(16),
                "descent, Y(0) uniform in +-1/sqrt(V)": {
                    "rung": DESCENT,
                    "init": {"Y": np.random.default_rng(23).uniform(-1, 1, (10, 10)) / 10**0.5},
                },
            },
        ),
    ),
    map=length_map,
)
