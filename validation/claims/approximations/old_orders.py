"""Orders: how fast every approximation of the ladder gets better with its small parameter."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from snapdyn.dynamics import (
    MeanField,
    ModifiedDecoder,
    SequenceClasses,
    SingleCommonToken,
    System,
    single_common_token,
    whole_run,
)
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.claims.approximations.old_clocks import strongly_correlated_classes
from snapdyn.validation.pictures import Line, Picture
from snapdyn.validation.register import Evidence, claim
from snapdyn.validation.rungs.names import LEADING, MEAN_FIELD, REDUCED, SGD
from snapdyn.validation.rungs.runs import trained
from snapdyn.validation.statistics import Order, fit_order, order_checks

TIME = 40.0  # eta t at which runs of different rates are compared
STEP, LENGTH = "descent to mean field, in eta", "bias of finite T, in 1/(T-1)"
SPREAD = "spread of the seeds, in eta at batch 1"
EARLY = 10.0  # the same where it is the spread of seeds that is compared: rates down to 1/1000 stay cheap


class Fit(NamedTuple):
    """What is fitted: the gap against its small parameter with its standard errors (None: not random), and the order.

    `expected` is the order that theory gives, `wrong` one that must be rejected, `next_order` that of the next term
    (None: there is none).
    """

    name: str
    rung: str
    parameter: Floats
    gap: Floats
    error: Floats | None
    expected: float
    wrong: float
    next_order: float | None = 1.0

    @property
    def order(self) -> Order:
        """Fitted order."""
        return fit_order(self.parameter, self.gap, self.error, next_order=self.next_order)


@claim(
    "orders",
    source="own; ladder of approximations",
    title="Every approximation has its order",
    statement="At fixed eta t the gap from descent to the mean field is O(eta), the bias of sequences of length T is "
    "O(1/T), seeds spread by O(sqrt(eta/batch)) and their mean by 1/sqrt(seeds), the reduced system (13) errs by "
    "O(lambda_1). The leading beta errs by O(1/(V lambda_1)): it needs an overlap that is not too small.",
    latex=r"O(\eta),\quad O(1/T),\quad O(\sqrt{\eta/B}),\quad O(1/\sqrt{\text{seeds}}),\quad O(\lambda_1),\quad "
    r"O\!\left(\tfrac{1}{V\lambda_1}\right)",
)
def orders(level: str) -> Evidence:
    fits = measured_fits(level)
    by_name = {fit.name: fit for fit in fits}
    steps, rates = (by_name[name].parameter / by_name[name].parameter[0] for name in (STEP, SPREAD))
    return Evidence(
        checks=[
            check for fit in fits for check in order_checks(fit.name, fit.rung, fit.order, fit.expected, fit.wrong)
        ],
        conclusion="Fitted slopes (± standard error, part of the next term): "
        + "; ".join(f"{fit.name}: {fit.order}" for fit in fits)
        + ".",
        picture=Picture(
            "small parameter, over its largest",
            "gap, over its largest",
            (
                _normalised("descent to mean field, eta", by_name[STEP]),
                _normalised("bias of finite T, 1/(T-1)", by_name[LENGTH]),
                _normalised("spread of seeds, eta", by_name[SPREAD]),
                Picture.line("slope 1", steps, steps, "bound"),
                Picture.line("slope 1/2", rates, np.sqrt(rates), "bound"),
            ),
            yscale="log",
        ),
    )


def measured_fits(level: str) -> list[Fit]:
    """Every gap whose order is fitted, measured; "full" takes four times as many seeds."""
    many = 1 if level == "quick" else 4
    rates: Floats = 0.2 * 2.0 ** -np.arange(5.0)
    lengths = np.array([32, 64, 128, 256, 512, 1024])
    bias, bias_error = _length_bias(lengths, 60 * many)
    return [
        Fit(STEP, MEAN_FIELD, rates, np.array([_step_gap(eta) for eta in rates]), None, 1.0, 2.0),
        Fit(LENGTH, SGD, 1 / lengths, bias, bias_error, 1.0, 0.5),
        *_spreads(200 * many),
        _mean_spread(64 * many),
        *_flow_orders(),
    ]


def _normalised(label: str, fit: Fit) -> Line:
    return Picture.line(label, fit.parameter / fit.parameter[0], fit.gap / fit.gap[0], "simulation")


def _step_gap(eta: float) -> float:
    """Largest difference of a logit between descent and the mean field, over the largest logit."""
    classes, end = strongly_correlated_classes(), round(TIME / eta)
    steps = trained(classes, eta, eta, [end], None)[0].z_support
    flow = whole_run(MeanField(classes, eta, eta), [end], rtol=1e-11, atol=1e-13).z_support
    return float(np.abs(steps - flow).max() / np.abs(flow).max())


def _common_logits(
    eta: float, batch: int, first_seed: int, count: int, seq_len: int | None = None, time: float = EARLY
) -> Floats:
    """Common token's logit at eta t = `time` of `count` runs with their own seeds."""
    end, seeds = round(time / eta), range(first_seed, first_seed + count)
    runs = trained(strongly_correlated_classes(), eta, eta, [end], batch, seeds, seq_len=seq_len)
    return np.array([run.z_support[0, 0] for run in runs])


