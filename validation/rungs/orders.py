"""Gaps between rungs as powers of a small parameter: the fitted orders, and those of wrong theories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from snapdyn.dynamics.classes.synthetic import single_common_token
from snapdyn.dynamics.classes.table import Floats, SequenceClasses
from snapdyn.validation.rungs.run import (
    DESCENT,
    EXACT,
    FINITE_T,
    LEADING,
    MEAN_FIELD,
    REDUCED,
    SGD,
    run_on_rung,
    runs_on_rung,
)
from snapdyn.validation.sample_classes import strongly_correlated_classes
from snapdyn.validation.statistics import Order, fit_order

TIME = 40.0  # eta t at which runs of different rates are compared
STEP, LENGTH = "descent to mean field, in eta", "bias of finite T, in 1/(T-1)"
LENGTH_SEED = 2305
BATCH = "spread of the seeds, in 1/batch"
SPREAD = "spread of the seeds, in eta at batch 1"
EARLY = 10.0  # the same where it is the spread of seeds that is compared: rates down to 1/1000 stay cheap


class Fit(NamedTuple):
    """An order that is fitted: the gap against its small parameter, with its standard errors (None: not random).

    `expected` is the order that theory gives, `next_order` that of the next term (None: there is none). `control` names
    a wrong theory whose gaps at the same parameters are `wrong_gap`: their order must differ.
    """

    name: str
    rung: str
    parameter: Floats
    gap: Floats
    error: Floats | None
    expected: float
    next_order: float | None
    control: str = ""
    wrong_gap: Floats | tuple[()] = ()

    @property
    def order(self) -> Order:
        """Fitted order."""
        return fit_order(self.parameter, self.gap, self.error, next_order=self.next_order)

    @property
    def wrong_order(self) -> float:
        """Fitted order of the wrong theory's gaps."""
        return fit_order(self.parameter, self.wrong_gap).slope

    @property
    def agrees(self) -> bool:
        """Whether the fitted order is the expected one, within a margin that separates neighbouring orders."""
        return self.order.agrees(self.expected)


def step_fit(count: int) -> Fit:
    """Largest difference of a logit between descent and the mean field, over the largest logit, in the step size."""
    rates: Floats = 0.2 * 2.0 ** -np.arange(5.0)
    gaps, single = [], []
    for k, eta in enumerate(rates):
        classes, end = strongly_correlated_classes(), round(TIME / eta)
        flow = run_on_rung(MEAN_FIELD, classes, eta, eta, [end], rtol=1e-11, atol=1e-13).z_support
        steps = run_on_rung(DESCENT, classes, eta, eta, [end]).z_support
        gaps.append(np.abs(steps - flow).max() / np.abs(flow).max())
        runs = runs_on_rung(SGD, classes, eta, eta, [end], seed=range(90_000 + k * count, 90_000 + (k + 1) * count))
        single.append(np.mean([np.abs(run.z_support - flow).max() for run in runs]) / np.abs(flow).max())
    # One seed differs from the flow by its noise, sqrt(eta).
    return Fit(STEP, MEAN_FIELD, rates, np.array(gaps), None, 1.0, 1.0, "one seed for descent", np.array(single))


def _common_logits(
    eta: float, batch: int, first_seed: int, count: int, seq_len: int | None = None, time: float = EARLY
) -> Floats:
    """Common token's logit at eta t = `time` of `count` runs with their own seeds."""
    classes, seeds = strongly_correlated_classes(), range(first_seed, first_seed + count)
    record = [round(time / eta)]
    runs = runs_on_rung(FINITE_T, classes, eta, eta, record, seq_len=seq_len, batch_size=batch, seed=seeds)
    return np.array([run.z_support[0, 0] for run in runs])


def length_fit(count: int) -> Fit:
    """Bias of the common logit at finite T against T infinite, in 1/(T-1)."""
    lengths = np.array([32, 64, 128, 256, 512, 1024])
    infinite = _common_logits(0.05, 16, 10_000, 4 * count, None, TIME)
    finite = [
        _common_logits(0.05, 16, 20_000 + k * count, count, int(length), TIME) for k, length in enumerate(lengths)
    ]
    bias = np.array([abs(z.mean() - infinite.mean()) for z in finite])
    error = np.array([np.hypot(z.std(ddof=1), infinite.std(ddof=1) / 2) / np.sqrt(count) for z in finite])
    # One sequence's frequencies differ from P(.|n) by 1/sqrt(T); the drift averages f over sequences.
    P = strongly_correlated_classes().P.toarray()[0]
    rng = np.random.default_rng(np.random.SeedSequence(LENGTH_SEED))
    counts = [rng.multinomial(length, P, size=20 * count) / length for length in lengths]
    one = np.array([np.abs(frequency[:, 0] - P[0]).mean() for frequency in counts])
    return Fit(LENGTH, SGD, 1 / lengths, bias, error, 1.0, 1.0, "the deviation of one sequence's frequency", one)


def _spread(values: Floats) -> tuple[float, float]:
    """Standard deviation, and its standard error for a distribution with the kurtosis of the values."""
    deviation = values - values.mean()
    spread = float(values.std(ddof=1))
    kurtosis = float(np.mean(deviation**4)) / float(np.mean(deviation**2)) ** 2
    return spread, spread * np.sqrt((kurtosis - 1) / (4 * values.size))


