"""Initial logits as a prior: which of two distinct tokens of a class stays ahead."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from snapdyn.dynamics.classes import Floats, Ints
from snapdyn.validation.claims.extensions._initial_prior_settings import swapped_rivals
from snapdyn.validation.claims.extensions._shared import StartedFamily, run_error
from snapdyn.validation.evidence import Evidence
from snapdyn.validation.properties import Measured, Property, Requirement
from snapdyn.validation.register import claim
from snapdyn.validation.requirements import INDEPENDENT_ATTENTION, INFINITE_LENGTH, OWN_NEXT_TOKENS
from snapdyn.validation.rungs.run import EXACT, MEAN_FIELD
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


def smallest_lead(rung: str, prior: Prior = np.add) -> Callable[[Instance], Measured | None]:
    """Smallest lead of a token over the next one of its class in the order of a prior, over the prior's lead.

    The lead is the difference of ln(P exp(z)) at a saved time; the smallest over times, classes and neighbours.
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
            clear = leads >= TIE
            if not clear.any():
                continue
            z = run.z[:, instance.classes.query_index[n]][:, tokens]
            now = -np.diff(log_P[n, tokens] + z, axis=1)[:, clear] / leads[clear]
            i, k = np.unravel_index(np.argmin(now), now.shape)
            if worst is None or now[i, k] < worst.value:
                first, second = tokens[np.flatnonzero(clear)[k]], tokens[np.flatnonzero(clear)[k] + 1]
                where = f"tokens {first} and {second} of class {n} at t = {run.t[i]:.3g}"
                worst = Measured(now[i, k], at_least=0.0, error=error / leads[clear][k], where=where)
        return worst

    return measure


WRONG: dict[str, Prior] = {
    "wrong theory: frequency alone decides, whatever z(0)": lambda log_P, start: log_P,
    "wrong theory: z(0) alone decides, whatever P": lambda log_P, start: start,
}


def properties() -> Iterator[Property]:
    """Property of the mean field and of the modified decoder."""
    for rung, words in ((MEAN_FIELD, "mean field"), (EXACT, "modified decoder")):
        modified = rung == EXACT
        yield Property(
            "smallest lead of a distinct token over the next one of its class, over the lead in ln(P exp(z(0)))",
            words,
            smallest_lead(rung),
            StartedFamily(
                "any classes and start",
                "any",
                uniform=False,
                num_classes=(1, 6),
                num_common=(0, 3),
                num_distinct=(1, 5),
                vocab_size=(2, 10**9),
                ratio=(1e-6, 1e2),
                horizon=(1e-2, 1e6),
                eta_Y=(1e-6, 1e6),
                shared_next_tokens=not modified,
            ),
            conditions=(
                RIVAL_TOKENS,
                INFINITE_LENGTH,
                *((OWN_NEXT_TOKENS, INDEPENDENT_ATTENTION) if modified else ()),
            ),
            controls={name: smallest_lead(rung, prior) for name, prior in WRONG.items()},
            evaluations=(40, 1500),
        )


@claim(
    "initial-prior",
    source="Section 5 (initial value as prior), after Theorem 3",
    title="Initial logits are a prior: P exp(z(0)) decides who dominates",
    answer="Holds for long sequences and Y(0) = 0; short sequences shift the crossing, and a random Y(0) can overrule "
    "it.",
    statement="Of two distinct tokens of a class, the one with the larger c~_l(0) = P(l|n) exp(z_l(0)) stays ahead for "
    "ever: initial logits swap their fates exactly where P exp(z(0)) crosses.",
    latex=r"r_{l/l'|n}(t)\gtrless0\iff P(l|n)\,e^{z_l(0)}\gtrless P(l'|n)\,e^{z_{l'}(0)}",
    expected="conditional",
    assumptions=("T infinite", "Y(0) = 0", "a distinct token occurs in one class only"),
    properties=tuple(properties()),
)
def initial_prior(evidence: Evidence) -> None:
    # Why the order is kept in the mean field: where f_a = f_b, z_a' - z_b' = eta_Z p f (g_a - g_b). From Y(0) = 0 the
    # row of a token of one class is Y_l = eta_Y p int f_l error dt, so g_a - g_b = eta_Y p int (f_a - f_b)(t')
    # error(t').error(t) dt' > 0 if a was ahead: two errors of a class have the product (1 - alpha)(1 - alpha') + sum of
    # alpha_j alpha_j' > 0. In the modified flow z_l' depends on l through f_l alone, so paths do not cross.
    swapped_rivals(evidence)
