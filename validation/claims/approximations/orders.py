"""Orders: the power of its small parameter with which the error of each approximation of the ladder falls."""

from collections.abc import Iterable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from snapdyn.dynamics import SequenceClasses, single_common_token
from snapdyn.validation.claims.language import (
    DECISIVE,
    DESCENT,
    EXACT,
    FINITE_T,
    LEADING,
    MEAN_FIELD,
    REDUCED,
    SGD,
    Claim,
    Floats,
    Measured,
    Property,
    run_on_rung,
    runs_on_rung,
)
from snapdyn.validation.claims.sample_classes import strongly_correlated_classes
from snapdyn.validation.statistics import Fit, spread

TIME = 40.0  # eta t at which runs of different rates are compared
EARLY = 10.0  # the same where it is the spread of seeds that is compared: rates down to 1/1000 stay cheap
STEP, LENGTH = "descent to mean field, in eta", "bias of finite T, in 1/(T-1)"
BATCH, SPREAD = "spread of the seeds, in 1/batch", "spread of the seeds, in eta at batch 1"
MEANS = "spread of the mean, in seeds"
LENGTH_SEED = 2305


def common_logits(
    first_seed: int,
    count: int,
    eta: float = 0.05,
    batch: int = 1,
    seq_len: int | None = None,
    time: float = EARLY,
) -> Floats:
    """Common token's logit at eta t = `time` of `count` runs with their own seeds."""
    classes, seeds = strongly_correlated_classes(), range(first_seed, first_seed + count)
    record = [round(time / eta)]
    runs = runs_on_rung(FINITE_T, classes, eta, eta, record, seq_len=seq_len, batch_size=batch, seed=seeds)
    return np.array([run.z_support[0, 0] for run in runs])


def step_fit(count: int) -> Fit:
    """Largest difference of a logit between descent and the mean field, over the largest logit, in the step size."""
    rates: Floats = 0.2 * 2.0 ** -np.arange(5.0)
    gaps, single = np.empty((2, rates.size))
    for k, eta in enumerate(rates):
        run = strongly_correlated_classes(), eta, eta, [round(TIME / eta)]
        flow = run_on_rung(MEAN_FIELD, *run, rtol=1e-11, atol=1e-13).z_support
        scale = np.abs(flow).max()
        gaps[k] = np.abs(run_on_rung(DESCENT, *run).z_support - flow).max() / scale
        # One seed differs from the flow by its noise, sqrt(eta).
        seeds = runs_on_rung(SGD, *run, seed=range(90_000 + k * count, 90_000 + (k + 1) * count))
        single[k] = np.mean([np.abs(each.z_support - flow).max() for each in seeds]) / scale
    return Fit(STEP, MEAN_FIELD, rates, gaps, None, 1.0, 1.0, "one seed for descent", single)


def length_fit(count: int) -> Fit:
    """Bias of the common logit at finite T against T infinite, in 1/(T-1)."""
    lengths = np.array([32, 64, 128, 256, 512, 1024])
    infinite = common_logits(10_000, 4 * count, batch=16, time=TIME)
    finite = np.array(
        [common_logits(20_000 + k * count, count, 0.05, 16, length, TIME) for k, length in enumerate(lengths)]
    )
    error = np.hypot(finite.std(axis=1, ddof=1), infinite.std(ddof=1) / 2) / np.sqrt(count)
    # One sequence's frequencies differ from P(.|n) by 1/sqrt(T); the drift averages f over sequences.
    P = strongly_correlated_classes().P.toarray()[0]
    rng = np.random.default_rng(np.random.SeedSequence(LENGTH_SEED))
    counts = [rng.multinomial(length, P, size=20 * count)[:, 0] / length for length in lengths]
    one, bias = np.abs(np.array(counts) - P[0]).mean(axis=1), np.abs(finite.mean(axis=1) - infinite.mean())
    return Fit(LENGTH, SGD, 1 / lengths, bias, error, 1.0, 1.0, "the deviation of one sequence's frequency", one)


def spreads(samples: Iterable[Floats]) -> tuple[Floats, Floats]:
    """Spread of each sample, and its standard error, (samples,) each."""
    found, errors = np.transpose([spread(sample) for sample in samples])
    return found, errors


