"""Lemma 4: attention dynamics under the modified decoder."""

from dataclasses import replace

import numpy as np

from snapdyn import analytic
from snapdyn.dynamics import ModifiedDecoder
from snapdyn.validation.claims.attention._laws import compared
from snapdyn.validation.claims.attention._shared import SCALARS, drift_at_end, heights, start_of
from snapdyn.validation.claims.language import (
    INDEPENDENT_ATTENTION,
    OWN_NEXT_TOKENS,
    Claim,
    Instance,
    Measured,
    Property,
    attention_drift,
    dense_attention,
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
    system = ModifiedDecoder(at.classes, at.eta_Y, at.eta_Z, z_initial=at.start)
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


CLAIM = Claim(
    "lemma4",
    source="Lemma 4, Eq. (10)",
    title="With the modified flow of the decoder, attention follows Eq. (10)",
    statement=(
        "z_m' = eta_Z sum_{n: psi(n)=m} p_n gamma_n f_n o sum_{k != n} beta_nk (f_n (f_n.f_k) - f_k) per "
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
