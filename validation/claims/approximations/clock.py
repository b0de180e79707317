"""The clock of Eq. (10): priors of the classes, and the steps of SGD."""

from dataclasses import replace
from functools import cache, partial

import numpy as np

from snapdyn.core.memory import EVALUATIONS, require_affordable
from snapdyn.dynamics import Trajectory, log_times, single_common_token
from snapdyn.validation.claims.attention._shared import MODIFIED_FLOW
from snapdyn.validation.claims.language import (
    EXACT,
    MODIFIED,
    SEVERAL,
    SGD,
    Claim,
    Instance,
    Measured,
    NoNumber,
    Property,
    attention_drift,
    kept_on_instance,
    modified_decoder_gradient,
    most_evaluations,
    resolution,
    run_on_rung,
)
from snapdyn.validation.rungs.build import ladder
from snapdyn.validation.rungs.gaps import Ladder
from snapdyn.validation.rungs.run import system_on_rung

DOMAIN = replace(SEVERAL, name="Eq. (10), any priors", ratio=(1e-3, 10.0), horizon=(1.0, 1e4))
# The five-point difference over this relative step errs by its fourth power; the solver's error is divided by it.
STEP = 3e-3
# SGD: five classes with V = 5, so that V E' is small, and the rate of both layers.
EQUAL_CLASSES, RATE = single_common_token(5, 5, 0.04, 5), 0.05


@kept_on_instance
def end_of_run(instance: Instance) -> Trajectory:
    """Run of Eq. (10) at five times about t_end."""
    times, allowed = instance.t_end * (1 + STEP * np.arange(-2, 3)), most_evaluations(instance.P.size, True)
    arguments = EXACT, *instance.setting, times
    system = system_on_rung(EXACT, instance.classes, 1.0, 1.0)
    require_affordable(f"a run of the rung {EXACT!r}", EVALUATIONS * system.multiplications)
    try:
        return run_on_rung(*arguments, z_initial=instance.start, rtol=1e-11, atol=1e-18, most_evaluations=allowed)
    except RuntimeError as error:
        raise NoNumber(f"the run failed ({error})") from error


def difference(instance: Instance, power: int) -> Measured:
    """Slope dz/dt of a run of Eq. (10) near t_end against the mean update of one step with p_n^`power`.

    The update is that of (4) when class n is drawn, T infinite, with Y of the modified flow, by dense linear algebra.
    Both slope and update are multiplied by t.
    """
    run = end_of_run(instance)
    z, classes = run.z[2], instance.classes
    g = modified_decoder_gradient(classes, z, run.extra["h"][2]) * classes.prior[:, None] ** (power - 1)
    update = instance.t_end * attention_drift(classes, z, g, instance.eta_Z)
    near, far = (run.z[3] - run.z[1]) / (2 * STEP), (run.z[4] - run.z[0]) / (4 * STEP)
    slope = (4 * near - far) / 3
    # Solver and rounding: 1e-11 of the logits over the step.
    scale = np.abs(update).max() + 1e-4 * np.abs(run.z).max()
    error = resolution(instance) / (STEP * scale) + 0.1 * np.abs(slope - near).max() / scale
    return Measured(np.abs(slope - update).max() / scale, at_most=1e-3, error=error)


@cache
def rungs_of_equal_classes() -> Ladder:
    """Ladder at small rates, with 40 seeds of SGD of one sequence per step."""
    return ladder(EQUAL_CLASSES, RATE, RATE, log_times(10, 4000, 30), seeds=40, batch_size=1)


def gap_of_sgd(factor: float) -> Measured:
    """Gap of z between SGD and Eq. (10) with `factor` times p_n, beyond the noise of the seeds."""
    rungs = rungs_of_equal_classes()
    run = run_on_rung(EXACT, EQUAL_CLASSES, RATE, factor * RATE, rungs.t)
    gaps = rungs.with_rung(EXACT, run).compare(SGD, EXACT)
    # SGD follows the original flow, whose beta differs by the share V E', in steps.
    bound = 5 * EQUAL_CLASSES.E_prime()[0, 1] + RATE
    return Measured(gaps.resolved.sel(observable="z").max(), at_most=bound)


CLAIM = Claim(
    "clock",
    source="Eq. (10), Theorem 4",
    title="In Eq. (10), one unit of time is one training step",
    statement=(
        "Attention follows Eq. (10), a plain sum over classes, where t counts the training steps and gamma is taken at "
        "s = t/K. Corrected: each class carries its prior p_n; without p_n, (10) runs K times faster than SGD."
    ),
    latex=r"\dot z_m=\eta_Z\gamma\sum_{n}f_n\circ\dots\ \to\ \dot z_m=\eta_Z\gamma\sum_{n}p_n\,f_n\circ\dots",
    conditions=(
        "any classes with next tokens of their own, for the update of one step under (8), averaged over the drawn "
        "class",
        "V E' and the rates small, for SGD itself: then the modified decoder moves attention as the original flow does",
    ),
    conclusion=(
        "Each class needs its prior p_n: for equal priors, (10) as printed runs K times faster than SGD. At K = V = "
        "5 the logits of (10) with p_n stay within {K = V = 5, with p_n:.1%} of the mean of SGD; those of (10) as "
        "printed differ from it by {K = V = 5, as printed:.0%}."
    ),
    expected="corrected",
    properties=(
        Property(
            "slope of z in Eq. (10) with p_n against the mean update of one step",
            MODIFIED,
            partial(difference, power=1),
            DOMAIN,
            conditions=MODIFIED_FLOW,
            controls={
                "wrong theory (F7): the plain sum over classes, as printed": partial(difference, power=0),
                "wrong theory: p_n squared": partial(difference, power=2),
            },
            corrected=True,
        ),
        Property(
            "SGD against (10), z, beyond the noise of the seeds",
            SGD,
            gap_of_sgd,
            controls={"wrong theory: p_n squared in SGD": lambda factor: gap_of_sgd(factor / 5)},
            corrected=True,
            cases={"K = V = 5, with p_n": 1.0},
        ),
        Property(
            "SGD against the plain sum of (10), z, beyond the noise of the seeds",
            SGD,
            gap_of_sgd,
            cases={"K = V = 5, as printed": 5.0},
        ),
    ),
    findings=("F7",),
)
