"""Initial logits and positional bias as priors; the residual connection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from snapdyn.dynamics import (
    FiniteLengthMeanField,
    MeanField,
    ModifiedDecoder,
    SequenceClasses,
    System,
    Trajectory,
    log_times,
    random_classes,
    sgd,
    syn_medium,
    whole_run,
)
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.assumptions import assumption_2
from snapdyn.validation.checks import Check
from snapdyn.validation.dense_algebra import dense_attention, largest_relative, softmax
from snapdyn.validation.pictures import Map, Picture
from snapdyn.validation.register import Evidence, claim
from snapdyn.validation.statistics import fit_order, order_checks, standard_error

# -- initial logits ----------------------------------------------------------------------------------------------

RIVALS = (1, 2)  # distinct tokens of class 0 with probabilities in the ratio 6 : 5


def rivals() -> SequenceClasses:
    """Three classes of one query; tokens 1 and 2 of class 0 are comparable, token 1 the more frequent."""
    P = np.zeros((3, 10))
    for n in range(3):
        P[n, 0] = 0.4
        P[n, 1 + 3 * n : 4 + 3 * n] = (0.3, 0.25, 0.05)
    return SequenceClasses(P, [0, 0, 0], vocab_size=10)


def head_start(classes: SequenceClasses, delta: float) -> Floats:
    """z(0) (Q, M) with `delta` on the less frequent rival."""
    z = np.zeros((classes.queries.size, classes.num_tokens))
    z[0, RIVALS[1]] = delta
    return z


def lead(run: Trajectory) -> float:
    """ln of the first rival's attention over the second's, at the last time."""
    a, b = (float(run.token_attention(0, token)[-1]) for token in RIVALS)
    return float(np.log(a / b))


def dominant_changes(trajectory: Trajectory) -> tuple[int, int, int]:
    """Classes whose most attended distinct token at the last time is not the start's; nor P's; number of classes."""
    classes = trajectory.classes
    assert classes is not None
    P, z0 = classes.P.toarray(), trajectory.z_initial
    changed = against_frequency = 0
    for n in range(classes.num_classes):
        tokens, m = classes.distinct_tokens(n), classes.query_index[n]
        ends = int(np.argmax(np.log(P[n, tokens]) + trajectory.z[-1, m, tokens]))
        changed += ends != int(np.argmax(np.log(P[n, tokens]) + z0[m, tokens]))
        against_frequency += ends != int(np.argmax(P[n, tokens]))
    return changed, against_frequency, classes.num_classes


@claim(
    "initial-prior",
    source="Section 5 (initial value as prior), after Theorem 3",
    title="Initial logits are a prior: who dominates is decided by P exp(z(0))",
    statement="Of two distinct tokens of a class with comparable P, the one with the larger c~_l(0) = "
    "P(l|n) exp(z_l(0)) dominates: initial logits swap their fates exactly where P exp(z(0)) crosses.",
    latex=r"r_{l/l'|n}(t)\gtrless0\iff P(l|n)\,e^{z_l(0)}\gtrless P(l'|n)\,e^{z_{l'}(0)}",
    expected="conditional",
    assumptions=("T infinite", "Y(0) = 0"),
)
def initial_prior(level: str) -> Evidence:
    from scipy.optimize import brentq

    classes = rivals()
    P = classes.P.toarray()[0]
    crossing = float(np.log(P[RIVALS[0]] / P[RIVALS[1]]))
    eta, steps = 0.5, 200

    def flow(system: Callable[[Floats], System]) -> Callable[[float], float]:
        return lambda delta: lead(whole_run(system(head_start(classes, delta)), [100.0], rtol=1e-10, atol=1e-13))

    def trained(**settings: object) -> Callable[[float], float]:
        return lambda delta: lead(
            sgd(classes, eta, eta, steps, init={"z": head_start(classes, delta)}, record=[steps], **settings)  # type: ignore[call-overload]
        )

    rungs = {
        "modified decoder": flow(lambda z: ModifiedDecoder(classes, 1.0, 1.0, z_initial=z)),
        "mean field": flow(lambda z: MeanField(classes, 1.0, 1.0, z_initial=z)),
        "descent": trained(batch_size=None),
        "SGD": trained(seed=3),
    }
    # At the crossing the two tokens are equal in everything that enters, so they stay so, step by step. And no order
    # changes: where f_a = f_b, z_a' - z_b' = eta_Z p f (g_a - g_b); from Y(0) = 0 Y_l = eta_Y p int f_l error dt, so
    # g_a - g_b = eta_Y p int (f_a - f_b)(t') error(t').error(t) dt' > 0 if a was ahead: errors of one class have
    # positive products (1 - alpha)(1 - alpha') + sum of alpha_j alpha_j'.
    found = {rung: float(brentq(run, crossing - 0.3, crossing + 0.2, xtol=1e-13)) for rung, run in rungs.items()}
    growth = min(run(crossing - 0.05) / 0.05 for run in rungs.values())
    count, times = 12 if level == "quick" else 200, log_times(1e-1, 1e6, 20)
    rng = np.random.default_rng(5)
    changed: dict[str, list[int]] = {"modified decoder": [], "mean field": []}
    against = tried = 0
    for i in range(count):
        instance = random_classes(
            3 + i % 3, 1 + i % 2, 3, 1 + i % 2, 100, ("weak", "strong")[i % 2], uniform_prior=bool(i % 3), seed=i
        )
        z = rng.normal(size=(instance.queries.size, instance.num_tokens))
        for ratio in (1e-3, 1.0, 100.0):
            a, b, all_ = dominant_changes(whole_run(MeanField(instance, 1.0, ratio, z_initial=z), times))
            changed["mean field"].append(a)
            against, tried = against + b, tried + all_
        a, _, all_ = dominant_changes(whole_run(ModifiedDecoder(instance, 1.0, 1.0, z_initial=z), times))
        changed["modified decoder"].append(a)
        tried += all_
    seeds = tuple(range(200 if level == "quick" else 2000))
    z = head_start(classes, crossing)
    short = np.array([lead(r) for r in sgd(classes, eta, eta, steps, 8, 16, init={"z": z}, seed=seeds, record=[steps])])
    t_short = float(short.mean() / standard_error(short))
    drawn = sgd(classes, eta, eta, steps, None, init="uniform", seed=seeds[:50], record=[steps])
    by_decoder = sum(
        (lead(run) > 0) != (crossing + run.z_initial[0, RIVALS[0]] - run.z_initial[0, RIVALS[1]] > 0) for run in drawn
    )
    deltas = np.linspace(crossing - 0.3, crossing + 0.2, 11)
    return Evidence(
        checks=[
            *(
                Check(
                    "head start at which the less frequent rival wins, less ln(P/P'): absolute",
                    rung,
                    abs(place - crossing),
                    1e-9,  # the solver's 1e-10 over some hundred steps, over a growing lead
                )
                for rung, place in found.items()
            ),
            Check(
                "signal: final lead over the initial one at 0.05 from the crossing, smallest rung",
                "SGD",
                growth,
                1.05,
                ">=",
            ),
            *(
                Check(
                    f"classes whose dominant distinct token is not that of P exp(z(0)) at t = 1e6, {len(counts)} runs",
                    rung,
                    sum(counts),
                    0,
                )
                for rung, counts in changed.items()
            ),
            Check(
                "sequences of 16 tokens: |t statistic| of the lead at the crossing",
                "SGD",
                abs(t_short),
                3.0,
                role="outside",
            ),
            Check(
                "start of Y uniform in +-1/sqrt(V): of 50 runs, those in which P exp(z(0)) does not decide",
                "descent",
                by_decoder,
                0,
                role="outside",
            ),
            Check(
                "wrong theory: the more frequent token wins whatever z(0): place of the swap",
                "mean field",
                abs(found["mean field"]),
                1e-9,
                role="control",
            ),
            Check(
                "wrong theory: frequency alone decides, classes against it at t = 1e6",
                "mean field",
                against,
                0,
                role="control",
            ),
        ],
        conclusion=(
            f"The fates swap at a head start of ln({P[RIVALS[0]]:g}/{P[RIVALS[1]]:g}) = {crossing:.4f} on every rung, "
            f"to {max(abs(v - crossing) for v in found.values()):.0e}; in {tried} classes with random z(0) and "
            "eta_Z/eta_Y to 100 the start's P exp(z) decided each. With sequences of 16 tokens the place shifts (mean "
            f"lead {short.mean():+.4f} at the crossing, t = {t_short:+.1f}): the rarer token's counts scatter more. "
            f"A random Y(0) overrules it in {by_decoder} of 50 runs."
        ),
        picture=Picture(
            "head start of the less frequent rival",
            "final ln(f_1/f_2)",
            (
                Picture.line("initial ln(f_1/f_2)", deltas, crossing - deltas),
                *(
                    Picture.line(rung, deltas, [rungs[rung](float(d)) for d in deltas], "simulation")
                    for rung in ("mean field", "SGD")
                ),
            ),
            xscale="linear",
        ),
        maps=(_decoder_start_map(level),),
        seeds=(3, 5, *seeds),
        tried=tried,
    )


def _decoder_start_map(level: str) -> Map:
    """Share of descents in which P exp(z(0)) does not decide, over its lead and the size of a random Y(0)."""
    classes, count, draws = rivals(), 5 if level == "quick" else 11, 10 if level == "quick" else 50
    P = classes.P.toarray()[0]
    crossing = float(np.log(P[RIVALS[0]] / P[RIVALS[1]]))
    sizes, leads = np.geomspace(1e-2, 3, count), np.geomspace(1e-2, 1, count)
    rng = np.random.default_rng(23)
    starts = rng.uniform(-1, 1, size=(draws, classes.num_tokens, classes.vocab_size))
    share = np.empty((count, count))
    for i, ahead in enumerate(leads):
        z = head_start(classes, crossing - ahead)
        for j, size in enumerate(sizes):
            runs = [sgd(classes, 0.5, 0.5, 200, None, init={"Y": size * Y, "z": z}, record=[200]) for Y in starts]
            share[i, j] = np.mean([lead(run) <= 0 for run in runs])
    return Map(
        "Where P exp(z(0)) does not decide: descent, 200 steps, Y(0) uniform",
        "largest |Y(0)|",
        "ln of P exp(z(0)) over the rival's",
        "share of the starts in which the rival ends ahead",
        sizes,
        leads,
        share,
        0.05,
        scale="linear",
    )


# -- positional bias ---------------------------------------------------------------------------------------------


def reweighted(classes: SequenceClasses, z0: Floats) -> SequenceClasses:
    """The classes with P(l|n) exp(z0[psi(n), l]), normalised, in place of P(l|n)."""
    P = classes.P.toarray() * np.exp(z0[classes.query_index])
    return SequenceClasses(
        P / P.sum(axis=1, keepdims=True), classes.query, classes.next_token, classes.prior, classes.vocab_size
    )


@dataclass(frozen=True)
class Positions:
    """Sequences whose tokens depend on the position: blocks of positions with one bias and one distribution each.

    P_block (B, S, M): P(l|n, block); bias (B,); length (B,): positions per block. All classes share query token 0.
    """

    P_block: Floats
    bias: Floats
    length: Floats

    @property
    def effective(self) -> Floats:
        """Prior that attention sees, (S, M): P~(l|n) proportional to sum_i exp(b_i) P(l|n, i) over positions i."""
        P = np.einsum("b,bsm->sm", self.length * np.exp(self.bias), self.P_block)
        return P / P.sum(axis=1, keepdims=True)

    @property
    def unbiased(self) -> Floats:
        """The same without the bias: plain frequencies."""
        P = np.einsum("b,bsm->sm", self.length, self.P_block)
        return P / P.sum(axis=1, keepdims=True)

    def counts(self, n: np.ndarray, rng: np.random.Generator) -> Floats:
        """Counts weighted with exp(b_i) of one sequence of each class in n, (len(n), M)."""
        counts = np.zeros((n.size, self.P_block.shape[2]))
        for b, length, P in zip(self.bias, self.length, self.P_block, strict=True):
            counts += np.exp(b) * rng.multinomial(int(length), P[n])
        return counts

    def train(self, eta: float, steps: int, batch: int, vocab_size: int, rng: np.random.Generator) -> Floats:
        """z (M,) after SGD by Eqs. (3)-(4) in plain numpy on sequences with positions, zero start."""
        S, M = self.P_block.shape[1:]
        Y, z = np.zeros((M, vocab_size)), np.zeros(M)
        for _ in range(steps):
            n = rng.integers(S, size=batch)
            q = self.counts(n, rng) * np.exp(z)
            f = q / np.linalg.norm(q, axis=1, keepdims=True)
            error = -softmax(f @ Y)
            error[np.arange(batch), n] += 1
            g = error @ Y.T
            Y = Y + eta * f.T @ error / batch
            z = z + eta * (f * (g - f * (f * g).sum(axis=1, keepdims=True))).mean(axis=0)
        return z


def with_positions(length: int, dependent: bool = True) -> Positions:
    """Three classes with a common and two distinct tokens each; late positions carry a bias of 2.

    `dependent`: in late positions the second distinct token is as frequent as the first is in early ones.
    """
    profiles = np.array([(0.4, 0.45, 0.15), (0.4, 0.15, 0.45)] if dependent else [(0.4, 0.3, 0.3)] * 2)
    P = np.zeros((2, 3, 7))
    for n in range(3):
        P[:, n, 0] = profiles[:, 0]
        P[:, n, 1 + 2 * n : 3 + 2 * n] = profiles[:, 1:]
    return Positions(P, np.array([0.0, 2.0]), np.array([length / 2, length / 2]))


@claim(
    "positional-prior",
    source="Section 7 (positional encoding)",
    title="A relative positional bias is a fixed exponent on the prior",
    statement="A fixed bias z0 added to the logits, f ~ P exp(z + z0), gives the dynamics of classes whose P is "
    "reweighted by exp(z0): it acts as a prior.",
    latex=r"f_{nl}\propto P(l|n)e^{z_{l}+z^0_{l}}\ \equiv\ \tilde P(l|n)e^{z_l},\quad "
    r"\tilde P(l|n)\propto\sum_ie^{b_i}P(l|n,i)",
    expected="conditional",
    assumptions=(
        "T infinite: with finite T the counts scatter as under P, not as under the reweighted P",
        "a bias b_i of positions acts through sum_i exp(b_i) P(l|n, i): a fixed factor per token and class, which is "
        "1 when tokens do not depend on the position",
    ),
)
def positional_prior(level: str) -> Evidence:
    rng = np.random.default_rng(17)
    times = log_times(1e-1, 1e5, 20)
    gaps = {"mean field": 0.0, "modified decoder": 0.0, "descent": 0.0, "SGD": 0.0}
    ignored = np.inf
    instances = [random_classes(3 + i % 3, 2, 3, 1 + i % 2, 50, ("weak", "strong")[i % 2], seed=i) for i in range(4)]
    instances += [syn_medium(3)] if level == "quick" else [syn_medium(3), syn_medium(10)]
    for classes in instances:
        z0 = rng.normal(size=(classes.queries.size, classes.num_tokens))
        prior = reweighted(classes, z0)

        def gap(biased: Trajectory, plain: Trajectory, z0: Floats = z0) -> float:
            """Largest |(z - z0) - z~| over the largest |z~| on the supports."""
            assert biased.classes is not None
            query, token = biased.classes.z_coordinates
            return largest_relative(biased.z_support - z0[query, token], plain.z_support)

        for rung, kind in (("mean field", MeanField), ("modified decoder", ModifiedDecoder)):
            runs = (kind(classes, 1.0, 1.0, z_initial=z0), kind(prior, 1.0, 1.0))
            biased, plain = (whole_run(system, times, rtol=1e-10, atol=1e-13) for system in runs)
            gaps[rung] = max(gaps[rung], gap(biased, plain))
        unbiased = whole_run(MeanField(classes, 1.0, 1.0), times)
        ignored = min(ignored, gap(whole_run(MeanField(classes, 1.0, 1.0, z_initial=z0), times), unbiased))
        for rung, batch in (("descent", None), ("SGD", 4)):
            gaps[rung] = max(
                gaps[rung],
                gap(
                    sgd(classes, 0.5, 0.5, 500, batch, init={"z": z0}, record=[100, 500]),
                    sgd(prior, 0.5, 0.5, 500, batch, record=[100, 500]),
                ),
            )
    # Finite T: the counts' covariance is that of P under the bias, of P~ after reweighting.
    classes = instances[1]
    z0 = rng.normal(size=(classes.queries.size, classes.num_tokens))
    inverse = 1 / (500.0 * 2.0 ** np.arange(5))
    finite = []
    query, token = classes.z_coordinates
    for length in 1 / inverse:
        biased = whole_run(
            FiniteLengthMeanField(classes, 1.0, 1.0, int(length), z_initial=z0), [30.0], rtol=1e-11, atol=1e-14
        )
        plain = whole_run(FiniteLengthMeanField(reweighted(classes, z0), 1.0, 1.0, int(length)), [30.0], rtol=1e-11,
                          atol=1e-14)  # fmt: skip
        finite.append(largest_relative(biased.z_support - z0[query, token], plain.z_support))
    order = fit_order(inverse, finite, next_order=1.0)
    # Positions: attention's prior is sum_i exp(b_i) P(l|n, i), drawn and trained in plain numpy.
    draws = 2000 if level == "quick" else 50_000
    statistics = {dependent: _drawn(with_positions(4000, dependent), draws, rng) for dependent in (True, False)}
    eta, steps, seeds = 0.2, 300, 8 if level == "quick" else 40
    trained = {
        length: np.array([with_positions(length).train(eta, steps, 32, 7, rng) for _ in range(seeds)])
        for length in (500, 1000)
    }
    end = with_positions(1000)
    references = {
        name: sgd(SequenceClasses(P, [0, 0, 0], vocab_size=7), eta, eta, steps, None, record=[steps]).z[0, 0]
        for name, P in (("bias", end.effective), ("no bias", end.unbiased))
    }
    mean = {length: z.mean(axis=0) for length, z in trained.items()}
    error = standard_error(trained[1000])
    # The bias of finite sequences falls as 1/T: what is left at 1000 is the difference of 500 and 1000. SGD's own
    # noise adds eta/batch of z; the seeds give the rest.
    distinct = slice(1, None)  # the common token falls alike in both references
    spread = np.abs(mean[1000] - mean[500])[distinct].max() + 5 * error[distinct].max()
    allowed = float(spread / np.abs(references["bias"][distinct]).max() + eta / 32)
    measured = {name: largest_relative(mean[1000][distinct], z[distinct]) for name, z in references.items()}
    return Evidence(
        checks=[
            *(
                Check(
                    f"z - z0 with bias z0 against z with reweighted P: largest difference, relative, "
                    f"{len(instances)} instances",
                    rung,
                    value,
                    1e-6 if rung in ("mean field", "modified decoder") else 1e-11,  # solver; rounding of 500 steps
                )
                for rung, value in gaps.items()
            ),
            Check(
                "sequences with positions: largest |t statistic| of the mean attention against P~, Bonferroni 21",
                "Monte Carlo",
                statistics[True][0],
                4.0,
            ),
            Check(
                "tokens independent of the position: the same against plain P (the bias drops out)",
                "Monte Carlo",
                statistics[False][1],
                4.0,
            ),
            Check(
                "plain SGD on sequences with positions against descent on P~, z, relative",
                "SGD",
                measured["bias"],
                allowed,
            ),
            *order_checks("finite T: difference of the two against 1/T", "finite T", order, 1.0, 2.0),
            Check("finite T: the same at T - 1 = 500, relative", "finite T", finite[0], 1e-6, role="outside"),
            Check(
                "wrong theory: the bias does not matter, relative difference",
                "mean field",
                ignored,
                1e-6,
                role="control",
            ),
            Check(
                "wrong theory: sequences with positions follow plain frequencies, |t statistic|",
                "Monte Carlo",
                statistics[True][1],
                4.0,
                role="control",
            ),
            Check(
                "wrong theory: plain SGD with positions against descent on plain frequencies",
                "SGD",
                measured["no bias"],
                allowed,
                role="control",
            ),
        ],
        conclusion=(
            f"Exact for a bias per token: to {max(gaps.values()):.0e} on every rung with T infinite. With finite T the "
            f"two differ by {finite[0]:.1e} of the largest logit at T - 1 = 500, falling as 1/T ({order}). A bias per "
            "position averages to sum_i exp(b_i) P(l|n, i): it drops out when tokens do not depend on their position, "
            "and is a prior per class, no row of Z, when classes of one query differ in how they do."
        ),
        picture=Picture(
            "token",
            "z after SGD on sequences with positions",
            (
                Picture.line("descent on the reweighted P", np.arange(7), references["bias"]),
                Picture.line("SGD with positions", np.arange(7), mean[1000], "simulation"),
                Picture.line("descent on plain frequencies", np.arange(7), references["no bias"], "control"),
            ),
            xscale="linear",
        ),
        maps=(_finite_length_map(level),),
        seeds=(17,),
    )


def _finite_length_map(level: str) -> Map:
    """Difference of bias and reweighting over T - 1 and the size of the bias, mean field to second order in 1/T."""
    classes, count = random_classes(4, 2, 3, vocab_size=50, correlation="strong", seed=1), 5 if level == "quick" else 11
    z0 = np.random.default_rng(29).normal(size=(1, classes.num_tokens))
    lengths, sizes = np.unique(np.geomspace(30, 1e5, count).round()), np.geomspace(0.03, 2, count)
    query, token = classes.z_coordinates
    gaps = np.empty((count, count))
    for i, size in enumerate(sizes):
        prior = reweighted(classes, size * z0)
        for j, length in enumerate(lengths):
            biased, plain = (
                whole_run(FiniteLengthMeanField(c, 1.0, 1.0, int(length), z_initial=z), [30.0], rtol=1e-9, atol=1e-13)
                for c, z in ((classes, size * z0), (prior, None))
            )
            gaps[i, j] = largest_relative(biased.z_support - size * z0[query, token], plain.z_support)
    return Map(
        "Where a bias is not a reweighted P: strong correlation, eta_Y = eta_Z = 1, t = 30",
        "T - 1, contextual tokens",
        "standard deviation of the bias",
        "|(z - z0) - z of the reweighted P|, largest, relative",
        lengths,
        sizes,
        gaps,
        0.01,
    )


def _drawn(positions: Positions, draws: int, rng: np.random.Generator) -> tuple[float, float]:
    """Largest |t statistic| of the mean attention over `draws` sequences against P~ and against plain P."""
    worst = [0.0, 0.0]
    for n in range(positions.P_block.shape[1]):
        weights = positions.counts(np.full(draws, n), rng)
        q = weights / weights.sum(axis=1, keepdims=True)
        present = positions.unbiased[n] > 0
        error = standard_error(q)[present]
        for i, P in enumerate((positions.effective, positions.unbiased)):
            worst[i] = max(worst[i], float(np.max(np.abs(q.mean(axis=0) - P[n])[present] / error)))
    return worst[0], worst[1]


# -- residual connection -----------------------------------------------------------------------------------------

# Tokens 0 and 1 are shared by the two classes of query 0 and of query 1; 2 by classes 0 and 2, 3 by classes 1 and 3:
# common in the whole, distinct among the classes of their query.
LOCAL, ACROSS = (0, 1), (2, 3)


def two_queries(local: float, across: float, vocab_size: int, num_distinct: int = 3) -> SequenceClasses:
    """Two queries with two classes each; probability `local` of a token shared within the query, `across` between."""
    M = 4 + 4 * num_distinct
    P = np.zeros((4, M))
    weights = np.linspace(0.5, 1, num_distinct)
    for n in range(4):
        P[n, LOCAL[n // 2]], P[n, ACROSS[n % 2]] = local, across
        P[n, 4 + n * num_distinct : 4 + (n + 1) * num_distinct] = (1 - local - across) * weights / weights.sum()
    return SequenceClasses(P, [M, M, M + 1, M + 1], M + 2 + np.arange(4), vocab_size=vocab_size)


def residual_beta(f: Floats, query: np.ndarray) -> Floats:
    """E' of the decoder inputs (f_n + e_psi(n))/sqrt(2), (S, S): beta to leading order, query tokens not attended."""
    same = query[:, None] == query[None, :]
    return np.asarray(np.eye(f.shape[0]) - np.linalg.inv((f @ f.T + same) / 2))


