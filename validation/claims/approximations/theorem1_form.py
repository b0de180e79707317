"""Theorem 1's form of the gradient: the size of beta under the modified and under the original flow."""

from __future__ import annotations

import math

import numpy as np

from snapdyn import analytic
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.claims.approximations._shared import OriginalFlow, original_flow_of
from snapdyn.validation.claims.approximations._theorem1_form_settings import common_logits
from snapdyn.validation.evidence import Evidence
from snapdyn.validation.headlines import Headline
from snapdyn.validation.properties import Measured, Property
from snapdyn.validation.register import claim
from snapdyn.validation.requirements import (
    INDEPENDENT_ATTENTION,
    OVERLAPPING,
    OWN_NEXT_TOKENS,
    SEVERAL_CLASSES,
    ZERO_START,
)
from snapdyn.validation.rungs.run import ORIGINAL
from snapdyn.validation.search import Family, Instance

DOMAIN = Family(
    "frozen attention, any overlap",
    "any",
    uniform=False,
    vocab_size=(2, 10**9),
    ratio=(1e-3, 1e-3),
    horizon=(1e-2, 1e6),
    eta_Y=(1e-6, 1e6),
)
CONDITIONS = (OWN_NEXT_TOKENS, SEVERAL_CLASSES, OVERLAPPING, INDEPENDENT_ATTENTION, ZERO_START)
# Error of the solver.
SOLVER = 1e-6


def spread_of_wrong_logits(run: OriginalFlow, vocab_size: int) -> Floats:
    """S (N,): largest difference between two wrong logits of a class, so far."""
    K = run.W.shape[1]
    wrong = np.ones((K, K + 1), dtype=bool)
    wrong[np.arange(K), np.arange(K)] = False
    wrong[:, K] = vocab_size > K
    high, low = (np.where(wrong, run.W, sign * np.inf) for sign in (-1, 1))
    return np.asarray(np.maximum.accumulate((high.max(axis=2) - low.min(axis=2)).max(axis=1)))


def allowed_ratio(S: Floats, vocab_size: int) -> tuple[Floats, Floats]:
    """Smallest and largest beta_nk (V-1) U_n/(iota_n U_k) for the spread S.

    All shares of wrong outputs lie in exp(+-S)/(V-1), at any one time and on average over the past, and beta_nk is
    U_k (1 - alpha_n) times share_k[n] + share_n[k] - sum_j share_k[j] share_n[j].
    """
    rest = 1 / (vocab_size - 1)
    up, down = np.exp(np.minimum(S, 300.0)), np.exp(-S)
    least = 2 * down - up + rest
    return (
        least / (1 + np.where(least > 0, up, down) * rest),
        (2 * up - down + rest) / (1 + down * rest),
    )


def excess(instance: Instance, run: OriginalFlow, ratio: Floats) -> Measured:
    """Distance of `ratio` (N, K, K) from 1 over what the spread of wrong logits allows, largest."""
    least, most = allowed_ratio(spread_of_wrong_logits(run, instance.vocab_size), instance.vocab_size)
    share = np.where(
        ratio >= 1,
        (ratio - 1) / (most - 1 + SOLVER)[:, None, None],
        (1 - ratio) / (1 - least + SOLVER)[:, None, None],
    )
    share *= 1 - np.eye(len(ratio[0]))
    i, n, k = np.unravel_index(int(share.argmax()), share.shape)
    return Measured(
        float(share[i, n, k]), at_most=1, where=f"classes {n} and {k} at t = {run.t[i]:.3g}, ratio {ratio[i, n, k]:.3g}"
    )


def own_memory(run: OriginalFlow) -> Floats:
    """U_n (N, K): eta_Y p_n int (1 - alpha_n) dt."""
    return np.asarray(np.einsum("tnn->tn", run.C[:, :, : run.C.shape[1]]))


def beta_of_original_flow(instance: Instance) -> Measured | None:
    """beta_nk (V-1) U_n/(iota_n U_k) against 1, for every pair of classes and every time."""
    run = original_flow_of(instance)
    if run is None:
        return None
    U = own_memory(run)
    return excess(instance, run, run.beta_over_iota * (instance.vocab_size - 1) * U[:, :, None] / U[:, None, :])


