"""Lemmas 1 and 2: the gradient step, and its limit for long sequences."""

from __future__ import annotations

import numpy as np

from snapdyn.dynamics import MeanField, SequenceClasses, sgd
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.assumptions import Condition
from snapdyn.validation.checks import Check
from snapdyn.validation.dense_algebra import IDENTITY_ERROR, dense_attention, largest_relative, softmax
from snapdyn.validation.pictures import Picture
from snapdyn.validation.register import Evidence, claim
from snapdyn.validation.visits import FROZEN


def _small_classes(seed: int) -> SequenceClasses:
    rng = np.random.default_rng(seed)
    # Queries 1 and 3 are contextual tokens too: with the residual connection one row of Y has both roles.
    return SequenceClasses(
        rng.dirichlet(np.ones(4), size=2),
        query=[1, 3],
        next_token=[0, 2],
        weights=rng.dirichlet(np.ones(2)),
        vocab_size=4,
    )


def _objective(classes: SequenceClasses, Y: Floats, z: Floats, residual: bool) -> float:
    _, f = dense_attention(classes, z)
    u = np.zeros((classes.num_classes, Y.shape[0]))
    u[:, : f.shape[1]] = f
    if residual:
        u[np.arange(classes.num_classes), classes.query] += 1.0
        u /= np.linalg.norm(u, axis=1, keepdims=True)
    alpha = softmax(u @ Y)
    return float(classes.prior @ np.log(alpha[np.arange(classes.num_classes), classes.next_token]))


def _state(system: MeanField, Y: Floats, z: Floats) -> Floats:
    """The system's state for decoder logits Y whose outputs without a class are equal."""
    query, token = system.classes.z_coordinates
    state = np.empty(system.size)
    state[system.layout.slot_of_z] = z[query, token]
    outputs = system.layout.output_token
    spare = np.setdiff1d(np.arange(Y.shape[1]), outputs)
    columns = np.where(outputs >= 0, outputs, spare[0] if spare.size else 0)
    state[system.layout.num_slots :] = Y[np.ix_(system.layout.row_token, columns)].ravel()
    return state


def _kernel_gradient(system: MeanField, Y: Floats, z: Floats) -> tuple[Floats, Floats]:
    """Drift of the compiled kernel at unit rates, scattered to dense dY (rows, columns kept) and dz (Q, M)."""
    drift = system.derivative(0.0, _state(system, Y, z))
    dz = np.zeros_like(z)
    dz[system.classes.z_coordinates] = system.z_support(drift)
    return system.decoder(drift), dz


