"""Run sequence classes on a rung of the ladder: the table of rungs, the lower rungs as trajectories, `run_on_rung`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from snapdyn import analytic
from snapdyn.core.errors import InputError, choice
from snapdyn.core.memory import EVALUATIONS, require_affordable
from snapdyn.dynamics.classes.table import Floats, SequenceClasses
from snapdyn.dynamics.integration.driver import integrate, whole_run
from snapdyn.dynamics.integration.request import log_times
from snapdyn.dynamics.systems.base import System
from snapdyn.dynamics.systems.finite_length import FiniteLengthMeanField
from snapdyn.dynamics.systems.frozen_decoder import FrozenDecoder
from snapdyn.dynamics.systems.mean_field import MeanField
from snapdyn.dynamics.systems.modified_decoder import ModifiedDecoder
from snapdyn.dynamics.systems.reduction import LARGEST_SHARE, is_large, reduced
from snapdyn.dynamics.systems.single_common_token import SingleCommonToken
from snapdyn.dynamics.training.descent import sgd
from snapdyn.dynamics.trajectories.trajectory import Trajectory
from snapdyn.validation.observables import drop_below_maximum
from snapdyn.validation.search.instance import Instance

FINITE_T, SGD, DESCENT, MEAN_FIELD, CLOSED = "finite T", "SGD", "descent", "mean field", "closed form"
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
# Of figures and of comparisons with training: tighter than the default ones.
TOLERANCES: dict[str, Any] = {"rtol": 1e-9, "atol": 1e-11}


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


def single_common_profile(classes: SequenceClasses) -> SingleCommonProfile | None:
    """Profile of classes of one query with one common token and equal profiles; None for other classes."""
    K = classes.num_classes
    common = classes.common_tokens()
    symmetric = (
        classes.queries.size == 1
        and classes.next_tokens.size == K >= 2
        and common.size == 1
        and np.ptp(classes.prior) == 0
        and all(common[0] in classes.support(n) for n in range(K))
    )
    if not symmetric:
        return None
    P = classes.P.toarray()
    position = np.full(classes.num_tokens, -1)
    profiles = []
    for n in range(K):
        tokens = classes.distinct_tokens(n)
        tokens = tokens[np.argsort(-P[n, tokens], kind="stable")]
        position[tokens] = np.arange(tokens.size)
        profiles.append(np.append(P[n, tokens], P[n, common[0]]))
    if any(p.shape != profiles[0].shape or not np.allclose(p, profiles[0], rtol=1e-12, atol=0) for p in profiles):
        return None
    return SingleCommonProfile(profiles[0][:-1], float(profiles[0][-1]), position[classes.z_coordinates[1]])


def modified_logits(classes: SequenceClasses, t: Floats, rate: float, prefactor: float = 1.0) -> Floats:
    """w_n = prefactor (V-1) h(p_n t) zeta_n (Lemmas 5, 6) with h at `rate`, for next tokens that are all different.

    Returns
    -------
    (N, S, C) array
        Outputs: the next tokens in increasing order and, if V > S, one column for any other output.
    """
    S, V = classes.num_classes, classes.vocab_size
    zeta = np.full((S, S + (V > S)), -1.0 / (V - 1))
    zeta[np.arange(S), classes.next_index] = 1.0
    h = analytic.h(np.multiply.outer(t, classes.prior), rate, V)
    return np.asarray(prefactor * (V - 1) * h[:, :, None] * zeta)


def decoder_of_logits(classes: SequenceClasses, t: Floats, W: Floats) -> Trajectory:
    """Trajectory with attention frozen at z = 0 and Y = F G^-1 W, the decoder in the span of F with the logits W."""
    f = classes.decoder_inputs().toarray()
    rows, outputs = FrozenDecoder(classes, 1.0).decoder_ids()
    z, unknown = np.zeros((t.size, classes.z_coordinates[0].size)), np.full(t.size, np.nan)
    return Trajectory(
        classes, t, z, classes.check_z(None), unknown, "closed form", {},
        Y=f.T @ np.linalg.solve(f @ f.T, W), decoder_rows=rows, decoder_outputs=outputs,
    )  # fmt: skip


def initial_rho0(profile: SingleCommonProfile) -> float:
    """rho0 = |c_n|/c_n(common token) at the start."""
    norm = np.hypot(profile.common_probability, np.linalg.norm(profile.distinct_probabilities))
    return float(norm / profile.common_probability)


def orbit_trajectory(
    classes: SequenceClasses, eta_Y: float, eta_Z: float, t: Floats, beta: str = "leading"
) -> Trajectory:
    """Trajectory of the orbit of Section 6 (derived in `analytic.orbit`)."""
    profile, K, V = _profile(classes), classes.num_classes, classes.vocab_size
    orbit = analytic.single_common_token_orbit(
        t, profile.distinct_probabilities, profile.common_probability, K, V, eta_Y, eta_Z, beta
    )
    return _trajectory(classes, profile, eta_Y, t, orbit.z_common, orbit.z_distinct, "orbit")


def reduced_trajectory(
    classes: SequenceClasses, eta_Y: float, eta_Z: float, t: Floats, form: str = "consistent", **options: Any
) -> Trajectory:
    """Trajectory of Eq. (13), integrated numerically; `form` is "consistent" or "printed"."""
    profile, K, V = _profile(classes), classes.num_classes, classes.vocab_size
    run = integrate(SingleCommonToken(K, V, eta_Y, eta_Z, initial_rho0(profile), form), t, **options)
    if not run.success:
        return run
    z_distinct = _distinct_logits(profile, run.extra["B"][:, 0])
    return _trajectory(classes, profile, eta_Y, t, run.z_support[:, 0], z_distinct, "single common token")


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
        system_on_rung(MODIFIED, classes, eta_Y, eta_Z)  # raises where Lemma 6 does not hold
        return decoder_of_logits(classes, t, modified_logits(classes, t, eta_Y))
    profile = _profile(classes)
    arguments = t, eta_Y, eta_Z, classes.vocab_size, classes.num_classes, initial_rho0(profile)
    z_common = np.asarray(analytic.common_token_logit(*arguments, form=form))
    z_distinct = _distinct_logits(profile, np.asarray(analytic.growth_exponent(*arguments, form=form)))
    return _trajectory(classes, profile, eta_Y, t, z_common, z_distinct, "closed form")


def _profile(classes: SequenceClasses) -> SingleCommonProfile:
    profile = single_common_profile(classes)
    if profile is None:
        raise NotApplicable(
            "expected classes of one query with one common token, one profile and one weight, received other classes"
        )
    return profile


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
    z = np.where(profile.position < 0, z_common[:, None], z_distinct[:, profile.position])
    u = V * np.asarray(analytic.h(t / classes.num_classes, eta_Y, V))
    return Trajectory(classes, t, z, classes.check_z(None), np.log1p((V - 1) * np.exp(-u)), name, {})


def _distinct_logits(profile: SingleCommonProfile, B: Floats) -> Floats:
    """Logits of the distinct tokens (N, d) for a growth exponent B (N,) at constant rho0.

    z_l' = f_l^2 B' (98) with f_l = f_l(0) exp(z_l), so exp(-2 z_l) = 1 - 2 f_l(0)^2 B. The logits are NaN after the
    right side reaches 0. (Without the approximation of constant rho0, the norm of c~ has grown by then.)
    """
    f0 = profile.distinct_probabilities / (profile.common_probability * initial_rho0(profile))
    left = 1.0 - 2.0 * f0**2 * B[:, None]
    return np.asarray(-0.5 * np.log(np.where(left > 0, left, np.nan)))


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


def require_complete(runs: Sequence[Trajectory]) -> None:
    """Raise KeyboardInterrupt if Ctrl-C stopped a run, and RuntimeError with its message if a run stopped early."""
    for run in runs:
        if run.status == "interrupted":
            raise KeyboardInterrupt
        if not run.success:
            raise RuntimeError(run.message)


# Runs of an instance of a claim.

# A dense Jacobian pays up to this number of state values.
SMALL = 300
# A flow that takes more evaluations of its rate is undecided: the compiled integrator at its limit of stability, or an
# implicit solver whose equations are rounding (linearly dependent classes at late times), would go on for hours.
# 623 quick-level flows of eleven claims took up to 211,000 evaluations of compiled rates and 91,000 of others.
MOST_EVALUATIONS = {True: 500_000, False: 200_000}  # by whether the steps are compiled
FAILURE = "why the first flow failed"  # key of `Instance.runs`
MOST_VALUES = 100_000_000  # evaluations times state values, at most 25 million in those flows


def resolution(instance: Instance) -> float:
    """Absolute error that rounding leaves in a logit; solvers with a smaller tolerance follow noise.

    z' = eta_Z p_n f o (g - f (f.g)) rounds to eps of its terms, and |g| is about u = V h: eps (eta_Z/eta_Y) u^2 in
    all. So logits of the order 1/V that are below this error, at a large V, are lost.
    """
    h = np.asarray(analytic.h(instance.prior * instance.t_end, instance.eta_Y, instance.vocab_size))
    lead = instance.vocab_size * float(h.max())
    return max(1e-20, 4 * float(np.finfo(float).eps) * instance.ratio * (1 + lead**2))


def fast(instance: Instance, rung: str) -> bool:
    """Whether attention is so fast that the run is made by an explicit integrator at its limit of stability."""
    return rung == MEAN_FIELD and instance.seq_len is None and instance.ratio > 10


def noise(instance: Instance, rung: str) -> float:
    """Size below which a run's logits are only noise: `resolution` times some hundred steps.

    At the limit of stability errors are larger: up to 1e5 times `resolution` on one class, where no logit moves.
    """
    return (1e6 if fast(instance, rung) else 1e3) * resolution(instance)


def most_evaluations(size: int, compiled: bool) -> int:
    """Evaluations of the rate of `size` values that a measurement on one instance may take."""
    return max(1000, min(MOST_EVALUATIONS[compiled], MOST_VALUES // size))


def most_of_flow(classes: SequenceClasses, wanted: int | None = None) -> int | None:
    """Evaluations that a flow of a ladder or a comparison may take: `wanted`, by default as in a check.

    None where that many would take more than a few minutes: `integrate` then estimates the time of the run.
    """
    is_small = classes.num_tokens * (classes.num_next_tokens + 1) <= 40_000
    return wanted or (MOST_EVALUATIONS[True] if is_small else None)


def limited(rate: Callable[[float, Floats], Floats], size: int) -> Callable[[float, Floats], Floats]:
    """Rate in Python that raises RuntimeError after `most_evaluations`, for scipy's solvers, which have no limit."""
    allowed, made = most_evaluations(size, compiled=False), 0

    def counted(t: float, state: Floats) -> Floats:
        nonlocal made
        made += 1
        if made > allowed:
            raise RuntimeError(f"it was stopped after {allowed} evaluations of its rate, the most that are allowed")
        return rate(t, state)

    return counted


