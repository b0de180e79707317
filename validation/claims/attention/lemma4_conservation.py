"""Lemma 4: attention under the modified decoder; conservation: row sums of Y and Z."""

from dataclasses import replace
from functools import partial

import numpy as np
from scipy.integrate import trapezoid

from snapdyn import analytic
from snapdyn.dynamics import ModifiedDecoder, Trajectory
from snapdyn.validation.claims.attention._laws import compared
from snapdyn.validation.claims.attention._shared import FLOWS, SCALARS, along, drift_at_end, heights
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
    attention_drift,
    by_query,
    dense_attention,
    flow,
    resolution,
    start_of,
)


def moved(instance: Instance) -> Instance:
    """The instance at a state away from its start: z = z(0) + cos(1, 2, ...) on the logits that can move."""
    z, coordinates = start_of(instance).copy(), instance.classes.z_coordinates
    z[coordinates] += np.cos(np.arange(1.0, coordinates[0].size + 1))
    return replace(instance, start=z)


def kernel(instance: Instance) -> Measured:
    """Eq. (10) with exact beta, as `sd.ModifiedDecoder` computes it, against dense linear algebra."""
    at = moved(instance)
    drift = start_of(at) * 0.0
    system = ModifiedDecoder(*at.setting, z_initial=at.start)
    values = system.initial_state()
    values[system.layout.num_slots :] = heights(at) * at.vocab_size
    drift[at.classes.z_coordinates] = system.z_support(system.derivative(0.0, values)) / at.eta_Z
    return compared(at, drift)


def per_round(instance: Instance) -> Measured:
    """Wrong theory (F7): the sum over classes as printed, without p_n, on the per-step clock."""
    at = moved(instance)
    _, g = drift_at_end(at)
    uniform = replace(at, weights=np.ones(at.num_classes)).classes
    return compared(at, at.num_classes * attention_drift(uniform, start_of(at), g, 1.0))


def printed_sign(instance: Instance) -> Measured:
    """Wrong theory (F5): beta with the printed sign of (88); (88) is for equal priors, so the instance gets these."""
    at, V = moved(replace(instance, weights=np.ones(instance.num_classes))), instance.vocab_size
    _, f = dense_attention(at.classes, start_of(at))
    _, beta = analytic.speed_coefficients(np.eye(len(f)) - np.linalg.inv(at.gram), V, form="printed")
    h = heights(at)[0]
    decay = (V - 1) * np.exp(-V * h)
    return compared(at, attention_drift(at.classes, start_of(at), (1 - V) * h * decay / (decay + 1) * beta @ f, 1.0))


LEMMA4 = Claim(
    "lemma4",
    source="Lemma 4, Eq. (10)",
    title="With the modified flow of the decoder, attention follows Eq. (10)",
    statement=(
        "dz_m/dt = eta_Z sum_{n: psi(n)=m} p_n gamma_n f_n o sum_{k != n} beta_nk (f_n (f_n.f_k) - f_k) per "
        "batch-size-1 step; the paper prints it without p_n, per round of K steps."
    ),
    latex=r"\dot z_m=\eta_Z\gamma\sum_{n\in\psi^{-1}(m)}[p_n]\,f_n\circ\sum_{k\ne n}\beta_{nk}(f_nf_n^\top-I)f_k",
    conditions=("modified decoder flow", "one class per next token"),
    conclusion=(
        "Holds per round, as printed; per batch-size-1 step each class carries its prior p_n (F7). The coefficients "
        "beta are proved for any number of classes; the gradient in z is proved for three tokens, and holds for any "
        "number by symmetry: an entry of it contains its own token, one other token, and the norm over all tokens."
    ),
    properties=(
        Property(
            "kernel of (10) with exact beta against Y (e - alpha) by dense linear algebra, over what rounding allows",
            "modified decoder",
            kernel,
            SCALARS,
            conditions=(OWN_NEXT_TOKENS, INDEPENDENT_ATTENTION),
            controls={
                "wrong theory (F7): (10) as printed, without p_n, on the per-step clock": per_round,
                "wrong theory (F5): beta with the printed sign of (88)": printed_sign,
            },
            evaluations=(400, 40_000),
            directed=False,
        ),
    ),
    proved=("attention-gradient", "iota", "beta", "coefficients"),
    findings=("F5", "F7"),
    grade="proved",
)


DOMAIN = replace(FLOWS, ratio=(1e-6, 1e3), horizon=(1e-2, 1e4), shared_next_tokens=True)


def drift(instance: Instance, rung: str) -> Measured:
    """Largest |row sum| of Y and Z along a run, over what rounding allows."""
    run = flow(instance, rung, 20)
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
    run = flow(instance, rung, 20, **({} if rung == EXACT else {"save_decoder": True}))
    rates = [by_query(instance, instance.prior[:, None] * f * g) for _, f, g in along(run, instance, rung)]
    Z = instance.flow_rates[1] * trapezoid([rates[0] * 0, *rates], [0.0, *run.t], axis=0)
    return over_rounding(instance, rung, run, np.abs(Z.sum(axis=1)).max())


CONSERVATION = Claim(
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