def modified_beta(instance: Instance) -> Measured | None:
    """Wrong theory: beta_nk/iota_n of the modified flow, from E', against the same bound."""
    run = original_flow_of(instance)
    if run is None:
        return None
    K, V = instance.num_classes, instance.vocab_size
    E_prime = np.eye(K) - np.linalg.inv(instance.gram)
    iota, beta = analytic.speed_coefficients(E_prime, V, form="exact")
    return excess(instance, run, np.broadcast_to(beta / iota[:, None] * (V - 1), run.coefficients.shape))


def spread_by_overlap(instance: Instance) -> Measured | None:
    """S over its bound: largest G_kj U_j, j != k, plus exp(S) sum_m G_km U_m/(V-1)."""
    run = original_flow_of(instance)
    if run is None:
        return None
    G, U = instance.gram, own_memory(run)
    S = spread_of_wrong_logits(run, instance.vocab_size)
    pairs = ((G - np.eye(len(G)))[None] * U[:, None, :]).max(axis=(1, 2))
    rest = np.exp(np.minimum(S, 300.0)) * (U @ G).max(axis=1) / (instance.vocab_size - 1)
    share = S / (pairs + rest)
    i = int(share.argmax())
    return Measured(float(share[i]), at_most=1 + 1e-6, where=f"t = {run.t[i]:.3g}")


def printed_size(instance: Instance) -> Measured | None:
    """|ln| of xi_n/iota_n = sum_k beta_nk G_nk/iota_n under the original flow over -E'_nn, the printed order."""
    run = original_flow_of(instance)
    if run is None:
        return None
    original = (run.beta_over_iota * instance.gram).sum(axis=2)
    printed = np.diag(np.linalg.inv(instance.gram)) - 1
    distance = np.abs(np.log(np.maximum(original, 1e-300) / printed))
    i, n = np.unravel_index(int(distance.argmax()), distance.shape)
    return Measured(float(distance[i, n]), at_most=math.log(2), where=f"class {n} at t = {run.t[i]:.3g}")


@claim(
    "theorem1-form",
    source="Theorem 1, Eqs. (9), (86)-(88)",
    title="beta of the gradient is of the order of E'",
    answer="The premise of Theorem 1, the modified decoder, changes attention strongly: under the original flow "
    "1/(V-1) sets beta, and not E'.",
    headline=Headline(
        2,
        printed=r"\beta_{nk}\approx E'_{nk}",
        recomputed=r"\beta_{nk}\approx\frac{\iota_n}{V-1}\,\frac{U_k}{U_n},\quad U_n=\eta_Yp_n\int(1-\alpha_n)\,dt",
    ),
    statement="The gradient g_n = gamma (iota_n f_n - sum_k beta_nk f_k) with beta_nk of the order of E'_nk drives "
    "attention. Corrected: under the original flow beta_nk = (iota_n/(V-1)) U_k/U_n times a factor between "
    "2 exp(-S) - exp(S) and 2 exp(S) - exp(-S), U_n = eta_Y p_n int (1 - alpha_n) dt (about V h_n, equal for equal "
    "priors) and S the largest difference between two wrong logits of a class so far, at most about the largest "
    "f_n.f_k V h.",
    latex=r"\beta_{nk}\approx E'_{nk}\ \to\ \beta_{nk}\approx\frac{\iota_n}{V-1}\frac{U_k}{U_n}",
    expected="corrected",
    assumptions=("attention slower than the decoder: frozen, or eta_Z/eta_Y = 1e-3", "every class its own next token"),
    findings=("F4",),
    properties=(
        Property(
            "|ln| of xi_n/iota_n of the original flow over -E'_nn",
            ORIGINAL,
            printed_size,
            DOMAIN,
            conditions=CONDITIONS,
            evaluations=(20, 200),
        ),
        Property(
            "|beta_nk (V-1) U_n/(iota_n U_k) - 1| over what the spread S of wrong logits allows",
            ORIGINAL,
            beta_of_original_flow,
            DOMAIN,
            conditions=CONDITIONS,
            controls={"wrong theory: beta from E', as under the modified flow": modified_beta},
            evaluations=(60, 3000),
            corrected=True,
        ),
        Property(
            "S over the largest overlap times U, plus exp(S) sum_k G_nk U_k/(V-1)",
            ORIGINAL,
            spread_by_overlap,
            DOMAIN,
            conditions=CONDITIONS,
            evaluations=(60, 3000),
            corrected=True,
        ),
    ),
)
def theorem1_form(evidence: Evidence) -> None:
    common_logits(evidence)
