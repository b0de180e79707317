"""Lemmas 8 and 9: the two time scales of the decoder and the speed control gamma."""

from __future__ import annotations

import numpy as np
from scipy.special import stdtrit

from snapdyn import analytic
from snapdyn.dynamics import FrozenDecoder, Trajectory, sgd, single_common_token, whole_run
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.assumptions import Condition
from snapdyn.validation.checks import Check
from snapdyn.validation.dense_algebra import IDENTITY_ERROR
from snapdyn.validation.pictures import Picture
from snapdyn.validation.register import Evidence, claim
from snapdyn.validation.statistics import standard_error
from snapdyn.validation.symbolic_checks import symbolic
from snapdyn.validation.visits import FROZEN, own_lead, single_token_classes


@claim(
    "lemma8",
    source="Lemma 8, Eqs. (50)-(51)",
    title="The two roots of exp(u) = (V-1) u",
    statement="exp(V h) <= (V-1) V h exactly for V h between V^(omega_0-1) and (1+omega_1) ln V, omega_1 of the order "
    "of ln ln V/ln V; for V >> 100 omega_0 is at most of the order of 1/(V^0.99 ln V).",
    latex=r"e^{u}=(V-1)u:\quad u_-=V^{\omega_0-1},\ \omega_0=O\!\left(\frac{1}{V^{0.99}\ln V}\right);\quad "
    r"u_+=(1+\omega_1)\ln V,\ \omega_1=\Theta\!\left(\frac{\ln\ln V}{\ln V}\right)",
    assumptions=("V >= 4: below, exp(u) exceeds (V-1) u everywhere",),
)
def lemma8(level: str) -> Evidence:
    V = np.unique(np.round(np.geomspace(4, 1e7, 40 if level == "quick" else 400)))
    u_plus, u_minus, omega = analytic.u_plus(V), analytic.u_minus(V), analytic.omega_1(V)
    omega_0 = 1 + np.log(u_minus) / np.log(V)

    def residual(u: Floats) -> float:
        """Largest |exp(u)/((V-1) u) - 1|."""
        return float(np.max(np.abs(np.exp(u) / ((V - 1) * u) - 1)))

    # exp(u) - (V-1) u is convex with its minimum at ln(V-1): negative there means exactly two roots around it.
    minimum = float(np.max((1 - np.log(V - 1)) * (V - 1)))
    order = float(np.min(np.minimum(np.log(V - 1) - u_minus, u_plus - np.log(V - 1))))
    far = np.array([1e3, 1e5, 1e7, 1e50, 1e100])
    large = np.array([float(analytic.omega_1(v)) for v in far])
    balance = 0.0
    for size in (10, 1000, 10_000_000):
        u = float(analytic.u_plus(size))
        # exp(u) = (V-1) u = (V s + 1)/2 at eta_Y = 1; K = 1: s = t.
        run = whole_run(
            FrozenDecoder(single_token_classes(1, size), 1.0), [(2 * (size - 1) * u - 1) / size], rtol=1e-10, atol=1e-13
        )
        lead = float(run.extra["own_logit"][0, 0]) * size / (size - 1)
        balance = max(balance, abs(lead / u - 1))
    return Evidence(
        checks=[
            symbolic("u-minus", "u-plus", "omega-0", "omega-1"),
            Check("|exp(u)/((V-1) u) - 1| at u_-", "closed form", residual(u_minus), IDENTITY_ERROR),
            Check("|exp(u)/((V-1) u) - 1| at u_+", "closed form", residual(u_plus), IDENTITY_ERROR),
            Check("convex function below 0 at its minimum ln(V-1), V = 4..1e7", "closed form", minimum, 0.0),
            Check("roots on both sides of ln(V-1), smallest distance", "closed form", order, 0.0, ">="),
            Check("smallest omega_1, V = 4..1e7", "closed form", float(omega.min()), 0.0, ">="),
            Check(
                "w_n[n] - w_n[other] of the integrated decoder when the terms of (45) balance, against u_+, relative",
                "modified decoder",
                balance,
                1e-7,  # solver tolerance 1e-10 per step over some hundred steps
            ),
            # u_+ = ln(V-1) + ln u_+, so omega_1 <= ln(2 ln V)/ln V for large V, and omega_1 ln V >= ln ln V.
            Check(
                "largest omega_1 ln V/ln(2 ln V), V = 1e3..1e100",
                "closed form",
                float(np.max(large * np.log(far) / np.log(2 * np.log(far)))),
                1.0,
            ),
            Check(
                "the same: smallest (the order is attained)",
                "closed form",
                float(np.min(large * np.log(far) / np.log(2 * np.log(far)))),
                0.5,
                ">=",
            ),
            # omega_0 ln V = ln(V/(V-1)) + u_-, u_- = exp(u_-)/(V-1): 2.04/V at V = 100 and less, over V^-0.99.
            Check(
                "largest omega_0 V^0.99 ln V, V = 100..1e7",
                "closed form",
                float(np.max((omega_0 * V**0.99 * np.log(V))[V >= 100])),
                2.0,
            ),
            Check(
                "wrong theory: omega_0 = O(1/(V^1.1 ln V)): largest omega_0 V^1.1 ln V",
                "closed form",
                float(np.max((omega_0 * V**1.1 * np.log(V))[V >= 100])),
                2.0,
                role="control",
            ),
            Check(
                "wrong theory: u_+ = ln V exactly", "closed form", residual(np.log(V)), IDENTITY_ERROR, role="control"
            ),
        ],
        conclusion=f"omega_1 = {float(analytic.omega_1(1000)):.6f} at V = 1000 and falls like ln ln V/ln V: slowly "
        f"({float(analytic.omega_1(1e7)):.3f} at V = 1e7).",
        picture=Picture(
            "V",
            "u",
            (
                Picture.line("u_+ = (1+omega_1) ln V", V, u_plus),
                Picture.line("ln V", V, np.log(V), "bound"),
                Picture.line("u_-", V, u_minus, "simulation"),
            ),
        ),
        conditions=[Condition("two real roots", "V >= 4", 4.0, float(V.min()), bool(V.min() >= 4))],
    )


