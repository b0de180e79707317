"""Lemma 5: the logits after s visits."""

from collections.abc import Callable

import numpy as np

from snapdyn import analytic
from snapdyn.validation.claims._shared import NO_MOMENTUM
from snapdyn.validation.claims.decoder._shared import OVERLAPS, distance, modified_mixing
from snapdyn.validation.claims.decoder._visits import errors_of, outputs, recursion, whole_steps
from snapdyn.validation.claims.language import (
    EPS,
    INDEPENDENT_ATTENTION,
    Claim,
    Floats,
    Instance,
    Measure,
    Measured,
    Property,
)

# Batch-size-1 steps that are taken on an instance.
STEPS = 150
STEP_ERROR = 1e-8

# u = V h* (S,) after each class's number of visits (S,), by V and eta_Y.
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


CLAIM = Claim(
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
