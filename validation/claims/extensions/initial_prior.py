"""Initial logits as a prior: which of two distinct tokens of a class stays ahead."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from snapdyn.dynamics import SequenceClasses
from snapdyn.dynamics.classes import Floats, Ints
from snapdyn.validation.claims.extensions._shared import alike, on_two_rungs, run_error, run_from
from snapdyn.validation.measured import Measured
from snapdyn.validation.pictures import Map, Picture
from snapdyn.validation.properties import Property, Requirement
from snapdyn.validation.register import Claim
from snapdyn.validation.rungs.run import DESCENT, EXACT, FINITE_T, MEAN_FIELD, SGD
from snapdyn.validation.search import Instance, flow

# Two tokens whose logarithms of P exp(z(0)) differ by less are a tie.
TIE = 1e-3

# ln of a token's prior from ln P (S, M) and z(0) by class (S, M).
Prior = Callable[[Floats, Floats], Floats]


def own_tokens(instance: Instance) -> Iterator[tuple[int, Ints]]:
    """Classes and their tokens that occur in no other class, for classes with at least two of them."""
    single = np.count_nonzero(instance.P, axis=0) == 1
    for n in range(instance.num_classes):
        tokens = np.flatnonzero((instance.P[n] > 0) & single)
        if tokens.size > 1:
            yield n, tokens


def log_priors(instance: Instance) -> tuple[Floats, Floats]:
    """Return ln P up to a constant per class, and z(0), each (S, M)."""
    with np.errstate(divide="ignore"):
        log_P = np.log(instance.P)
    start = np.zeros_like(log_P) if instance.start is None else instance.start[instance.classes.query_index]
    return log_P, start


def _largest_lead(instance: Instance) -> float:
    ahead = np.add(*log_priors(instance))
    return max((float(np.ptp(ahead[n, tokens])) for n, tokens in own_tokens(instance)), default=0.0)


RIVAL_TOKENS = Requirement(
    "rivals", f"two distinct tokens of a class whose ln(P exp(z(0))) differ by {TIE:g}", _largest_lead, at_least=TIE,
    defining=True,
)  # fmt: skip


def smallest_lead(rung: str, prior: Prior) -> Callable[[Instance], Measured | None]:
    """Smallest lead of a token over the next one of its class in the order of a prior, over the prior's lead.

    The lead is the difference of ln(P exp(z)) at a saved time; the smallest over times, classes and neighbours.

    The mean field keeps the order: where f_a = f_b, z_a' - z_b' = eta_Z p f (g_a - g_b). From Y(0) = 0 the row of a
    token of one class is Y_l = eta_Y p int f_l error dt, so g_a - g_b = eta_Y p int (f_a - f_b)(t') error(t').error(t)
    dt' > 0 if a was ahead: two errors of a class have the product (1 - alpha)(1 - alpha') + sum of alpha_j alpha_j'
    > 0. In the modified flow z_l' depends on l through f_l alone, so paths do not cross.
    """

    def measure(instance: Instance) -> Measured | None:
        run = flow(instance, rung)
        if run is None:
            return None
        log_P, start = log_priors(instance)
        ranked = prior(log_P, start)
        error = run_error(instance, max(float(np.abs(run.z).max()), 1e-300))
        worst: Measured | None = None
        for n, tokens in own_tokens(instance):
            tokens = tokens[np.argsort(-ranked[n, tokens], kind="stable")]
            leads = -np.diff(ranked[n, tokens])
            clear = np.flatnonzero(leads >= TIE)
            if not clear.size:
                continue
            z = run.z[:, instance.classes.query_index[n]][:, tokens]
            now = -np.diff(log_P[n, tokens] + z, axis=1)[:, clear] / leads[clear]
            i, k = np.unravel_index(np.argmin(now), now.shape)
            if worst is None or now[i, k] < worst.value:
                first = clear[k]
                where = f"tokens {tokens[first]} and {tokens[first + 1]} of class {n} at t = {run.t[i]:.3g}"
                worst = Measured(now[i, k], at_least=0.0, error=error / leads[first], where=where)
        return worst

    return measure


WRONG: dict[str, Prior] = {
    "wrong theory: frequency alone decides, whatever z(0)": lambda log_P, start: log_P,
    "wrong theory: z(0) alone decides, whatever P": lambda log_P, start: start,
}


# Three classes of one query. Tokens 1 and 2 of class 0 are its rivals, with probabilities in the ratio 6 : 5.
CLASSES = SequenceClasses(alike(0.4, 0.3, 0.25, 0.05), [0, 0, 0], vocab_size=10)
# Head start of the rarer rival at which P exp(z(0)) of both are equal.
CROSSING = float(np.log(6 / 5))
SETTINGS: dict[str, dict[str, Any]] = {
    "mean field": {"rung": MEAN_FIELD},
    "modified decoder": {"rung": EXACT},
    "descent": {"rung": DESCENT},
    "SGD": {"rung": SGD, "seed": 3},
}


def final_lead(setting: Mapping[str, Any], head_start: float) -> float:
    """ln of the first rival's attention over the rarer one's after 200 steps from a head start of the rarer one."""
    run = run_from(np.eye(1, CLASSES.num_tokens, 2) * head_start, classes=CLASSES, end=200, **setting)
    return float(np.log(run.token_attention(0, 1)[-1] / run.token_attention(0, 2)[-1]))


def lead_from(head_start: float) -> Callable[[Mapping[str, Any]], Measured]:
    """|Final lead| from a head start at which a theory has no rival ahead; the solver errs by less than 1e-9."""
    return lambda setting: Measured(abs(final_lead(setting, head_start)), at_most=1e-9)


def from_random_decoder(seed: int, size: float) -> dict[str, Any]:
    """Descent from a decoder Y(0) with entries uniform in +-size."""
    Y = np.random.default_rng((23, seed)).uniform(-size, size, size=(CLASSES.num_tokens, CLASSES.vocab_size))
    return {"rung": DESCENT, "init": {"Y": Y}}


def picture() -> Picture:
    deltas = np.linspace(CROSSING - 0.3, CROSSING + 0.2, 11)
    lines = [Picture.line("initial ln(f_1/f_2)", deltas, CROSSING - deltas)]
    for name in ("mean field", "SGD"):
        found = [final_lead(SETTINGS[name], float(delta)) for delta in deltas]
        lines.append(Picture.line(name, deltas, found, "simulation"))
    return Picture("head start of the less frequent rival", "final ln(f_1/f_2)", tuple(lines), xscale="linear")


def decoder_start_map(level: str) -> Map:
    """Share of descents in which P exp(z(0)) does not decide, over its lead and the size of a random Y(0)."""
    count, draws = (11, 50) if level == "full" else (5, 10)
    sizes, leads = np.geomspace(1e-2, 3, count), np.geomspace(1e-2, 1, count)
    share = np.empty((count, count))
    for i, j in np.ndindex(share.shape):
        starts = [from_random_decoder(seed, sizes[j]) for seed in range(draws)]
        share[i, j] = np.mean([final_lead(start, CROSSING - leads[i]) <= 0 for start in starts])
    return Map(
        "Where P exp(z(0)) does not decide: descent, 200 steps, Y(0) uniform",
        "largest |Y(0)|",
        "ln of P exp(z(0)) over the rival's",
        "share of the starts in which the rival ends ahead",
        sizes,
        leads,
        share,
        0.05,
        scale="linear",
    )


CLAIM = Claim(
    "initial-prior",
    source="Section 5 (initial value as prior), after Theorem 3",
    title="Initial logits are a prior: P exp(z(0)) decides who dominates",
    statement="Of two distinct tokens of a class, the one with the larger c~_l(0) = P(l|n) exp(z_l(0)) stays ahead for "
    "ever: initial logits swap their fates exactly where P exp(z(0)) crosses.",
    latex=r"r_{l/l'|n}(t)\gtrless0\iff P(l|n)\,e^{z_l(0)}\gtrless P(l'|n)\,e^{z_{l'}(0)}",
    conditions=("T infinite", "Y(0) = 0", "a distinct token occurs in one class only"),
    conclusion="Holds for long sequences and Y(0) = 0; short sequences or a random Y(0) can overrule it. Two rivals "
    "with equal P exp(z(0)) keep equal attention by flow, descent and SGD; with sequences of 16 tokens, whose counts "
    "scatter, a run ends with ln(f_1/f_2) of size {SGD, sequences of 16 tokens:.2f}, and from a random Y(0) of "
    "{descent, Y(0) uniform in +-1/sqrt(V):.2f}.",
    expected="conditional",
    properties=(
        *on_two_rungs(
            "smallest lead of a distinct token over the next one of its class, over the lead in ln(P exp(z(0)))",
            smallest_lead,
            np.add,
            WRONG,
            "any classes and start",
            {"num_distinct": (1, 5), "ratio": (1e-6, 1e2)},
            (RIVAL_TOKENS,),
            evaluations=(40, 1500),
        ),
        Property(
            "final |ln(f_1/f_2)| of two rivals with equal P exp(z(0))",
            "flow and training",
            lead_from(CROSSING),
            conditions=(
                Requirement("infinite T", "1/T = 0", lambda setting: 1 / setting.get("seq_len", np.inf), at_most=0),
                Requirement("zero Y(0)", "Y(0) = 0", lambda setting: float("init" in setting), at_most=0),
            ),
            controls={"wrong theory: z(0) counts twice, P exp(2 z(0)) equal": lead_from(CROSSING / 2)},
            cases=SETTINGS,
            beyond={
                "SGD, sequences of 16 tokens": {"rung": FINITE_T, "seq_len": 16, "batch_size": 8, "seed": 0},
                "descent, Y(0) uniform in +-1/sqrt(V)": from_random_decoder(0, 10**-0.5),
            },
        ),
    ),
    picture=picture,
    map=decoder_start_map,
)
