"""Clocks: what a step of training is worth in the time of Eq. (10) and of the mean field."""

from __future__ import annotations

import numpy as np
from scipy.special import stdtrit

from snapdyn.dynamics import (
    MeanField,
    ModifiedDecoder,
    SequenceClasses,
    log_times,
    momentum_clock,
    random_classes,
    single_common_token,
    whole_run,
)
from snapdyn.dynamics.classes import Floats
from snapdyn.validation.checks import Check
from snapdyn.validation.maps.momentum import momentum_map
from snapdyn.validation.pictures import Picture
from snapdyn.validation.register import Evidence, claim
from snapdyn.validation.rungs import ladder
from snapdyn.validation.rungs.names import DESCENT, EXACT, SGD
from snapdyn.validation.rungs.runs import trained
from snapdyn.validation.statistics import fit_order, order_checks, standard_error

MOMENTUM = 0.9
LAG = MOMENTUM / (1 - MOMENTUM)  # steps by which the velocity trails
SIGNIFICANCE = 0.01


def strongly_correlated_classes() -> SequenceClasses:
    """Three strongly correlated classes of one query: logits move far, and runs are cheap."""
    return random_classes(3, num_common=1, num_distinct=3, vocab_size=50, correlation="strong", seed=1)


@claim(
    "clock",
    source="Eq. (10), Theorem 4",
    title="The clock of Eq. (10)",
    statement="Attention follows Eq. (10), a plain sum over classes, on the clock t of the training steps on which "
    "gamma takes s = t/K. Corrected: each class carries its prior p_n; without it (10) runs K times faster than SGD.",
    latex=r"\dot z_m=\eta_Z\gamma\sum_{n}f_n\circ\dots\ \to\ \dot z_m=\eta_Z\gamma\sum_{n}p_n\,f_n\circ\dots",
    expected="corrected",
    assumptions=("V E' small, so that the modified decoder moves attention as the original flow does", "small rates"),
    findings=("F7",),
)
def clock(level: str) -> Evidence:
    K, eta = 5, 0.05
    # V = K: V E' = 0.03 here, and beta of the modified flow exceeds that of the original one by that share.
    classes = single_common_token(K, 5, 0.04, K)
    steps = ladder(classes, eta, eta, log_times(10, 4000, 30), seeds=40 if level == "quick" else 400, batch_size=1)
    per_round = steps.with_rung(EXACT, whole_run(ModifiedDecoder(classes, eta, K * eta), steps.t))
    bound = classes.vocab_size * float(classes.E_prime()[0, 1]) + eta
    right, wrong = (rungs.compare(SGD, EXACT).resolved.sel(observable="z") for rungs in (steps, per_round))
    named = per_round.first_break(0.2)
    faster = per_round[EXACT].observables["z"][0, 0] / steps[SGD].observables["z"][0, 0]
    exact_ratio = per_round[EXACT].observables["z"][0, 0] / steps[EXACT].observables["z"][0, 0]
    slower = steps.with_rung(EXACT, whole_run(ModifiedDecoder(classes, eta, eta / K), steps.t))
    return Evidence(
        checks=[
            Check("SGD against (10) as printed, z, beyond the seeds' noise", "SGD", float(wrong.max()), bound),
            Check(
                "SGD against (10) with p_n, z, beyond the seeds' noise: bound V E' + eta",
                "SGD",
                float(right.max()),
                bound,
                role="corrected",
            ),
            Check(
                "|early z without p_n over z with p_n - K|/K",
                "modified decoder",
                abs(exact_ratio / K - 1),
                # The drift depends on z through exp(2 z), so the ratio strays from K by the order of z.
                2 * float(np.abs(per_round[EXACT].observables["z"][0]).max()),
                role="corrected",
            ),
            Check(
                "the ladder names this rung when (10) is put in without p_n (1: yes)",
                "modified decoder",
                float(named is not None and named.rung == EXACT),
                1.0,
                ">=",
                role="corrected",
            ),
            Check(
                "wrong theory: p_n squared, SGD against it, z",
                "SGD",
                float(slower.compare(SGD, EXACT).resolved.sel(observable="z").max()),
                bound,
                role="control",
            ),
        ],
        conclusion=f"With p_n, (10) stays within {float(right.max()):.1%} of the mean of SGD (K = V = 5). As printed "
        f"it runs {exact_ratio:.3f} times too fast: at t = {steps.t[0]:g} its common logit is {faster:.1f} times that "
        "of SGD.",
        picture=Picture(
            "t (batch-size-1 steps)",
            "common logit",
            (
                Picture.line("Eq. (10) with p_n", steps.t, steps[EXACT].observables["z"][:, 0]),
                Picture.line("Eq. (10) as printed", steps.t, per_round[EXACT].observables["z"][:, 0], "printed"),
                Picture.line("SGD, mean of the seeds", steps.t, steps[SGD].observables["z"][:, 0], "simulation"),
            ),
        ),
    )