def residual_drift(classes: SequenceClasses, h: float) -> tuple[Floats, Floats]:
    """Drift of z (S, M) per class under the modified flow with the residual, z = 0: by full algebra, by beta.

    Full: Y = F_u (I-E') W, g = Y (e - alpha), f o (I - f f^T) (I - u u^T) g/|f + e|, u over token and query rows.
    By beta: since (I - f f^T) f = 0, u_n's own terms drop out and what is left is Eq. (10) with beta of the Gram
    matrix of u and a factor 1/2: -(gamma/2) f_n o sum_k beta_nk (f_k - f_n (f_n.f_k)).
    """
    S, V, M = classes.num_classes, classes.vocab_size, classes.num_tokens
    z = np.zeros((classes.queries.size, M))
    _, f = dense_attention(classes, z)
    u = np.zeros((S, M + classes.queries.size))
    u[:, :M], u[np.arange(S), M + classes.query_index] = f / np.sqrt(2), 1 / np.sqrt(2)
    zeta = np.full((S, V), -1 / (V - 1))
    zeta[np.arange(S), classes.next_token] = 1
    Y = u.T @ np.linalg.solve(u @ u.T, (V - 1) * h * zeta)
    scale = (V - 1) / (V - 1 + np.exp(V * h))
    g = scale * zeta @ Y.T
    g = ((g - u * (u * g).sum(axis=1, keepdims=True)) / np.sqrt(2))[:, :M]
    full = f * (g - f * (f * g).sum(axis=1, keepdims=True))
    # beta_nk = q1 E'_kn - q0 (1 - sum_{j != n} E'_kj), section 5's exact form, with E' of u.
    E_prime = residual_beta(f, classes.query)
    q1, q0 = V / (V - 1), -V / (V - 1) ** 2
    gamma = (V - 1) * h * scale
    by_beta = np.zeros_like(full)
    for n in range(S):
        for k in range(S):
            if k != n:
                beta = q1 * E_prime[k, n] - q0 * (1 - (E_prime[k].sum() - E_prime[k, n]))
                by_beta[n] -= gamma / 2 * beta * f[n] * (f[k] - f[n] * (f[n] @ f[k]))
    return full, by_beta


