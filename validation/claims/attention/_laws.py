"""Laws of the logits' rates and changes: Theorem 2, Corollary 2, linear response. Tests reject 1.1 times a law."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from snapdyn.validation.claims.attention._linear_response import ALLOWANCE, movement, response
from snapdyn.validation.claims.attention._shared import (
    MODIFIED_FLOW,
    TURNS,
    WORDS,
    Tokens,
    common_tokens,
    drift_at_end,
    heights,
    logits_of,
    some,
)
from snapdyn.validation.claims.language import (
    EPS,
    EXACT,
    INDEPENDENT_ATTENTION,
    INFINITE_LENGTH,
    LINEAR_ALGEBRA,
    MEAN_FIELD,
    OVERLAPPING,
    OWN_NEXT_TOKENS,
    WIDEST,
    Family,
    Floats,
    Instance,
    Measured,
    Property,
    Requirement,
    by_query,
    dense_attention,
    flow,
    growth_over_gamma,
    noise,
    start_of,
)

# Rounding of two solutions with a Gram matrix, in units of its condition number.
OPERATIONS = 1e3

# Changes of ln f at which linear response is compared with runs, and the relative error that it may have there: its
# second order is up to ALLOWANCE times the change.
SMALL = 1e-3
LINEAR = ALLOWANCE * SMALL


def compared(at: Instance, drift: Floats, tokens: Tokens | None = None) -> Measured:
    """`drift` (Q, M) against the rates of Eq. (10) by dense linear algebra at z(0), t_end, over what rounding allows.

    Both routes solve linear systems with the Gram matrix, so its condition number amplifies some hundred roundings.
    """
    expected, g = drift_at_end(at)
    size = (at.prior * np.linalg.norm(g, axis=1)).max()
    allowed = OPERATIONS * EPS * float(np.linalg.cond(at.gram)) * size
    of = ... if tokens is None else logits_of(at.classes, tokens)
    return Measured(np.abs(drift - expected)[of].max() / allowed, at_most=1.0)


def exact_speed(at: Instance) -> Floats:
    """xi_n/gamma_n of Theorem 1(a), any priors, (S,)."""
    return growth_over_gamma(at.overlaps[None], float(at.vocab_size), heights(at)[None])[0]


def leading_speed(at: Instance) -> Floats:
    """Wrong theory: xi_n/gamma_n = -E'_nn to leading order, (S,)."""
    return np.asarray(np.linalg.inv(at.gram).diagonal() - 1)


def by_law(
    instance: Instance, tokens: Tokens, factor: float = 1.0, speed: Callable[[Instance], Floats] = exact_speed
) -> Measured:
    """Rates sum_n p_n xi_n f_nl^2 (1 - [l common]/|common part of f_n|^2) of logits against Eq. (10), `compared`.

    The law is (98) for distinct tokens and (100) for a single common one. It also holds for one query with
    proportional common parts: there f_kl = f_nl f_n.f_k/|common part of f_n|^2.
    """
    _, f = dense_attention(instance.classes, start_of(instance))
    h, V = heights(instance), float(instance.vocab_size)
    gamma = (V - 1) ** 2 * h * np.exp(-V * h) / ((V - 1) * np.exp(-V * h) + 1)
    common = np.isin(np.arange(f.shape[1]), common_tokens(instance.classes))
    shared = (f[:, common] ** 2).sum(axis=1, keepdims=True)
    share = f**2 * np.where(common, 1 - 1 / np.where(shared > 0, shared, 1.0), 1.0)
    xi = factor * instance.prior * gamma * speed(instance)
    return compared(instance, by_query(instance, xi[:, None] * share), tokens)


def rate_law(name: str, tokens: Tokens, domain: Family, *conditions: Requirement) -> Property:
    """Property: the rates of logits are those of a law, at every state."""
    law = partial(by_law, tokens=tokens)
    return Property(
        f"rates under Eq. (10) against {name}, over what rounding allows",
        LINEAR_ALGEBRA,
        law,
        replace(domain, num_classes=(2, 100), ratio=WIDEST.ratio, horizon=WIDEST.horizon),
        (some("common" if tokens is common_tokens else "distinct", tokens), *MODIFIED_FLOW, *conditions),
        controls={
            "wrong theory: 1.1 times the law": partial(law, factor=1.1),
            "wrong theory: xi_n = -gamma_n E'_nn, its leading order, exactly": partial(law, speed=leading_speed),
        },
        directed=False,
    )


def against_response(
    instance: Instance, tokens: Tokens, factor: float = 1.0, rung: str = MEAN_FIELD
) -> Measured | None:
    """Largest |z - z(0) - `factor` times linear response| at t_end over the largest |z - z(0)|, logits of `tokens`."""
    run = flow(instance, rung)
    coordinates = instance.classes.z_coordinates
    kept = np.isin(coordinates[1], tokens(instance.classes))
    change, law = (run.z[-1] - run.z_initial)[coordinates][kept], factor * response(instance).z[kept]
    largest = np.abs(change).max()
    if largest == 0:
        return None
    return Measured(np.abs(change - law).max() / largest, at_most=LINEAR, error=noise(instance, rung) / largest)


LITTLE_MOVEMENT = Requirement(
    "little movement", f"largest change of ln f <= {SMALL:g} (linear response)", movement, at_most=SMALL, defining=True
)


def movement_over_rounding(instance: Instance, tokens: Tokens | None, rounding: float) -> float:
    """Largest |z - z(0)| of logits at t_end by linear response, over the rounding of a run plus `rounding`."""
    token = instance.classes.z_coordinates[1]
    kept = np.ones(token.size, bool) if tokens is None else np.isin(token, tokens(instance.classes))
    return np.abs(response(instance).z[kept]).max(initial=0.0) / (noise(instance, MEAN_FIELD) + rounding)


def movement_above_rounding(tokens: Tokens | None = None, rounding: float = 0.0) -> Requirement:
    """Requirement that a relative change of logits can be compared to 1 % at all."""
    return Requirement(
        "movement above rounding",
        "largest |z - z(0)| at t_end by linear response >= 300 times its rounding",
        partial(movement_over_rounding, tokens=tokens, rounding=rounding),
        at_least=300.0,
    )


def response_law(tokens: Tokens, domain: Family, *conditions: Requirement, **facts: Any) -> Property:
    """Property: in the mean field logits move as linear response says."""
    law = partial(against_response, tokens=tokens)
    return Property(
        f"{TURNS[tokens][0].split()[-1]} logits at t_end against linear response, relative to the largest",
        WORDS[MEAN_FIELD],
        law,
        replace(domain, ratio=(1e-6, 1e-2), horizon=(1e-2, 1e4)),
        (
            *TURNS[tokens][1],
            OWN_NEXT_TOKENS,
            INFINITE_LENGTH,
            INDEPENDENT_ATTENTION,
            OVERLAPPING,
            LITTLE_MOVEMENT,
            movement_above_rounding(tokens),
            *conditions,
        ),
        controls={
            "wrong theory: 1.1 times linear response": partial(law, factor=1.1),
            "wrong theory: Eq. (10) moves as linear response says": partial(law, rung=EXACT),
        },
        evaluations=(8, 1000),
        directed=False,
        **facts,
    )