@claim(
    "momentum-clock",
    source="own; clock of Section 6's experiments",
    title="Momentum runs the clock 1/(1-mu) times faster, late",
    statement="Step i of (stochastic) gradient descent with heavy-ball momentum mu is time i/(1-mu) of the mean field. "
    "It holds late, with an error of order 1/i, and not in the first 1/(1-mu) steps.",
    latex=r"t=\frac{i}{1-\mu}\quad(i\gg\tfrac{1}{1-\mu}),\qquad "
    r"t_i=\frac{1}{1-\mu}\Bigl(i-\mu\frac{1-\mu^i}{1-\mu}\Bigr)",
    expected="conditional",
    assumptions=("eta i/(1-mu) much below 1: gradients change little", "i much larger than 1/(1-mu)"),
)
def momentum_clock_claim(level: str) -> Evidence:
    classes, eta = strongly_correlated_classes(), 1e-6
    start = np.log(classes.vocab_size)
    i = np.unique(np.geomspace(1, 1000, 31 if level == "quick" else 121).round().astype(int))
    descent = trained(classes, eta, eta, i, None, momentum=MOMENTUM)[0]

    def error(t: Floats) -> tuple[Floats, Floats]:
        """Relative error of the loss's fall (decoder) and of z, on a clock."""
        flow = whole_run(MeanField(classes, eta, eta), t, rtol=1e-11, atol=1e-20)
        fall = np.abs((start - flow.loss) / (start - descent.loss) - 1)
        moved = np.abs(descent.z_support).max(axis=1)
        z = np.abs(flow.z_support - descent.z_support).max(axis=1) / np.where(moved > 0, moved, np.nan)
        return fall, z

    first_order, z_first_order = error(i / (1 - MOMENTUM))
    build_up, z_build_up = error(momentum_clock(i, MOMENTUM))
    without, _ = error(i.astype(float))
    late, early = i >= 10 / (1 - MOMENTUM), i <= 1 / (1 - MOMENTUM)
    # The next term: every lag D enters as D/i, D^2/i^2, ...
    orders = {
        name: fit_order(i[late], values[late], next_order=-1.0)
        for name, values in (("loss", first_order), ("z", z_first_order))
    }
    worst, allowed = _point_by_point(classes, MOMENTUM, level)
    worst_plain, _ = _point_by_point(classes, 0.0, level)
    return Evidence(
        maps=(momentum_map(level),),
        checks=[
            # At a constant gradient the step is worth i - D (1 - mu^i) steps on this clock, D = mu/(1-mu).
            Check(
                "clock i/(1-mu), fall of the loss, i >= 10/(1-mu): error over D/(i-D)",
                "descent",
                float((first_order * (i - LAG) / LAG)[late].max()),
                1.0,
            ),
            *order_checks("clock i/(1-mu), error of the loss in i", DESCENT, orders["loss"], -1.0, -2.0),
            *order_checks("clock i/(1-mu), error of z in i", DESCENT, orders["z"], -1.0, -2.0),
            # The gradient changes by the share eta t over the run.
            Check(
                "build-up clock, fall of the loss, every step from the first: error over eta t",
                "descent",
                float((build_up / (eta * momentum_clock(i, MOMENTUM))).max()),
                1.0,
            ),
            Check(
                "mean of SGD with momentum against descent with momentum, point by point, in standard errors",
                "SGD",
                worst,
                allowed,
            ),
            Check(
                "clock i/(1-mu), first 1/(1-mu) steps: largest error of the loss's fall",
                "descent",
                float(first_order[early].max()),
                0.05,
                role="outside",
            ),
            Check(
                "build-up clock, first 1/(1-mu) steps: largest error of z, which builds up twice",
                "descent",
                float(np.nanmax(z_build_up[early])),
                0.05,
                role="outside",
            ),
            Check(
                "wrong theory: t = i, i >= 10/(1-mu): smallest error over D/(i-D)",
                "descent",
                float((without * (i - LAG) / LAG)[late].min()),
                1.0,
                role="control",
            ),
            Check(
                "wrong theory: SGD with momentum against descent without, in standard errors",
                "SGD",
                worst_plain,
                allowed,
                role="control",
            ),
        ],
        conclusion=(
            f"mu = 0.9: the clock i/(1-mu) overstates the fall of the loss {1 + first_order[0]:.1f} times at step 1 "
            f"and by {first_order[late][0]:.1%} at step {i[late][0]} (z: by {z_first_order[late][0]:.0%}); from there "
            f"the errors fall as 1/i (slopes: loss {orders['loss']}; z {orders['z']}). The build-up clock has the "
            f"decoder right from step 1 (within {np.max(build_up):.0e}), but not z, which trails twice "
            f"({z_build_up[late][0]:.0%} at step {i[late][0]}). The mean of SGD stays within {worst:.1f} standard "
            f"errors of descent with momentum (quantile {allowed:.1f})."
        ),
        picture=Picture(
            "step i of descent with momentum 0.9",
            "relative error of the mean field",
            (
                Picture.line("D/(i-D)", i[i > LAG], LAG / (i - LAG)[i > LAG], "bound"),
                Picture.line("fall of the loss, t = i/(1-mu)", i, first_order, "simulation"),
                Picture.line("z, t = i/(1-mu)", i[1:], z_first_order[1:], "control"),
                Picture.line("z, build-up clock", i[1:], z_build_up[1:], "printed"),
            ),
            yscale="log",
            verticals=(("1/(1-mu)", 1 / (1 - MOMENTUM)),),
        ),
    )


def _point_by_point(classes: SequenceClasses, momentum: float, level: str) -> tuple[float, float]:
    """Largest |mean of SGD - descent| in standard errors of the mean, and its quantile at SIGNIFICANCE over all points.

    SGD has momentum MOMENTUM, descent has `momentum` and runs on the first-order clock of the other. The mean of SGD
    is biased by the order of the squared spread: a share sqrt(eta seeds/batch) = 0.1 of its standard error.
    """
    eta, seeds = 0.005 * (1 - MOMENTUM), 40 if level == "quick" else 400
    batch = 64 if level == "quick" else 640
    steps = np.unique(np.geomspace(5, 2000, 12).round().astype(int))
    runs = trained(classes, eta, eta, steps, batch, range(seeds), momentum=MOMENTUM)
    z = np.array([run.z_support for run in runs])
    scale = 1 if momentum else round(1 / (1 - MOMENTUM))
    descent = trained(classes, eta, eta, steps * scale, None, momentum=momentum)[0].z_support
    score = np.abs(z.mean(axis=0) - descent) / standard_error(z)
    return float(score.max()), float(stdtrit(seeds - 1, 1 - SIGNIFICANCE / (2 * score.size)))
