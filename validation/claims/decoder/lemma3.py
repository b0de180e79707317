"""Lemma 3: the modified flow decouples the classes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from snapdyn import analytic
from snapdyn.dynamics import log_times, random_classes
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.claims.decoder._shared import (
    OVERLAPS,
    SOLVER_ERROR,
    attention,
    integrated_logits,
    logit_distance,
    logits_of,
    modified_mixing,
)
from snapdyn.validation.dense_algebra import IDENTITY_ERROR, dense_attention, largest_relative, softmax
from snapdyn.validation.evidence import Evidence
from snapdyn.validation.pictures import Picture
from snapdyn.validation.properties import Measured, Property
from snapdyn.validation.register import claim
from snapdyn.validation.requirements import INDEPENDENT_ATTENTION
from snapdyn.validation.rungs.run import MODIFIED, ORIGINAL, run_on_rung
from snapdyn.validation.search import Instance


def decoupled(mixing: Callable[[Instance], Floats]) -> Callable[[Instance], Measured | None]:
    """Largest distance of the coupled logits at t_end from those of each class alone, over the largest logit."""

    def measure(instance: Instance) -> Measured | None:
        try:
            W = integrated_logits(instance, mixing(instance))
        except RuntimeError:
            return None
        V, visits = instance.vocab_size, instance.prior * instance.t_end
        alone = logits_of(instance, V * analytic.h(visits, instance.flow_rates[0], V))
        distance, where = logit_distance(instance, W, alone)
        return Measured(distance, at_most=SOLVER_ERROR, where=where)

    return measure


def sign_of_appendix_d1(instance: Instance) -> Floats:
    """F^T (F - F E') with E' = (I+E)^{-1} - I, as Appendix D.1 prints it."""
    f = attention(instance)
    e_prime = np.linalg.inv(instance.gram) - np.eye(len(f))
    return np.asarray(f @ (f - e_prime.T @ f).T)


@claim(
    "lemma3",
    source="Lemma 3, Eqs. (8), (26)",
    title="The modified flow decouples the classes",
    answer="Exact for the modified flow at any overlap; the original flow (7) does not decouple.",
    statement="With f_n replaced by f_n - F E' e_n in the update of Y, the logits w_n = Y^T f_n of each class follow "
    "w_n' = eta_Y (e_n - alpha_n), untouched by the other classes, also where classes share a next token.",
    latex=r"\dot Y=\eta_Y (f_n-FE'e_n)(e_n-\alpha_n)^\top\ \Rightarrow\ \dot w_n=\eta_Y(e_n-\alpha_n)",
    grade="proved",
    assumptions=("attention frozen", "attention vectors f_n linearly independent"),
    findings=("F18",),
    properties=Property(
        "logits of all classes by scipy against (V-1) h(p_n t) zeta_n of each alone, relative to the largest",
        "modified decoder",
        decoupled(modified_mixing),
        OVERLAPS,
        conditions=(INDEPENDENT_ATTENTION,),
        controls={
            "wrong theory: the original flow (7) decouples too": decoupled(lambda instance: instance.gram),
            "wrong theory (F18): E' = (I+E)^{-1} - I, as in Appendix D.1": decoupled(sign_of_appendix_d1),
        },
        evaluations=(16, 1000),
        directed=False,
    ),
)
def lemma3(evidence: Evidence) -> None:
    evidence.proved("modified-flow")
    eta = 1.0
    classes = random_classes(
        4, num_common=2, num_distinct=3, vocab_size=20, correlation="strong", uniform_prior=False, seed=3
    )
    V = classes.vocab_size
    _, f = dense_attention(classes, np.zeros((1, classes.num_tokens)))
    update = f - classes.E_prime() @ f  # rows f_n - F E' e_n
    error = float(np.abs(f @ update.T - np.eye(4)).max())
    name = "F^T Y' against e_n - alpha_n for one update, any error vectors, K = 4, strong overlap"
    evidence.holds(name, "closed form", error, at_most=IDENTITY_ERROR)
    times = log_times(1e-2, 200, 60)
    closed = np.array([(V - 1) * analytic.h(p * times, eta, V) for p in classes.prior]).T
    own_logit = np.arange(classes.num_classes), classes.next_token
    # Solver tolerance 1e-10 per step over some hundred steps.
    full = _all_of_Y(f, update, classes.prior, np.eye(V)[classes.next_token])
    evidence.holds(
        "all of Y (tokens, V) by scipy against the decoupled closed form, eta_Y t = 200",
        "modified decoder",
        largest_relative(full[own_logit], closed[-1]),
        at_most=1e-8,
    )
    own = run_on_rung(MODIFIED, classes, eta, 0.0, times, rtol=1e-10, atol=1e-12).extra["own_logit"]
    name = "FrozenDecoder(modified=True) against the same, t = 0.01..200"
    evidence.holds(name, "modified decoder", largest_relative(own, closed), at_most=1e-8)
    evidence.conclusion = "Exact for the modified flow, at any overlap. The original flow (7) does not decouple."
    original = run_on_rung(ORIGINAL, classes, eta, 0.0, times).extra["own_logit"]
    evidence.picture = Picture(
        "t (batch-size-1 steps)",
        "own logit of class 0",
        (
            Picture.line("(V-1) h(p t), closed form", times, closed[:, 0]),
            Picture.line("modified flow, integrated", times, own[:, 0], "simulation"),
            Picture.line("original flow (7)", times, original[:, 0], "control"),
        ),
    )
    evidence.seeds.append(3)


def _all_of_Y(f: Floats, update: Floats, prior: Floats, one_hot: Floats) -> Floats:
    """W = F^T Y at t = 200 and eta_Y = 1, all of Y (M, V) by scipy in plain numpy."""
    from scipy.integrate import solve_ivp

    V = one_hot.shape[1]

    def rate(t: float, Y: Floats) -> Floats:
        error = one_hot - softmax(f @ Y.reshape(-1, V))
        return np.asarray(((prior[:, None] * update).T @ error).ravel())

    end = solve_ivp(rate, (0, 200), np.zeros(f.shape[1] * V), method="DOP853", rtol=1e-10, atol=1e-12).y[:, -1]
    return np.asarray(f @ end.reshape(-1, V))
