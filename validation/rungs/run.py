"""Run sequence classes on a rung of the ladder: the table of rungs, the lower rungs as trajectories, `run_on_rung`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from snapdyn import analytic
from snapdyn.core.errors import InputError, choice
from snapdyn.dynamics.classes.table import Floats, SequenceClasses
from snapdyn.dynamics.integration.driver import whole_run
from snapdyn.dynamics.systems.base import System
from snapdyn.dynamics.systems.finite_length import FiniteLengthMeanField
from snapdyn.dynamics.systems.frozen_decoder import FrozenDecoder
from snapdyn.dynamics.systems.mean_field import MeanField
from snapdyn.dynamics.systems.modified_decoder import ModifiedDecoder
from snapdyn.dynamics.systems.single_common_token import SingleCommonToken
from snapdyn.dynamics.training.descent import sgd
from snapdyn.dynamics.training.steps import TraceClock
from snapdyn.dynamics.trajectories.trajectory import Trajectory
from snapdyn.validation.rungs.gaps import DESCENT

FINITE_T, SGD, MEAN_FIELD, CLOSED = "finite T", "SGD", "mean field", "closed form"
EXACT, LEADING, ORBIT, REDUCED = "exact beta", "leading beta", "orbit", "single common token"
ORIGINAL, MODIFIED = "original flow", "modified flow"
FINITE_LENGTH = "finite length"

UPPER = (FINITE_T, SGD, DESCENT, MEAN_FIELD)
# From the finest rung to the coarsest: each approximates the one before it. Below the mean field the ladder forks:
# attention with the decoder given, the decoder with attention frozen.
BRANCHES = {
    "attention": (*UPPER, EXACT, LEADING, ORBIT, REDUCED, CLOSED),
    "decoder": (*UPPER, ORIGINAL, MODIFIED, CLOSED),
}
# Tolerances of figures and of comparisons with training, tighter than the default ones.
TOLERANCES: dict[str, Any] = {"rtol": 1e-9, "atol": 1e-11}
# A flow that takes more evaluations of its rate is undecided: the compiled integrator at its limit of stability, or an
# implicit solver whose equations are rounding (linearly dependent classes at late times), would go on for hours.
# 623 quick-level flows of eleven claims took up to 211,000 evaluations of compiled rates and 91,000 of others.
MOST_EVALUATIONS = {True: 500_000, False: 200_000}  # by whether the steps are compiled


class NotApplicable(InputError):
    """A rung does not exist for these classes, or was not requested."""


class SingleCommonProfile(NamedTuple):
    """Profile of symmetric classes: the decreasing probabilities (d,) of distinct tokens, and the common token's.

    `position` (nz,) gives, for every logit of classes.z_coordinates, the index of its token's distinct probability; -1
    is the common token.
    """

    distinct_probabilities: Floats
    common_probability: float
    position: NDArray[np.int64]

    @property
    def rho0(self) -> float:
        """|c_n|/c_n(common token) at the start."""
        norm = np.hypot(self.common_probability, np.linalg.norm(self.distinct_probabilities))
        return float(norm / self.common_probability)


def single_common_profile(classes: SequenceClasses) -> SingleCommonProfile | None:
    """Profile of classes of one query with one common token and equal profiles; None for other classes."""
    K, common = classes.num_classes, classes.common_tokens()
    one_query = classes.queries.size == 1 and classes.next_tokens.size == K >= 2 and np.ptp(classes.prior) == 0
    if not one_query or common.size != 1 or np.ptp(np.diff(classes.P.indptr)):
        return None
    tokens, probabilities = classes.P.indices.reshape(K, -1), classes.P.data.reshape(K, -1)
    is_common = tokens == common[0]
    if not is_common.any(axis=1).all():
        return None
    order = np.argsort(np.where(is_common, -np.inf, -probabilities), axis=1, kind="stable")  # the common token first
    tokens, profiles = (np.take_along_axis(values, order, axis=1) for values in (tokens, probabilities))
    if not np.allclose(profiles, profiles[0], rtol=1e-12, atol=0):
        return None
    position = np.empty(classes.num_tokens, dtype=np.int64)
    position[tokens] = np.arange(tokens.shape[1]) - 1
    return SingleCommonProfile(profiles[0, 1:], float(profiles[0, 0]), position[classes.z_coordinates[1]])


def _profile(classes: SequenceClasses) -> SingleCommonProfile:
    profile = single_common_profile(classes)
    if profile is None:
        raise NotApplicable(
            "expected classes of one query with one common token, one profile and one weight, received other classes"
        )
    return profile


def orbit_trajectory(
    classes: SequenceClasses, eta_Y: float, eta_Z: float, t: Floats, beta: str = "leading"
) -> Trajectory:
    """Trajectory of the orbit of Section 6 (derived in `analytic.orbit`)."""
    profile = _profile(classes)
    orbit = analytic.single_common_token_orbit(
        t, *profile[:2], classes.num_classes, classes.vocab_size, eta_Y, eta_Z, beta
    )
    return _trajectory(classes, profile, eta_Y, t, orbit.z_common, orbit.z_distinct, ORBIT)


def reduced_trajectory(
    classes: SequenceClasses, eta_Y: float, eta_Z: float, t: Floats, form: str = "consistent", **options: Any
) -> Trajectory:
    """Trajectory of Eq. (13), integrated numerically; `form` is "consistent" or "printed"."""
    profile = _profile(classes)
    system = SingleCommonToken(classes.num_classes, classes.vocab_size, eta_Y, eta_Z, profile.rho0, form)
    run = whole_run(system, t, **options)
    z_distinct = _distinct_logits(profile, run.extra["B"][:, 0])
    return _trajectory(classes, profile, eta_Y, t, run.z_support[:, 0], z_distinct, REDUCED)


def closed_form_trajectory(
    classes: SequenceClasses,
    eta_Y: float,
    eta_Z: float,
    t: Floats,
    form: str = "consistent",
    branch: str = "attention",
) -> Trajectory:
    """Trajectory of the closed form of Eq. (13), or of h of Lemma 6 (branch "decoder", attention frozen at z = 0)."""
    if branch == "decoder":
        return _decoder_trajectory(classes, eta_Y, t)
    profile = _profile(classes)
    arguments = t, eta_Y, eta_Z, classes.vocab_size, classes.num_classes, profile.rho0
    z_common = np.asarray(analytic.common_token_logit(*arguments, form=form))
    z_distinct = _distinct_logits(profile, np.asarray(analytic.growth_exponent(*arguments, form=form)))
    return _trajectory(classes, profile, eta_Y, t, z_common, z_distinct, CLOSED)


def _trajectory(
    classes: SequenceClasses,
    profile: SingleCommonProfile,
    eta_Y: float,
    t: Floats,
    z_common: Floats,
    z_distinct: Floats,
    name: str,
) -> Trajectory:
    """Trajectory with the logits of the common token (N,) and of the distinct tokens (N, d)."""
    V = classes.vocab_size
    z = np.column_stack([z_distinct, z_common])[:, profile.position]  # position -1: the last column
    u = V * np.asarray(analytic.h(t / classes.num_classes, eta_Y, V))
    return Trajectory(classes, t, z, classes.check_z(None), np.log1p((V - 1) * np.exp(-u)), name, {})


def _distinct_logits(profile: SingleCommonProfile, B: Floats) -> Floats:
    """Logits of the distinct tokens (N, d) for a growth exponent B (N,) at constant rho0.

    z_l' = f_l^2 B' (98) with f_l = f_l(0) exp(z_l), so exp(-2 z_l) = 1 - 2 f_l(0)^2 B. The logits are NaN after the
    right side reaches 0. (Without the approximation of constant rho0, the norm of c~ has grown by then.)
    """
    f0 = profile.distinct_probabilities / (profile.common_probability * profile.rho0)
    left = 1.0 - 2.0 * f0**2 * B[:, None]
    return np.asarray(-0.5 * np.log(np.where(left > 0, left, np.nan)))


def _decoder_trajectory(classes: SequenceClasses, eta_Y: float, t: Floats) -> Trajectory:
    """Trajectory of Lemmas 5 and 6: attention at z = 0, Y = F G^-1 W with the logits w_n = (V-1) h(p_n t) zeta_n.

    The outputs are the next tokens in increasing order and, if V > S, one column for any other output.
    """
    rows, outputs = system_on_rung(MODIFIED, classes, eta_Y, eta_Y).decoder_ids()
    S, V = classes.num_classes, classes.vocab_size
    zeta = np.full((S, S + (V > S)), -1.0 / (V - 1))
    zeta[np.arange(S), classes.next_index] = 1.0
    W = (V - 1) * analytic.h(np.multiply.outer(t, classes.prior), eta_Y, V)[:, :, None] * zeta
    f = classes.decoder_inputs().toarray()
    z, unknown = np.zeros((t.size, classes.z_coordinates[0].size)), np.full(t.size, np.nan)
    return Trajectory(
        classes, t, z, classes.check_z(None), unknown, CLOSED, {},
        Y=f.T @ np.linalg.solve(f @ f.T, W), decoder_rows=rows, decoder_outputs=outputs,
    )  # fmt: skip


class Flow(NamedTuple):
    """A rung that integrates a system, built as system(classes, eta_Y, eta_Z, ...) with the options in `arguments`."""

    system: Callable[..., System]
    arguments: tuple[str, ...] = ("z_initial",)


def _frozen(classes: SequenceClasses, eta_Y: float, eta_Z: float, **options: Any) -> FrozenDecoder:
    return FrozenDecoder(classes, eta_Y, **options)


def _training(
    classes: SequenceClasses, eta_Y: float, eta_Z: float, times: ArrayLike, **options: Any
) -> Trajectory | list[Trajectory]:
    return sgd(classes, eta_Y, eta_Z, int(np.max(times)), record=times, **options)


# What each rung is: its system or its training, with the options of `run_on_rung` that belong to it.
RUNGS: dict[str, Flow | Callable[..., Trajectory | list[Trajectory]]] = {
    FINITE_T: _training,  # seq_len (None: infinite), batch_size, momentum, seed, and further options of `sgd`
    SGD: partial(_training, seq_len=None),
    DESCENT: partial(_training, seq_len=None, batch_size=None),
    MEAN_FIELD: Flow(MeanField, ("z_initial", "residual")),
    FINITE_LENGTH: Flow(FiniteLengthMeanField, ("z_initial", "seq_len")),
    EXACT: Flow(partial(ModifiedDecoder, beta="exact")),
    LEADING: Flow(partial(ModifiedDecoder, beta="leading")),
    ORBIT: orbit_trajectory,  # beta
    REDUCED: reduced_trajectory,  # form, and options of `integrate`
    CLOSED: closed_form_trajectory,  # form, branch
    ORIGINAL: Flow(_frozen, ("z_initial", "residual")),
    MODIFIED: Flow(partial(_frozen, modified=True)),
}


def system_on_rung(rung: str, classes: SequenceClasses, eta_Y: float, eta_Z: float, **arguments: Any) -> System:
    """Build the system that a rung integrates; raise NotApplicable where it is not defined for these classes."""
    entry = RUNGS[rung]
    assert isinstance(entry, Flow), f"{rung} integrates no system of classes"
    try:
        return entry.system(classes, eta_Y, eta_Z, **arguments)
    except InputError as error:
        raise NotApplicable(str(error)) from error


def run_on_rung(
    rung: str, classes: SequenceClasses, eta_Y: float, eta_Z: float, times: ArrayLike, **options: Any
) -> Trajectory:
    """Run sequence classes on a rung to the last time, or raise an error: verdicts and figures need complete runs.

    Parameters
    ----------
    rung : str
        A key of `RUNGS`.
    classes : SequenceClasses
    eta_Y : float
        Learning rate of the decoder, per batch-size-1 step.
    eta_Z : float
        Learning rate of attention, per batch-size-1 step; the original and the modified flow do not use it.
    times : (N,) array
        Saved times in batch-size-1 steps; for SGD and descent the numbers of updates, whole numbers.
    **options : dict
        Options of the rung, as `RUNGS` lists them: z_initial, seq_len, residual, batch_size, momentum, seed, beta,
        form, branch. Further options are those of `integrate` or of `sgd`.

    Returns
    -------
    Trajectory

    Raises
    ------
    NotApplicable
        The rung does not exist for these classes (an InputError).
    InputError
        The rung is unknown, or an option is outside its range.
    KeyboardInterrupt
        If Ctrl-C stopped a run.
    RuntimeError
        If a run failed or diverged, with the message of the run.

    Examples
    --------
    >>> import snapdyn as sd
    >>> from snapdyn.validation.rungs.run import MEAN_FIELD, run_on_rung
    >>> run_on_rung(MEAN_FIELD, sd.syn_small(), 1.0, 0.1, [1.0, 10.0], rtol=1e-9)
    Trajectory(MeanField, 2 times, t = 1..10, finished)
    """
    (run,) = runs_on_rung(rung, classes, eta_Y, eta_Z, times, **options)
    return run


def runs_on_rung(
    rung: str, classes: SequenceClasses, eta_Y: float, eta_Z: float, times: ArrayLike, **options: Any
) -> list[Trajectory]:
    """Run as `run_on_rung` does, where `seed` may be a sequence: one run per seed."""
    entry, times = RUNGS[choice("rung", rung, RUNGS)], np.asarray(times)
    if isinstance(entry, Flow):
        arguments = {name: options.pop(name) for name in entry.arguments if name in options}
        return [whole_run(system_on_rung(rung, classes, eta_Y, eta_Z, **arguments), times, **options)]
    found = entry(classes, eta_Y, eta_Z, times, **options)
    runs = [found] if isinstance(found, Trajectory) else found
    require_complete(runs)
    return runs


def of_rule(classes: SequenceClasses, eta_Y: float, eta_Z: float, clock: TraceClock, **options: Any) -> MeanField:
    """The mean field under the rule of a clock, at infinite length, with the noise of its batches where v sees it."""
    has_map = all(rule.numbers.beta2 > 0.0 or not rule.numbers.adaptive for rule in clock.rules)
    noise = clock.batch_size if has_map else None
    return MeanField(classes, eta_Y, eta_Z, optimizer=clock.rules, batch_size=noise, **options)


def require_complete(runs: list[Trajectory]) -> None:
    """Raise KeyboardInterrupt if Ctrl-C stopped a run, and RuntimeError with its message if a run stopped early."""
    for run in not_interrupted(runs):
        if not run.success:
            raise RuntimeError(run.message)


def not_interrupted(runs: list[Trajectory]) -> list[Trajectory]:
    """Return the runs; raise KeyboardInterrupt if Ctrl-C stopped one, whose record is not that of the whole run."""
    if any(run.status == "interrupted" for run in runs):
        raise KeyboardInterrupt
    return runs


def most_of_flow(classes: SequenceClasses, wanted: int | None = None) -> int | None:
    """Evaluations that a flow of a ladder or a comparison may take: `wanted`, by default as in a check.

    None where that many would take more than a few minutes: `integrate` then estimates the time of the run.
    """
    is_small = classes.num_tokens * (classes.num_next_tokens + 1) <= 40_000
    return wanted or (MOST_EVALUATIONS[True] if is_small else None)
