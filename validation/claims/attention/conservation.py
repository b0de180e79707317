"""Conservation: row sums of Y and Z."""

from dataclasses import replace
from functools import partial

import numpy as np

from snapdyn.validation.claims.attention._shared import FLOWS
from snapdyn.validation.statement import (
    EPS,
    EXACT,
    INDEPENDENT_ATTENTION,
    MEAN_FIELD,
    OWN_NEXT_TOKENS,
    Claim,
    Instance,
    Measured,
    Property,
    dense_attention,
    flow,
    modified_decoder_gradient,
    resolution,
)

DOMAIN = replace(FLOWS, ratio=(1e-6, 1e3), horizon=(1e-2, 1e4), shared_next_tokens=True)


def drift(instance: Instance, rung: str) -> Measured | None:
    """Largest |row sum| of Y and Z along a run, over what rounding allows.

    An evaluation rounds each of M tokens (V outputs are one column with a multiplicity, so they count as classes do)
    by eps times the largest value; in the worst case all add up.
    """
    run = flow(instance, rung, 20, method="compiled")
    if run is None:
        return None
    sums = max(np.max(values) for values in run.invariants.values())
    # |Y| is at most about V h <= ln(V eta_Y t) at a column, times the multiplicity in the row sum.
    largest = max(1.0, np.abs(run.z).max()) * np.log(instance.vocab_size * max(np.exp(1), instance.horizon))
    summands = instance.P.shape[1] + instance.num_classes
    state = EPS * run.stats["evaluations"] * largest
    # Terms of a rate of z that cancel: `resolution` in all, and those of Eq. (10) grow with the inverse of G.
    inverse = 1 / instance.eigenvalues[0] if rung == EXACT else 1.0
    return Measured(sums / (summands * (state + resolution(instance)) * inverse), at_most=1.0)


def without_projection(instance: Instance) -> Measured | None:
    """Wrong theory z' = f o g, without I - f f^T: sum of the rates of a row over its largest rate, at t_end."""
    run = flow(instance, EXACT, 20)
    if run is None:
        return None
    g = modified_decoder_gradient(instance.classes, run.z[-1], run.extra["h"][-1])
    rates = g * dense_attention(instance.classes, run.z[-1])[1]
    return Measured(np.abs(rates.sum(axis=1)).max() / np.abs(rates).max(), at_most=1e-11)


CLAIM = Claim(
    "conservation",
    source="own, from Lemma 1",
    title="Row sums of Y and Z stay 0",
    statement="From zero start every row of Y and every row of Z sums to 0 for ever.",
    latex=r"\sum_l z_{ml}=0,\quad \sum_j Y_{lj}=0",
    conclusion="Exact; integration keeps them to rounding, as every Runge-Kutta method keeps linear invariants.",
    properties=(
        Property(
            "|row sum| of Y and Z over what rounding allows",
            "mean field",
            partial(drift, rung=MEAN_FIELD),
            DOMAIN,
            directed=False,
        ),
        Property(
            "|row sum| of Z over what rounding allows",
            "modified decoder",
            partial(drift, rung=EXACT),
            DOMAIN,
            conditions=(OWN_NEXT_TOKENS, INDEPENDENT_ATTENTION),
            controls={"wrong theory: z' without I - f f^T": without_projection},
            directed=False,
        ),
    ),
    proved=("conservation",),
    grade="proved",
)