@claim(
    "lemma9",
    source="Lemma 9, Eqs. (52)-(57), (85)",
    title="Speed control before and after the transition",
    statement="For t <= K ln V/eta_Y exp(V h) <= min(V-1, (V-1) V h), h = O(eta_Y t/(V K)) and gamma = O(eta_Y t/K); "
    "for t >= 2(1+omega_1) K ln V/eta_Y exp(V h) >= max(V-1, (V-1) V h), h = O(ln(V eta_Y t/K)/V) and "
    "gamma = O(K ln(V eta_Y t/K)/(eta_Y t)). (Remark 3: from the first visit t = K on, where the first line begins.)",
    findings=("F8",),
    latex=r"\gamma=O\!\left(\frac{\eta_Y t}{K}\right)\ \to\ \gamma=O\!\left(\frac{K\ln(V\eta_Y t/K)}{\eta_Y t}\right)",
)
def lemma9(level: str) -> Evidence:
    K, eta = 10, 1.0
    sizes = 10.0 ** np.arange(1, 8) if level == "quick" else 10.0 ** np.arange(1, 7.01, 0.25).round(0)
    early_low, early_high, late_low, late_high, without_V = np.inf, 0.0, np.inf, 0.0, []
    smaller, larger, h_early, h_late, before_first = 0.0, np.inf, 0.0, 0.0, 0.0
    for V in np.round(sizes):
        start = float(analytic.transition_time(K, V, eta, kind="start"))
        end = float(analytic.transition_time(K, V, eta, kind="end"))
        early = np.geomspace(1e-6 * start, start, 200)
        ratio = analytic.gamma(early, eta, V, K) / (eta * early / K)
        early_low, early_high = min(early_low, float(ratio.min())), max(early_high, float(ratio.max()))
        u = V * analytic.h(early / K, eta, V)
        order = np.exp(u) / ((V - 1) * np.minimum(1, u))
        visited = early >= K
        smaller, h_early = max(smaller, float(order[visited].max())), max(h_early, float((u * K / (eta * early)).max()))
        before_first = max(before_first, float(order[~visited].max()))
        late = np.geomspace(end, 1e12, 400)
        u = V * analytic.h(late / K, eta, V)
        larger = min(larger, float((np.exp(u) / ((V - 1) * np.maximum(1, u))).min()))
        h_late = max(h_late, float((u / np.log(V * eta * late / K)).max()))
        s = eta * late / K
        ratio = analytic.gamma(late, eta, V, K) * s / np.log(V * s)
        late_low, late_high = min(late_low, float(ratio.min())), max(late_high, float(ratio.max()))
        without_V.append(float(np.max(analytic.gamma(late, eta, V, K) * s / np.log(s))))
    flows = _flow_constants(1000, eta)
    trained_early, allowed, trained_late, trained_bare = _trained_constants(level)
    t = np.geomspace(1, 1e5, 300)
    V = 1000.0
    start, end = (float(analytic.transition_time(K, V, eta, kind=k)) for k in ("start", "end"))
    early_t, late_t = np.geomspace(1, start, 50), np.geomspace(end, 1e5, 50)
    return Evidence(
        checks=[
            symbolic("early-gamma", "late-gamma", "gamma-peak", "peak-time", "transition-balance"),
            # u = V h, s = eta_Y t/K. h <= s/V and V-1+exp(u) >= V give gamma <= s at all times. From t0 on exp(u) is
            # the larger term of (45), at least (V s + 1)/2, and u <= ln(V s + 1): gamma <= 2 ln(V s)/s. And
            # u >= ln((V s + 1)/2) with exp(u) <= V s + 1 gives at least (1-1/V)^2 s/(1+s) ln(V s/2)/ln(V s) of
            # ln(V s)/s, 0.58 at V = 10.
            Check("largest exp(V h)/min(V-1, (V-1) V h), K <= t <= t0', V = 10..1e7", "closed form", smaller, 1.0),
            Check("smallest exp(V h)/max(V-1, (V-1) V h), t0 <= t <= 1e12", "closed form", larger, 1 - 1e-9, ">="),
            # h' <= eta_Y/V at all times, and exp(V h) <= V s + 1: ln(101)/ln(100) or less.
            Check("V h/(eta_Y t/K), t <= t0': largest", "closed form", h_early, 1 + 1e-9),
            Check("V h/ln(V eta_Y t/K), t0 <= t <= 1e12: largest", "closed form", h_late, 1.01),
            Check("largest gamma/(eta_Y t/K), t <= t0', V = 10..1e7", "closed form", early_high, 1.0),
            # To t0', u <= ln V: exp(u) <= V and u >= s/2, so gamma >= (1-1/V)^2 s/4.
            Check("smallest of the same: the order is attained", "closed form", early_low, 0.81 / 4, ">="),
            Check("largest gamma (eta_Y t/K)/ln(V eta_Y t/K), t0 <= t <= 1e12", "closed form", late_high, 2.0),
            Check("smallest of the same: the order is attained", "closed form", late_low, 0.5, ">="),
            *(
                check
                for rung, (early_flow, late_flow, _) in flows.items()
                for check in (
                    Check("largest gamma/(eta_Y t/K), t <= t0', K = 10, V = 1000", rung, early_flow, 1.0),
                    Check("largest gamma (eta_Y t/K)/ln(V eta_Y t/K), t0 <= t <= 1e12, V = 1000", rung, late_flow, 2.0),
                )
            ),
            # Solver tolerance 1e-10 per step over some hundred steps.
            Check(
                "gamma of the integrated decoder, from its logits and errors, against (85), t to 1e12, relative",
                "modified decoder",
                flows["modified decoder"][2],
                1e-7,
            ),
            Check(
                "mean gamma of SGD above eta_Y t/K, t <= t0', K = 5, V = 100, in standard errors: largest",
                "SGD",
                trained_early,
                allowed,
            ),
            Check("mean gamma of SGD over K ln(V eta_Y t/K)/(eta_Y t), t >= t0: largest", "SGD", trained_late[1], 2.0),
            Check("the same: smallest", "SGD", trained_late[0], 0.5, ">="),
            # F8: the constant of the printed logarithm must not grow with V if it were the right one.
            Check(
                "wrong theory (F8): ln(eta_Y t/K) for ln(V eta_Y t/K): its constant at V = 1e7",
                "closed form",
                without_V[-1],
                2.0,
                role="control",
            ),
            Check(
                "wrong theory: exp(V h) <= (V-1) V h from t = 0 on, before the first visit: largest quotient",
                "closed form",
                before_first,
                1.0,
                role="control",
            ),
            Check(
                "wrong theory: without any logarithm late, gamma = O(K/(eta_Y t))",
                "SGD",
                trained_bare,
                2.0,
                role="control",
            ),
        ],
        conclusion=f"Constants: early [{early_low:.3f}, {early_high:.3f}], late [{late_low:.3f}, {late_high:.3f}] "
        f"(SGD, K = 5, V = 100: [{trained_late[0]:.3f}, {trained_late[1]:.3f}]). "
        f"With ln(eta_Y t/K), as Theorem 1(b) and Section 6 print it, the constant grows with V "
        f"(up to {max(without_V):.1f}).",
        picture=Picture(
            "t (batch-size-1 steps)",
            "gamma, K = 10, V = 1000, eta_Y = 1",
            (
                Picture.line("gamma (85)", t, analytic.gamma(t, eta, V, K)),
                Picture.line("eta_Y t/K", early_t, eta * early_t / K, "bound"),
                Picture.line("K ln(V eta_Y t/K)/(eta_Y t)", late_t, K * np.log(V * late_t / K) / late_t, "bound"),
            ),
            yscale="log",
            verticals=(("t0'", start), ("t0", end)),
        ),
        seeds=SEEDS,
    )