def _length_bias(lengths: NDArray[np.int64], count: int) -> tuple[Floats, Floats]:
    """Bias of the common logit at finite T against T infinite, and its standard error."""
    infinite = _common_logits(0.05, 16, 10_000, 4 * count, None, TIME)
    finite = [
        _common_logits(0.05, 16, 20_000 + k * count, count, int(length), TIME) for k, length in enumerate(lengths)
    ]
    bias = np.array([abs(z.mean() - infinite.mean()) for z in finite])
    error = np.array([np.hypot(z.std(ddof=1), infinite.std(ddof=1) / 2) / np.sqrt(count) for z in finite])
    return bias, error


def _spread(values: Floats) -> tuple[float, float]:
    """Standard deviation, and its own standard error for a distribution with the kurtosis of the values."""
    deviation = values - values.mean()
    spread = float(values.std(ddof=1))
    kurtosis = float(np.mean(deviation**4)) / float(np.mean(deviation**2)) ** 2
    return spread, spread * np.sqrt((kurtosis - 1) / (4 * values.size))


def _spreads(count: int) -> list[Fit]:
    """Spread of the common logit over seeds, in the rate and in the batch size."""
    rates, batches = 0.2 * 4.0 ** -np.arange(5.0), np.array([1, 4, 16, 64, 256])
    by_rate = [_spread(_common_logits(eta, 1, 30_000 + k * count, count)) for k, eta in enumerate(rates)]
    by_batch = [_spread(_common_logits(0.05, b, 50_000 + k * count, count)) for k, b in enumerate(batches)]
    return [
        _spread_fit(SPREAD, rates, by_rate, 0.5, 1.0, 1.0),
        _spread_fit("spread of the seeds, in 1/batch", 1 / batches, by_batch, 0.5, 1.0, 1.0),
    ]


def _mean_spread(count: int) -> Fit:
    """Spread of means over 1, 4, 16 seeds, `count` means each, every mean from runs of its own."""
    sizes = np.array([1, 4, 16])
    spread = []
    for k, size in enumerate(sizes):
        z = _common_logits(0.05, 1, 70_000 + 16 * k * count, count * size)
        spread.append(_spread(z.reshape(count, size).mean(axis=1)))
    return _spread_fit("spread of the mean, in seeds", sizes.astype(float), spread, -0.5, 0.0, None)


def _spread_fit(
    name: str,
    parameter: Floats,
    spreads: list[tuple[float, float]],
    expected: float,
    wrong: float,
    next_order: float | None,
) -> Fit:
    gap, error = np.array(spreads).T
    return Fit(name, SGD, parameter, gap, error, expected, wrong, next_order)


def _flow_orders() -> list[Fit]:
    """Orders of the rungs below the mean field: exact and leading beta, Eq. (13); common logit, slow attention."""
    rates = 1.0, 1e-4

    def exact(case: SequenceClasses) -> System:
        return ModifiedDecoder(case, *rates, "exact")

    def leading(case: SequenceClasses) -> System:
        return ModifiedDecoder(case, *rates, "leading")

    def reduced(case: SequenceClasses) -> System:
        weights = case.P.toarray()[0]
        return SingleCommonToken(5, case.vocab_size, *rates, float(np.linalg.norm(weights) / weights[0]))

    def gap(case: SequenceClasses, *rungs: Callable[[SequenceClasses], System]) -> float:
        """Relative difference of the common logit between two rungs at t = 50."""
        finer, coarser = (whole_run(rung(case), [50.0], rtol=1e-12, atol=1e-22).z_support[0, 0] for rung in rungs)
        return float(abs(coarser / finer - 1))

    sizes = 1e5 * 2.0 ** np.arange(5)
    in_V = [gap(single_common_token(5, 4, 0.05, int(V)), exact, leading) for V in sizes]
    by_overlap = [single_common_token(5, 4, share, 100_000_000) for share in 0.1 * 2.0 ** (-np.arange(5) / 2)]
    overlap = [float(case.eigenvalues()[0]) for case in by_overlap]
    in_overlap = [gap(case, exact, leading) for case in by_overlap]
    to_reduced = [gap(case, leading, reduced) for case in by_overlap]
    return [
        Fit("exact to leading beta, in 1/V", LEADING, 1 / sizes, np.array(in_V), None, 1.0, 0.5),
        Fit("exact to leading beta, in lambda_1", LEADING, np.array(overlap), np.array(in_overlap), None, -1.0, 1.0),
        Fit("leading beta to (13), in lambda_1", REDUCED, np.array(overlap), np.array(to_reduced), None, 1.0, 2.0),
    ]
