"""Conservation: row sums of Y and Z."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from snapdyn.dynamics import log_times, syn_medium
from snapdyn.validation.dense_algebra import dense_attention, modified_decoder_gradient
from snapdyn.validation.evidence import Evidence
from snapdyn.validation.pictures import Picture
from snapdyn.validation.properties import Measured, Property
from snapdyn.validation.register import claim
from snapdyn.validation.requirements import INDEPENDENT_ATTENTION, OWN_NEXT_TOKENS
from snapdyn.validation.rungs.run import EXACT, MEAN_FIELD, run_on_rung
from snapdyn.validation.search import Family, Instance, flow
from snapdyn.validation.search.flows import resolution

DOMAIN = Family(
    "any classes",
    "any",
    uniform=False,
    num_classes=(1, 6),
    num_common=(0, 3),
    num_distinct=(0, 4),
    vocab_size=(2, 10**12),
    ratio=(1e-6, 1e3),
    horizon=(1e-2, 1e4),
    eta_Y=(1e-6, 1e6),
    shared_next_tokens=True,
)


def drift(rung: str) -> Callable[[Instance], Measured | None]:
    """Largest |row sum| of Y and Z along a run, over what rounding allows.

    An evaluation rounds each of M tokens (V outputs are one column with a multiplicity, so they count as classes do)
    by eps times the largest value; in the worst case all add up.
    """

    def measure(instance: Instance) -> Measured | None:
        run = flow(instance, rung, 20, method="compiled")
        if run is None:
            return None
        sums = max(float(np.max(values)) for values in run.invariants.values())
        # |Y| is at most about V h <= ln(V eta_Y t) at a column, times the multiplicity in the row sum.
        largest = max(1.0, float(np.abs(run.z).max())) * math.log(instance.vocab_size * max(math.e, instance.horizon))
        summands = instance.P.shape[1] + instance.num_classes
        state = float(np.finfo(float).eps) * run.stats["evaluations"] * largest
        # Terms of a rate of z that cancel: `resolution` in all, and those of Eq. (10) grow with the inverse of G.
        inverse = 1 / float(instance.eigenvalues[0]) if rung == EXACT else 1.0
        return Measured(sums / (summands * (state + resolution(instance)) * inverse), at_most=1.0)

    return measure


def without_projection(instance: Instance) -> Measured | None:
    """Wrong theory z' = f o g, without I - f f^T: sum of the rates of a row over its largest rate, at t_end."""
    run = flow(instance, EXACT, 20)
    if run is None:
        return None
    g = modified_decoder_gradient(instance.classes, run.z[-1], run.extra["h"][-1])
    _, f = dense_attention(instance.classes, run.z[-1])
    rates = f * g
    return Measured(float(np.abs(rates.sum(axis=1)).max() / np.abs(rates).max()), at_most=1e-11)


@claim(
    "conservation",
    source="own, from Lemma 1",
    title="Row sums of Y and Z stay 0",
    answer="Exact; integration keeps them to rounding.",
    statement="From zero start every row of Y and every row of Z sums to 0 for ever.",
    latex=r"\sum_l z_{ml}=0,\quad \sum_j Y_{lj}=0",
    grade="proved",
    properties=(
        Property(
            "|row sum| of Y and Z over what rounding allows", "mean field", drift(MEAN_FIELD), DOMAIN, directed=False
        ),
        Property(
            "|row sum| of Z over what rounding allows",
            "modified decoder",
            drift(EXACT),
            DOMAIN,
            conditions=(OWN_NEXT_TOKENS, INDEPENDENT_ATTENTION),
            controls={"wrong theory: z' without I - f f^T": without_projection},
            directed=False,
        ),
    ),
)
def conservation(evidence: Evidence) -> None:
    evidence.proved("conservation")
    evidence.conclusion = (
        "Linear invariants are kept by every Runge-Kutta method, to rounding; the drift shown is rounding."
    )
    times = log_times(1e-2, 1e6, 40)
    run = run_on_rung(MEAN_FIELD, syn_medium(3), 1.0, 1.0, times)
    evidence.picture = Picture(
        "t (batch-size-1 steps)",
        "largest |row sum|, Syn-Medium Q = 3",
        tuple(
            Picture.line(name, times, np.maximum(values, 1e-18), "simulation")
            for name, values in run.invariants.items()
        ),
        yscale="log",
    )