@claim(
    "lemma1",
    source="Lemma 1, Eqs. (2)-(4)",
    title="Gradient of the loss in Y and Z",
    statement=(
        "The ascent direction of log softmax(Y^T f)[next] is f (x - alpha)^T for Y and "
        "f o (g - f (f.g)), g = Y (x - alpha), for the row of Z of the query."
    ),
    latex=r"\dot Y=\eta_Y f(x-\alpha)^\top,\quad \dot z=\eta_Z\,\mathrm{diag}(q)\,\frac{I-ff^\top}{\|q\|}\,Y(x-\alpha)",
)
def lemma1(level: str) -> Evidence:
    from snapdyn.analytic.symbolic import gradient

    points = 5 if level == "quick" else 50
    errors = {"sympy": 0.0, "difference": 0.0, "descent": 0.0, "SGD": 0.0, "control": np.inf}
    step = 1e-5
    shown: tuple[Floats, ...] = ()
    for seed in range(points):
        for residual in (False, True):
            classes = _small_classes(seed)
            rng = np.random.default_rng(1000 + seed)
            z = rng.normal(size=(2, 4))
            Y = rng.normal(size=(4, 4))
            Y[:, 3] = Y[:, 1]  # outputs that no class has are one shared column
            system = MeanField(classes, 1.0, 1.0, residual=residual)
            dY, dz = _kernel_gradient(system, Y, z)
            exact_dY, exact_dz = gradient(
                classes.P.toarray(), classes.query, classes.next_token, classes.prior, Y, z, residual=residual
            )
            errors["descent"] = max(errors["descent"], _descent_error(classes, Y, z, residual, exact_dY, exact_dz))
            exact_dY = exact_dY[system.layout.row_token][:, [0, 2, 1]]
            errors["sympy"] = max(errors["sympy"], largest_relative(dY, exact_dY), largest_relative(dz, exact_dz))
            differences = np.zeros_like(z)
            for index in np.ndindex(z.shape):
                shift = np.zeros_like(z)
                shift[index] = step
                differences[index] = (
                    _objective(classes, Y, z + shift, residual) - _objective(classes, Y, z - shift, residual)
                ) / (2 * step)
            errors["difference"] = max(errors["difference"], largest_relative(dz, differences))
            if not residual:
                # Wrong theory: the normalisation of f left out of the chain rule.
                _, f = dense_attention(classes, z)
                error = np.eye(4)[classes.next_token] - softmax(f @ Y)
                unprojected = classes.prior[:, None] * f * (error @ Y.T)
                errors["control"] = min(errors["control"], largest_relative(unprojected, exact_dz))
                shown = exact_dz.ravel(), dz.ravel()
                errors["SGD"] = max(errors["SGD"], _sample_error(Y, z[:1], seed))
    position = np.arange(shown[0].size, dtype=float)
    return Evidence(
        checks=[
            Check(
                f"kernel against sympy's derivative of the loss, {2 * points} points, residual off and on",
                "symbolic",
                errors["sympy"],
                IDENTITY_ERROR,
            ),
            Check("one whole step of gradient descent against the same", "descent", errors["descent"], IDENTITY_ERROR),
            Check(
                f"one batch-size-1 step on 50 drawn tokens against sympy at its frequencies, {points} times",
                "SGD",
                errors["SGD"],
                IDENTITY_ERROR,
            ),
            # Central differences err by step^2 times third derivatives (order 1) plus rounding/step.
            Check("kernel against central differences of the loss", "mean field", errors["difference"], 1e-7),
            Check(
                "wrong theory: the factor (I - f f^T) left out",
                "closed form",
                errors["control"],
                IDENTITY_ERROR,
                role="control",
            ),
        ],
        conclusion="The compiled right-hand side is the derivative of the loss to rounding.",
        picture=Picture(
            "attention logit (query, token)",
            "dJ/dz",
            (
                Picture.line("sympy's derivative", position, shown[0]),
                Picture.line("compiled kernel", position, shown[1], "simulation"),
            ),
            xscale="linear",
        ),
        seeds=tuple(range(points)),
        tried=2 * points,
    )


def _descent_error(
    classes: SequenceClasses, Y: Floats, z: Floats, residual: bool, exact_dY: Floats, exact_dz: Floats
) -> float:
    """Largest relative error of one step of descent on the expectation at unit rates, T infinite."""
    run = sgd(classes, 1.0, 1.0, 1, batch_size=None, init=(Y, z), residual=residual, save_decoder=True)
    assert run.Y is not None
    assert run.decoder_rows is not None
    rows = np.flatnonzero(run.decoder_rows >= 0)
    moved = np.zeros_like(exact_dY)
    moved[rows] = (run.Y[1] - run.Y[0])[run.decoder_rows[rows]]
    return max(largest_relative(moved, exact_dY), largest_relative(run.z[1] - run.z[0], exact_dz))


def _sample_error(Y: Floats, z: Floats, seed: int) -> float:
    """Largest relative error of one batch-size-1 step on a drawn sequence, against sympy at its frequencies.

    The step of Y is f (x - alpha)^T, and f is proportional to the frequencies times exp(z): the step of Y says which
    sequence was drawn, and sympy then says what both steps must be.
    """
    from snapdyn.analytic.symbolic import gradient

    classes = SequenceClasses(np.full((1, 4), 0.25), query=[1], next_token=[2], vocab_size=4)
    run = sgd(classes, 1.0, 1.0, 1, seq_len=50, init=(Y, z), seed=seed, save_decoder=True)
    assert run.Y is not None
    step = (run.Y[1] - run.Y[0])[run.decoder_rows]
    weights = step[:, 2] / np.exp(z[0])
    frequency = np.round(50 * weights / weights.sum()) / 50
    exact_dY, exact_dz = gradient(
        frequency[None], classes.query, classes.next_token, classes.prior, Y, z, residual=False
    )
    return max(largest_relative(step, exact_dY), largest_relative(run.z[1] - run.z[0], exact_dz))


