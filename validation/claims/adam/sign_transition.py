"""The transition under sign descent and under Adam, with frozen attention."""

from collections.abc import Mapping
from functools import partial

import numpy as np
from scipy.optimize import brentq

from snapdyn.dynamics import Adam, MeanField, descend, sgd, single_common_token
from snapdyn.dynamics.classes.synthetic import profile
from snapdyn.dynamics.classes.table import SequenceClasses
from snapdyn.validation.claims.language import Box, Claim, Floats, Measured, Property, Requirement

SLOW = 1e-13  # eta_Z over eta_Y: attention stays as it is
At = Mapping[str, float]


def classes_of(at: At) -> SequenceClasses:
    """Symmetric classes with one common token, V > K."""
    return single_common_token(int(at["K"]), int(at["distinct"]), at["common"], max(int(at["V"]), int(at["K"]) + 1))


def sums(at: At) -> tuple[int, int, float, float]:
    """K, V, and the sums S_d and S_c of f over distinct tokens and over the common one."""
    K, d, common = int(at["K"]), int(at["distinct"]), at["common"]
    distinct = (1 - common) * profile(d)
    length = np.hypot(common, np.linalg.norm(distinct))
    return K, max(int(at["V"]), K + 1), (1 - common) / length, common / length


def others(at: At, steps: Floats | float, speed: float = 1.0) -> Floats:
    """(1 - alpha_nn)/alpha_nn after `steps` = eta_Y k; `speed` is that of values that one class moves."""
    K, V, S_d, S_c = sums(at)
    later = np.exp(-np.multiply(steps, 2 * S_d * speed + (1 + speed) * S_c))
    return np.asarray((K - 1) * np.exp(-2 * speed * S_d * np.asarray(steps)) + (V - K) * later)


def half(at: At, speed: float = 1.0) -> float:
    """eta_Y k of alpha_nn = 1/2."""
    return float(brentq(lambda x: np.log(others(at, x, speed)), 0.0, np.log(1e18) / (speed * sums(at)[2]), xtol=1e-13))


def rounding(at: At) -> float:
    """Gradient of the common row at the transition, over 1: (V-K) alpha of an output that is no next token."""
    K, V, S_d, S_c = sums(at)
    return (V - K) * float(np.exp(-2 * half(at) * (S_d + S_c)))


# Below it the sign of this gradient is that of its rounding.
ABOVE_ROUNDING = Requirement(
    "signs that are not rounding", "(V-K) alpha of the other outputs at the transition >= 1e-9", rounding,
    at_least=1e-9, defining=True,
)  # fmt: skip


def loss_error(at: At, factor: float = 1.0) -> Measured:
    """Largest relative error of the loss of sign descent up to the transition, against ln(1 + others)."""
    end = half(at)
    eta = end / at["updates"]
    run = sgd(classes_of(at), eta, SLOW * eta, int(at["updates"]), None, optimizer="sign", reduce=False)
    law = np.log1p(others(at, factor * eta * run.t))
    return Measured(float(np.abs(run.loss / law - 1).max()), at_most=1e-6)


def delay(at: At, batch: bool = True) -> Measured:
    """Distance of the delay of Adam's mean map behind the law from 0.6, in units of 1/(2 eta_Y S)."""
    K, _, S_d, S_c = sums(at)
    B = int(at["batch"])
    speed = 1 / np.sqrt(1 + (K - 1) / B)
    law, eta = half(at, speed if batch else 1.0), at["eta"] / (S_d + S_c) / K
    system = MeanField(classes_of(at), eta, SLOW * eta, optimizer=Adam(epsilon=0.0), batch_size=B)
    steps = int(1.2 * (half(at, speed) + 2 / (speed * (S_d + S_c))) / eta)
    run = descend(system, steps, 1.0, record=np.unique(np.linspace(0, steps, 2000).round().astype(int)))
    found = float(np.interp(0.0, -np.log(np.expm1(run.loss)), eta * run.t))
    return Measured(abs(2 * (S_d + S_c) * (found - law) - 0.6), at_most=1.0)


BOX = Box(K=(2, 30), distinct=(1, 8), common=(0.02, 0.9), V=(3, 1e9, "log"), updates=(20, 400, "log"))
DELAYS = Box(
    K=(2, 8), distinct=(1, 4), common=(0.1, 0.5), V=(50, 1e5, "log"), eta=(5e-3, 2e-2, "log"), batch=(1, 256, "log")
)

CLAIM = Claim(
    "sign-transition",
    source="own; Sec. 6, rules of descent",
    title="Under sign descent and Adam the transition comes without the factor K",
    statement=(
        "Sign descent on the expectation with frozen attention, K symmetric classes with one common token, V > K, S = "
        "S_d + S_c the sum of f and its distinct and common parts: (1 - alpha_nn)/alpha_nn = (K-1) exp(-2 eta_Y k S_d) "
        "+ (V-K) exp(-2 eta_Y k S), exactly. Adam comes later, by about 0.6/(2 eta_Y S). With batches of B, "
        "the values that one class moves run at 1/sqrt(1 + (1-p)/(p B)), those of other outputs on the common row at "
        "full speed."
    ),
    latex=r"\frac{1-\alpha_{nn}}{\alpha_{nn}}=(K-1)e^{-2\eta_Y k S_d}+(V-K)e^{-2\eta_Y k S}",
    conditions=(
        "frozen attention, symmetric classes with one common token, V > K",
        "Adam's delay: eta_Y S K at most 0.02, K at most 8, common share at most 0.5, epsilon far below the gradients",
    ),
    conclusion=(
        "Holds: the transition of sign descent is at ln(V-K)/(2 eta_Y S) where V is large, without the factor K of "
        "SGD. The delay of Adam (0.9, 0.999) is tested for K <= 8, V <= 10^5 and a common share of at most 0.5, where "
        "it is within 0.6 +- 1.0 of 1/(2 eta_Y S); with a share of 0.8 and batch 1 it is larger. A small batch slows "
        "the transition by up to sqrt(p), since v sees the noise of the batch."
    ),
    properties=(
        Property(
            "relative error of the loss up to the transition",
            "descent with a rule",
            loss_error,
            BOX,
            conditions=(ABOVE_ROUNDING,),
            controls={"wrong theory: 1.01 times the speed": partial(loss_error, factor=1.01)},
            evaluations=(200, 4000),
        ),
        Property(
            "distance from 0.6 of the delay of Adam, in 1/(2 eta_Y S)",
            "mean map",
            delay,
            DELAYS,
            controls={"wrong theory: batches do not matter": partial(delay, batch=False)},
            evaluations=(60, 400),
        ),
    ),
)
