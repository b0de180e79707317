"""The ladder: run SGD and its approximations, down to a closed form, on one clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.dynamics import (
    FrozenDecoder,
    MeanField,
    ModifiedDecoder,
    SequenceClasses,
    Trajectory,
    momentum_clock,
    sgd,
)
from snapdyn.dynamics.classes import Floats, Ints, require_independent
from snapdyn.dynamics.systems.base import checked_classes, require_one_class_per_next_token
from snapdyn.errors import InputError, choice, positive, real_array, shown, whole
from snapdyn.validation.instances import single_common_profile
from snapdyn.validation.observables import attention_observables, decoder_observables
from snapdyn.validation.rungs.closed_forms import (
    closed_form_trajectory,
    decoder_of_logits,
    initial_rho0,
    modified_logits,
    orbit_trajectory,
    reduced_trajectory,
)
from snapdyn.validation.rungs.gaps import Ladder, Rung
from snapdyn.validation.rungs.names import (
    BRANCHES,
    CLOSED,
    DESCENT,
    EXACT,
    FINITE_T,
    LEADING,
    MEAN_FIELD,
    MODIFIED,
    ORBIT,
    ORIGINAL,
    REDUCED,
    SGD,
)
from snapdyn.validation.rungs.runs import ladder_run, unfinished

RungPlan = tuple[str, str, Callable[[], Trajectory | list[Trajectory]]]


class NotApplicable(Exception):
    """A rung does not exist for these classes, or was not requested. Invalid arguments raise InputError instead."""


def ladder(
    classes: SequenceClasses,
    eta_Y: float,
    eta_Z: float,
    t_eval: ArrayLike,
    tolerance: float = 0.05,
    seeds: int = 20,
    seq_len: int | None = None,
    batch_size: int = 1,
    momentum: float = 0.0,
    form: str = "consistent",
    seed: int = 0,
    max_steps: int = 100_000,
    branch: str = "attention",
) -> Ladder:
    """Run every rung from SGD to the closed form on one clock.

    The first rungs are finite T (SGD with sequences of `seq_len` tokens) -> SGD (T infinite) -> descent (on the
    expected loss, same rates and momentum) -> mean field. The next ones depend on `branch`:

    - attention: exact beta (ModifiedDecoder) -> leading beta -> orbit (the solution of leading beta by quadrature) ->
      single common token (13) -> closed form; compared in z, attention, entropy, relative gain, growth factor;
    - decoder: original flow (7), attention frozen -> modified flow (8) -> closed form (h of Lemma 6); compared in
      the decoder's logits, loss and speed gamma.

    All rungs start from zero.

    Parameters
    ----------
    classes : SequenceClasses
        Classes of the sequences.
    eta_Y : float
        Learning rate of the decoder, per batch-size-1 step.
    eta_Z : float
        Learning rate of attention, per batch-size-1 step.
    t_eval : (N,) array
        Times in batch-size-1 steps without momentum, at least 0. If SGD or descent run, the times are rounded to
        whole steps (with momentum: to the step whose `momentum_clock` is nearest), and duplicates are removed.
    tolerance : float
        Gap, relative to the largest change of the observable, at which a rung counts as broken.
    seeds : int
        Number of independent SGD runs, whose mean is the SGD rung: 0 (no SGD) or at least 2.
    seq_len : int, optional
        T-1, contextual tokens per sequence; without it there is no finite-T rung.
    batch_size : int
        Sequences per SGD step.
    momentum : float
        Momentum of SGD and of descent, at least 0 and below 1.
    form : "consistent" or "printed"
        Form of Eq. (13) and of its closed form.
    seed : int
        SGD uses the seeds seed, ..., seed + seeds - 1; finite T uses the next ones.
    max_steps : int
        SGD and descent are left out if they need more steps.
    branch : "attention" or "decoder"
        Which approximations follow the mean field.

    Returns
    -------
    Ladder
        The rungs that apply, with their gaps, and the reasons why the others do not.

    Raises
    ------
    InputError
        If an argument is outside its range.

    Examples
    --------
    >>> import snapdyn as sd
    >>> classes = sd.single_common_token(num_classes=3, num_distinct=2, common_probability=0.3, vocab_size=50)
    >>> rungs = sd.ladder(classes, 1e-3, 1e-4, t_eval=[10.0, 1e4], seeds=0)
    >>> [rung.name for rung in rungs.rungs][:3]
    ['descent', 'mean field', 'exact beta']
    >>> rungs.first_break(tolerance=0.05).rung
    'exact beta'
    """
    classes = checked_classes(classes)
    eta_Y, eta_Z = positive("eta_Y", eta_Y), positive("eta_Z", eta_Z)
    positive("tolerance", tolerance)
    whole("seed", seed, 0)
    if seq_len is not None:
        whole("seq_len", seq_len, 1)
    if whole("seeds", seeds, 0) == 1:
        raise InputError("expected seeds of 0 or at least 2, received 1; the noise of a mean needs two runs")
    batch_size = whole("batch_size", batch_size, 1)
    choice("form", form, ("consistent", "printed"))
    choice("branch", branch, BRANCHES)
    decoder = branch == "decoder"
    times, steps = rounded_steps(t_eval, momentum, whole("max_steps", max_steps, 1))

    def descend(seeds: Sequence[int], batch_size: int | None, seq_len: int | None = None) -> list[Trajectory]:
        if steps is None:
            raise NotApplicable(f"more than max_steps = {max_steps} steps to t = {times[-1]:.4g}")
        if not seeds:
            raise NotApplicable("seeds = 0")
        last = int(steps[-1])
        runs = sgd(
            classes, eta_Y, eta_Z, last, batch_size, seq_len, momentum, record=steps, seed=seeds, save_decoder=decoder
        )
        return [replace(run, t=times) for run in runs]

    def finite_T() -> list[Trajectory]:
        if seq_len is None:
            raise NotApplicable("seq_len is None, sequences are infinitely long")
        return descend(range(seed + seeds, seed + 2 * seeds), batch_size, seq_len)

    eta = max(eta_Y, eta_Z)
    upper: list[RungPlan] = [
        (FINITE_T, "", finite_T),
        (
            SGD,
            "Sequences become infinitely long: f is curved in the token counts, a bias of order 1/(T-1)"
            + (f" = {1 / seq_len:.2g}." if seq_len else "."),
            lambda: descend(range(seed, seed + seeds), batch_size),
        ),
        (
            DESCENT,
            "The drawn classes are averaged: seeds spread by the order of sqrt(eta/batch) = "
            f"{np.sqrt(eta / batch_size):.2g}, and their mean is biased by its square.",
            lambda: descend([seed], None),
        ),
        (
            MEAN_FIELD,
            f"Steps become a flow: order eta/(1-momentum) = {eta / (1 - momentum):.2g}.",
            lambda: ladder_run(MeanField(classes, eta_Y, eta_Z), times, decoder),
        ),
    ]
    if decoder:
        lower, observe = _decoder_branch(classes, eta_Y, eta_Z, times), decoder_observables
    else:
        lower, observe = _attention_branch(classes, eta_Y, eta_Z, times, form), attention_observables
    rungs: list[Rung] = []
    absent: dict[str, str] = {}
    approximations: list[tuple[str, str]] = []  # approximations of this rung and of the absent rungs above it
    for name, approximation, run in upper + lower:
        outcome = attempt(run)
        approximations.append((name, approximation))
        if isinstance(outcome, str):
            absent[name] = outcome
            continue
        names = " and ".join(skipped for skipped, _ in approximations)
        together = f"{names} together: " if len(approximations) > 1 else ""
        why = together + " ".join(reason for _, reason in approximations) if rungs else ""
        rungs.append(Rung(name, outcome, why, observe))
        approximations = []
    return Ladder(times, tuple(rungs), absent, tolerance, eta_Z / eta_Y)


def _attention_branch(classes: SequenceClasses, eta_Y: float, eta_Z: float, times: Floats, form: str) -> list[RungPlan]:
    """Rungs below the mean field at which attention moves."""
    profile = single_common_profile(classes)

    def modified(beta: str) -> Trajectory:
        _require_modified_flow(classes)
        return ladder_run(ModifiedDecoder(classes, eta_Y, eta_Z, beta), times)

    def symmetric(closed: Callable[..., Trajectory], *arguments: Any) -> Trajectory:
        if profile is None:
            raise NotApplicable("the classes do not share one query, one common token, one profile and one weight")
        return closed(classes, profile, eta_Y, eta_Z, times, *arguments)

    K, V = classes.num_classes, classes.vocab_size
    beta = _beta_scale(classes)
    return [
        (
            EXACT,
            f"The decoder follows the modified flow: beta is {beta} in place of the original flow's 1/(V-1) = "
            f"{1 / (V - 1):.2g} (F4), and old attention is forgotten, eta_Z/eta_Y = {eta_Z / eta_Y:.2g} (F10).",
            lambda: modified("exact"),
        ),
        (LEADING, f"beta = E' ({beta}) drops a term of order 1/V = {1 / V:.2g}.", lambda: modified("leading")),
        (ORBIT, "Nothing is given up: the orbit is exact for equal profiles.", lambda: symmetric(orbit_trajectory)),
        (
            REDUCED,
            "rho0 is taken constant, beta_nk = f_n.f_k and 1 - f_n.f_k = 1: order (K-1)/rho0^2"
            + ("" if profile is None else f" = {(K - 1) / initial_rho0(profile) ** 2:.2g}")
            + ", and rho0 drifts as the logits move.",
            lambda: symmetric(reduced_trajectory, form),
        ),
        (
            CLOSED,
            "Nothing is given up: (13) is integrated in closed form.",
            lambda: symmetric(closed_form_trajectory, form),
        ),
    ]


def _decoder_branch(classes: SequenceClasses, eta_Y: float, eta_Z: float, times: Floats) -> list[RungPlan]:
    """Rungs below the mean field at which attention is frozen at its start."""

    def modified() -> Trajectory:
        _require_modified_flow(classes)
        return ladder_run(FrozenDecoder(classes, eta_Y, modified=True), times, save_decoder=True)

    def closed() -> Trajectory:
        _require_modified_flow(classes)
        return decoder_of_logits(classes, times, modified_logits(classes, times, eta_Y))

    return [
        (
            ORIGINAL,
            f"Attention is frozen at its start: eta_Z/eta_Y = {eta_Z / eta_Y:.2g}.",
            lambda: ladder_run(FrozenDecoder(classes, eta_Y), times, save_decoder=True),
        ),
        (MODIFIED, f"Classes no longer move each other's logits: {_beta_scale(classes)} (F2).", modified),
        (CLOSED, "Nothing is given up: h solves (45).", closed),
    ]


def rounded_steps(t_eval: ArrayLike, momentum: float, max_steps: int) -> tuple[Floats, Ints | None]:
    """Times of the ladder and the corresponding steps; no steps (None) if more than `max_steps` are needed."""
    times = real_array("t_eval", t_eval)
    if times.ndim != 1 or times.size == 0 or not np.isfinite(times).all() or times.min() < 0:
        raise InputError(f"expected t_eval as finite times of at least 0, received {shown(t_eval)}")
    times = np.unique(times)
    momentum_clock(0, momentum)  # checks the momentum
    # The clock of step i lies above (i - mu/(1-mu))/(1-mu).
    needed = times[-1] * (1 - momentum) + momentum / (1 - momentum)
    if needed > max_steps:
        return times, None
    clock = momentum_clock(np.arange(int(needed) + 2), momentum)
    steps = np.unique(np.searchsorted((clock[1:] + clock[:-1]) / 2, times))
    return clock[steps], steps


def _require_modified_flow(classes: SequenceClasses) -> None:
    try:
        require_one_class_per_next_token(classes, "the modified flow")
        require_independent(classes.gram())
    except InputError as error:
        raise NotApplicable(str(error)) from error


def attempt(run: Callable[[], Trajectory | list[Trajectory]]) -> tuple[Trajectory, ...] | str:
    """Run a rung; return its runs, or the reason why it does not exist or why a run stopped early."""
    try:
        result = run()
    except NotApplicable as error:
        return str(error)
    runs = (result,) if isinstance(result, Trajectory) else tuple(result)
    return unfinished(runs) or runs


def _beta_scale(classes: SequenceClasses) -> str:
    try:
        E_prime = classes.E_prime()
    except InputError:
        return "not defined"
    largest = float(np.abs(E_prime - np.diag(np.diag(E_prime))).max())
    return f"of order E' = {largest:.2g}"
