"""Lemmas 1 and 2: the gradient of the loss in Y and Z, and the attention of long sequences."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from snapdyn.dynamics import MeanField, SequenceClasses, sgd
from snapdyn.validation.claims.decoder._shared import FROZEN, errors_of, outputs
from snapdyn.validation.claims.language import (
    IDENTITY_ERROR,
    ONE_STATE,
    SGD,
    Claim,
    Floats,
    Instance,
    Measured,
    Property,
    by_query,
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


LEMMA1 = Claim(
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


# Contextual tokens of the sequences that are drawn on an instance: the rarest token, of share 1e-4, occurs 1e8 times.
LONG = 10**12
# Standard errors: 40,000 instances of up to 60 tokens exceed it with probability 3e-9.
STANDARD_ERRORS = 8.0


def limit(P: Floats, z: Floats) -> tuple[Floats, Floats]:
    """c_n of (5) and the standard deviation of sqrt(T-1) q, (M,) each, for frequencies P and logits z.

    Delta method: q = w p^/(w.p^) has slopes J = (diag w - c w^T)/(P.w), J P = 0, and Cov(p^) = (diag P - P P^T)/(T-1).
    """
    slope = np.exp(z) / (P @ np.exp(z))
    c = P * slope
    return c, np.sqrt((np.diag(slope) - np.outer(c, slope)) ** 2 @ P)


def in_standard_errors(instance: Instance, forgotten: float = 0.0) -> Measured:
    """Largest |q - c_n| over its standard error for one drawn sequence of LONG tokens per class.

    The logits are drawn at random, so c_n differs from P. The wrong theory leaves the fraction `forgotten` of them out.
    """
    rng = np.random.default_rng(np.random.SeedSequence(instance.seed, spawn_key=(instance.number, 2)))
    classes = instance.classes
    z = rng.normal(size=(classes.queries.size, classes.num_tokens))
    found = [Measured(0.0, at_most=STANDARD_ERRORS)]
    for n, P in enumerate(classes.P.toarray()):
        held = np.flatnonzero(P)
        if held.size < 2:
            continue  # a class of one token has q = c_n = 1
        P, logits = P[held], z[classes.query_index[n], held]
        weights = rng.multinomial(LONG, P / P.sum()) * np.exp(logits)
        c, deviation = limit(P, (1 - forgotten) * logits)
        error = deviation / np.sqrt(LONG)
        distance = np.abs(weights / weights.sum() - c) / error
        i = int(distance.argmax())
        # A token of small expected count m is not normal: Bernstein's inequality for counts allows 2 L/3 more than
        # sqrt(2 L m), L = STANDARD_ERRORS^2/2, which is STANDARD_ERRORS^2/(3 sqrt(m)) standard errors.
        rare = STANDARD_ERRORS**2 / 3 / np.sqrt(LONG * P[i]) + 4 * np.finfo(float).eps * c[i] / error[i]
        found.append(Measured(distance[i], STANDARD_ERRORS, error=rare, where=f"token {held[i]} of class {n}"))
    return max(found, key=lambda measured: measured.value)


# Frequencies of twelve tokens, their logits, and the limit of their attention.
_rng = np.random.default_rng(20)
TOKENS, LOGITS = _rng.dirichlet(np.full(12, 2.0)), _rng.normal(size=12)
LIMIT, DEVIATION = limit(TOKENS, LOGITS)
RUNS = 200
DRAWN = 10_000


def spread(length: int, power: float = -0.5, deviation: Floats = DEVIATION) -> Measured:
    """|ratio - 1|, ratio of the root mean square of q - c_n over DRAWN sequences and tokens to the delta method's.

    The delta method's is (T-1)^power deviation. A root mean square over DRAWN draws has the relative standard error
    1/sqrt(2 DRAWN); four of these are allowed.
    """
    weights = np.random.default_rng(length).multinomial(length, TOKENS, size=DRAWN) * np.exp(LOGITS)
    q = weights / weights.sum(axis=1, keepdims=True)
    ratio = np.sqrt(((q - LIMIT) ** 2).mean(axis=0)).sum() / (deviation.sum() * length**power)
    return Measured(abs(ratio - 1), at_most=4 / np.sqrt(2 * DRAWN))


def sampled_mean(length: int) -> Measured:
    """Mean of q over RUNS sequences that SGD draws against c_n, in standard errors: largest.

    Y moves by f (x - alpha)^T, and q is f over its sum. For 12 tokens, 5.1 standard errors are exceeded with
    probability 4e-6.
    """
    classes = SequenceClasses(TOKENS[None], [0], vocab_size=20)
    trained = sgd(classes, 1e-6, FROZEN, RUNS, seq_len=length, init={"z": LOGITS[None]}, save_decoder=True)
    Y, rows, _ = trained.require_decoder()
    moved = np.diff(Y[:, rows, 0], axis=0)
    q = moved / moved.sum(axis=1, keepdims=True)
    return Measured((np.abs(q.mean(axis=0) - LIMIT) / DEVIATION).max() * np.sqrt(length * RUNS), at_most=5.1)


LEMMA2 = Claim(
    "lemma2",
    of_rule="any",
    source="Lemma 2, Eqs. (5)-(6)",
    title="Attention of long sequences tends to a limit that depends on the class alone",
    statement="As T grows, the attended token frequencies X^T b tend to c_n with c_n[l] proportional to "
    "P(l|n) exp(z_l), and X^T diag(b) X tends to diag(c_n).",
    latex=r"X^\top b\to c_n,\quad c_n[l]\propto P(l|n)\,e^{z_l},\quad X^\top\mathrm{diag}(b)X\to\mathrm{diag}(c_n)",
    conditions=("contextual tokens independent given the class, no positions",),
    conclusion="Holds: attention tends to c_n, and its spread falls as 1/sqrt(T). At T-1 = 1e6 the spread agrees "
    "with the delta method to {T-1 = 1e6:.1%}.",
    properties=(
        Property(
            "largest |q - c_n| at T-1 = 1e12, random logits, in standard errors",
            "SGD sample",
            in_standard_errors,
            replace(ONE_STATE, num_common=(0, 6), num_distinct=(0, 8), vocab_size=(100, 100)),
            controls={
                "wrong theory: q tends to P, without exp(z)": partial(in_standard_errors, forgotten=1.0),
                "wrong theory: a temperature of 1.0001": partial(in_standard_errors, forgotten=1e-4),
            },
            evaluations=(300, 20_000),
            directed=False,
        ),
        Property(
            "mean of q over 200 sequences that SGD draws against c_n, in standard errors",
            SGD,
            sampled_mean,
            cases={"1e6 tokens": 10**6},
        ),
        Property(
            "spread of q over 10,000 sequences against the delta method's, which falls as (T-1)^-1/2, relative",
            "SGD sample",
            spread,
            controls={
                "wrong theory: 1.1 times the spread": partial(spread, deviation=1.1 * DEVIATION),
                "wrong theory: it falls as (T-1)^-0.55": partial(spread, power=-0.55),
                "wrong theory: the spread of P, without exp(z)": partial(
                    spread, deviation=np.sqrt(TOKENS * (1 - TOKENS))
                ),
            },
            cases={"T-1 = 1e4": 10**4, "T-1 = 1e6": 10**6},
        ),
    ),
    proved=("sequence-counts",),
)
