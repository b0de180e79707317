"""Theorem 3, Eq. (11): the relative gain of distinct tokens follows the growth factor."""

import math
from dataclasses import replace
from functools import partial

import numpy as np

from snapdyn import analytic
from snapdyn.dynamics import random_classes
from snapdyn.validation.claims.attention._finite_length import COUNTED, EQUAL_COUNTS, counts_between_tokens
from snapdyn.validation.claims.attention._laws import movement_above_rounding
from snapdyn.validation.claims.attention._linear_response import gain_memory, movement, response
from snapdyn.validation.claims.attention._shared import FLOWS, OWN, SHORT_SEQUENCES
from snapdyn.validation.claims.language import (
    EPS,
    EXACT,
    INDEPENDENT_ATTENTION,
    MEAN_FIELD,
    OVERLAPPING,
    OWN_NEXT_TOKENS,
    TWO_DISTINCT,
    Claim,
    Instance,
    Measured,
    Property,
    Requirement,
    flow,
    noise,
)
from snapdyn.validation.claims.maps import rates_map

# rtol 1e-8 per step over some hundred steps.
SOLVER = 1e-5
# "Eq. (11) holds" in the mean field is read as: to a percent of 1 + |r|.
PERCENT = 1e-2
TWO_OR_MORE = replace(FLOWS, num_distinct=(2, 4))


# While no ln f has changed by more than 1, errors of up to 1.47 times the law were found by a directed search.
SMALL_MEMORY = Requirement(
    "little memory of the difference of growth",
    "error of (11) by linear response <= 0.005, at max |change of ln f| < 1",
    gain_memory,
    at_most=PERCENT / 2,
)


def gain_error(
    instance: Instance, rung: str = MEAN_FIELD, exponent: float = 2.0, relative: bool = False
) -> Measured | None:
    """Largest |r - r(0) chi| over 1 + |r|, over all pairs of distinct tokens of a class; chi = exp(exponent dz).

    With `relative` the error is over (1 + |r|) max |2 dz|, the size of the change of r.
    """
    run = flow(instance, rung)
    worst, where = 0.0, "no distinct pair"
    for n in range(instance.num_classes):
        tokens, m = instance.classes.distinct_tokens(n), instance.classes.query_index[n]
        start = run.z_initial[m, tokens]
        weight, growth = np.log(instance.P[n, tokens]) + start, run.z[:, m, tokens] - start
        odds = weight[:, None] - weight
        r = np.expm1(2 * (odds + growth[:, :, None] - growth[:, None, :]))
        # An r(0) that rounds to -1 is above it.
        first = np.maximum(np.expm1(2 * odds), EPS - 1)
        predicted = analytic.relative_gain(first, np.minimum(exponent * growth, 300.0)[:, :, None] / 2)
        error = np.abs(r - predicted) / (1 + np.abs(r))
        if error.max(initial=0.0) > worst:
            i, *pair = np.unravel_index(error.argmax(), error.shape)
            a, b = tokens[pair]
            worst, where = error.max(), f"tokens {a}, {b} of class {n}, t = {run.t[i]:.3g}"
    at_most = SOLVER if rung == EXACT else PERCENT
    unit = 2 * np.abs(run.z - run.z_initial).max() if relative else 1.0
    # r rounds to eps of 1 + |r|, times ln(1 + r).
    error = noise(instance, rung) + (100 * EPS if relative else 0.0)
    if rung == EXACT:  # the bound is that of the solver, whose errors add up like the root of the number of steps
        error += run.stats["rtol"] * math.sqrt(run.stats["steps"]) * np.abs(run.z).max()
    return Measured(worst / unit, at_most, error=error / unit, where=where) if unit else None


def strong(ratio: float) -> Instance:
    """Classes of strong correlation, whose logits move far, at eta_Z/eta_Y = `ratio`."""
    return Instance.of(random_classes(3, 1, 3, vocab_size=500, correlation="strong", seed=60), 1.0, ratio, 1e5)


def memory_of_change(instance: Instance) -> float:
    """Error of (11) by linear response over (1 + |r(0)|) max |2 dz|; 0 where no logit moves."""
    largest = 2 * np.abs(response(instance).z).max()
    return gain_memory(instance) / largest if largest else 0.0


IN_MEAN_FIELD = Property(
    "largest error of (11) over 1 + |r|",
    "mean field",
    gain_error,
    TWO_OR_MORE,
    conditions=(TWO_DISTINCT, OWN, COUNTED, EQUAL_COUNTS, SMALL_MEMORY),
    evaluations=(60, 2000),
    beyond={"strong correlation, eta_Z/eta_Y = 1": strong(1.0)},
)
RELATIVE = Property(
    "largest error of (11) over (1 + |r|) max |2 dz|",
    "mean field",
    partial(gain_error, relative=True),
    replace(TWO_OR_MORE, ratio=(1e-6, 1e-2), horizon=(1e-2, 1e4)),
    conditions=(
        TWO_DISTINCT,
        OWN_NEXT_TOKENS,
        COUNTED,
        EQUAL_COUNTS,
        OVERLAPPING,
        Requirement(
            "memory is a small part of the change",
            "error of (11) by linear response <= 0.005 max |2 dz|, at max |change of ln f| <= 0.1",
            lambda i: memory_of_change(i) if movement(i) <= 0.1 else np.inf,
            at_most=PERCENT / 2,
            defining=True,
        ),
        movement_above_rounding(rounding=100 * EPS),
    ),
    controls={
        "wrong theory: r keeps its start, mean field, relative to its change": partial(
            gain_error, exponent=0.0, relative=True
        ),
        "wrong theory: chi = exp(2.2 z), 1.1 times the exponent, mean field": partial(
            gain_error, exponent=2.2, relative=True
        ),
    },
    evaluations=(12, 1000),
    directed=False,
    beyond=SHORT_SEQUENCES,
)


