"""Figure 6, cell by cell; and its threshold: why entropy falls with eta_Y/eta_Z up to some ratio."""

import functools
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from snapdyn.dynamics import MeanField, integrate, sgd, syn_medium
from snapdyn.validation.claims.language import DESCENT, SGD, Claim, Floats, Measured, Property
from snapdyn.validation.claims.published import (
    FIGURE_6,
    PUBLISHED_SEEDS,
    Cell,
    against_published,
    distinct_entropy,
    figure_6,
    figure_6_runs,
    full_entropy,
    published_cells,
    smallest_at_ratio_2,
)

# Numbers of queries Q of the published cells.
QUERIES = (1, 3, 5, 10)
SEEDS = range(10)
# Family level of the 64 comparisons; a control must be rejected at the same level.
LEVEL = 0.05 / 64


@functools.cache
def table(queries: tuple[int, ...], observable: Callable[..., float] = distinct_entropy, **changes: Any) -> list[Cell]:
    """Recomputed cells with these numbers of queries, compared with the published ones."""
    rows = [row for row in published_cells() if row["num_queries"] in queries]
    return figure_6(SEEDS, observable, rows, **changes)


def agreement(queries: tuple[int, ...], **changes: Any) -> Measured:
    """Smallest p of the cells (Welch), against the level that Bonferroni's correction gives for all cells."""
    return Measured(min(cell.p for cell in table(queries, **changes)), at_least=LEVEL)


def minima(queries: tuple[int, ...], **changes: Any) -> Measured:
    """Settings with Q >= 3 whose entropy is not smallest at eta_Y/eta_Z = 2."""
    return Measured(smallest_at_ratio_2(table(queries, **changes)), at_most=0)


def rejected_shift(queries: tuple[int, ...]) -> Measured:
    """Smallest common shift of all cells, nats, that is rejected in 95 % of the tables drawn from our own seeds.

    Two tables are drawn each time, and one stands for the published table. The cells of one Q share their seeds, as in
    the experiments.
    """
    cells, rng = table(queries), np.random.default_rng(6)
    ours = np.array([cell.ours for cell in cells])
    group = np.searchsorted(queries, [cell.num_queries for cell in cells])

    def drawn(size: int) -> Floats:
        return np.take_along_axis(ours, rng.integers(0, len(SEEDS), (len(queries), size))[group], axis=1)

    def smallest_p(shift: float) -> float:
        other = drawn(PUBLISHED_SEEDS) + shift
        mean, std = other.mean(axis=1).round(3), other.std(axis=1, ddof=1).round(3)
        return against_published(drawn(len(SEEDS)), mean, std)[1].min()

    for shift in 0.002 * np.arange(21):
        if np.mean([smallest_p(shift) < LEVEL for _ in range(100)]) >= 0.95:
            return Measured(shift, at_most=0.04)
    return Measured(np.inf, at_most=0.04)


CASES = {"the 64 published cells of Fig. 6": QUERIES}

FIGURE6 = Claim(
    "figure6",
    source="Fig. 6",
    title="Figure 6: entropies of attention on Syn-Medium",
    statement="After 100 steps of SGD with momentum on Syn-Medium the mean entropy over distinct tokens is as "
    "published, for Q = 1, 3, 5, 10, four rates and four ratios; for Q >= 3 it is smallest at eta_Y/eta_Z = 2.",
    latex=r"H(\tilde c_n),\quad \arg\min_{\eta_Y/\eta_Z}H=2\ (Q\geq3)",
    conditions=("set-up of the paper and its logs: momentum 0.9, batch 128, T = 128, start uniform in +-1/sqrt(V)",),
    conclusion=(
        "All 64 published cells agree with the recomputed ones. With ten seeds each the smallest p is {smallest p of "
        "64 cells (Welch), Bonferroni: the 64 published cells of Fig. 6:.3f}. A common shift of all published "
        "entropies by {smallest shift common to all cells that is rejected with 95 %, nats: the 64 published cells of "
        "Fig. 6:.3f} nats would be found with a probability of 95 %. Cells with the same number Q of queries share "
        "seeds, hence starts and draws."
    ),
    properties=(
        Property(
            "smallest p of 64 cells (Welch), Bonferroni",
            SGD,
            agreement,
            # Wrong set-ups are tried where they show: with a zero start that is Q = 1.
            controls={
                "wrong set-up, without momentum, Q = 1": lambda _: agreement((1,), momentum=0.0),
                "wrong set-up, with zero start, Q = 1": lambda _: agreement((1,), init="zeros"),
                "wrong set-up, entropy over all tokens, Q = 1": lambda _: agreement((1,), observable=full_entropy),
            },
            cases=CASES,
        ),
        Property(
            "settings with Q >= 3 whose entropy is not smallest at eta_Y/eta_Z = 2",
            SGD,
            minima,
            # The minimum at ratio 2 is no matter of course: without momentum it is elsewhere.
            controls={"wrong set-up, without momentum, Q = 3": lambda _: minima((3,), momentum=0.0)},
            cases=CASES,
        ),
        Property(
            "smallest shift common to all cells that is rejected with 95 %, nats", SGD, rejected_shift, cases=CASES
        ),
    ),
)


