"""Lemma 1: the gradient of the loss in Y and Z."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from snapdyn.dynamics import MeanField
from snapdyn.dynamics.classes import Floats
from snapdyn.dynamics.systems.layout import Layout
from snapdyn.validation.claims.gradient._lemma1_settings import descent_error, objective, sample_error, small_classes
from snapdyn.validation.dense_algebra import IDENTITY_ERROR, largest_relative, softmax
from snapdyn.validation.evidence import Evidence
from snapdyn.validation.pictures import Picture
from snapdyn.validation.properties import Measured, Property
from snapdyn.validation.register import claim
from snapdyn.validation.search import Family, Instance

# Directions in which the gradient is compared on an instance.
DIRECTIONS = 4
# Rounding of a gradient that is summed over tokens and outputs, relative to the size of its terms.
GRADIENT_ERROR = 1e-11
# Step of the complex-step derivative: its square underflows, so that only rounding is left.
IMAGINARY = 1e-100

DOMAIN = Family(
    "any classes",
    "any",
    uniform=False,
    num_classes=(1, 6),
    num_common=(0, 3),
    num_distinct=(0, 4),
    vocab_size=(2, 10**12),
    ratio=(1.0, 1.0),
    horizon=(1.0, 1.0),
    shared_next_tokens=True,
)
# dJ/dY (slots of Y) and dJ/dz (Q, M) at Y (rows, columns) and z (Q, M).
Gradient = Callable[[MeanField, Floats, Floats], tuple[Floats, Floats]]


def kernel_gradient(system: MeanField, Y: Floats, z: Floats) -> tuple[Floats, Floats]:
    """Gradient by the compiled kernel at unit rates: dY (rows, columns), dz (Q, M)."""
    state = np.empty(system.size)
    state[system.layout.slot_of_z] = z[system.classes.z_coordinates]
    state[system.layout.num_slots :] = Y.ravel()
    drift = system.derivative(0.0, state)
    dz = np.zeros_like(z)
    dz[system.classes.z_coordinates] = system.z_support(drift)
    return drift[system.layout.num_slots :].reshape(Y.shape), dz


def dense_gradient(system: MeanField, Y: Floats, z: Floats, projected: bool = True) -> tuple[Floats, Floats]:
    """Eqs. (3)-(4) by plain linear algebra; without the factor I - f f^T for the wrong theory."""
    layout, classes = system.layout, system.classes
    f = attention_rows(system, z)
    alpha = softmax(f @ Y + np.log(_copies(layout)))
    error = np.eye(len(_copies(layout)))[layout.column] - alpha
    # The shared column stands for several outputs: each has its share of the error.
    error /= _copies(layout)
    g = error @ (Y * _copies(layout)).T
    inner = (f * g).sum(axis=1, keepdims=True) if projected else 0.0
    per_class = classes.prior[:, None] * f * (g - f * inner)
    dz = np.zeros_like(z)
    rows = np.zeros((classes.num_classes, z.shape[1]))
    rows[:, layout.row_token] = per_class
    np.add.at(dz, classes.query_index, rows)
    return (classes.prior[:, None] * f).T @ error, dz


def attention_rows(system: MeanField, z: Floats) -> Floats:
    """f_n (S, rows), no tokens lumped; z may be complex."""
    weights = system.classes.P.toarray() * np.exp(z[system.classes.query_index])
    f = weights / np.sqrt((weights**2).sum(axis=1, keepdims=True))
    return np.asarray(f[:, system.layout.row_token])


def _copies(layout: Layout) -> Floats:
    """Number of outputs that each column stands for."""
    copies = np.ones(layout.output_token.size)
    if layout.output_token[-1] < 0:
        copies[-1] = layout.last_column_multiplicity
    return copies


def _loss(system: MeanField, Y: Floats, z: Floats) -> complex:
    """-sum_n p_n ln alpha_n[next], analytic in Y and z."""
    logits = attention_rows(system, z) @ Y
    own = np.take_along_axis(logits, system.layout.column[:, None], axis=1)
    others = _copies(system.layout) * np.exp(logits - own)
    np.put_along_axis(others, system.layout.column[:, None], 0.0, axis=1)
    return complex(system.classes.prior @ np.log1p(others.sum(axis=1)))


def against_the_loss(gradient: Gradient) -> Callable[[Instance], Measured | None]:
    """Largest error of directional derivatives of the loss, over the size of what the gradient sums up.

    The state is random, so that no term vanishes; the derivatives are those of the loss itself, by complex steps.
    """

    def measure(instance: Instance) -> Measured | None:
        rng = np.random.default_rng(np.random.SeedSequence(instance.seed, spawn_key=(instance.number, 1)))
        classes = instance.classes
        shape = (classes.queries.size, classes.num_tokens)
        z = rng.normal(size=shape)  # also makes all tokens differ: none are lumped
        system = MeanField(classes, 1.0, 1.0, z_initial=z)
        Y = rng.normal(size=(system.layout.row_token.size, system.layout.output_token.size))
        dY, dz = gradient(system, Y, z)
        _, unprojected = dense_gradient(system, Y, z, projected=False)
        sizes = float(np.linalg.norm(dY * np.sqrt(_copies(system.layout)))), float(np.linalg.norm(unprojected))
        worst, where = 0.0, ""
        for _ in range(DIRECTIONS):
            step = rng.normal(size=Y.shape) / np.sqrt(_copies(system.layout))
            turn = rng.normal(size=shape) * (z != 0)
            found = {
                "Y": (_loss(system, Y + 1j * IMAGINARY * step, z), float((dY * _copies(system.layout) * step).sum())),
                "Z": (_loss(system, Y, z + 1j * IMAGINARY * turn), float((dz * turn).sum())),
            }
            for size, (name, (loss, slope)) in zip(sizes, found.items(), strict=True):
                error = abs(-loss.imag / IMAGINARY - slope) / size
                if error >= worst:
                    worst, where = error, f"in {name}"
        return Measured(worst, at_most=GRADIENT_ERROR, where=where)

    return measure


@claim(
    "lemma1",
    source="Lemma 1, Eqs. (2)-(4)",
    title="The gradient of the loss in Y and Z is that of (3)-(4)",
    answer="Holds: sympy verifies it, and the compiled right-hand side equals the derivative of the loss to rounding.",
    statement=(
        "The ascent direction of log softmax(Y^T f)[next] is f (x - alpha)^T for Y and "
        "f o (g - f (f.g)), g = Y (x - alpha), for the row of Z of the query."
    ),
    latex=r"\dot Y=\eta_Y f(x-\alpha)^\top,\quad \dot z=\eta_Z\,\mathrm{diag}(q)\,\frac{I-ff^\top}{\|q\|}\,Y(x-\alpha)",
    grade="proved",
    properties=Property(
        f"compiled rates against the loss differentiated by complex steps in {DIRECTIONS} directions, relative",
        "mean field",
        against_the_loss(kernel_gradient),
        DOMAIN,
        controls={
            "wrong theory: the factor (I - f f^T) left out": against_the_loss(
                lambda system, Y, z: dense_gradient(system, Y, z, projected=False)
            )
        },
        evaluations=(100, 10_000),
        directed=False,
    ),
)
def lemma1(evidence: Evidence) -> None:
    from snapdyn.analytic.symbolic import gradient

    evidence.proved("decoder-gradient", "attention-gradient", "sequence-gradient")
    points = 50 if evidence.full else 5
    step = 1e-5
    errors = {"sympy": 0.0, "difference": 0.0, "descent": 0.0, "SGD": 0.0}
    shown: tuple[Floats, ...] = ()
    for seed in range(points):
        for residual in (False, True):
            classes = small_classes(seed)
            rng = np.random.default_rng(1000 + seed)
            z = rng.normal(size=(2, 4))
            Y = rng.normal(size=(4, 4))
            Y[:, 3] = Y[:, 1]  # outputs that no class has are one shared column
            system = MeanField(classes, 1.0, 1.0, residual=residual)
            exact_dY, exact_dz = gradient(
                classes.P.toarray(), classes.query, classes.next_token, classes.prior, Y, z, residual=residual
            )
            errors["descent"] = max(errors["descent"], descent_error(classes, Y, z, residual, exact_dY, exact_dz))
            columns = [0, 2, 1]  # the two next tokens, and the shared column
            dY, dz = kernel_gradient(system, Y[system.layout.row_token][:, columns], z)
            exact_dY = exact_dY[system.layout.row_token][:, columns]
            errors["sympy"] = max(errors["sympy"], largest_relative(dY, exact_dY), largest_relative(dz, exact_dz))
            differences = np.zeros_like(z)
            for index in np.ndindex(z.shape):
                shift = np.zeros_like(z)
                shift[index] = step
                ahead, behind = (objective(classes, Y, z + sign * shift, residual) for sign in (1, -1))
                differences[index] = (ahead - behind) / (2 * step)
            errors["difference"] = max(errors["difference"], largest_relative(dz, differences))
            if not residual:
                shown = exact_dz.ravel(), dz.ravel()
                errors["SGD"] = max(errors["SGD"], sample_error(Y, z[:1], seed))
    name = f"kernel against sympy's derivative of the loss, {2 * points} points, residual off and on"
    evidence.holds(name, "symbolic", errors["sympy"], at_most=IDENTITY_ERROR)
    evidence.holds(
        "one whole step of gradient descent against the same", "descent", errors["descent"], at_most=IDENTITY_ERROR
    )
    name = f"one batch-size-1 step on 50 drawn tokens against sympy at its frequencies, {points} times"
    evidence.holds(name, "SGD", errors["SGD"], at_most=IDENTITY_ERROR)
    # Central differences err by step^2 times third derivatives (order 1) plus rounding/step.
    name = "kernel against central differences of the loss, residual off and on"
    evidence.holds(name, "mean field", errors["difference"], at_most=1e-7)
    evidence.conclusion = "The compiled right-hand side is the derivative of the loss to rounding."
    position = np.arange(shown[0].size, dtype=float)
    evidence.picture = Picture(
        "attention logit (query, token)",
        "dJ/dz",
        (
            Picture.line("sympy's derivative", position, shown[0]),
            Picture.line("compiled kernel", position, shown[1], "simulation"),
        ),
        xscale="linear",
    )
    evidence.seeds.extend(range(points))
