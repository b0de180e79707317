"""Lemmas 3, 5 and 6: logits of decoupled classes, by visits and in continuous time."""

from collections.abc import Callable
from functools import partial

import numpy as np

from snapdyn import analytic
from snapdyn.validation.claims.decoder._shared import (
    OVERLAPS,
    SCALARS,
    SOLVER_ERROR,
    distance,
    errors_of,
    flow_against,
    modified_mixing,
    outputs,
    recursion,
    whole_steps,
)
from snapdyn.validation.claims.language import (
    EPS,
    IDENTITY_ERROR,
    INDEPENDENT_ATTENTION,
    NO_MOMENTUM,
    Claim,
    Floats,
    Instance,
    Measure,
    Measured,
    Property,
    by_scipy,
)

LEMMA3 = Claim(
    "lemma3",
    source="Lemma 3, Eqs. (8), (26)",
    title="Under the modified flow of the decoder, classes do not act on each other",
    statement=(
        "With f_n replaced by f_n - F E' e_n in the update of Y, the logits w_n = Y^T f_n of each class follow w_n' "
        "= eta_Y (e_n - alpha_n), independently of the other classes, even if classes share a next token."
    ),
    latex=r"\dot Y=\eta_Y (f_n-FE'e_n)(e_n-\alpha_n)^\top\ \Rightarrow\ \dot w_n=\eta_Y(e_n-\alpha_n)",
    conditions=("attention frozen", "attention vectors f_n linearly independent"),
    conclusion="Exact for the modified flow at any overlap; the original flow (7) does not decouple. "
    "F^T (F - F E') = I is proved for any number of classes.",
    grade="proved",
    properties=(
        Property(
            "logits of all classes by scipy against (V-1) h(p_n t) zeta_n of each alone, relative to the largest",
            "modified decoder",
            lambda instance: flow_against(instance, modified_mixing(instance)),
            OVERLAPS,
            conditions=(INDEPENDENT_ATTENTION,),
            controls={
                "wrong theory: the original flow (7) decouples too": lambda instance: flow_against(
                    instance, instance.gram
                ),
                "wrong theory (F18): E' = (I+E)^{-1} - I, as in Appendix D.1": lambda instance: flow_against(
                    instance, modified_mixing(instance, -1.0)
                ),
            },
            evaluations=(16, 1000),
            directed=False,
        ),
    ),
    proved=("modified-flow",),
    findings=("F18",),
)


# Batch-size-1 steps that are taken on an instance.
STEPS = 150
STEP_ERROR = 1e-8

# u = V h* (S,) after each class's number of visits, by V and eta_Y; or u = V h (S,) by eta_Y p_n t and V.
Law = Callable[..., Floats]


def steps_against(law: Law) -> Measure:
    """Largest error of logits and of |e_n - alpha_n|, over the largest logit, after STEPS drawn batch-size-1 steps.

    The steps are those of the modified flow on all classes at once: each moves all rows of W = F^T Y by
    F^T (f_n - F E' e_n).
    """

    def measure(instance: Instance) -> Measured:
        V, S = float(instance.vocab_size), instance.num_classes
        rng = np.random.default_rng(np.random.SeedSequence(instance.seed, spawn_key=(instance.number, 3)))
        drawn = rng.choice(S, size=STEPS, p=instance.prior)
        column, copies = outputs(instance)
        W = whole_steps(instance, drawn, modified_mixing(instance).T, np.eye(S))
        counts = np.bincount(drawn, minlength=S)
        u = law(V, instance.eta_Y, counts)
        norm = np.linalg.norm(errors_of(W, column, copies) * np.sqrt(copies), axis=1)
        # exp of 700 is still a float.
        norms = np.abs(norm - np.sqrt(V * (V - 1)) / (V - 1 + np.exp(np.minimum(u, 700.0))))
        # Logits carry rounding in proportion to the largest one, and so do the errors.
        worst = np.maximum(distance(instance, W, u), norms / max(1.0, u.max()))
        n = worst.argmax()
        # The product of the Gram matrix with its inverse has sums of S terms. It errs by S eps over its smallest
        # eigenvalue in each step, and the logit that this gives to a class not yet visited changes its first step by
        # eta_Y times as much. In 600 draws the number was below a tenth of this.
        error = 4 * S * EPS / instance.eigenvalues[0] * (STEPS + instance.eta_Y)
        return Measured(worst[n], at_most=STEP_ERROR, error=error, where=f"class {n} after {counts[n]} visits")

    return measure