SEEDS = tuple(range(20))


def _speed(run: Trajectory) -> Floats:
    """gamma = w_n[n] (1 - alpha_n[n]) of classes with equal profiles, whose loss is -ln alpha_n[n]."""
    return np.asarray(run.extra["own_logit"][:, 0] * -np.expm1(-run.loss))


def _flow_constants(vocab_size: int, eta_Y: float) -> dict[str, tuple[float, float, float]]:
    """Largest early and late gamma over its order, and its largest relative distance from (85), by rung; K = 10."""
    K, V = 10, vocab_size
    start, end = (float(analytic.transition_time(K, V, eta_Y, kind=kind)) for kind in ("start", "end"))
    t = np.concatenate([np.geomspace(1e-3 * start, start, 40), np.geomspace(end, 1e12, 60)])
    s, late = eta_Y * t / K, t >= end
    order = np.where(late, np.log(V * s) / s, s)
    found = {}
    for rung, modified in (("modified decoder", True), ("original flow", False)):
        classes = single_common_token(K, 4, 0.05, V)
        run = whole_run(FrozenDecoder(classes, eta_Y, modified=modified), t, rtol=1e-10, atol=1e-13, method="LSODA")
        gamma = _speed(run)
        distance = float(np.max(np.abs(gamma / analytic.gamma(t, eta_Y, V, K) - 1)))
        found[rung] = float((gamma / order)[~late].max()), float((gamma / order)[late].max()), distance
    return found


