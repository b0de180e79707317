"""The ladder: run training and its approximations, down to a closed form, on one clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.core.errors import (
    LARGEST_WHOLE,
    InputError,
    choice,
    finite_array,
    fraction,
    function,
    instance,
    optional_function,
    positive,
    time_array,
    whole,
)
from snapdyn.core.memory import require_memory
from snapdyn.dynamics.classes.table import Floats, Ints, SequenceClasses
from snapdyn.dynamics.integration.driver import integrate
from snapdyn.dynamics.systems.base import System, checked_classes
from snapdyn.dynamics.training.explicit_steps import descend, descend_samples
from snapdyn.dynamics.training.steps import momentum_clock
from snapdyn.dynamics.trajectories.trajectory import Trajectory
from snapdyn.validation.phases import attention_observables, decoder_observables
from snapdyn.validation.rungs.gaps import DESCENT, FLOW, STOCHASTIC, Ladder, Rung
from snapdyn.validation.rungs.run import (
    BRANCHES,
    CLOSED,
    EXACT,
    FINITE_T,
    LEADING,
    MEAN_FIELD,
    MODIFIED,
    ORBIT,
    ORIGINAL,
    REDUCED,
    SGD,
    NotApplicable,
    most_of_flow,
    require_complete,
    runs_on_rung,
    single_common_profile,
)

# Far below the gaps between the rungs.
PRECISION: dict[str, Any] = {"rtol": 1e-9, "atol": 1e-12}

# Name, what the rung gives up, and how it runs.
RungPlan = tuple[str, str, Callable[[], Iterable[Trajectory]]]


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
        Number of independent SGD runs, whose mean is the SGD rung: 0 (no SGD) or at least 2. SGD uses the seeds
        0, ..., seeds - 1; finite T uses the next ones.
    seq_len : int, optional
        T-1, contextual tokens per sequence; without it there is no finite-T rung.
    batch_size : int
        Sequences per SGD step.
    momentum : float
        Momentum of SGD and of descent, at least 0 and below 1.
    form : "consistent" or "printed"
        Form of Eq. (13) and of its closed form.
    max_steps : int
        SGD and descent are left out if they need more steps. Flows of small tables are left out if they need more
        evaluations of their rate than this and than 500,000.
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
    if seq_len is not None:
        whole("seq_len", seq_len, 1)
    if whole("seeds", seeds, 0) == 1:
        raise InputError("expected seeds of 0 or at least 2, received 1; the noise of a mean needs two runs")
    batch_size = whole("batch_size", batch_size, 1)
    choice("form", form, ("consistent", "printed"))
    choice("branch", branch, BRANCHES)
    times, steps = rounded_steps(t_eval, momentum, whole("max_steps", max_steps, 1))
    decoder = branch == "decoder"
    precise = PRECISION | {"most_evaluations": most_of_flow(classes, max_steps if max_steps > 500_000 else None)}
    training = {"momentum": momentum, "save_decoder": decoder}
    drawn = training | {"batch_size": batch_size}
    options: dict[str, dict[str, Any]] = {
        FINITE_T: drawn | {"seq_len": seq_len, "seed": range(seeds, 2 * seeds)},
        SGD: drawn | {"seed": range(seeds)},
        DESCENT: training | {"seed": (0,)},
        ORBIT: {},
        REDUCED: precise | {"form": form},
        CLOSED: {"form": form, "branch": branch},
    }

    def run(name: str) -> list[Trajectory]:
        given = options.get(name, precise | {"save_decoder": decoder})
        if "momentum" not in given:
            return runs_on_rung(name, classes, eta_Y, eta_Z, times, **given)
        if name == FINITE_T and seq_len is None:
            raise NotApplicable("seq_len is None, sequences are infinitely long")
        record = required_steps(steps, max_steps, times)
        if not given["seed"]:
            raise NotApplicable("seeds = 0")
        return [each.changed(t=times) for each in runs_on_rung(name, classes, eta_Y, eta_Z, record, **given)]

    gives_up = _approximations(classes, eta_Y, eta_Z, batch_size, momentum, seq_len)
    if decoder:
        gives_up[CLOSED] = "Nothing is given up: h solves (45)."
    plans = [(name, gives_up[name], partial(run, name)) for name in BRANCHES[branch]]
    rungs, absent = climb(plans, decoder_observables if decoder else attention_observables)
    return Ladder(times, rungs, absent, tolerance, eta_Z / eta_Y)


def ladder_of(
    system: System,
    t_eval: ArrayLike,
    step_size: float = 1.0,
    sample_update: Callable[..., Any] | None = None,
    closed_form: Callable[[Floats], Any] | None = None,
    momentum: float = 0.0,
    seeds: int = 20,
    seed: int = 0,
    tolerance: float = 0.05,
    max_steps: int = 100_000,
) -> Ladder:
    """Run the rungs of a theory on one clock: stochastic -> descent -> flow -> closed form.

    Parameters
    ----------
    system : System
        A system without sequence classes, as `System.from_sympy` makes it: its rate gives descent and flow.
    t_eval : (N,) array
        Times of the flow, at least 0. They are rounded to whole steps (with momentum: to the step whose
        `momentum_clock` is nearest); 0 is added.
    step_size : float
        h of `descend`: the time of the flow that one step without momentum takes.
    sample_update : callable, optional
        As for `descend_samples`; without it there is no stochastic rung.
    closed_form : callable, optional
        ``closed_form(t)`` returns the states (N, size) at N times, or a mapping from names of observables or state
        values to their values (N, ...): the ladder then compares these.
    momentum : float
        Heavy-ball momentum of both rungs that make steps; only for rates that do not depend on time.
    seeds : int
        Number of stochastic runs, whose mean is the rung; at least 2.
    seed : int
        The runs have the seeds seed, ..., seed + seeds - 1.
    tolerance : float
        Gap, relative to the largest change of the observable, at which a rung counts as broken.
    max_steps : int
        The stochastic rung and descent are left out if they need more steps.

    Returns
    -------
    Ladder
        With `orders()`.

    Raises
    ------
    InputError
        An argument is out of range, the system has sequence classes (see `ladder`), or the closed form has a wrong
        shape.

    Examples
    --------
    >>> import numpy as np
    >>> import snapdyn as sd, sympy
    >>> u = sympy.Symbol("u")
    >>> decay = sd.System.from_sympy("Decay", {u: 1.0}, {u: -u})
    >>> rungs = sd.ladder_of(decay, [0.5, 1.0], 0.01, closed_form=lambda t: {"u": np.exp(-t)})
    >>> [rung.name for rung in rungs.rungs]
    ['descent', 'flow', 'closed form']
    >>> rungs.first_break() is None
    True
    """
    instance("system", system, System, "make it with System.from_sympy")
    if system.has_z:
        raise InputError(f"expected a system without attention logits, received {system.name}; use sd.ladder")
    size = positive("step_size", step_size)
    if fraction("momentum", momentum) and not system.is_autonomous:
        raise InputError(
            f"expected momentum=0 for a rate that depends on time, received {momentum:g}; with momentum, steps "
            "take the rate at other times than the flow"
        )
    positive("tolerance", tolerance)
    optional_function("sample_update", sample_update)
    seed, seeds = whole("seed", seed, 0), whole("seeds", seeds, 2)
    scaled = np.append(finite_array("t_eval", t_eval).ravel() / size, 0.0)
    times, steps = rounded_steps(scaled, momentum, whole("max_steps", max_steps, 1))
    times = times * size
    given = None if closed_form is None else function("closed_form", closed_form)(times)
    names = tuple(given) if isinstance(given, Mapping) else None

    def observe(run: Trajectory) -> dict[str, Floats]:
        found = {"state": run.require_state()} | run.observables if names is None else {}
        found |= {name: run.observable(name) for name in names or ()}
        return {name: values.reshape(run.t.size, -1) for name, values in found.items()}

    def run(name: str) -> list[Trajectory]:
        if name == FLOW:
            return [integrate(system, times, **PRECISION)]
        if name == CLOSED:
            return [_closed_trajectory(system, times, given)]
        if name == STOCHASTIC and sample_update is None:
            raise NotApplicable("no sample_update")
        record = required_steps(steps, max_steps, times)
        plan: dict[str, Any] = {"steps": int(record[-1]), "step_size": size, "momentum": momentum, "record": record}
        if name == DESCENT or sample_update is None:
            runs = [descend(system, **plan)]
        else:
            runs = list(descend_samples(system, sample_update, seed=range(seed, seed + seeds), **plan))
        return [each.changed(t=times) if each.success else each for each in runs]

    def halved(k: int, count: int | None) -> tuple[float, Ladder]:
        count = count or 10 * seeds
        h, first, no_limit = size / 2**k, seed + seeds + k * count, LARGEST_WHOLE
        return h, ladder_of(system, times, h, sample_update, None, momentum, count, first, tolerance, no_limit)

    effective = size / (1 - momentum)
    gives_up = {
        STOCHASTIC: "",
        DESCENT: f"Samples are averaged: seeds spread by the order of sqrt({effective:.2g}).",
        FLOW: f"Steps become a flow: order step_size/(1 - momentum) = {effective:.2g}.",
        CLOSED: "Nothing is given up if the closed form solves the flow.",
    }
    climbed = climb([(name, why, partial(run, name)) for name, why in gives_up.items()], observe)
    return Ladder(times, *climbed, tolerance, halved=halved)


def _closed_trajectory(system: System, times: Floats, given: Any) -> Trajectory:
    """Return the states or the observables that a closed form gives as a trajectory."""
    if given is None:
        raise NotApplicable("no closed_form")
    start = integrate(system, [0.0])
    name = f"closed form of {system.name}"
    if not isinstance(given, Mapping):
        advice = "return a row for each time, or a mapping of names to values"
        state = finite_array("closed_form", given, (times.size, system.size), advice=advice)
        return start.changed(t=times, system=name, state=state, observables=system.observables(state))
    observables = {}
    for key, values in given.items():
        shape = (times.size, *start.observable(key).shape[1:])
        observables[key] = finite_array(f"closed_form {key!r}", values, shape, advice="return one value for each time")
    return start.changed(t=times, system=name, state=None, state_shapes={}, observables=observables)


def climb(
    plans: Iterable[RungPlan], observe: Callable[[Trajectory], dict[str, Floats]]
) -> tuple[tuple[Rung, ...], dict[str, str]]:
    """Run rungs from the finest to the coarsest; return those that have complete runs, and why the others do not.

    If the rungs just above a rung are absent, its approximation includes theirs.
    """
    rungs: list[Rung] = []
    absent: dict[str, str] = {}
    skipped: dict[str, str] = {}  # approximations of this rung and of the absent rungs above it
    for name, approximation, run in plans:
        skipped[name] = approximation
        try:
            runs = tuple(run())
            require_complete(list(runs))
        except (NotApplicable, RuntimeError) as error:
            absent[name] = str(error)
            continue
        why = " ".join(skipped.values())
        if len(skipped) > 1:
            why = f"{' and '.join(skipped)} together: {why}"
        rungs.append(Rung(name, runs, why if rungs else "", observe))
        skipped = {}
    return tuple(rungs), absent


def _approximations(
    classes: SequenceClasses, eta_Y: float, eta_Z: float, batch_size: int, momentum: float, seq_len: int | None
) -> dict[str, str]:
    """What each rung neglects relative to the rung above, with the size of this in the setting."""
    K, V = classes.num_classes, classes.vocab_size
    profile = single_common_profile(classes)
    order = "" if profile is None else f" = {(K - 1) / profile.rho0**2:.2g}"
    bias = f" = {1 / seq_len:.2g}" if seq_len else ""
    eta, ratio, beta = max(eta_Y, eta_Z), eta_Z / eta_Y, _beta_scale(classes)
    return {
        FINITE_T: "",
        SGD: "Sequences become infinitely long: f is nonlinear in the token counts, which gives a bias of order "
        f"1/(T-1){bias}.",
        DESCENT: "The drawn classes are averaged: seeds spread by the order of sqrt(eta/batch) = "
        f"{np.sqrt(eta / batch_size):.2g}, and their mean has a bias of the order of its square.",
        MEAN_FIELD: f"Steps become a flow: order eta/(1-momentum) = {eta / (1 - momentum):.2g}.",
        EXACT: f"The decoder follows the modified flow: beta is {beta} in place of the original flow's 1/(V-1) = "
        f"{1 / (V - 1):.2g} (F4), and old attention is forgotten, eta_Z/eta_Y = {ratio:.2g} (F10).",
        LEADING: f"beta = E' ({beta}) drops a term of order 1/V = {1 / V:.2g}.",
        ORBIT: "Nothing is given up: the orbit is exact for equal profiles.",
        REDUCED: f"rho0 is taken constant, beta_nk = f_n.f_k and 1 - f_n.f_k = 1: order (K-1)/rho0^2{order}, but rho0 "
        "changes as the logits move.",
        CLOSED: "Nothing is given up: (13) is integrated in closed form.",
        ORIGINAL: f"Attention is frozen at its start: eta_Z/eta_Y = {ratio:.2g}.",
        MODIFIED: f"Classes no longer move each other's logits: {beta} (F2).",
    }


def rounded_steps(t_eval: ArrayLike, momentum: float, max_steps: int) -> tuple[Floats, Ints | None]:
    """Times of the ladder and the corresponding steps; no steps (None) if more than `max_steps` are needed."""
    times = time_array("t_eval", t_eval, ("N",))
    times = np.unique(times)
    momentum_clock(0, momentum)  # checks the momentum
    # The clock of step i lies above (i - mu/(1-mu))/(1-mu).
    needed = times[-1] * (1 - momentum) + momentum / (1 - momentum)
    if needed > max_steps:
        return times, None
    # The clock of every step, its neighbours' means, and copies.
    require_memory(f"the clock of {needed:.4g} steps", 40.0 * needed, "an earlier last time, or a smaller max_steps")
    clock = momentum_clock(np.arange(int(needed) + 2), momentum)
    steps = np.unique(np.searchsorted((clock[1:] + clock[:-1]) / 2, times))
    return clock[steps], steps


def required_steps(steps: Ints | None, max_steps: int, times: Floats) -> Ints:
    """Steps of `rounded_steps`; raise NotApplicable if there are none."""
    if steps is None:
        raise NotApplicable(f"more than max_steps = {max_steps} steps to t = {times[-1]:.4g}")
    return steps


def _beta_scale(classes: SequenceClasses) -> str:
    try:
        E_prime = classes.E_prime()
    except InputError:
        return "not defined"
    largest = float(np.abs(E_prime - np.diag(np.diag(E_prime))).max())
    return f"of order E' = {largest:.2g}"
