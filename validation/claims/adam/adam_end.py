"""The end of Adam's motion: how fast the error falls late, with and without epsilon."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import brentq

from snapdyn.dynamics import Adam, SequenceClasses, sgd
from snapdyn.dynamics.classes.synthetic import profile
from snapdyn.validation.claims.language import Box, Claim, Floats, Measured, Picture, Property, Requirement

SLOW = 1e-13  # eta_Z over eta_Y: attention stays as it is
# ln(error) in a run without epsilon, from where the softmax is linear; gradients below 1e-30 would count as 0.
FALL = -20.0, -55.0
SETTLED = 1e-4  # share of a disturbance of the rate that is left at the start of this part
LATE = 20.0  # updates of a run with epsilon, over those until sqrt(v) is at epsilon
MOST_UPDATES = 150_000
At = Mapping[str, float]


def classes_of(at: At) -> SequenceClasses:
    """K classes with equal profiles of distinct tokens, of one query, without common tokens."""
    K, d = int(at["K"]), int(at["distinct"])
    P = np.kron(np.eye(K), profile(d))
    return SequenceClasses(P, np.zeros(K, dtype=int), vocab_size=max(int(at["V"]), K, 2))


def sum_of(at: At) -> float:
    """S, the sum of f over the tokens of a class."""
    weights = profile(int(at["distinct"]))
    return weights.sum() / np.linalg.norm(weights)


def rate(at: At) -> float:
    """rho of the statement, by which ln(error) falls at each update."""
    S, b1, b2 = sum_of(at), at["beta1"], at["beta2"]

    def excess(rho: float) -> float:
        memory = (1 - b1) / (1 - b1 * np.exp(rho)) * np.sqrt(max(0.0, (1 - b2 * np.exp(2 * rho)) / (1 - b2)))
        return float(rho - 2 * at["eta"] * S * memory)

    return float(brentq(excess, 0.0, -np.log(b2) / 2, xtol=1e-18))


def updates_of(at: At) -> Floats:
    """Updates after which ln(error) is at the values of FALL, from V - 1 at the start."""
    return np.ceil((np.log(at["V"]) - np.array(FALL)) / rate(at))


def jump(at: At) -> float:
    """Nats by which the moments move the logits on when the gradient is gone: 2 eta_Y S sum (beta1/sqrt(beta2))^k."""
    return float(2 * at["eta"] * sum_of(at) / (1 - at["beta1"] / np.sqrt(at["beta2"])))


def left(at: At) -> float:
    """Share that is left, at the start of the part that is measured, of a disturbance of the rate.

    Linearised about the law, with u = m/g, s = v/g^2, A = beta1 e^rho, B = beta2 e^(2 rho): ln u -> A ((1 + rho) ln u -
    rho/2 ln s), ln s -> B (2 rho ln u + (1 - rho) ln s). The gradient falls only from where the odds of an error are 1,
    ln V/(2 eta_Y S) updates after the start, since steps on a gradient that hardly changes are eta_Y. After its `jump`
    the run waits until the law has come as far: disturbances count from there.
    """
    rho = rate(at)
    A, B = at["beta1"] * np.exp(rho), at["beta2"] * np.exp(2 * rho)
    modes = np.linalg.eigvals([[A * (1 + rho), -A * rho / 2], [2 * B * rho, B * (1 - rho)]])
    until_even = np.log(at["V"]) / (2 * at["eta"] * sum_of(at))
    return float(np.abs(modes).max() ** max(0.0, updates_of(at)[0] - until_even - jump(at) / rho))


FORGETS_MEAN = Requirement(
    "the mean forgets before the squares",
    "beta1^2 <= 0.95 beta2",
    lambda at: at["beta1"] ** 2 / at["beta2"],
    at_most=0.95,
    defining=True,
)


def run_of(at: At, updates: Floats, epsilon: float = 0.0) -> Floats:
    """Loss, nats, after these numbers of updates."""
    record, rule = updates.astype(int), Adam(at["beta1"], at["beta2"], epsilon)
    return sgd(
        classes_of(at), at["eta"], SLOW * at["eta"], int(record[-1]), None, optimizer=rule, record=record, reduce=False
    ).loss


def slope(at: At, law: str = "rho") -> Measured:
    """Relative error of the law for the fall of ln(loss) per update, late in a run."""
    laws = {
        "rho": rate(at),
        "no mean": rate({**at, "beta1": 0.0}),
        "memory": -np.log(at["beta2"]) / 2,
        "no memory": 2 * at["eta"] * sum_of(at),
    }
    updates = updates_of(at)
    loss = run_of(at, updates)
    found = np.log(loss[0] / loss[1]) / (updates[1] - updates[0])
    return Measured(abs(found / laws[law] - 1), at_most=1e-5)


def until_epsilon(at: At) -> float:
    """Updates until sqrt(v) is about epsilon, from the law without epsilon."""
    return float(np.log(at["V"] / at["epsilon"]) / rate(at))


def late_loss(at: At, factor: float = 1.0) -> Measured:
    """Relative error of the law for the change of 1/loss per update, in a run that goes on after sqrt(v) is at epsilon.

    The law is eta_Y/(K epsilon (1 - 1/V)).
    """
    updates, V = np.ceil(LATE * until_epsilon(at) * np.array([0.5, 1.0])), classes_of(at).vocab_size
    law = factor * at["eta"] / (int(at["K"]) * at["epsilon"] * (1 - 1 / V))
    first, last = 1 / run_of(at, updates, at["epsilon"])
    return Measured(abs((last - first) / (updates[1] - updates[0]) / law - 1), at_most=0.05)


def end_picture() -> Picture:
    """Loss over updates of one class, V = 50, at two memories and with epsilon, against the law of the end."""
    record, lines = np.unique(np.geomspace(1, 30_000, 120).round()), []
    for beta2, epsilon in ((0.99, 0.0), (0.999, 0.0), (0.99, 1e-6)):
        at = {"K": 1, "distinct": 1, "V": 50, "eta": 0.02, "beta1": 0.9, "beta2": beta2, "epsilon": epsilon}
        loss = run_of(at, record, epsilon)
        seen = loss > 1e-24
        name = f"beta2 = {beta2:g}, epsilon = {epsilon:g}"
        lines.append(Picture.line(name, record[seen], loss[seen], "simulation"))
        if epsilon:
            law, late = epsilon * (1 - 1 / 50) / (at["eta"] * record), record > 3000
        else:
            law, late = loss[seen][-1] * np.exp(rate(at) * (record[seen][-1] - record)), seen & (loss < 1e-6)
        lines.append(Picture.line(f"law, {name}", record[late], law[late]))
    return Picture("updates", "loss (nats)", tuple(lines), xscale="log", yscale="log")


RANGES: dict[str, Any] = {
    "K": (1, 6),
    "distinct": (1, 6),
    "V": (2, 1e9, "log"),
    "eta": (1e-3, 1.0, "log"),
    "beta1": (0.0, 0.95),
}
CLAIM = Claim(
    "adam-end",
    source="own; Sec. 8, rules of descent",
    title="Late errors of Adam fall as fast as its memory of squares allows, then like 1/k",
    statement=(
        "Adam on the expectation, frozen attention, classes without common tokens and of one profile, S the sum of f: "
        "without epsilon the error falls by rho at each update, the root of the formula. It is 2 eta_Y S for short "
        "memory, and never more than ln(1/beta2)/2, its value for long memory. With epsilon this holds until sqrt(v) "
        "is at epsilon; then 1/loss grows by eta_Y/(K epsilon (1 - 1/V)) at each update."
    ),
    latex=(
        r"\rho=2\eta_Y S\,\frac{1-\beta_1}{1-\beta_1e^{\rho}}\sqrt{\frac{1-\beta_2e^{2\rho}}{1-\beta_2}},\qquad "
        r"\frac1{L(k+1)}-\frac1{L(k)}\to\frac{\eta_Y}{K\varepsilon}\,\frac{V}{V-1}"
    ),
    conditions=(
        "frozen attention; K classes of one profile, without common tokens",
        "beta1^2 <= 0.95 beta2: else the mean of the gradient remembers longer than the squares",
        "late: the softmax is linear and disturbances of the rate, as of the first updates, have died out",
    ),
    conclusion=(
        "Holds, without epsilon to 1e-5: gradients fall, v remembers the larger ones before, so the error cannot fall "
        "faster than sqrt(v). With beta2 = 0.999 and eta_Y S >> 1e-3 it falls by 0.05 % at each update, whatever the "
        "rate. With epsilon the end is that of gradient descent at the rate eta_Y/epsilon, which does not depend on "
        "the memory: within 5 % once the run is 10 times as long as until sqrt(v) reaches epsilon."
    ),
    properties=(
        Property(
            "relative error of the fall of ln(loss) per update",
            "descent with a rule",
            slope,
            Box(**RANGES, beta2=(0.5, 0.9995)),
            conditions=(
                FORGETS_MEAN,
                Requirement(
                    "a run of at most 150,000 updates", "(55 + ln V)/rho <= 150,000", lambda at: updates_of(at)[1],
                    at_most=MOST_UPDATES, defining=True,
                ),
                Requirement(
                    "the rate has settled", f"share of a disturbance that is left <= {SETTLED:g}", left,
                    at_most=SETTLED, defining=True,
                ),
            ),
            controls={
                "wrong theory: the mean does not remember": partial(slope, law="no mean"),
                "wrong theory: as fast as the memory lets it": partial(slope, law="memory"),
                "wrong theory: v does not remember": partial(slope, law="no memory"),
            },
            evaluations=(100, 1000),
        ),
        Property(
            "relative error of the late growth of 1/loss with epsilon",
            "descent with a rule",
            late_loss,
            Box(**RANGES, beta2=(0.5, 0.99), epsilon=(1e-10, 1e-2, "log")),
            conditions=(
                FORGETS_MEAN,
                Requirement(
                    "a run of at most 150,000 updates", "20 ln(V/epsilon)/rho <= 150,000",
                    lambda at: LATE * until_epsilon(at), at_most=MOST_UPDATES, defining=True,
                ),
                Requirement(
                    "the first updates end above epsilon", "2 eta_Y S sum (beta1/sqrt(beta2))^k <= ln(V/epsilon)",
                    lambda at: jump(at) / np.log(at["V"] / at["epsilon"]), at_most=1.0, defining=True,
                ),
            ),
            controls={"wrong theory: 1.2 times the growth": partial(late_loss, factor=1.2)},
            evaluations=(60, 600),
        ),
    ),
    picture=end_picture,
)  # fmt: skip
