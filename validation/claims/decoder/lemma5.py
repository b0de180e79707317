"""Lemma 5: the logits after s visits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from snapdyn import analytic
from snapdyn.dynamics import sgd
from snapdyn.dynamics.classes import Floats, Ints
from snapdyn.validation.claims.decoder._shared import (
    OVERLAPS,
    PLAIN_STEPS,
    errors_of,
    logits_of,
    modified_mixing,
    outputs,
)
from snapdyn.validation.dense_algebra import largest_relative
from snapdyn.validation.evidence import Evidence
from snapdyn.validation.pictures import Picture
from snapdyn.validation.properties import Measured, Property
from snapdyn.validation.register import claim
from snapdyn.validation.requirements import INDEPENDENT_ATTENTION
from snapdyn.validation.search import Instance
from snapdyn.validation.visits import FROZEN, discrete_logits, own_lead, recursion, single_token_classes

# Batch-size-1 steps that are taken on an instance.
STEPS = 150
# Rounding of a Gram matrix with a smallest eigenvalue of 1e-6, over STEPS steps.
STEP_ERROR = 1e-8

# u = V h* (S,) after each class's number of visits (S,), by V and eta_Y.
Law = Callable[[float, float, Ints], Floats]


def recursion_law(vocab_size: float, eta_Y: float, counts: Ints) -> Floats:
    """V h* by (33)."""
    order = np.sort(counts)
    return discrete_logits(vocab_size, eta_Y, order)[np.searchsorted(order, counts)]


def with_V_others(vocab_size: float, eta_Y: float, counts: Ints) -> Floats:
    """Wrong theory: V in place of V - 1 in (33), all outputs counted as others."""
    order = np.sort(counts)
    return np.asarray(recursion(vocab_size, eta_Y, order, vocab_size, 1.0)[np.searchsorted(order, counts)])


def continuous_law(vocab_size: float, eta_Y: float, counts: Ints) -> Floats:
    """Wrong theory: V h of the flow in place of h* of the steps."""
    return vocab_size * analytic.h(counts, eta_Y, vocab_size)


def steps_against(law: Law) -> Callable[[Instance], Measured]:
    """Largest error of logits and of |e_n - alpha_n|, over the largest logit, after STEPS drawn batch-size-1 steps.

    The steps are those of the modified flow on all classes at once: each moves all rows of W = F^T Y by
    F^T (f_n - F E' e_n), computed in token space.
    """

    def measure(instance: Instance) -> Measured:
        V, eta = float(instance.vocab_size), instance.eta_Y
        rng = np.random.default_rng(np.random.SeedSequence(instance.seed, spawn_key=(instance.number, 3)))
        drawn = rng.choice(instance.num_classes, size=STEPS, p=instance.prior)
        column, copies = outputs(instance)
        mixing = modified_mixing(instance)
        W = np.zeros((instance.num_classes, copies.size))
        for n in drawn:
            error = errors_of(W[n : n + 1], column[n : n + 1], copies)
            W += eta * mixing[:, n : n + 1] * error
        counts = np.bincount(drawn, minlength=instance.num_classes)
        u = law(V, eta, counts)
        expected = logits_of(instance, u)
        logits = np.where(copies > 0, np.abs(W - expected), 0.0).max(axis=1) / np.abs(expected).max()
        norm = np.linalg.norm(errors_of(W, column, copies) * np.sqrt(copies), axis=1)
        decay = np.exp(-u)
        norms = np.abs(norm - np.sqrt(V * (V - 1)) * decay / ((V - 1) * decay + 1))
        # Logits carry rounding in proportion to the largest one, and so do the errors.
        worst = np.maximum(logits, norms / max(1.0, float(np.abs(expected).max())))
        n = int(worst.argmax())
        return Measured(float(worst[n]), at_most=STEP_ERROR, where=f"class {n} after {counts[n]} visits")

    return measure


@claim(
    "lemma5",
    source="Lemma 5, Eqs. (31)-(33)",
    title="Logits after s visits follow the recursion of h*",
    answer="Exact to rounding, for any rate, V, overlap and order of visits.",
    statement="After s visits of class n, w_n = (V-1) h*(s) zeta_n and e_n - alpha_n = (V-1)/(V-1+exp(V h*)) zeta_n "
    "with h*(s) = h*(s-1) + eta_Y/(V-1+exp(V h*(s-1))), h*(0) = 0.",
    latex=r"w_n=(V-1)h^*(s)\,\zeta_n,\quad h^*(s)=h^*(s-1)+\frac{\eta_Y}{V-1+e^{Vh^*(s-1)}}",
    grade="proved",
    assumptions=("modified flow, discrete steps", "Y(0) = 0", "attention vectors f_n linearly independent"),
    properties=Property(
        f"logits and |e_n - alpha_n| after {STEPS} drawn steps against the lemma, relative to the largest logit",
        "SGD, modified flow",
        steps_against(recursion_law),
        OVERLAPS,
        conditions=(PLAIN_STEPS, INDEPENDENT_ATTENTION),
        controls={
            "wrong theory: V in place of V - 1 in the recursion": steps_against(with_V_others),
            "wrong theory: h of the flow in place of h*": steps_against(continuous_law),
        },
        evaluations=(100, 10_000),
        directed=False,
    ),
)
def lemma5(evidence: Evidence) -> None:
    evidence.proved("discrete-recursion", "error-norm")
    steps = 5000 if evidence.full else 300
    logit_error = norm_error = 0.0
    gap, h_star = np.empty(0), np.empty(0)
    for V in (3, 50, 1000):
        for eta in (0.1, 1.0, 4.0):
            gap, norm = _plain_steps(V, eta, steps)
            h_star = analytic.discrete_h(steps, eta, V)
            decay = np.exp(-V * h_star)
            # w_0 - w_1 = (V-1) h* (1 + 1/(V-1)) = V h*
            logit_error = max(logit_error, largest_relative(gap, V * h_star))
            predicted = (V - 1) * decay / ((V - 1) * decay + 1) * np.sqrt(V / (V - 1))
            norm_error = max(norm_error, float(np.max(np.abs(norm / predicted - 1))))
    name = f"logits of plain SGD on all V outputs against V h*, {steps} steps, V = 3..1000"
    evidence.holds(name, "descent", logit_error, at_most=1e-11)
    evidence.holds("norm of e_n - alpha_n against the formula, relative", "descent", norm_error, at_most=1e-10)
    # The training code itself: K = 1, so that every step is a visit; every state kept.
    trained = sgd(single_token_classes(1, 1000), 4.0, FROZEN, steps, save_decoder=True)
    trained_error = largest_relative(own_lead(trained)[:, 0], 1000 * h_star)
    name = f"logits of batch-size-1 SGD on one class against V h*, {steps} steps"
    evidence.holds(name, "SGD", trained_error, at_most=1e-11)
    # |e_n - alpha_n| = (1 - alpha_nn) |zeta_n|, and the loss is -ln alpha_nn.
    from_loss = -np.expm1(-trained.loss) * np.sqrt(1000 / 999)
    evidence.holds(
        "norm of e_n - alpha_n of SGD, from its loss, against the formula, relative",
        "SGD",
        float(np.max(np.abs(from_loss / predicted - 1))),
        at_most=1e-10,
    )
    evidence.conclusion = "Exact to accumulated rounding, for any rate, V, overlap and order of visits."
    visits = np.arange(1, steps + 1)
    evidence.picture = Picture(
        "s (visits of the class)",
        "w_n[n] - w_n[other] = V h*",
        (
            Picture.line("recursion (33)", visits, 1000 * h_star[1:]),
            Picture.line("plain SGD on 1000 logits", visits, gap[1:], "simulation"),
        ),
    )
    evidence.seeds.append(0)


def _plain_steps(V: int, eta: float, steps: int) -> tuple[Floats, Floats]:
    """Plain SGD on one class's logits w <- w + eta (e_0 - softmax(w)): (w_0 - w_1, norm of error) after each step."""
    w = np.zeros(V)
    gap, norm = np.zeros(steps + 1), np.zeros(steps + 1)
    for s in range(steps + 1):
        e = np.exp(w - w.max())
        alpha = e / e.sum()
        error = -alpha
        error[0] = alpha[1:].sum()
        gap[s], norm[s] = w[0] - w[1], np.linalg.norm(error)
        w += eta * error
    return gap, norm
