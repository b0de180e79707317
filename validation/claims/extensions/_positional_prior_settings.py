"""A positional bias at named settings: descent and SGD, finite length, sequences drawn with positions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from snapdyn.dynamics import (
    SequenceClasses,
    Trajectory,
    random_classes,
    sgd,
    syn_medium,
)
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.claims.extensions._shared import SAME_PATH, reweighted
from snapdyn.validation.dense_algebra import largest_relative, softmax
from snapdyn.validation.evidence import Evidence
from snapdyn.validation.pictures import Map
from snapdyn.validation.rungs.run import FINITE_LENGTH, run_on_rung
from snapdyn.validation.statistics import DECISIVE, fit_order, standard_error


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


def _gap(biased: Trajectory, plain: Trajectory, z0: Floats) -> float:
    """Largest |(z - z0) - z~| over the largest |z~| on the supports."""
    query, token = biased.require_classes().z_coordinates
    return largest_relative(biased.z_support - z0[query, token], plain.z_support)


def same_descents(evidence: Evidence, rng: np.random.Generator) -> float:
    """Descent and SGD with a bias and with reweighted P; largest difference, which rounding of 500 steps allows."""
    instances = [random_classes(3 + i % 3, 2, 3, 1 + i % 2, 50, ("weak", "strong")[i % 2], seed=i) for i in range(4)]
    instances += [syn_medium(3), syn_medium(10)] if evidence.full else [syn_medium(3)]
    gaps, ignored = {"descent": 0.0, "SGD": 0.0}, np.inf
    steps, record = 500, [100, 500]
    for classes in instances:
        z0 = rng.normal(size=(classes.queries.size, classes.num_tokens))
        for rung, batch in (("descent", None), ("SGD", 4)):
            biased = sgd(classes, 0.5, 0.5, steps, batch, init={"z": z0}, record=record)
            plain, unbiased = (
                sgd(c, 0.5, 0.5, steps, batch, record=record) for c in (reweighted(classes, z0), classes)
            )
            gaps[rung] = max(gaps[rung], _gap(biased, plain, z0))
            ignored = min(ignored, _gap(biased, unbiased, z0))
    what = f"z - z0 with bias z0 against z with reweighted P: largest difference, relative, {len(instances)} instances"
    for rung, value in gaps.items():
        evidence.holds(what, rung, value, at_most=1e-11)
    evidence.control("wrong theory: the bias does not matter, smallest relative difference", "descent and SGD", ignored,
                     at_most=1e-11)  # fmt: skip
    return max(gaps.values())


def finite_length(evidence: Evidence, rng: np.random.Generator) -> tuple[float, str]:
    """Order in 1/T of the difference: the counts' covariance is that of P under the bias, of P~ after reweighting."""
    classes = random_classes(4, 2, 3, 2, 50, "strong", seed=1)
    z0 = rng.normal(size=(classes.queries.size, classes.num_tokens))
    inverse = 1 / (500.0 * 2.0 ** np.arange(5))
    finite, mixed = np.array([_finite_gaps(classes, z0, round(1 / x)) for x in inverse]).T
    order, wrong = fit_order(inverse, finite, next_order=1.0), fit_order(inverse, mixed, next_order=1.0)
    name = "finite T: order in 1/T of the difference between bias and reweighting"
    evidence.holds(f"{name}, less 1", "finite T", abs(order.corrected - 1), at_most=order.margin())
    evidence.holds(f"{name}: margin", "finite T", order.margin(), at_most=DECISIVE)
    evidence.control(
        "wrong theory: the bias drops out once T is large, order in 1/T of the difference from unbiased runs, less 1",
        "finite T",
        abs(wrong.corrected - 1),
        at_most=max(wrong.margin(), order.margin()),
    )
    evidence.outside("finite T: the difference at T - 1 = 500, relative", "finite T", finite[0], at_most=SAME_PATH)
    return float(finite[0]), str(order)


def _finite_gaps(classes: SequenceClasses, z0: Floats, length: int) -> tuple[float, float]:
    """Difference at t = 30 of a run with the bias from one with reweighted P, and from one without the bias."""
    biased, plain, unbiased = (
        run_on_rung(FINITE_LENGTH, c, 1.0, 1.0, [30.0], seq_len=length, z_initial=z, rtol=1e-11, atol=1e-14)
        for c, z in ((classes, z0), (reweighted(classes, z0), None), (classes, None))
    )
    return _gap(biased, plain, z0), _gap(biased, unbiased, z0)


def sequences_with_positions(evidence: Evidence, rng: np.random.Generator) -> tuple[Floats, dict[str, Floats]]:
    """Sequences with positions, drawn and trained in plain numpy: attention's prior is sum_i exp(b_i) P(l|n, i)."""
    draws = 50_000 if evidence.full else 2000
    statistics = {dependent: _drawn(with_positions(4000, dependent), draws, rng) for dependent in (True, False)}
    eta, steps, seeds = 0.2, 300, 40 if evidence.full else 8
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
    what = "sequences with positions: largest |t statistic| of the mean attention against P~, Bonferroni 21"
    evidence.holds(what, "Monte Carlo", statistics[True][0], at_most=4.0)
    what = "tokens independent of the position: the same against plain P (the bias drops out)"
    evidence.holds(what, "Monte Carlo", statistics[False][1], at_most=4.0)
    what = "plain SGD on sequences with positions against descent on P~, z, relative"
    evidence.holds(what, "SGD", measured["bias"], at_most=allowed)
    what = "wrong theory: sequences with positions follow plain frequencies, |t statistic|"
    evidence.control(what, "Monte Carlo", statistics[True][1], at_most=4.0)
    what = "wrong theory: plain SGD with positions against descent on plain frequencies"
    evidence.control(what, "SGD", measured["no bias"], at_most=allowed)
    return mean[1000], references


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


def finite_length_map(full: bool) -> Map:
    """Difference of bias and reweighting over T - 1 and the size of the bias, mean field to second order in 1/T."""
    classes, count = random_classes(4, 2, 3, vocab_size=50, correlation="strong", seed=1), 11 if full else 5
    z0 = np.random.default_rng(29).normal(size=(1, classes.num_tokens))
    lengths, sizes = np.unique(np.geomspace(30, 1e5, count).round()), np.geomspace(0.03, 2, count)
    gaps = np.empty((count, count))
    for i, size in enumerate(sizes):
        prior = reweighted(classes, size * z0)
        for j, length in enumerate(lengths):
            biased, plain = (
                run_on_rung(FINITE_LENGTH, c, 1.0, 1.0, [30.0], seq_len=int(length), z_initial=z, rtol=1e-9, atol=1e-13)
                for c, z in ((classes, size * z0), (prior, None))
            )
            gaps[i, j] = _gap(biased, plain, size * z0)
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
