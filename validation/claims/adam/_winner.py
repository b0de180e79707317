"""The lead of a frequent token under Adam: domains, conditions, the mean map, and Adam in plain numpy."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from snapdyn.dynamics import MeanField, descend
from snapdyn.dynamics.rules import Optimizer
from snapdyn.validation.claims.adam.adam_gain_conserved import distinct_by_class
from snapdyn.validation.claims.language import (
    FROM_ZERO,
    UNIFORM,
    WIDEST,
    Floats,
    Instance,
    Measured,
    Requirement,
)
from snapdyn.validation.claims.sample_classes import three_frequencies

DURATION = 40.0  # eta_Y times updates: by then motion has ended
LEAST_LEAD = float(np.log(2.0))  # ln-ratio of two tokens at the start, below which they are not compared
BATCHES = (None, 1, 32)
DOMAIN = replace(
    WIDEST,
    name="classes with Adam on both layers",
    uniform=True,
    num_classes=(2, 12),
    num_common=(0, 4),
    num_distinct=(2, 6),
    vocab_size=(4, 10**4),
    ratio=(0.1, 2.0),
    horizon=(1.0, 1.0),
    eta_Y=(6e-3, 1.5e-2),
)


def largest_ratio(instance: Instance) -> float:
    """Largest ln-ratio of the probabilities of two distinct tokens of a class."""
    probabilities = [instance.P[n, own] for n, own in enumerate(distinct_by_class(instance)) if len(own) > 1]
    return max((float(np.ptp(np.log(each))) for each in probabilities), default=0.0)


def way_of_attention(instance: Instance) -> float:
    """Updates that make the tokens of a class equal, 1/eta_Z ln(largest/smallest P), in units of 1/eta_Y."""
    largest = max(float(np.ptp(np.log(row[row > 0]))) for row in instance.P)
    return largest * instance.eta_Y / instance.eta_Z


def other_rules(instance: Instance) -> int:
    """Number of layers whose rule is not Adam with the usual memory."""
    numbers = [rule.numbers for rule in instance.rules or ()]
    return sum(not each.adaptive or (each.beta1, each.beta2) != (0.9, 0.999) for each in numbers)


def most_tokens(instance: Instance) -> int:
    """Largest number of distinct tokens of a class, or of common tokens if there are 3 more of these."""
    distinct, common = (instance.P > 0).sum(axis=0) == 1, (instance.P > 0).sum(axis=0) > 1
    return int(max(((instance.P > 0) & distinct).sum(axis=1).max(), common.sum() + 2))


CONDITIONS = (
    Requirement("Adam (0.9, 0.999) on both layers", "layers with another rule: 0", other_rules, at_most=0),
    FROM_ZERO,
    Requirement(
        "a distinct token twice as frequent as another of its class",
        "largest ln-ratio of P of two distinct tokens of a class >= ln 2",
        largest_ratio,
        at_least=LEAST_LEAD,
        defining=True,
    ),
    UNIFORM,
    Requirement("the searched rates of Y", "eta_Y >= 0.006", lambda i: i.eta_Y, at_least=DOMAIN.eta_Y[0]),
    Requirement("the searched rates of Y", "eta_Y <= 0.015", lambda i: i.eta_Y, at_most=DOMAIN.eta_Y[1]),
    Requirement("the searched rates of z", "eta_Z/eta_Y <= 2", lambda i: i.ratio, at_most=DOMAIN.ratio[1]),
    Requirement("the searched classes", "K <= 12", lambda i: i.num_classes, at_most=12),
    Requirement("the searched outputs", "V <= 10^4", lambda i: i.vocab_size, at_most=10**4),
    Requirement("the searched tokens", "distinct of a class <= 6, common ones <= 4", most_tokens, at_most=6),
    Requirement(
        "attention keeps up with the decoder",
        "(eta_Y/eta_Z) ln(largest/smallest P of a class) <= 4",
        way_of_attention,
        at_most=4.0,
    ),
)


def leads(instance: Instance, z: Floats) -> Floats:
    """ln(c of the most frequent distinct token over c of the rarest) at logits z (Q, M) over its start, (classes,)."""
    found = []
    for n, own in enumerate(distinct_by_class(instance)):
        if len(own) < 2:
            continue
        start = np.log(instance.P[n, own])
        now = start + z[instance.classes.query_index[n], own]
        high, low = start.argmax(), start.argmin()
        if start[high] - start[low] >= LEAST_LEAD:
            found.append((now[high] - now[low]) / (start[high] - start[low]))
    return np.array(found)


def system_of(instance: Instance, optimizer: Optimizer = "adam", batch_size: int | None = None) -> MeanField:
    """The mean field of an instance under a rule, whose mean map `descend` makes."""
    return MeanField(*instance.setting, optimizer=optimizer, batch_size=batch_size)


def lead(instance: Instance, optimizer: Optimizer = "adam") -> Measured | None:
    """Largest lead that is left to a frequent token, as a share of its start; 1: as at the start, below 0: reversed."""
    updates = round(DURATION / instance.eta_Y)
    batch_size = BATCHES[instance.number % len(BATCHES)] if optimizer == "adam" else None
    run = descend(system_of(instance, instance.rules or optimizer, batch_size), updates, 1.0, record=[updates])
    found = leads(instance, run.z[-1]) if run.success else np.array([])
    return Measured(found.max(), at_most=0.25) if found.size else None


@cache
def base() -> Instance:
    """Three classes of three distinct tokens and one common token, V = 60."""
    return Instance.of(three_frequencies(), 1e-2, 1e-2, 1.0)


def adam_in_numpy(
    instance: Instance, *updates: int, reset: int = 0, frozen_at: float = 0.0, corrected: bool = True
) -> tuple[MeanField, list[tuple[Floats, Floats]]]:
    """State and second moment after some numbers of updates of Adam in plain numpy, whose v of Y may be changed.

    Parameters
    ----------
    instance : Instance
    *updates : int
        Increasing numbers of updates.
    reset : int
        Updates after which v of Y starts anew; 0: never.
    frozen_at : float
        Loss, nats, from which on v of Y stays as it is; 0: never.
    corrected : bool
        Whether the moments are corrected for their start.

    Returns
    -------
    system : MeanField
        The mean field with both rates 1: its rate is the gradient.
    kept : list of pairs of (size,) arrays
    """
    system, kept = MeanField(instance.classes, 1.0, 1.0), []
    x, g = system.initial_state(), np.empty(system.size)
    of_Y = np.arange(x.size) >= system.layout.num_slots
    eta = np.where(of_Y, instance.eta_Y, instance.eta_Z)
    m, v, age = np.zeros_like(x), np.zeros_like(x), np.zeros_like(x)
    for k in range(1, updates[-1] + 1):
        loss = system.write_rate(x, g)
        if reset and age[-1] == reset:
            v[of_Y], age[of_Y] = 0.0, 0.0
        seen = ~of_Y | (loss > frozen_at)
        m, v, age = 0.9 * m + 0.1 * g, np.where(seen, 0.999 * v + 0.001 * g * g, v), age + seen
        of_m, of_v = (1.0 - 0.9**k, 1.0 - 0.999**age) if corrected else (1.0, 1.0)
        x = x + eta * (m / of_m) / (np.sqrt(v / of_v) + 1e-8)
        if k in updates:
            kept.append((x, v))
    return system, kept


def lead_with(instance: Instance, **changes: Any) -> float:
    """Lead after Adam in plain numpy; `changes` as in `adam_in_numpy`."""
    classes = instance.classes
    system, ((x, _),) = adam_in_numpy(instance, round(DURATION / instance.eta_Y), **changes)
    z = np.zeros((classes.queries.size, classes.num_tokens))
    z[classes.z_coordinates] = system.z_support(x)
    return leads(instance, z).max()