RATIOS = (0.15, 0.3, 0.6, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0)
FROM_06 = (0.6, 1.0, 2.0, 5.0, 10.0)  # the ratios of Fig. 6 and one below
STEPS, MOMENTUM = FIGURE_6["steps"], FIGURE_6["momentum"]


@cache
def retrained(num_queries: int, eta_Z: float, ratios: tuple[float, ...] = RATIOS) -> Floats:
    """Entropies as in Fig. 6 with Assumption 1(c) made true, nats, (ratios,).

    T and batch are infinite and the start is zero. At step k the decoder is the one that k steps of training from
    zero give with attention frozen at its present value; the step of z is that of Fig. 6.
    """
    classes = syn_medium(num_queries)
    P, of, K, V = classes.P.toarray(), classes.query_index, classes.num_classes, classes.vocab_size
    eta_Y = eta_Z * np.array(ratios)[:, None, None]
    copies = np.append(np.ones(K), V - K)  # the last column of logits stands for all outputs of no class
    to_query = (of == np.arange(num_queries)[:, None]) / K

    def errors(logits: Floats) -> Floats:
        weights = copies * np.exp(logits - logits.max(axis=2, keepdims=True))
        return np.asarray(np.eye(K, K + 1) - weights / weights.sum(axis=2, keepdims=True))

    z = np.zeros((len(ratios), num_queries, P.shape[1]))
    velocity = np.zeros_like(z)
    for k in range(STEPS):
        f = P * np.exp(z[:, of])
        f /= np.linalg.norm(f, axis=2, keepdims=True)
        gram = f @ f.swapaxes(1, 2)
        # Y = F C, so the decoder is trained in C alone.
        C = np.zeros((len(ratios), K, K + 1))
        steps = np.zeros_like(C)
        for _ in range(k):
            steps = MOMENTUM * steps + errors(gram @ C) / copies / K
            C += eta_Y * steps
        g = errors(gram @ C) @ (f.swapaxes(1, 2) @ C).swapaxes(1, 2)
        velocity = MOMENTUM * velocity + to_query @ (f * (g - f * (f * g).sum(axis=2, keepdims=True)))
        z += eta_Z * velocity
    c = np.where(classes.omega_size == 1, P * np.exp(z[:, of]), 0.0)
    c /= c.sum(axis=2, keepdims=True)
    return np.asarray(-np.sum(c * np.log(np.where(c > 0, c, 1.0)), axis=2).mean(axis=1))


@cache
def descended(num_queries: int, eta_Z: float, ratios: tuple[float, ...] = RATIOS) -> Floats:
    """The same with the decoder that has been trained along with attention, as in Fig. 6."""
    classes = syn_medium(num_queries)
    runs = [sgd(classes, r * eta_Z, eta_Z, STEPS, None, momentum=MOMENTUM, record=[STEPS]) for r in ratios]
    return np.array([distinct_entropy(run) for run in runs])


def trained() -> Floats:
    """Mean over 3 seeds of the entropies of Fig. 6 at Q = 3, eta_Z = 1."""
    cells = figure_6_runs([(syn_medium(3), ratio, 1.0) for ratio in RATIOS], range(3))
    return np.array([np.mean([distinct_entropy(run) for run in runs]) for runs in cells])


def flowed(t: float) -> Floats:
    """Entropies of the mean field at t, Q = 3, eta_Z = 1."""
    return np.array([distinct_entropy(integrate(MeanField(syn_medium(3), r, 1.0), [t])) for r in RATIOS])