def spread_fits(count: int, means: int) -> list[Fit]:
    """Spread of the common logit over `count` seeds, in the rate and in the batch size, and of means over seeds.

    The last is that of `means` means over 1, 4 and 16 seeds each; every mean has runs of its own.
    """
    rates, batches, sizes = 0.2 * 4.0 ** -np.arange(5.0), np.array([1, 4, 16, 64, 256]), np.array([1, 4, 16])
    by_rate = spreads(common_logits(30_000 + k * count, count, eta) for k, eta in enumerate(rates))
    by_batch = spreads(common_logits(50_000 + k * count, count, batch=batch) for k, batch in enumerate(batches))
    of_means = spreads(
        common_logits(70_000 + 16 * k * means, means * size).reshape(means, size).mean(axis=1)
        for k, size in enumerate(sizes)
    )
    # At a fixed number of steps, not at fixed eta t, logits move less the smaller the rate.
    steps, _ = spreads(common_logits(40_000 + k * count, count, eta, time=50 * eta) for k, eta in enumerate(rates))
    # A batch of one class's sequences is one draw, at T infinite the same as a batch of one sequence.
    one_class, _ = spreads(common_logits(60_000 + k * count, count) for k in range(batches.size))
    # In place of seeds: the last 1, 4, 16 of 16 times of one run, each 1 % of the run after the other.
    end = round(EARLY / 0.05)
    record = np.linspace(0.85 * end, end, 16).round().astype(int)
    runs = runs_on_rung(SGD, strongly_correlated_classes(), 0.05, 0.05, record, seed=range(80_000, 80_000 + means))
    over_time, _ = spreads(np.array([run.z_support[-size:, 0].mean() for run in runs]) for size in sizes)
    return [
        Fit(SPREAD, SGD, rates, *by_rate, 0.5, 1.0, "50 steps at every rate", steps),
        Fit(BATCH, SGD, 1 / batches, *by_batch, 0.5, 1.0, "one class per batch", one_class),
        Fit(MEANS, SGD, sizes.astype(float), *of_means, -0.5, None, "times of one run", over_time),
    ]


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
    right, printed = (gaps(by_overlap, LEADING, REDUCED, form=form) for form in ("consistent", "printed"))
    name = "leading beta to (13), in lambda_1"
    fits = [Fit(name, REDUCED, overlap, right, None, 1.0, 1.0, "(13) as printed", printed)]
    for small, x, cases, expected in (("lambda_1", overlap, by_overlap, -1.0), ("1/V", 1 / sizes, by_size, 1.0)):
        # F4: against the mean field the leading beta is V E' off.
        right, wrong = (gaps(cases, finer, LEADING) for finer in (EXACT, MEAN_FIELD))
        name = f"exact to leading beta, in {small}"
        fits.insert(0, Fit(name, LEADING, x, right, None, expected, 1.0, "the mean field for exact beta", wrong))
    return fits


def measured_fits(level: str, factor: float | None = None) -> list[Fit]:
    """Measure every gap whose order is fitted; "full" takes `factor` times as many seeds, by default four times."""
    many = factor or (1 if level == "quick" else 4)
    return [
        step_fit(round(50 * many)),
        length_fit(round(60 * many)),
        *spread_fits(round(200 * many), round(64 * many)),
        *flow_fits(),
    ]


@cache
def fits() -> dict[str, Fit]:
    """The fits of level quick by their names."""
    return {fit.name: fit for fit in measured_fits("quick")}


def distance(name: str, wrong: bool = False) -> Measured:
    """Distance of a fitted order, or of the `wrong` theory's, from the order that theory gives.

    The bound allows for noise and for further terms of the fit.
    """
    fit = fits()[name]
    order = fit.wrong_order if wrong else fit.order.corrected
    return Measured(abs(order - fit.expected), at_most=min(fit.order.margin(), DECISIVE))


# Rung, wrong theories of its fits, names of the fits.
FITTED = (
    (MEAN_FIELD, "one seed for descent", (STEP,)),
    (
        SGD,
        "one sequence for the mean, a fixed number of steps, one class per batch, times for seeds",
        (LENGTH, SPREAD, BATCH, MEANS),
    ),
    (
        LEADING,
        "the mean field for exact beta",
        ("exact to leading beta, in 1/V", "exact to leading beta, in lambda_1"),
    ),
    (REDUCED, "(13) as printed", ("leading beta to (13), in lambda_1",)),
)

CLAIM = Claim(
    "orders",
    source="own; ladder of approximations",
    title="Every approximation errs at the order that theory gives",
    statement=(
        "At fixed eta t the gap from descent to the mean field is O(eta), the bias of sequences of length T is "
        "O(1/T), the spread of seeds is O(sqrt(eta/batch)) and that of their mean O(1/sqrt(seeds)), and the reduced "
        "system (13) errs by O(lambda_1). The leading beta errs by O(1/(V lambda_1)): it needs an overlap that is "
        "not too small."
    ),
    latex=r"O(\eta),\quad O(1/T),\quad O(\sqrt{\eta/B}),\quad O(1/\sqrt{\text{seeds}}),\quad O(\lambda_1),\quad "
    r"O\!\left(\tfrac{1}{V\lambda_1}\right)",
    conclusion=(
        "Holds: the fitted orders agree with theory, and the orders that wrong theories give do not. The fitted "
        "exponents are off by {exact to leading beta, in lambda_1:.1g} for flows, {bias of finite T, in 1/(T-1):.1g} "
        "for finite T, and {spread of the seeds, in eta at batch 1:.1g} for the spread of seeds."
    ),
    properties=tuple(
        Property(
            "distance of the fitted order from theory",
            rung,
            distance,
            controls={f"wrong theory: {wrong}": partial(distance, wrong=True)},
            cases={name: name for name in names},
        )
        for rung, wrong, names in FITTED
    ),
)
