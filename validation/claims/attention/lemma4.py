"""Lemma 4: attention dynamics under the modified decoder."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from snapdyn import analytic
from snapdyn.dynamics import ModifiedDecoder
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.claims.attention._shared import SCALARS, heights, start_of
from snapdyn.validation.dense_algebra import EPS, attention_drift, dense_attention, modified_decoder_gradient
from snapdyn.validation.evidence import SEED
from snapdyn.validation.measured import Measured
from snapdyn.validation.pictures import Picture
from snapdyn.validation.properties import Property
from snapdyn.validation.register import Claim
from snapdyn.validation.requirements import INDEPENDENT_ATTENTION, OWN_NEXT_TOKENS
from snapdyn.validation.search import Family, Instance

# Both routes solve with the Gram matrix: rounding times its condition number, a few hundred operations deep.
OPERATIONS = 1e3
PICTURED = Family("one for the picture", num_classes=(4, 4), ratio=(0.7, 0.7), vocab_size=(200, 200))


def state(instance: Instance) -> tuple[Floats, Floats]:
    """A state away from the start: z = z(0) + cos(1, 2, ...) on the logits that can move, and h(p_n t) at t_end."""
    z, coordinates = start_of(instance).copy(), instance.classes.z_coordinates
    z[coordinates] += np.cos(np.arange(1.0, coordinates[0].size + 1))
    return z, heights(instance)


def dense_drift(instance: Instance) -> Floats:
    """Rates of the logits by dense linear algebra, (Q, M)."""
    z, h = state(instance)
    return attention_drift(instance.classes, z, modified_decoder_gradient(instance.classes, z, h), instance.eta_Z)


def compared(instance: Instance, drift: Floats) -> Measured:
    """`drift` against `dense_drift`, over what rounding allows."""
    classes = instance.classes
    z, h = state(instance)
    g = modified_decoder_gradient(classes, z, h)
    size = instance.eta_Z * float((classes.prior * np.linalg.norm(g, axis=1)).max())
    allowed = OPERATIONS * EPS * float(np.linalg.cond(classes.gram(z))) * size
    return Measured(float(np.abs(drift - dense_drift(instance)).max()) / allowed, at_most=1.0)


def kernel_drift(instance: Instance) -> Floats:
    """Eq. (10) with exact beta as the system of `sd.ModifiedDecoder` has it, (Q, M)."""
    z, h = state(instance)
    classes = instance.classes
    system = ModifiedDecoder(classes, instance.eta_Y, instance.eta_Z, z_initial=z)
    values = system.initial_state()
    values[system.layout.num_slots :] = h * classes.vocab_size
    drift = np.zeros_like(z)
    drift[classes.z_coordinates] = system.z_support(system.derivative(0.0, values))
    return drift


def per_round(instance: Instance) -> Measured:
    """Wrong theory (F7): the sum over classes as printed, without p_n, on the per-step clock."""
    z, h = state(instance)
    g = modified_decoder_gradient(instance.classes, z, h)
    uniform = replace(instance, weights=np.ones(instance.num_classes)).classes
    return compared(instance, instance.num_classes * attention_drift(uniform, z, g, instance.eta_Z))


def printed_sign(instance: Instance) -> Measured:
    """Wrong theory (F5): beta with the printed sign of (88); it is stated for equal priors, which are put here."""
    instance = replace(instance, weights=np.ones(instance.num_classes))
    classes, V = instance.classes, instance.vocab_size
    z, h = state(instance)
    _, f = dense_attention(classes, z)
    E_prime = np.eye(classes.num_classes) - np.linalg.inv(classes.gram(z))
    _, beta = analytic.speed_coefficients(E_prime, V, form="printed")
    decay = float(np.exp(-V * h[0]))
    gamma = (V - 1) ** 2 * h[0] * decay / ((V - 1) * decay + 1)
    return compared(instance, attention_drift(classes, z, -gamma * beta @ f, instance.eta_Z))


def picture() -> Picture:
    """Rates of the logits of one instance by both routes."""
    instance = PICTURED.draw(SEED, 0)
    expected = dense_drift(instance)
    index = np.arange(expected.size)
    return Picture(
        "attention logit",
        "dz/dt",
        (
            Picture.line("dense linear algebra", index, expected.ravel()),
            Picture.line("compiled kernel of (10)", index, kernel_drift(instance).ravel(), "simulation"),
        ),
        xscale="linear",
    )


CLAIM = Claim(
    "lemma4",
    source="Lemma 4, Eq. (10)",
    title="Attention follows Eq. (10) under the modified decoder",
    statement="z_m' = eta_Z sum_{n: psi(n)=m} p_n gamma_n f_n o sum_{k != n} beta_nk (f_n (f_n.f_k) - f_k) per "
    "batch-size-1 step; printed without p_n, per round.",
    latex=r"\dot z_m=\eta_Z\gamma\sum_{n\in\psi^{-1}(m)}[p_n]\,f_n\circ\sum_{k\ne n}\beta_{nk}(f_nf_n^\top-I)f_k",
    conditions=("modified decoder flow", "one class per next token"),
    conclusion="Holds per round, as printed; per batch-size-1 step each class carries its prior p_n (F7).",
    properties=(
        Property(
            "kernel of (10) with exact beta against Y (e - alpha) by dense linear algebra, over what rounding allows",
            "modified decoder",
            lambda instance: compared(instance, kernel_drift(instance)),
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
    proved=("attention-gradient", "iota", "beta"),
    picture=picture,
    findings=("F5", "F7"),
    grade="proved",
)