def flow(
    instance: Instance,
    rung: str,
    saves: int = 60,
    residual: bool = False,
    **options: Any,
) -> Trajectory | None:
    """Run an instance to t_end; a run that was made before with the same arguments is returned again.

    Parameters
    ----------
    instance : Instance
        The instance.
    rung : str
        MEAN_FIELD, for the instance's length of sequences, or EXACT.
    saves : int
        Number of saved times, evenly spaced in ln t.
    residual : bool
        Whether the mean field has the residual connection.
    **options : dict
        Options of the integration.

    Returns
    -------
    Trajectory or None
        None if the solver fails, if the attention vectors are linearly dependent, which the modified decoder does not
        allow, for finite sequences with the residual connection, or for sequences too short for the correction of the
        rung: a search counts such an instance as undecided.
    """
    key = (rung, saves, residual, *sorted(options.items()))
    if key not in instance.runs:
        instance.runs[key] = _run(instance, rung, saves, residual, options)
    found: Trajectory | None = instance.runs[key]
    return found


def _run(
    instance: Instance,
    rung: str,
    saves: int,
    residual: bool,
    options: dict[str, Any],
) -> Trajectory | None:
    times = log_times(1e-3 * min(100.0 / instance.eta_Y, instance.t_end), instance.t_end, saves)
    dependent = rung == EXACT and instance.eigenvalues[0] <= 1e-12
    if dependent or (residual and instance.seq_len is not None):
        return None
    finite = rung == MEAN_FIELD and instance.seq_len is not None
    arguments = {"seq_len": instance.seq_len} if finite else {"residual": residual} if rung == MEAN_FIELD else {}
    wanted = FINITE_LENGTH if finite else rung
    try:
        system = system_on_rung(wanted, instance.classes, *instance.flow_rates, z_initial=instance.start, **arguments)
    except NotApplicable as error:  # sequences too short for the correction: the statement may require infinite ones
        instance.runs.setdefault(FAILURE, str(error))
        return None
    # Where attention is fast the compiled integrator makes millions of steps a second. An implicit solver that builds
    # a Jacobian from differences never ends where logits are rounding.
    chosen: dict[str, Any] = {"method": "LSODA", "atol": resolution(instance)}
    if fast(instance, rung):
        chosen |= {"method": "compiled", "rtol": 1e-10}
    if system.size > SMALL:
        chosen = {"atol": max(resolution(instance), 1e-13)}
    if instance.solver:
        chosen = {"method": instance.solver, "rtol": 1e-10, "atol": resolution(instance)}
    compiled = chosen.get("method", "compiled") == "compiled" and instance.seq_len is None
    by_default = (chosen | options).get("method", "compiled") == "compiled"
    smaller = reduced(system, LARGEST_SHARE) if by_default and is_large(system) else None
    if smaller is None:
        require_affordable(f"a run of the rung {rung!r}", EVALUATIONS * system.multiplications)
    chosen["most_evaluations"] = most_evaluations((smaller or system).size, compiled)
    chosen = {"rtol": 1e-8, "log_time": True} | chosen | options
    if chosen.get("method") == "compiled" and finite:
        chosen["method"] = "DOP853"  # the same steps, from Python
    # In the time itself the first saved times of a short run lie inside one step: interpolation errs by per cents.
    try:
        return whole_run(system, times, **chosen)
    except RuntimeError as error:
        instance.runs.setdefault(FAILURE, str(error))
        return None


def turned_back(paths: Floats, scale: float) -> float:
    """How far paths (N, L) fall that should rise from 0, as a violation.

    If a path falls, the violation is the largest drop below a running maximum, relative to `scale`. Otherwise it is
    minus the smallest gain after the steepest part of a path, relative to the path's largest value, so that a search
    can follow it towards a fall.
    """
    with_start = np.vstack([np.zeros(paths.shape[1]), paths])
    drop = float(drop_below_maximum(with_start).max())
    if drop > 0:
        return drop / scale
    gains = np.diff(with_start, axis=0)
    late = np.arange(gains.shape[0])[:, None] >= gains.argmax(axis=0)
    return -float((np.where(late, gains, np.inf).min(axis=0) / paths.max(axis=0)).min())