def _across(run: Trajectory) -> float:
    """Mean logit at the last time of the tokens shared between queries."""
    return float(run.z[-1][:, ACROSS].mean())


@claim(
    "residual",
    source="Section 7 (residual connection)",
    title="With a residual connection distinct and common become local to a query",
    statement="With decoder input LN(f_n + e_psi(n)) classes of other queries hardly act on each other: beta_nk ~ "
    "f_n.f_k + [psi(n) = psi(k)], so a token that is shared only with classes of other queries counts as distinct "
    "and gains attention, where without the residual it loses it.",
    latex=r"u_n=\frac{f_n+e_{\psi(n)}}{\|f_n+e_{\psi(n)}\|},\qquad \beta_{nk}\sim f_n^\top f_k+[\psi(n)=\psi(k)]",
    expected="conditional",
    assumptions=(
        "query tokens are not among the contextual ones, several classes per query that share a token",
        "late: in the original flow beta = 1/V for all pairs at first, and locality comes with the transition",
    ),
    findings=("F4",),
)
def residual(level: str) -> Evidence:
    V, share = 1000, 0.1
    classes = two_queries(share, share / 2, V)
    _, f = dense_attention(classes, np.zeros((2, classes.num_tokens)))
    gram = classes.gram(residual=True)
    same = classes.query[:, None] == classes.query[None, :]
    between = float(f[0] @ f[2])
    beta, plain = residual_beta(f, classes.query), np.eye(4) - np.linalg.inv(f @ f.T)
    others = ~same
    shares = share / 2.0 ** np.arange(6)
    limits = []
    for each in shares:
        _, weak = dense_attention(two_queries(each, each, V), np.zeros((2, classes.num_tokens)))
        limits.append(residual_beta(weak, classes.query)[0, 1])
    grams = np.array([float(s**2 / (np.sum(two_queries(s, s, V).P.toarray()[0] ** 2))) for s in shares])
    full, by_beta = residual_drift(classes, 5.0 / V)
    drift = {on: _relative_drift(classes, on) for on in (False, True)}
    times = log_times(1e-1, 1e6, 71)
    runs = {
        (ratio, on): whole_run(MeanField(classes, 1.0, ratio, residual=on), times, rtol=1e-9, atol=1e-14)
        for ratio in (1e-2, 1.0)
        for on in (False, True)
    }
    steps, seeds = 6000, tuple(range(4 if level == "quick" else 20))
    descents = {on: _across(sgd(classes, 1.0, 1.0, steps, None, residual=on, record=[steps])) for on in (False, True)}
    trained = {
        on: np.array([_across(r) for r in sgd(classes, 1.0, 1.0, steps, 4, residual=on, seed=seeds, record=[steps])])
        for on in (False, True)
    }
    t_of = {on: float(v.mean() / standard_error(v)) for on, v in trained.items()}
    local = max(float(run.z[-1, m, LOCAL[m]]) for run in runs.values() for m in (0, 1))
    tuned = runs[1.0, True]
    early = tuned.z[np.searchsorted(times, 1.0)][:, ACROSS].mean() / np.abs(tuned.z[np.searchsorted(times, 1.0)]).max()
    turn = float(times[np.argmax(tuned.z[:, 0, ACROSS[0]] > 0)])
    # A class that shares nothing within its query has no local push: the token falls with the residual as well.
    nothing_shared = whole_run(
        MeanField(two_queries(1e-9, share, V), 1.0, 1.0, residual=True), [1e6], rtol=1e-9, atol=1e-14
    )
    return Evidence(
        checks=[
            Check(
                "u_n.u_k against (f_n.f_k + [psi(n) = psi(k)])/2, largest difference",
                "closed form",
                float(np.abs(gram - (f @ f.T + same) / 2).max()),
                1e-14,
            ),
            Check(
                "drift by beta of the Gram matrix of u against full linear algebra, relative",
                "modified decoder",
                largest_relative(by_beta, full),
                1e-11,
            ),
            # G/2 with x -> 0: blocks (1, 1/2; 1/2, 1), whose inverse has E' = 2/3 = 2/(m+1), m = 2 classes per query.
            Check(
                "|beta_nk - 2/(m+1)| of a query's classes over f_n.f_k, m = 2, as the overlap falls: largest",
                "closed form",
                float(np.max(np.abs(np.array(limits) - 2 / 3) / grams)),
                4.0,
            ),
            Check(
                "largest |beta| between queries over that within one",
                "closed form",
                float(np.abs(beta[others]).max() / beta[0, 1]),
                2 * between,
            ),
            Check(
                "drift of the tokens shared between queries at z = 0 over the largest, with the residual",
                "modified decoder",
                drift[True],
                0.0,
                ">=",
            ),
            Check("the same without the residual (they fall)", "modified decoder", drift[False], 0.0),
            *(
                Check(
                    f"their logit at t = 1e6, eta_Z/eta_Y = {ratio:g}, with the residual",
                    "mean field",
                    _across(runs[ratio, True]),
                    0.0,
                    ">=",
                )
                for ratio in (1e-2, 1.0)
            ),
            *(
                Check(
                    f"their logit at t = 1e6, eta_Z/eta_Y = {ratio:g}, without the residual",
                    "mean field",
                    _across(runs[ratio, False]),
                    0.0,
                )
                for ratio in (1e-2, 1.0)
            ),
            Check("their logit after 6000 steps, with the residual", "descent", descents[True], 0.0, ">="),
            Check("the same without the residual", "descent", descents[False], 0.0),
            # One-sided at 1e-3 with 3 degrees of freedom.
            Check(
                f"t statistic of their logit over {len(seeds)} seeds, with the residual", "SGD", t_of[True], 10.2, ">="
            ),
            Check("the same without the residual", "SGD", t_of[False], -10.2),
            Check(
                "tokens shared within a query, largest logit at t = 1e6 (they fall with and without)",
                "mean field",
                local,
                0.0,
            ),
            Check(
                "before the transition, t = 1: their logit over the largest, with the residual",
                "mean field",
                float(early),
                0.0,
                ">=",
                role="outside",
            ),
            Check(
                "as frequent as the tokens shared within a query: their drift at z = 0 over the largest",
                "modified decoder",
                _relative_drift(two_queries(share, share, V), True),
                0.0,
                ">=",
                role="outside",
            ),
            Check(
                "nothing shared within the query: their logit at t = 1e6, with the residual",
                "mean field",
                _across(nothing_shared),
                0.0,
                ">=",
                role="outside",
            ),
            Check(
                "wrong theory: beta without the term of the query (f_n.f_k only): between over within",
                "closed form",
                float(np.abs(plain[others]).max() / plain[0, 1]),
                2 * between,
                role="control",
            ),
            Check(
                "wrong theory: beta = E' = (f_n.f_k + 1)/2 of a query's classes, |..-2/(m+1)| over f_n.f_k, smallest",
                "closed form",
                float(np.max(np.abs((grams + 1) / 2 - 2 / 3) / grams)),
                4.0,
                role="control",
            ),
            Check(
                "wrong theory: the residual changes nothing, difference of their logits at t = 1e6",
                "mean field",
                abs(_across(runs[1.0, True]) - _across(runs[1.0, False])),
                1e-6,
                role="control",
            ),
        ],
        conclusion=(
            f"beta within a query is {beta[0, 1]:.3f} (2/(m+1) for m classes as overlaps vanish, not the 1/2 of the "
            f"Gram matrix: the query's classes are strongly correlated), between queries at most "
            f"{np.abs(beta[others]).max():.3f}. Tokens shared only between queries end at "
            f"{_across(runs[1.0, True]):+.4f} with and {_across(runs[1.0, False]):+.4f} without the residual in the "
            f"mean field (t = 1e6), {trained[True].mean():+.4f} and {trained[False].mean():+.4f} under SGD. "
            f"Locality comes with the transition: until t = {turn:.0f} they fall with the residual as well, since "
            "beta = 1/V for all pairs at first (F4). And it needs a token shared within the query: under the modified "
            "flow beta_within x_within > beta_between (1 - x_between), x = f_n.f_k."
        ),
        picture=Picture(
            "t (batch-size-1 steps)",
            "logit of the tokens shared between queries",
            (
                Picture.line("with the residual", times, runs[1.0, True].z[:, 0, ACROSS[0]], "simulation"),
                Picture.line("without", times, runs[1.0, False].z[:, 0, ACROSS[0]], "control"),
            ),
        ),
        conditions=assumption_2(classes)[:2],
        maps=(_locality_map(level),),
        seeds=seeds,
    )


