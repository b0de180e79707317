"""Lemma 4: attention dynamics under the modified decoder."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from snapdyn import analytic
from snapdyn.dynamics import ModifiedDecoder
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.claims.attention._shared import SCALARS, heights
from snapdyn.validation.dense_algebra import EPS, attention_drift, dense_attention, modified_decoder_gradient
from snapdyn.validation.evidence import Evidence
from snapdyn.validation.pictures import Picture
from snapdyn.validation.properties import Measured, Property
from snapdyn.validation.register import claim
from snapdyn.validation.requirements import INDEPENDENT_ATTENTION, OWN_NEXT_TOKENS
from snapdyn.validation.search import Family, Instance

# Both routes solve with the Gram matrix: rounding times its condition number, a few hundred operations deep.
OPERATIONS = 1e3
PICTURED = Family("one for the picture", num_classes=(4, 4), ratio=(0.7, 0.7), vocab_size=(200, 200))


def state(instance: Instance) -> tuple[Floats, Floats]:
    """A state away from the start: z = z(0) + cos(1, 2, ...) on the logits that can move, and h(p_n t) at t_end."""
    classes = instance.classes
    z = np.zeros((classes.queries.size, classes.num_tokens)) if instance.start is None else instance.start.copy()
    z[classes.z_coordinates] += np.cos(np.arange(1.0, classes.z_coordinates[0].size + 1))
    return z, heights(instance)


def compared(instance: Instance, drift: Floats) -> Measured:
    """`drift` against Y (e_n - alpha_n) by dense linear algebra, over what rounding allows."""
    classes = instance.classes
    z, h = state(instance)
    g = modified_decoder_gradient(classes, z, h)
    expected = attention_drift(classes, z, g, instance.eta_Z)
    size = instance.eta_Z * float((classes.prior * np.linalg.norm(g, axis=1)).max())
    allowed = OPERATIONS * EPS * float(np.linalg.cond(classes.gram(z))) * size
    return Measured(float(np.abs(drift - expected).max()) / allowed, at_most=1.0)


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


def kernel(instance: Instance) -> Measured:
    """The system's rates of z, compared."""
    return compared(instance, kernel_drift(instance))


def per_round(instance: Instance) -> Measured:
    """Wrong theory (F7): the sum over classes as printed, without p_n, on the per-step clock."""
    classes = instance.classes
    z, h = state(instance)
    _, f = dense_attention(classes, z)
    g = modified_decoder_gradient(classes, z, h)
    drift = np.zeros_like(z)
    np.add.at(drift, classes.query_index, instance.eta_Z * f * (g - f * (f * g).sum(axis=1, keepdims=True)))
    return compared(instance, drift)


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


@claim(
    "lemma4",
    source="Lemma 4, Eq. (10)",
    title="Attention follows Eq. (10) under the modified decoder",
    answer="Holds per round, as printed; per batch-size-1 step each class carries its prior p_n.",
    statement="z_m' = eta_Z sum_{n: psi(n)=m} p_n gamma_n f_n o sum_{k != n} beta_nk (f_n (f_n.f_k) - f_k) per "
    "batch-size-1 step; printed without p_n, per round.",
    latex=r"\dot z_m=\eta_Z\gamma\sum_{n\in\psi^{-1}(m)}[p_n]\,f_n\circ\sum_{k\ne n}\beta_{nk}(f_nf_n^\top-I)f_k",
    assumptions=("modified decoder flow", "one class per next token"),
    findings=("F5", "F7"),
    grade="proved",
    properties=Property(
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
)
def lemma4(evidence: Evidence) -> None:
    evidence.proved("attention-gradient", "iota", "beta")
    evidence.conclusion = "Holds on the per-round clock as printed; per batch-size-1 step each class carries p_n (F7)."
    instance = PICTURED.draw(evidence.seed, 0)
    z, h = state(instance)
    classes = instance.classes
    expected = attention_drift(classes, z, modified_decoder_gradient(classes, z, h), instance.eta_Z)
    index = np.arange(expected.size, dtype=float)
    evidence.picture = Picture(
        "attention logit",
        "dz/dt",
        (
            Picture.line("dense linear algebra", index, expected.ravel()),
            Picture.line("compiled kernel of (10)", index, kernel_drift(instance).ravel(), "simulation"),
        ),
        xscale="linear",
    )
