"""Theorem 5: the decoder after N batch-size-1 steps."""

from __future__ import annotations

import numpy as np

from snapdyn import analytic
from snapdyn.dynamics import single_common_token
from snapdyn.dynamics.classes import Floats
from snapdyn.dynamics.decoder_speed import class_logits
from snapdyn.validation.claims.concentration._shared import (
    ANY_CLASSES,
    DELTAS,
    NO_MOMENTUM,
    ONE_STEP,
    RATE_OF_LARGE_STEPS,
    decoder_of,
    order_of_theta,
    outside,
    steps_of,
    worst_entry,
)
from snapdyn.validation.dense_algebra import EPS
from snapdyn.validation.maps.decoder import decoder_map
from snapdyn.validation.measured import Measured
from snapdyn.validation.pictures import Picture
from snapdyn.validation.properties import Property, Requirement
from snapdyn.validation.register import Claim
from snapdyn.validation.requirements import INDEPENDENT_ATTENTION
from snapdyn.validation.rungs.run import ORIGINAL, run_on_rung
from snapdyn.validation.search import Instance
from snapdyn.validation.search.instance import Ints
from snapdyn.validation.visits import discrete_logits, elasticity

# Steps of the full Y that are made one by one.
STEPS = 150
# Middles of equal shares of probability, at which a law of the counts is evaluated.
SHARES = (np.arange(4000) + 0.5) / 4000


def attention(instance: Instance) -> Floats:
    """f_n at the start, (classes, M)."""
    return np.asarray(instance.classes.decoder_inputs(instance.start).toarray())


def modified_steps(instance: Instance) -> tuple[Floats, Ints, Floats]:
    """Y after whole steps of drawn classes, the counts N_n, and zeta_n.

    Each step is Y += eta_Y (f_n - F E' e_n)(e_n - alpha_n)^T. At most STEPS are made. The outputs that are no class's
    next token have equal columns: Y (M, outputs + 1) and zeta (classes, outputs + 1) keep one of them, the last.
    """
    rng = np.random.default_rng([instance.seed % 2**31, instance.number])
    outputs, own = np.unique(instance.classes.next_token, return_inverse=True)
    V, K = instance.vocab_size, instance.num_classes
    many = np.append(np.ones(outputs.size), V - outputs.size)
    f = attention(instance)
    update = np.linalg.solve(instance.gram, f)  # rows f_n - F E' e_n of F (I+E)^{-1}
    drawn = rng.choice(K, size=int(min(STEPS, steps_of(instance))), p=instance.prior)
    Y = np.zeros((f.shape[1], outputs.size + 1))
    for n in drawn:
        w = f[n] @ Y
        error = -many * np.exp(w - w.max())
        error /= -error.sum()
        # The own entry is the sum of the others: 1 - alpha would cancel.
        error[own[n]] = 0.0
        error[own[n]] = -error.sum()
        error[-1] /= max(many[-1], 1)
        Y += instance.eta_Y * np.outer(update[n], error)
    zeta = np.full((K, outputs.size + 1), -1 / (V - 1))
    zeta[np.arange(K), own] = 1.0
    if many[-1] == 0:
        Y[:, -1] = zeta[:, -1] = 0.0
    return Y, np.bincount(drawn, minlength=K).astype(np.int64), np.asarray(zeta)


def distance_from_form(instance: Instance, mixed: bool = True) -> Measured:
    """|Y - F (I - E')(I + Theta) Wbar| over |Y| with the true counts in h*, over what rounding allows.

    `mixed` = False leaves out I - E'.
    """
    Y, counts, zeta = modified_steps(instance)
    V = instance.vocab_size
    h_star = analytic.discrete_h(int(counts.max()), instance.eta_Y, V)[counts]
    W = (V - 1) * h_star[:, None] * zeta
    form = attention(instance).T @ (np.linalg.solve(instance.gram, W) if mixed else W)
    # A step solves with G once and reads the logits back through F: eps times the condition number each. The softmax
    # turns an absolute error of the logits into a relative error of the step.
    condition = instance.eigenvalues[-1] / instance.eigenvalues[0]
    allowed = 8 * EPS * (counts.sum() + instance.num_classes) * condition * max(1.0, V * h_star.max())
    distance = float(np.linalg.norm(Y - form) / np.linalg.norm(Y))
    return Measured(distance / allowed, at_most=1.0, where=f"after {counts.sum()} steps")


