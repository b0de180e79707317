"""Lemma 1: the gradient of the loss in Y and Z."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from snapdyn.dynamics import MeanField, SequenceClasses, sgd
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.claims._shared import WIDEST
from snapdyn.validation.dense_algebra import IDENTITY_ERROR, largest_relative, softmax
from snapdyn.validation.statement import SGD, Claim, Instance, Measured, Property

# Directions in which the gradient is compared on an instance.
DIRECTIONS = 4
# Rounding of a gradient that is summed over tokens and outputs, relative to the size of its terms.
GRADIENT_ERROR = 1e-11
# Step of the complex-step derivative: its square underflows, so that only rounding is left.
IMAGINARY = 1e-100

# dJ/dY and dJ/dz (Q, M).
Gradient = tuple[Floats, Floats]


def kernel_gradient(system: MeanField, Y: Floats, z: Floats) -> Gradient:
    """Gradient by the compiled kernel at unit rates: dY (rows, columns), dz (Q, M), at the start z of the system."""
    state = system.initial_state()
    system.decoder(state)[:] = Y
    drift = system.derivative(0.0, state)
    dz = np.zeros_like(z)
    dz[system.classes.z_coordinates] = system.z_support(drift)
    return system.decoder(drift), dz


def without_projection(system: MeanField, Y: Floats, z: Floats) -> Gradient:
    """Eqs. (3)-(4) by plain linear algebra without the factor I - f f^T: a wrong theory, and the size of the terms."""
    layout, classes, copies = system.layout, system.classes, _copies(system)
    f = attention_rows(system, z)
    # The shared column stands for several outputs: each has its share of the error.
    error = (np.eye(copies.size)[layout.column] - softmax(f @ Y + np.log(copies))) / copies
    per_class = classes.prior[:, None] * f
    dz = np.zeros_like(z)
    np.add.at(dz, (classes.query_index[:, None], layout.row_token), per_class * (error @ (Y * copies).T))
    return per_class.T @ error, dz


def attention_rows(system: MeanField, z: Floats) -> Floats:
    """f_n (S, rows), no tokens lumped; z may be complex."""
    weights = system.classes.P.toarray() * np.exp(z[system.classes.query_index])
    f = weights / np.sqrt((weights**2).sum(axis=1, keepdims=True))
    return np.asarray(f[:, system.layout.row_token])


def _copies(system: MeanField) -> Floats:
    """Number of outputs that each column stands for."""
    return np.append(np.ones(system.layout.num_columns - 1), system.layout.last_column_multiplicity)


def _slope(system: MeanField, Y: Floats, z: Floats) -> float:
    """Derivative of sum_n p_n ln alpha_n[next] along the imaginary part of Y or z, over IMAGINARY."""
    logits = attention_rows(system, z) @ Y
    own = np.arange(len(logits)), system.layout.column
    others = _copies(system) * np.exp(logits - logits[own][:, None])
    others[own] = 0.0
    return float(-(system.classes.prior @ np.log1p(others.sum(axis=1))).imag / IMAGINARY)


def against_the_loss(
    instance: Instance, gradient: Callable[[MeanField, Floats, Floats], Gradient] = kernel_gradient
) -> Measured:
    """Largest error of directional derivatives of the loss, over the size of what the gradient sums up.

    The state is random, so that no term vanishes; the derivatives are those of the loss itself, by complex steps.
    """
    rng = np.random.default_rng(np.random.SeedSequence(instance.seed, spawn_key=(instance.number, 1)))
    classes = instance.classes
    z = rng.normal(size=(classes.queries.size, classes.num_tokens))  # all tokens differ: none are lumped
    system = MeanField(classes, 1.0, 1.0, z_initial=z)
    root = np.sqrt(_copies(system))
    Y = rng.normal(size=(system.layout.row_token.size, root.size))
    dY, dz = gradient(system, Y, z)
    sizes = np.linalg.norm(dY * root), np.linalg.norm(without_projection(system, Y, z)[1])
    errors = []
    for _ in range(DIRECTIONS):
        step, turn = rng.normal(size=Y.shape) / root, rng.normal(size=z.shape)
        in_Y = _slope(system, Y + 1j * IMAGINARY * step, z) - (dY * root**2 * step).sum()
        in_z = _slope(system, Y, z + 1j * IMAGINARY * turn) - (dz * turn).sum()
        errors.append(np.abs([in_Y, in_z]) / sizes)
    return Measured(np.max(errors), at_most=GRADIENT_ERROR)


def one_step(length: int) -> Measured:
    """Change of Y and z in one step of SGD on a drawn sequence against sympy's derivative of the loss, relative.

    Y moves by f (x - alpha)^T, and f is proportional to the frequencies times exp(z): the step says which sequence was
    drawn.
    """
    from snapdyn.analytic.symbolic import gradient

    rng = np.random.default_rng(0)
    Y, z = rng.normal(size=(4, 4)), rng.normal(size=(1, 4))
    classes = SequenceClasses(np.full((1, 4), 0.25), [1], next_token=[2], vocab_size=4)
    run = sgd(classes, 1.0, 1.0, 1, seq_len=length, init=(Y, z), save_decoder=True)
    decoder, rows, _ = run.require_decoder()
    dY = decoder[1, rows] - Y
    frequencies = dY[:, 2] / np.exp(z)
    drawn = np.round(length * frequencies / frequencies.sum()) / length
    exact = gradient(drawn, [1], [2], [1.0], Y, z)
    return Measured(max(map(largest_relative, (dY, run.z[1] - z), exact)), at_most=IDENTITY_ERROR)


CLAIM = Claim(
    "lemma1",
    source="Lemma 1, Eqs. (2)-(4)",
    title="The gradient of the loss in Y and Z is that of (3)-(4)",
    statement="The ascent direction of log softmax(Y^T f)[next] is f (x - alpha)^T for Y and "
    "f o (g - f (f.g)), g = Y (x - alpha), for the row of Z of the query.",
    latex=r"\dot Y=\eta_Y f(x-\alpha)^\top,\quad \dot z=\eta_Z\,\mathrm{diag}(q)\,\frac{I-ff^\top}{\|q\|}\,Y(x-\alpha)",
    conclusion="Holds: sympy verifies it, and the compiled right-hand side is the derivative of the loss to rounding. "
    "So is a step of SGD, at the frequencies of the sequence that it drew.",
    grade="proved",
    properties=(
        Property(
            f"compiled rates against the loss differentiated by complex steps in {DIRECTIONS} directions, relative",
            "mean field",
            against_the_loss,
            replace(WIDEST, ratio=(1.0, 1.0), horizon=(1.0, 1.0), eta_Y=(1.0, 1.0), shared_next_tokens=True),
            controls={
                "wrong theory: the factor (I - f f^T) left out": partial(against_the_loss, gradient=without_projection)
            },
            evaluations=(100, 10_000),
            directed=False,
        ),
        Property(
            "one batch-size-1 step against sympy at the frequencies of its sequence",
            SGD,
            one_step,
            cases={"50 drawn tokens": 50},
        ),
    ),
    proved=("decoder-gradient", "attention-gradient", "sequence-gradient"),
)