def _trained_constants(level: str) -> tuple[float, float, tuple[float, float], float]:
    """gamma of SGD on single-token classes: early excess and its quantile, late constants, late gamma eta_Y t/K."""
    K, V, steps = 5, 100, 20_000 if level == "quick" else 200_000
    start, end = (float(analytic.transition_time(K, V, 1.0, kind=kind)) for kind in ("start", "end"))
    t = np.unique(np.geomspace(1, steps, 60).round().astype(np.int64))
    runs = sgd(single_token_classes(K, V), 1.0, FROZEN, steps, record=t, save_decoder=True, seed=SEEDS)
    u = np.array([own_lead(run) for run in runs])
    # Classes of one run share its draws: the mean over them is one value per seed.
    gamma = ((V - 1) ** 2 / V * u / (V - 1 + np.exp(u))).mean(axis=2)
    s, early, late = t / K, t <= start, t >= end
    error = standard_error(gamma)
    # The mean over classes of N_n is t/K without noise; what noise there is comes from gamma's curvature.
    excess = (gamma.mean(axis=0) - s)[early] / np.where(error > 0, error, np.inf)[early]
    ratio = (gamma.mean(axis=0) * s)[late]
    log = np.log(V * s[late])
    allowed = float(stdtrit(len(SEEDS) - 1, 1 - 1e-4 / int(early.sum())))
    return float(excess.max()), allowed, (float((ratio / log).min()), float((ratio / log).max())), float(ratio.max())