RUNGS = {
    "SGD as in Fig. 6": trained,
    "T and batch infinite, zero start": lambda: descended(3, 1.0),
    "mean field, t = 1000": lambda: flowed(1e3),
    "mean field, t = 1e6": lambda: flowed(1e6),
}


def sparsest(entropies: Floats) -> Measured:
    """Smallest ratio of the rates at which attention is sparsest: inside the published range or above."""
    return Measured(RATIOS[int(entropies.argmin())], at_least=1.0)


def least_rise(setting: tuple[int, float], memory: bool = False) -> Measured:
    """Smallest rise of the entropy from one ratio of the rates to the next larger one, nats."""
    found = descended(*setting, FROM_06) if memory else retrained(*setting, FROM_06)
    return Measured(min(after - before for before, after in pairwise(found)), at_least=0.0, error=1e-9)


def late_difference(setting: tuple[int, float], ratio: float = 10.0) -> Measured:
    """|Difference| of the entropies with and without memory of the decoder at one ratio, nats."""
    found = [entropies(*setting, FROM_06)[FROM_06.index(ratio)] for entropies in (descended, retrained)]
    return Measured(abs(found[0] - found[1]), at_most=0.015)


SETTINGS = {
    f"Q = {Q}, eta_Z = {eta_Z:g}": (Q, eta_Z)
    for Q, eta_Z in ((3, 0.5), (3, 1.0), (3, 2.0), (3, 3.0), (5, 1.0), (10, 1.0))
}

FIGURE6_THRESHOLD = Claim(
    "figure6-threshold",
    source="Sec. 8, Fig. 6, Assumption 1(c)",
    title="The threshold of Figure 6 has the cause that the paper names, Assumption 1(c)",
    statement=(
        "Theorem 4 has attention denser as eta_Y grows at fixed eta_Z; in Fig. 6 this is so only past eta_Y/eta_Z = 2, "
        "for the paper since its theory is built on Assumption 1(c), a decoder much faster than attention. On "
        "Syn-Medium at Q = 3, eta_Z = 1 the sparsest attention is at a ratio of 1 or more without finite length, noise "
        "and random start too, and in the mean field. With a decoder that is retrained at each step on the present "
        "attention, as Assumption 1(c) has it, entropy rises from 0.6 on (Q = 3, 5 and 10); at the ratio 10 this "
        "changes little."
    ),
    latex=r"\arg\min_{\eta_Y/\eta_Z}H\ge1;\qquad Y_k\ \text{retrained at }z_k:\ "
    r"\frac{\partial H}{\partial(\eta_Y/\eta_Z)}>0",
    conditions=("set-up of Fig. 6; where the decoder is retrained, T and batch are infinite and the start is zero",),
    conclusion=(
        "Holds: the memory of the decoder, which was trained on earlier attention, is the cause. Without it the "
        "smallest rise of the entropy from ratio to ratio is {least rise of the entropy: Q = 3, eta_Z = 1:.3f} nats "
        "(Q = 3, eta_Z = 1). The number 2 is no constant: in the mean field attention is sparsest at the ratio "
        "{mean field, t = 1000:.0f} at t = 1000, and at {mean field, t = 1e6:.0f} at t = 1e6. At the ratio 10 "
        "retraining changes the entropy by {|difference| at the ratio 10: Q = 3, eta_Z = 1:.3f} nats."
    ),
    properties=(
        Property(
            "eta_Y/eta_Z of the sparsest attention, of 0.15 to 20; Q = 3, eta_Z = 1",
            "SGD, descent and mean field",
            lambda rung: sparsest(RUNGS[rung]()),
            controls={"theory of Assumption 1(c): decoder retrained": lambda _: sparsest(retrained(3, 1.0))},
            cases={name: name for name in RUNGS},
        ),
        Property(
            "least rise of the entropy",
            DESCENT,
            least_rise,
            controls={"wrong theory: memory does not matter": lambda setting: least_rise(setting, memory=True)},
            cases=SETTINGS,
        ),
        Property(
            "|difference| at the ratio 10",
            DESCENT,
            late_difference,
            controls={"wrong theory: nor does it matter at the ratio 1": lambda setting: late_difference(setting, 1.0)},
            cases=SETTINGS,
        ),
    ),
)