def at_infinite_length(instance: Instance) -> Measured | None:
    """Wrong theory: length does not matter; the error where sequences are 1000 times shorter than they may be."""
    share = counts_between_tokens(instance)
    if not 0.0 < share < np.inf:
        return None
    seq_len = max(1, round((instance.seq_len or 1) * share / (1e3 * (EQUAL_COUNTS.at_most or 1.0))))
    return gain_error(replace(instance, seq_len=seq_len), relative=True)


CLAIM = Claim(
    "theorem3-gain",
    under_rules=(
        "With Adam on attention alone the ratio of two distinct tokens does not change (adam-gain); with Adam "
        "on both layers the frequent one loses its lead (adam-winner)"
    ),
    source="Theorem 3, Eqs. (11), (110), (112)",
    title="The lead of one token over another is its first value times the token's growth factor",
    statement=(
        "For two distinct tokens l, l' of class n, r_{l/l'|n}(t) = r_{l/l'|n}(0) chi_l(t), chi_l = exp(2 (z_l(t) - "
        "z_l(0))). (In the full mean field it holds to 1 % of 1 + |r| where linear response predicts an error of at "
        "most 0.5 %.)"
    ),
    latex=r"r_{l/l'|n}(t)=r_{l/l'|n}(0)\,\chi_l(t),\qquad e^{-2\Delta z_l}-1=(r(0)+1)(e^{-2\Delta z_{l'}}-1)",
    conditions=(
        "one class per next token; T infinite, or so large that the noise of the counts acts on the distinct tokens of "
        "a class alike (early-sign)",
        "Eq. (10), where (11) is exact; or in the mean field an error of at most 0.5 % by linear response, 2 f_l^2 "
        "eta_Z p_n int (D_l - D_l') dt with dz_l/dt = eta_Z p_n f_l^2 D_l, at changes of ln f below 1. In the mean "
        "field r often changes by less than 1 %, so the error over 1 + |r| seldom tells (11) from r = r(0); errors "
        "over the change of r do, and so do the runs at strong correlation",
    ),
    conclusion=(
        "Exact under (10); in the full mean field the decoder's memory adds an error, which linear response "
        "estimates. At strong correlation this error is {eta_Z/eta_Y = 0.0001:.1g} of 1 + |r| at eta_Z/eta_Y = 1e-4, "
        "{eta_Z/eta_Y = 0.001:.1g} at 1e-3, where r itself changes by 6 %, and {strong correlation, eta_Z/eta_Y = "
        "1:.1g} at 1. The printed (112) lacks a factor 2 (F9); (11) itself is right. Relative to the change of r, "
        "(11) holds to 1 % where memory is small; an exponent of 2.2 in place of 2 fails. With sequences of 300 "
        "tokens (11) errs by {two classes, T - 1 = 300:.0%} of that change on two classes."
    ),
    expected="conditional",
    properties=(
        IN_MEAN_FIELD,
        RELATIVE,
        Property(
            "largest error of (11) over 1 + |r|",
            "modified decoder",
            partial(gain_error, rung=EXACT),
            TWO_OR_MORE,
            conditions=(TWO_DISTINCT, OWN_NEXT_TOKENS, INDEPENDENT_ATTENTION),
            controls={
                "wrong theory: r keeps its start": partial(gain_error, rung=EXACT, exponent=0.0),
                "wrong theory: chi = exp(z), without the factor 2": partial(gain_error, rung=EXACT, exponent=1.0),
                "wrong theory: chi = exp(2.2 z), 1.1 times the exponent": partial(gain_error, rung=EXACT, exponent=2.2),
            },
            evaluations=(60, 2000),
        ),
        Property(
            "largest error of (11) over 1 + |r| at strong correlation",
            "mean field",
            gain_error,
            controls={"wrong theory: r keeps its start, mean field": partial(gain_error, exponent=0.0)},
            cases={f"eta_Z/eta_Y = {ratio:g}": strong(ratio) for ratio in (1e-4, 1e-3)},
        ),
        replace(
            RELATIVE,
            name=f"{RELATIVE.name}, finite sequences",
            domain=replace(
                TWO_OR_MORE,
                name="finite sequences",
                seq_len=(10, 10**9),
                vocab_size=(2, 10**6),
                ratio=(1e-6, 1e-2),
                horizon=(1e-2, 1e4),
            ),
            controls={"wrong theory: T infinite": at_infinite_length},
            beyond={},
        ),
    ),
    proved=("relative-gain", "relative-gain-rate", "companion-growth"),
    map=partial(rates_map, prop=IN_MEAN_FIELD, name="theorem3-gain-memory", threshold=PERCENT),
    findings=("F9", "F10"),
)
