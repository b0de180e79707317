"""Conservation: row sums of Y and Z."""

from dataclasses import replace
from functools import partial

import numpy as np
from scipy.integrate import trapezoid

from snapdyn.dynamics import Trajectory
from snapdyn.validation.claims._shared import by_query
from snapdyn.validation.claims.attention._shared import FLOWS, along
from snapdyn.validation.claims.language import (
    EPS,
    EXACT,
    INDEPENDENT_ATTENTION,
    MEAN_FIELD,
    OWN_NEXT_TOKENS,
    Claim,
    Instance,
    Measured,
    Property,
    flow,
    resolution,
)

DOMAIN = replace(FLOWS, ratio=(1e-6, 1e3), horizon=(1e-2, 1e4), shared_next_tokens=True)


def drift(instance: Instance, rung: str) -> Measured:
    """Largest |row sum| of Y and Z along a run, over what rounding allows."""
    run = flow(instance, rung, 20, method="compiled")
    # Under an adaptive rule the run itself has no invariants.
    sums = [float(np.max(values)) for values in run.invariants.values()] or [float(np.abs(run.z.sum(axis=-1)).max())]
    return over_rounding(instance, rung, run, max(sums))


def over_rounding(instance: Instance, rung: str, run: Trajectory, sums: float) -> Measured:
    """Row sums over what rounding allows along a run.

    An evaluation rounds each of M tokens by eps times the largest value; in the worst case all roundings add up.
    Columns of Y are counted per class, since equal outputs are one column with a multiplicity.
    """
    # |Y| is at most about V h <= ln(V eta_Y t) at a column, times the multiplicity in the row sum. Where classes
    # overlap it is larger by the inverse of G, as the mean field learns them apart, but at most eta_Y t.
    lead = np.log(instance.vocab_size * max(np.exp(1), instance.horizon))
    apart = min(lead / max(instance.eigenvalues[0], EPS), instance.horizon) if rung == MEAN_FIELD else 0.0
    largest = max(1.0, np.abs(run.z).max()) * max(lead, apart)
    summands = instance.P.shape[1] + instance.num_classes
    state = EPS * run.stats["evaluations"] * largest
    # Terms of a rate of z that cancel: `resolution` in all. Those of Eq. (10) grow with the inverse of G. Attention
    # vectors that are independent at the start can become almost parallel: a smallest eigenvalue of .14 fell to 1e-6.
    smallest = min(np.linalg.eigvalsh(f @ f.T)[0] for _, f, _ in along(run, instance, rung)) if rung == EXACT else 1.0
    return Measured(sums / (summands * (state + resolution(instance)) / max(smallest, EPS)), at_most=1.0)


def without_projection(instance: Instance, rung: str) -> Measured:
    """Wrong theory z' = f o g, without I - f f^T: row sums that it gives Z by t_end, over what rounding allows.

    The rates are those at the states of the run.
    """
    run = flow(instance, rung, 20, method="compiled", **({} if rung == EXACT else {"save_decoder": True}))
    rates = [by_query(instance, instance.prior[:, None] * f * g) for _, f, g in along(run, instance, rung)]
    Z = instance.flow_rates[1] * trapezoid([rates[0] * 0, *rates], [0.0, *run.t], axis=0)
    return over_rounding(instance, rung, run, np.abs(Z.sum(axis=1)).max())


CLAIM = Claim(
    "conservation",
    under_rules="Under Adam the steps of Z times sqrt(v) + epsilon sum to 0, not the steps: see adam-conserved",
    source="own, from Lemma 1",
    title="The row sums of the decoder Y and of attention Z stay 0",
    statement="From zero start every row of Y and every row of Z sums to 0 for ever.",
    latex=r"\sum_l z_{ml}=0,\quad \sum_j Y_{lj}=0",
    conclusion="Exact, for any number of tokens. The sum over l of f_l (g_l - f_l f.g) is f.g (1 - |f|^2) = 0, and "
    "integration keeps it to rounding, as every Runge-Kutta method keeps linear invariants.",
    properties=(
        Property(
            "|row sum| of Y and Z over what rounding allows",
            "mean field",
            partial(drift, rung=MEAN_FIELD),
            DOMAIN,
            controls={"wrong theory: z' without I - f f^T": partial(without_projection, rung=MEAN_FIELD)},
            directed=False,
        ),
        Property(
            "|row sum| of Z over what rounding allows",
            "modified decoder",
            partial(drift, rung=EXACT),
            DOMAIN,
            conditions=(OWN_NEXT_TOKENS, INDEPENDENT_ATTENTION),
            controls={"wrong theory: z' without I - f f^T": partial(without_projection, rung=EXACT)},
            directed=False,
        ),
    ),
    proved=("conservation",),
    grade="proved",
)