def chance_of_theta(instance: Instance, order: Floats | float = 1.0) -> Measured:
    """Sum over classes of P(|theta_n| > `order` times the printed order), exact, over delta.

    h* rises with the count, so that the counts outside are those below and above two numbers of visits.
    """
    N, p, V = steps_of(instance), instance.prior[None], instance.vocab_size
    # theta on the edge lies inside, and has rounding.
    allowed = order_of_theta(instance) * order + 8 * EPS
    u = V * analytic.h(p * N, instance.eta_Y, V) * np.stack([1 - allowed, 1 + allowed])
    low, high = np.minimum(np.ceil(decoder_of(instance).visits(np.maximum(u, 0.0))), N + 1)
    chance = outside(np.where(allowed < 1, low, 0.0), high - 1, N, p)
    return worst_entry((chance.sum(axis=1) / DELTAS)[:, None], N)


def theta_spread(case: tuple[int, float], law: str = "binom") -> float:
    """Spread of theta_n over (s h'/h) sqrt((K-1)/N), s = N/K, of K and N at eta_Y = 0.5, V = 1000, counts of a law."""
    from scipy import stats

    K, N = case
    laws = {"binom": (N, 1 / K), "expon": (0.0, N / K), "norm": (N / K, np.sqrt(N) / 2)}
    counts = getattr(stats, law).ppf(SHARES, *laws[law]).astype(np.int64)
    theta = discrete_logits(1000, 0.5, counts) / (1000 * analytic.h(N / K, 0.5, 1000))
    return float(theta.std() / elasticity(N / K, 0.5, 1000) / np.sqrt((K - 1) / N))


def spread_off(case: tuple[int, float], law: str = "binom") -> Measured:
    """How far `theta_spread` is from 1, to the next order, K/N times the lag, and the width of the shares."""
    return Measured(abs(theta_spread(case, law) - 1), at_most=0.01)


def original_distance(instance: Instance) -> Measured:
    """Distance of W = F^T Y of the original flow from (I + Theta) Wbar, any Theta, over the order at delta = 0.01.

    Row 0 of equal classes; the distance is relative to |W|.
    """
    K, V = instance.num_classes, instance.vocab_size
    run = run_on_rung(
        ORIGINAL, instance.classes, instance.eta_Y, 0.0, [instance.t_end], rtol=1e-12, atol=1e-14, save_decoder=True
    )
    W = class_logits(instance.classes, run.attention_entries, *run.require_decoder()).logits[0, 0]
    many, zeta = np.append(np.ones(K), V - K), np.append(1.0, np.full(K, -1 / (V - 1)))
    rest = W - (W * many) @ zeta / ((zeta * many) @ zeta) * zeta
    return Measured(np.sqrt((rest**2 @ many) / (W**2 @ many)) / order_of_theta(instance)[1, 0], at_most=1.0)


def overlapping(share: float, steps: float) -> Instance:
    """Ten classes whose common token has the probability `share`."""
    return Instance.of(single_common_token(10, 5, share, 1000), 1.0, 1.0, steps)


def picture() -> Picture:
    """Spread of theta_n against N, and the printed order."""
    N = 10.0 ** np.arange(3, 8)
    scale = np.sqrt(9 / N)
    return Picture(
        "N (batch-size-1 steps)", "theta_n, K = 10, eta_Y = 0.5, V = 1000",
        (
            Picture.line("s h'/h sqrt((K-1)/N)", N, scale * elasticity(N / 10, 0.5, 1000)),
            Picture.line("(K/sqrt N) sqrt(ln(K/delta)), delta = 0.01", N, 10 / np.sqrt(N) * np.sqrt(np.log(1000)), "printed"),
        ),
        yscale="log",
    )  # fmt: skip


