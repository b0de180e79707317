"""Sign descent makes the distinct tokens of a class equal; the transition under it and under Adam."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np
from scipy.optimize import brentq

from snapdyn.dynamics import Adam, MeanField, SequenceClasses, descend, sgd, single_common_token
from snapdyn.dynamics.classes.synthetic import profile
from snapdyn.dynamics.rules import Optimizer, SignDescent
from snapdyn.validation.claims.language import (
    FROM_ZERO,
    WIDEST,
    Box,
    Claim,
    Floats,
    Grid,
    Instance,
    Map,
    Measured,
    Picture,
    Property,
    Requirement,
)

DOMAIN = replace(
    WIDEST,
    name="sign descent without common tokens",
    num_classes=(1, 30),
    num_common=(0, 0),
    num_distinct=(2, 8),
    ratio=(1e-2, 1e4),
    horizon=(1.0, 1.0),
    eta_Y=(1e-5, 1e-1),
    shared_next_tokens=True,
)
MOST_UPDATES = 20_000
# 2 eta_Y k S reaches 700 where the error e_n - alpha_n underflows, and its sign with it.
LARGEST_LOGIT = 600.0


def spreads(instance: Instance) -> Floats:
    """ln(c_max/c_min) of each class at the start, (S,)."""
    return np.array([np.ptp(np.log(row[row > 0])) for row in instance.P])


def updates_of(instance: Instance) -> int:
    """Updates of a run: twice the time of the law for the slowest class."""
    return int(min(2 + spreads(instance).max() / instance.eta_Z, 10 * MOST_UPDATES))


def largest_logit(instance: Instance) -> float:
    """Bound of the logit 2 eta_Y k S at the end of the run, S <= sqrt(number of tokens)."""
    return float(2 * instance.eta_Y * updates_of(instance) * np.sqrt((instance.P > 0).sum(axis=1).max()))


def step_over_ratio(instance: Instance) -> float:
    """Largest eta_Z c_max/c_min of the classes with three tokens or more; 0 without such classes."""
    ratios = np.exp(spreads(instance)[(instance.P > 0).sum(axis=1) > 2])
    return instance.eta_Z * float(ratios.max(initial=0.0))


CONDITIONS = (
    Requirement(
        "sign descent of both layers", "layers with another rule: 0",
        lambda i: sum(not isinstance(rule, SignDescent) for rule in i.rules or ()), at_most=0,
    ),
    Requirement(
        "steps below the smallest ratio", "eta_Z c_max/c_min <= 0.1 in classes of three tokens or more",
        step_over_ratio, at_most=0.1,
    ),
    FROM_ZERO,
    Requirement(
        "no common tokens", "tokens of two or more classes: 0",
        lambda i: ((i.P > 0).sum(axis=0) > 1).sum(), at_most=0, defining=True,
    ),
    Requirement("steps that run", "ln(c_max/c_min)/eta_Z <= 20,000", updates_of, at_most=MOST_UPDATES, defining=True),
    Requirement("no underflow", "2 eta_Y k S <= 600", largest_logit, at_most=LARGEST_LOGIT, defining=True),
)  # fmt: skip


# Six tokens become equal while the seventh is e^-7 of them.
LARGE_STEPS = Instance.of(
    SequenceClasses([[0.1898, 0.1698, 0.1798, 0.1398, 0.1598, 0.1608, 0.0002]], [0], vocab_size=10), 1e-3, 4e-3, 1.0
)


def distance(instance: Instance, speed: float = 2.0, optimizer: Optimizer = SignDescent.name) -> Measured:
    """Largest |ln(c_max/c_min) - law| of all classes and updates, in steps eta_Z; the first gradient of z is 0."""
    N = updates_of(instance)
    run = sgd(
        *instance.setting, N, None, optimizer=instance.rules or optimizer,
        record=np.unique(np.linspace(0, N, 200).round().astype(int)), reduce=False,
    )  # fmt: skip
    worst, k = 0.0, np.maximum(0, run.t - 1)
    for n, start in enumerate(spreads(instance)):
        tokens = np.flatnonzero(instance.P[n])
        of_class = np.log(instance.P[n, tokens]) + run.z[:, instance.classes.query_index[n], tokens]
        law = np.maximum(0.0, start - speed * instance.eta_Z * k)
        worst = max(worst, float(np.abs(np.ptp(of_class, axis=1) - law).max()))
    return Measured(worst / instance.eta_Z, at_most=4.0, error=1e-9 / instance.eta_Z)


def steps_map(level: str) -> Map:
    """Distance over its bound for six tokens of about equal attention and a small one, over eta_Z and c_max/c_min."""
    points = 13 if level == "full" else 7
    rates, ratios = np.geomspace(1e-3, 1e-1, points), np.geomspace(3.0, 1e3, points)

    def instance(eta: float, ratio: float) -> Instance:
        P = np.array([[1.0, 0.97, 0.94, 0.91, 0.88, 0.85, 1.0 / ratio]])
        return Instance.of(SequenceClasses(P / P.sum(), [0], vocab_size=10), 1e-3, eta, 1.0)

    line = Picture.line("eta_Z c_max/c_min = 0.1", rates, 0.1 / rates)
    grid = Grid({"ratio": ratios, "eta": rates}, instance, lambda at: distance(at).value / 4.0)
    return Map.over("steps against the smallest ratio", ("eta", "ratio"), "distance over its bound", grid, 1.0, [line])


SIGN_EQUAL = Claim(
    "sign-equal",
    of_rule="own",
    source="own; Fig. 5, rules of descent",
    title="Sign descent makes the distinct tokens of a class equal",
    statement=(
        "Sign descent of both layers on the expectation, zero start, no common tokens: the logarithm of the ratio of "
        "the largest and the smallest attention of a class falls by 2 eta_Z at every update, for any number of tokens, "
        "and they are equal, up to steps, from update 1 + ln(c_max/c_min)/(2 eta_Z) on."
    ),
    latex=r"\ln\frac{c_{\max}}{c_{\min}}(k)=\max\Big(0,\ \ln\frac{c_{\max}}{c_{\min}}(0)-2\eta_Z(k-1)\Big)",
    conditions=(
        "no common tokens",
        "zero start",
        "the error of the decoder does not underflow in float64",
        "eta_Z c_max/c_min at most 0.1 in classes of three tokens or more: else equal tokens hold each other up",
    ),
    conclusion=(
        "Sign descent makes distinct tokens equal in a finite time, where SGD lets the most frequent one win: within 4 "
        "steps eta_Z of the law. Proved for the signs of the largest and the smallest token. The decoder's rows of "
        "distinct tokens are eta_Y k (2 e_n - 1), so the decoder's rate does not matter. With larger steps, tokens "
        "that are equal already step across each other and fall more slowly: {large steps:.0f} steps off the law in "
        "the setting measured."
    ),
    expected="conditional",
    properties=(
        Property(
            "ln(c_max/c_min) against the law, in steps eta_Z",
            "descent with a rule",
            distance,
            DOMAIN,
            conditions=CONDITIONS,
            controls={
                "wrong theory: it falls by eta_Z": partial(distance, speed=1.0),
                "wrong theory: it falls by 2.2 eta_Z": partial(distance, speed=2.2),
                "wrong theory: gradient descent in place of sign descent": partial(distance, optimizer="sgd"),
            },
            evaluations=(200, 4000),
            beyond={"large steps": LARGE_STEPS},
        ),
    ),
    proved=("sign-equal-time",),
    map=steps_map,
)


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
    return Measured(np.abs(run.loss / law - 1).max(), at_most=1e-6)


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

SIGN_TRANSITION = Claim(
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
