"""Lemma 1: the gradient of the loss in Y and Z."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from snapdyn.dynamics import MeanField, SequenceClasses, sgd
from snapdyn.validation.claims._shared import ONE_STATE, by_query
from snapdyn.validation.claims.decoder._visits import errors_of, outputs
from snapdyn.validation.claims.language import (
    IDENTITY_ERROR,
    SGD,
    Claim,
    Floats,
    Instance,
    Measured,
    Property,
    largest_relative,
)

# Step of the complex-step derivative: its square underflows, so that only rounding is left.
IMAGINARY = 1e-100

# dJ/dY (M, columns) and dJ/dz (Q, M) on an instance, at Y and z.
Gradient = Callable[[Instance, Floats, Floats], tuple[Floats, Floats]]


def kernel_gradient(instance: Instance, Y: Floats, z: Floats) -> tuple[Floats, Floats]:
    """Gradient by the compiled kernel at unit rates."""
    system = MeanField(instance.classes, 1.0, 1.0, z_initial=z)
    state = system.initial_state()
    rows = system.layout.row_token  # the tokens that occur
    system.decoder(state)[:] = Y[rows]
    drift = system.derivative(0.0, state)
    dY, dz = np.zeros_like(Y), np.zeros_like(z)
    dY[rows], dz[instance.classes.z_coordinates] = system.decoder(drift), system.z_support(drift)
    return dY, dz


def unprojected(instance: Instance, Y: Floats, z: Floats) -> tuple[Floats, Floats]:
    """Eqs. (3)-(4) by plain linear algebra without the factor I - f f^T: a wrong theory, and the size of the terms."""
    f, (column, copies) = attention(instance, z), outputs(instance)
    error = errors_of(f @ Y, column, copies)
    per_class = instance.prior[:, None] * f
    return per_class.T @ error, by_query(instance, per_class * (error @ (Y * copies).T))


def attention(instance: Instance, z: Floats) -> Floats:
    """f_n (S, M); z may be complex."""
    weights = instance.classes.P.toarray() * np.exp(z[instance.classes.query_index])
    return weights / np.sqrt((weights**2).sum(axis=1, keepdims=True))


def slope(instance: Instance, Y: Floats, z: Floats) -> float:
    """Derivative of sum_n p_n ln alpha_n[next] along the imaginary part of Y or z, over IMAGINARY."""
    logits, (column, copies) = attention(instance, z) @ Y, outputs(instance)
    odds = copies * np.exp(logits - logits[np.arange(len(logits)), column][:, None])
    return float(-(instance.prior @ np.log(odds.sum(axis=1))).imag / IMAGINARY)


def against_the_loss(instance: Instance, gradient: Gradient = kernel_gradient) -> Measured:
    """Largest error of directional derivatives of the loss, over the size of what the gradient sums up.

    The state is random, so that no term vanishes; the derivatives are those of the loss itself, by complex steps.
    """
    rng = np.random.default_rng(np.random.SeedSequence(instance.seed, spawn_key=(instance.number, 1)))
    z = rng.normal(size=(instance.classes.queries.size, instance.P.shape[1]))  # no two are equal, so none are lumped
    root = np.sqrt(outputs(instance)[1])
    Y = rng.normal(size=(z.shape[1], root.size))
    dY, dz = gradient(instance, Y, z)
    sizes = np.linalg.norm(dY * root), np.linalg.norm(unprojected(instance, Y, z)[1])
    errors = []
    for _ in range(4):
        step, turn = rng.normal(size=Y.shape) / root, rng.normal(size=z.shape)
        in_Y = slope(instance, Y + 1j * IMAGINARY * step, z) - (dY * root**2 * step).sum()
        in_z = slope(instance, Y, z + 1j * IMAGINARY * turn) - (dz * turn).sum()
        errors.append(np.abs([in_Y, in_z]) / sizes)
    # Rounding of a gradient that is summed over tokens and outputs, relative to the size of its terms.
    return Measured(np.max(errors), at_most=1e-11)


def one_step(length: int) -> Measured:
    """Change of Y and z in one step of SGD on a drawn sequence against sympy's derivative of the loss, relative.

    Y moves by f (x - alpha)^T, and f is proportional to the frequencies times exp(z), so the step shows the sequence.
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
    of_rule="any",
    source="Lemma 1, Eqs. (2)-(4)",
    title="The gradients of decoder Y and attention Z are those of Eqs. (3)-(4)",
    statement="The ascent direction of log softmax(Y^T f)[next] is f (x - alpha)^T for Y and "
    "f o (g - f (f.g)), g = Y (x - alpha), for the row of Z of the query.",
    latex=r"\dot Y=\eta_Y f(x-\alpha)^\top,\quad \dot z=\eta_Z\,\mathrm{diag}(q)\,\frac{I-ff^\top}{\|q\|}\,Y(x-\alpha)",
    conclusion=(
        "Holds: sympy verifies it, and the compiled right-hand side is the derivative of the loss to rounding. A step "
        "of SGD is the same gradient times the rate, with the token frequencies of the drawn sequence. Proved for two "
        "or three tokens and three outputs; by symmetry it holds for any numbers: an entry of a gradient contains its "
        "own token or output, one other, and sums over the rest. The compiled rates are tested with more tokens and "
        "outputs."
    ),
    grade="proved",
    properties=(
        Property(
            "compiled rates against the loss differentiated by complex steps in 4 directions, relative",
            "mean field",
            against_the_loss,
            replace(ONE_STATE, shared_next_tokens=True),
            controls={"wrong theory: the factor (I - f f^T) left out": partial(against_the_loss, gradient=unprojected)},
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