LEMMA5 = Claim(
    "lemma5",
    source="Lemma 5, Eqs. (31)-(33)",
    title="The logits of a class depend on its visits alone, through a recursion for their size",
    statement="After s visits of class n, w_n = (V-1) h*(s) zeta_n and e_n - alpha_n = (V-1)/(V-1+exp(V h*)) zeta_n "
    "with h*(s) = h*(s-1) + eta_Y/(V-1+exp(V h*(s-1))), h*(0) = 0.",
    latex=r"w_n=(V-1)h^*(s)\,\zeta_n,\quad h^*(s)=h^*(s-1)+\frac{\eta_Y}{V-1+e^{Vh^*(s-1)}}",
    conditions=(
        "modified decoder, in steps: each visit is one update",
        "Y(0) = 0",
        "attention vectors f_n linearly independent",
    ),
    conclusion="The recursion is exact up to rounding, for any rate, V, overlap and order of visits.",
    grade="proved",
    properties=(
        Property(
            f"logits and |e_n - alpha_n| after {STEPS} drawn steps against the lemma, relative to the largest logit",
            "SGD, modified flow",
            # V h* by the evaluator of (33).
            steps_against(lambda V, eta, counts: V * analytic.discrete_h(int(counts.max()), eta, V)[counts]),
            OVERLAPS,
            conditions=(NO_MOMENTUM, INDEPENDENT_ATTENTION),
            controls={
                "wrong theory: V in place of V - 1 in the recursion": steps_against(
                    lambda V, eta, counts: recursion(V, eta, np.arange(counts.max() + 1), V, 1.0)[counts]
                ),
                "wrong theory: h of the flow in place of h*": steps_against(
                    lambda V, eta, counts: V * analytic.h(counts, eta, V)
                ),
            },
            directed=False,
        ),
    ),
    proved=("discrete-recursion", "error-norm"),
)


def implicit(tau: Floats, vocab_size: float) -> Floats:
    """Root u of (45), as `analytic.h` computes it."""
    return vocab_size * analytic.h(tau, 1.0, vocab_size)


def without_one(tau: Floats, vocab_size: float) -> Floats:
    """Wrong theory: root of exp(u) + (V-1) u = V eta_Y s, without the 1; this is V h at s - 1/(V eta_Y)."""
    return implicit(np.maximum(tau - 1 / vocab_size, 0.0), vocab_size)


def solved(tau: float, vocab_size: float) -> float:
    """u at eta_Y s = tau by scipy's LSODA on du/dtau = V/(V-1+exp(u))."""

    def slope(_: float, u: Floats) -> Floats:
        decay = np.exp(-u)
        return vocab_size * decay / ((vocab_size - 1) * decay + 1)

    # The solver's own steps: its dense output is of lower order.
    return float(by_scipy(slope, tau, np.zeros(1), rtol=1e-11, atol=1e-14 * min(tau, 1.0))[-1, 0])


def against_solver(instance: Instance, law: Law = implicit) -> Measured:
    """Largest relative distance of the law from the solution of (44) at p_n t_end, rarest and most frequent class."""
    V = float(instance.vocab_size)
    tau = instance.flow_rates[0] * np.quantile(instance.prior, (0, 1)) * instance.t_end
    distance = np.abs(law(tau, V) / [solved(float(end), V) for end in tau] - 1)
    i = distance.argmax()
    return Measured(distance[i], at_most=SOLVER_ERROR, where=f"eta_Y p_n t = {tau[i]:.3g}")


def against_50_digits(instance: Instance, law: Law = implicit) -> Measured:
    """Relative distance of the law at p_n t_end from the root of (45), by one step of Newton's method at 50 digits.

    The error of the step is of the order of the square of this distance.
    """
    import mpmath

    V, tau = float(instance.vocab_size), float(instance.flow_rates[0] * instance.prior.max() * instance.t_end)
    with mpmath.workdps(50):
        u = mpmath.mpf(float(law(np.array([tau]), V)[0]))
        step = (mpmath.expm1(u) + (V - 1) * u - mpmath.mpf(V) * tau) / (mpmath.exp(u) + V - 1)
        distance = float(abs(step / (u - step)))
    return Measured(distance, at_most=IDENTITY_ERROR, where=f"eta_Y p_n t = {tau:.3g}")


LEMMA6 = Claim(
    "lemma6",
    under_rules="Under sign descent and Adam the transition comes without the factor K: see sign-transition",
    source="Lemma 6, Eqs. (44)-(45)",
    title="In continuous time, the size of the logits of a class solves one equation in its visits",
    statement="dh/ds = eta_Y/(V-1+exp(V h)) with h(0) = 0 gives exp(V h) + (V-1) V h = V eta_Y s + 1.",
    latex=r"\dot h=\frac{\eta_Y}{V-1+e^{Vh}},\quad e^{Vh}+(V-1)Vh=V\eta_Y s+1",
    conclusion="Holds; solved for h, it is a closed form with the Wright omega function: V h = A - omega(A - ln(V-1)), "
    "A = (V eta_Y s + 1)/(V-1).",
    grade="proved",
    properties=(
        Property(
            "V h by (45) at p_n t against scipy's LSODA on (44), relative",
            "frozen decoder",
            against_solver,
            SCALARS,
            controls={
                "wrong theory: exp(V h) + (V-1) V h = V eta_Y s, without the 1": partial(
                    against_solver, law=without_one
                ),
                "wrong theory: V h = ln(V eta_Y s + 1)": partial(against_solver, law=lambda tau, V: np.log1p(V * tau)),
            },
            evaluations=(60, 2000),
            directed=False,
        ),
        Property(
            "V h of the evaluator at p_n t against the root of (45) at 50 digits, relative",
            "closed form",
            against_50_digits,
            SCALARS,
            controls={"wrong theory: (45) without the 1": partial(against_50_digits, law=without_one)},
            directed=False,
        ),
    ),
    proved=("h-implicit", "h-closed"),
    certified=("h-increasing",),
)