def spread_fits(count: int) -> list[Fit]:
    """Spread of the common logit over seeds, in the rate and in the batch size."""
    rates, batches = 0.2 * 4.0 ** -np.arange(5.0), np.array([1, 4, 16, 64, 256])
    by_rate = [_spread(_common_logits(eta, 1, 30_000 + k * count, count)) for k, eta in enumerate(rates)]
    by_batch = [_spread(_common_logits(0.05, b, 50_000 + k * count, count)) for k, b in enumerate(batches)]
    # At a fixed number of steps, not at fixed eta t, logits move less the smaller the rate.
    fixed_steps = [
        _spread(_common_logits(eta, 1, 40_000 + k * count, count, time=50 * eta))[0] for k, eta in enumerate(rates)
    ]
    # A batch of one class's sequences is one draw, at T infinite the same as a batch of one sequence.
    one_class = [_spread(_common_logits(0.05, 1, 60_000 + k * count, count))[0] for k in range(batches.size)]
    return [
        _spread_fit(SPREAD, rates, by_rate, 0.5, 1.0, "50 steps at every rate", fixed_steps),
        _spread_fit(BATCH, 1 / batches, by_batch, 0.5, 1.0, "one class per batch", one_class),
    ]


def mean_spread_fit(count: int) -> Fit:
    """Spread of means over 1, 4 and 16 seeds, from `count` means each; every mean has runs of its own."""
    sizes = np.array([1, 4, 16])
    spread, over_time = [], []
    # In place of seeds: the last 1, 4, 16 of 16 times of one run, each 1 % of the run after the other.
    end = round(EARLY / 0.05)
    record = np.linspace(0.85 * end, end, 16).round().astype(int)
    runs = runs_on_rung(SGD, strongly_correlated_classes(), 0.05, 0.05, record, seed=range(80_000, 80_000 + count))
    path = np.array([run.z_support[:, 0] for run in runs])
    for k, size in enumerate(sizes):
        z = _common_logits(0.05, 1, 70_000 + 16 * k * count, count * size)
        spread.append(_spread(z.reshape(count, size).mean(axis=1)))
        over_time.append(_spread(path[:, -size:].mean(axis=1))[0])
    return _spread_fit(
        "spread of the mean, in seeds", sizes.astype(float), spread, -0.5, None, "times of one run", over_time
    )


def _spread_fit(
    name: str,
    parameter: Floats,
    spreads: list[tuple[float, float]],
    expected: float,
    next_order: float | None,
    control: str,
    wrong: list[float],
) -> Fit:
    gap, error = np.array(spreads).T
    return Fit(name, SGD, parameter, gap, error, expected, next_order, control, np.array(wrong))


def flow_fits() -> list[Fit]:
    """Orders of the rungs below the mean field: exact and leading beta, Eq. (13); common logit, slow attention."""

    def common_logit(rung: str, case: SequenceClasses, **options: Any) -> float:
        run = run_on_rung(rung, case, 1.0, 1e-4, [50.0], rtol=1e-12, atol=1e-22, **options)
        return float(run.z_support[0, 0])

    def gaps(cases: Sequence[SequenceClasses], finer: str, coarser: str, **options: Any) -> Floats:
        """Relative difference of the common logit between two rungs at t = 50; `options` are those of the coarser."""
        return np.array([abs(common_logit(coarser, c, **options) / common_logit(finer, c) - 1) for c in cases])

    sizes = 1e5 * 2.0 ** np.arange(5)
    by_size = [single_common_token(5, 4, 0.05, int(V)) for V in sizes]
    by_overlap = [single_common_token(5, 4, share, 100_000_000) for share in 0.1 * 2.0 ** (-np.arange(5) / 2)]
    overlap = np.array([float(case.eigenvalues()[0]) for case in by_overlap])

    def fit(
        name: str, x: Floats, cases: Sequence[SequenceClasses], finer: str, coarser: str, expected: float, **wrong: Any
    ) -> Fit:
        # F4: against the mean field the leading beta is V E' off.
        control = "(13) as printed" if wrong else "the mean field for exact beta"
        wrong_gap = gaps(cases, finer if wrong else MEAN_FIELD, coarser, **wrong)
        return Fit(name, coarser, x, gaps(cases, finer, coarser), None, expected, 1.0, control, wrong_gap)

    return [
        fit("exact to leading beta, in 1/V", 1 / sizes, by_size, EXACT, LEADING, 1.0),
        fit("exact to leading beta, in lambda_1", overlap, by_overlap, EXACT, LEADING, -1.0),
        fit("leading beta to (13), in lambda_1", overlap, by_overlap, LEADING, REDUCED, 1.0, form="printed"),
    ]


def measured_fits(level: str, factor: float | None = None) -> list[Fit]:
    """Measure every gap whose order is fitted; "full" takes `factor` times as many seeds, by default four times."""
    many = factor or (1 if level == "quick" else 4)
    return [
        step_fit(round(50 * many)),
        length_fit(round(60 * many)),
        *spread_fits(round(200 * many)),
        mean_spread_fit(round(64 * many)),
        *flow_fits(),
    ]