CHANCE = Property(
    "sum over classes of P(|theta_n| > (1/(p_n sqrt(N))) sqrt(ln(K/delta)))/delta",
    "closed form",
    chance_of_theta,
    ANY_CLASSES,
    conditions=(ONE_STEP, NO_MOMENTUM, INDEPENDENT_ATTENTION, RATE_OF_LARGE_STEPS),
    controls={"wrong theory: the order without 1/p_n": lambda instance: chance_of_theta(instance, instance.prior)},
    evaluations=(300, 15_000),
)

CLAIM = Claim(
    "theorem5",
    source="Theorem 5, Eq. (70)",
    title="The decoder after N steps is F (I-E')(I+Theta) Wbar, with small Theta",
    statement="Under the modified flow after N batch-size-1 steps Y = F (I - E')(I + Theta) Wbar, rows of Wbar "
    "(V-1) h(p_n N) zeta_n (p_n N = N/K for equal priors), Theta diagonal. With the true counts N_n in h* it is exact. "
    "With probability at least 1 - delta, delta <= 1/2, |theta_n| <= (1/(p_n sqrt(N))) sqrt(ln(K/delta)) for all "
    "classes, where eta_Y <= 3 + ln(N)/2.",
    latex=r"Y=F(I-E')(I+\Theta)\bar W,\quad\bar w_n=(V-1)h(\tfrac NK)\zeta_n,\quad"
    r"|\theta_n|\lesssim\frac K{\sqrt N}\sqrt{\ln\tfrac K\delta}",
    conditions=(
        "modified flow, Y(0) = 0, attention frozen",
        "attention vectors f_n linearly independent",
        "eta_Y <= 3 + ln(N)/2",
    ),
    conclusion="Exact with the true counts; with the mean counts it holds where eta_Y <= 3 + ln(N)/2, and Theta is smaller "
    "than printed. The order is not attained: theta_n spreads as (s h'/h) sqrt((K-1)/N), s = N/K (Bernstein's sqrt(K/N), "
    "not K/sqrt(N), and late a factor ln(V eta_Y N/K) smaller). The original flow is off by about overlap sqrt(K-1) at "
    "any N, {overlap 0.1, N = 1e9} times the order at an overlap of 0.1 and N = 1e9.",
    expected="conditional",
    properties=(
        CHANCE,
        Property(
            f"Y after whole steps, at most {STEPS}, against the form with the true counts in h*, over rounding",
            "descent",
            distance_from_form,
            ANY_CLASSES,
            conditions=(ONE_STEP, NO_MOMENTUM, INDEPENDENT_ATTENTION),
            controls={"wrong theory: without I - E'": lambda instance: distance_from_form(instance, mixed=False)},
            evaluations=(100, 3000),
            directed=False,
        ),
        Property(
            "own: spread of theta_n over (s h'/h) sqrt((K-1)/N): |ratio - 1|",
            "closed form",
            spread_off,
            controls={
                "wrong theory: counts are spread as waiting times, by their mean": lambda case: spread_off(case, "expon"),
                "wrong theory: counts have the variance N/4 of Hoeffding's bound": lambda case: spread_off(case, "norm"),
            },
            cases={f"K = {K}, N = {N:.0e}": (K, N) for K, N in ((10, 1e4), (10, 1e7), (3, 1e6), (65, 1e6))},
        ),
        Property(
            "original flow: distance from the form with any Theta over the order",
            "original flow",
            original_distance,
            conditions=(
                Requirement(
                    "small overlap", "overlap sqrt(K-1) <= (K/sqrt(N)) sqrt(ln(K/delta))",
                    lambda instance: instance.gram[0, 1] * np.sqrt(instance.num_classes - 1) / order_of_theta(instance)[1, 0],
                    at_most=1,
                ),
            ),
            cases=lambda: {"overlap 1e-4, N = 1e3": overlapping(0.003, 1e3)},
            beyond=lambda: {"overlap 0.1, N = 1e9": overlapping(0.15, 1e9)},
        ),
    ),
    picture=picture,
    map=lambda level: decoder_map(CHANCE, "Where the order of theta_n holds", level == "full", ("eta_Y", "t_end")),
)  # fmt: skip