@claim(
    "lemma2",
    source="Lemma 2, Eqs. (5)-(6)",
    title="Attention of long sequences",
    statement=(
        "As T grows, the attended token frequencies X^T b tend to c_n with c_n[l] proportional to "
        "P(l|n) exp(z_l), and X^T diag(b) X tends to diag(c_n)."
    ),
    latex=r"X^\top b\to c_n,\quad c_n[l]\propto P(l|n)\,e^{z_l},\quad X^\top\mathrm{diag}(b)X\to\mathrm{diag}(c_n)",
    assumptions=("contextual tokens independent given the class, no positions",),
)
def lemma2(level: str) -> Evidence:
    rng = np.random.default_rng(20)
    P = rng.dirichlet(np.full(12, 2.0))
    z = rng.normal(size=12)
    weight = np.exp(z)
    c = P * weight / (P @ weight)
    # Delta method: q = w p^/(w.p^) with Cov(p^) = (diag P - P P^T)/(T-1).
    jacobian = (np.diag(weight) - np.outer(c, weight)) / (P @ weight)
    deviation = np.sqrt(np.diag(jacobian @ (np.diag(P) - np.outer(P, P)) @ jacobian.T))

    # Token by token, for one sequence: X^T b and X^T diag(b) X are functions of the counts alone.
    tokens = rng.choice(12, size=200, p=P)
    X = np.eye(12)[tokens]
    b = softmax(X @ z)
    counts = np.bincount(tokens, minlength=12)
    from_counts = counts * weight / (counts @ weight)
    identity = max(
        float(np.abs(X.T @ b - from_counts).max()), float(np.abs(X.T @ (b[:, None] * X) - np.diag(from_counts)).max())
    )

    lengths = np.array([10**k for k in range(2, 7)])
    runs = 200 if level == "quick" else 2000
    spread, worst = [], 0.0
    for length in lengths:
        drawn = rng.multinomial(length, P, size=runs)
        q = drawn * weight / (drawn @ weight)[:, None]
        spread.append(float(np.sqrt(((q - c) ** 2).mean(axis=0)) @ np.ones(12)))
        # Mean over runs against c in standard errors, at the longest sequences only: the bias is O(1/T).
        worst = float(np.abs((q.mean(axis=0) - c) / (deviation / np.sqrt(length * runs))).max())
    slope = float(np.polyfit(np.log(lengths), np.log(spread), 1)[0])
    # A root mean square over `runs` draws has relative error 1/sqrt(2 runs); the slope of 5 points over 4 decades
    # inherits at most that over 4 ln 10 / sqrt(5); four of its standard errors are allowed, plus the O(1/T) bias.
    slope_bound = 4 / np.sqrt(2 * runs) / (4 * np.log(10) / np.sqrt(5)) + 0.01
    # The same of the training code: Y moves by f (x - alpha)^T, and q is f over its sum.
    classes = SequenceClasses(P[None], [0], vocab_size=20)
    trained = sgd(classes, 1e-6, FROZEN, runs, seq_len=10**6, init={"z": z[None]}, save_decoder=True)
    assert trained.Y is not None
    moved = np.diff(trained.Y[:, trained.decoder_rows, 0], axis=0)
    q = moved / moved.sum(axis=1, keepdims=True)
    of_sgd = float(np.abs((q.mean(axis=0) - c) / (deviation / np.sqrt(1e6 * runs))).max())
    no_attention = float(np.abs((P - c) / (deviation / np.sqrt(lengths[-1] * runs))).max())
    return Evidence(
        checks=[
            Check("X^T b and X^T diag(b) X from the counts alone", "SGD sample", identity, IDENTITY_ERROR),
            # 12 tokens at a family level of 1e-5: normal quantile 5.1.
            Check("mean of q at T-1 = 1e6 against c_n, in standard errors", "SGD sample", worst, 5.1),
            Check("the same for the sequences that SGD draws", "SGD", of_sgd, 5.1),
            Check("spread of q falls as (T-1)^-1/2: |fitted slope + 1/2|", "SGD sample", abs(slope + 0.5), slope_bound),
            Check("wrong theory: q tends to P, without exp(z)", "SGD sample", no_attention, 5.1, role="control"),
        ],
        conclusion=f"Fitted slope of the spread {slope:.4f}; the limit is c_n within its standard error.",
        picture=Picture(
            "contextual tokens T-1",
            "sum over tokens of rms(q - c)",
            (
                Picture.line("theory: delta method", lengths, deviation.sum() / np.sqrt(lengths)),
                Picture.line("sampled sequences", lengths, spread, "simulation"),
            ),
            yscale="log",
        ),
        conditions=[
            Condition(
                "long sequences",
                "P(l|n) (T-1) >= 100 for every token at the longest",
                100.0,
                float(P.min() * lengths[-1]),
                bool(P.min() * lengths[-1] >= 100),
            )
        ],
        seeds=(20, 0),
    )