def _locality_map(level: str) -> Map:
    """Logit of the tokens shared between queries at t = 1e6 with the residual, over both shares; V = 1000."""
    V, count = 1000, 5 if level == "quick" else 15
    local, across = np.geomspace(0.01, 0.3, count), np.geomspace(0.005, 0.3, count)
    fall = np.empty((count, count))
    for i, a in enumerate(local):
        for j, b in enumerate(across):
            run = whole_run(MeanField(two_queries(a, b, V), 1.0, 1.0, residual=True), [1e6], rtol=1e-8, atol=1e-13)
            fall[i, j] = -_across(run) / np.abs(run.z).max()
    fine = np.geomspace(local[0], local[-1], 60)
    boundary = np.array([_balanced(float(a)) for a in fine])
    shown = (boundary >= across[0]) & (boundary <= across[-1])
    return Map(
        "Where a token shared only between queries gains attention with the residual: mean field, V = 1000, t = 1e6",
        "probability of the token shared between queries",
        "probability of the token shared within a query",
        "-(its logit)/(largest |logit|): it falls where positive",
        across,
        local,
        fall,
        0.0,
        (Picture.line("modified flow at z = 0: beta_w x_w = beta_b (1 - x_b)", boundary[shown], fine[shown]),),
        scale="linear",
    )


def _balanced(local: float) -> float:
    """Share between queries at which their token's drift at z = 0 changes sign; NaN if it does nowhere."""
    from scipy.optimize import brentq

    def drift(log_across: float) -> float:
        return _relative_drift(two_queries(local, float(np.exp(log_across)), 1000), True)

    low, high = np.log(1e-5), np.log(0.6 - local)
    return float(np.exp(brentq(drift, low, high))) if drift(low) * drift(high) < 0 else float("nan")


def _relative_drift(classes: SequenceClasses, on: bool) -> float:
    """Mean drift of tokens shared between queries over the largest |drift| at z = 0, leading beta."""
    _, f = dense_attention(classes, np.zeros((2, classes.num_tokens)))
    beta = residual_beta(f, classes.query) if on else np.eye(4) - np.linalg.inv(f @ f.T)
    drift = np.zeros_like(f)
    for n in range(4):
        for k in range(4):
            if k != n:
                drift[n] -= beta[n, k] * f[n] * (f[k] - f[n] * (f[n] @ f[k]))
    shared = [drift[n, ACROSS[n % 2]] for n in range(4)]
    return float(np.mean(shared) / np.abs(drift).max())
