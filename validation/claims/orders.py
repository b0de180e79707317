"""Orders: how fast every approximation of the ladder gets better with its small parameter."""

from __future__ import annotations

from collections.abc import Callable

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
from snapdyn.validation.claims.clocks import strongly_correlated_classes
from snapdyn.validation.ladder import LEADING, MEAN_FIELD, REDUCED, SGD, trained
from snapdyn.validation.orders import Order, fit_order, order_checks
from snapdyn.validation.register import Evidence, claim
from snapdyn.validation.results import Line, Picture
from snapdyn.validation.tools import Floats

TIME = 40.0  # eta t at which runs of different rates are compared
EARLY = 10.0  # the same where it is the spread of seeds that is compared: rates down to 1/1000 stay cheap
# What is fitted: name, rung, fitted order, expected order, an order that is wrong.
Fit = tuple[str, str, Order, float, float]


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
    many = 1 if level == "quick" else 4
    rates: Floats = 0.2 * 2.0 ** -np.arange(5.0)
    flow = np.array([_step_gap(eta) for eta in rates])
    lengths = np.array([32, 64, 128, 256, 512, 1024])
    bias, bias_error = _length_bias(lengths, 60 * many)
    spread_rates = 0.2 * 4.0 ** -np.arange(5.0)
    spread, spread_fits = _spreads(spread_rates, 200 * many)
    fits: list[Fit] = [
        ("descent to mean field, in eta", MEAN_FIELD, fit_order(rates, flow, next_order=1.0), 1.0, 2.0),
        (
            "bias of finite T, in 1/(T-1)",
            SGD,
            fit_order(1 / lengths, bias, bias_error, next_order=1.0),
            1.0,
            0.5,
        ),
        *spread_fits,
        _mean_spread(64 * many),
        *_flow_orders(),
    ]
    return Evidence(
        checks=[
            check
            for name, rung, order, expected, wrong in fits
            for check in order_checks(name, rung, order, expected, wrong)
        ],
        conclusion="Fitted slopes (± standard error, part of the next term): "
        + "; ".join(f"{name}: {order}" for name, _, order, _, _ in fits)
        + ".",
        picture=Picture(
            "small parameter, over its largest",
            "gap, over its largest",
            (
                _normalised("descent to mean field, eta", rates, flow),
                _normalised("bias of finite T, 1/(T-1)", 1 / lengths, bias),
                _normalised("spread of seeds, eta", spread_rates, spread),
                _normalised("slope 1", rates, rates, "bound"),
                _normalised("slope 1/2", spread_rates, np.sqrt(spread_rates), "bound"),
            ),
            yscale="log",
        ),
    )


def _normalised(label: str, x: Floats, y: Floats, kind: str = "simulation") -> Line:
    return Picture.line(label, x / x[0], y / y[0], kind)


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


def _spreads(rates: Floats, count: int) -> tuple[Floats, list[Fit]]:
    """Spread of the common logit over seeds by rate, and the fits in the rate and in the batch size."""
    by_rate = np.array([_spread(_common_logits(eta, 1, 30_000 + k * count, count)) for k, eta in enumerate(rates)])
    batches = np.array([1, 4, 16, 64, 256])
    by_batch = np.array([_spread(_common_logits(0.05, b, 50_000 + k * count, count)) for k, b in enumerate(batches)])
    in_rate = fit_order(rates, by_rate[:, 0], by_rate[:, 1], next_order=1.0)
    in_batch = fit_order(1 / batches, by_batch[:, 0], by_batch[:, 1], next_order=1.0)
    return by_rate[:, 0], [
        ("spread of the seeds, in eta at batch 1", SGD, in_rate, 0.5, 1.0),
        ("spread of the seeds, in 1/batch", SGD, in_batch, 0.5, 1.0),
    ]


def _mean_spread(count: int) -> Fit:
    """Spread of means over 1, 4, 16 seeds, `count` means each, every mean from runs of its own."""
    sizes = np.array([1, 4, 16])
    spread = []
    for k, size in enumerate(sizes):
        z = _common_logits(0.05, 1, 70_000 + 16 * k * count, count * size)
        spread.append(_spread(z.reshape(count, size).mean(axis=1)))
    return "spread of the mean, in seeds", SGD, fit_order(sizes, *np.array(spread).T), -0.5, 0.0


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
        ("exact to leading beta, in 1/V", LEADING, fit_order(1 / sizes, in_V, next_order=1.0), 1.0, 0.5),
        ("exact to leading beta, in lambda_1", LEADING, fit_order(overlap, in_overlap, next_order=1.0), -1.0, 1.0),
        ("leading beta to (13), in lambda_1", REDUCED, fit_order(overlap, to_reduced, next_order=1.0), 1.0, 2.0),
    ]
