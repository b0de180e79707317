"""SGD runs of several seeds and the theory's curves on the same clock."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import xarray

from snapdyn.core.errors import InputError, choice, instance, list_of, positive, shown, whole
from snapdyn.dynamics.classes.table import Floats, SequenceClasses
from snapdyn.dynamics.integration.driver import whole_run
from snapdyn.dynamics.observables import STEPS, curve_named, entropy_of, entry_of
from snapdyn.dynamics.systems.base import System
from snapdyn.dynamics.systems.finite_length import ExpansionWarning, FiniteLengthMeanField
from snapdyn.dynamics.traces.trace import Trace
from snapdyn.dynamics.training.descent import seed_list, sgd
from snapdyn.dynamics.training.explicit_steps import descend
from snapdyn.dynamics.training.steps import TraceClock
from snapdyn.dynamics.trajectories.trajectory import Trajectory
from snapdyn.validation.phases import OF_THEORY, transition_times
from snapdyn.validation.rungs.run import (
    EXACT,
    FINITE_LENGTH,
    MEAN_FIELD,
    ORBIT,
    TOLERANCES,
    NotApplicable,
    most_of_flow,
    not_interrupted,
    of_rule,
    require_complete,
    run_on_rung,
)

CURVES = {
    "mean_field": "mean field",
    "finite_length": "mean field, T-1 = {}",
    "descent": "descent",
    "modified_decoder": "Eq. (10)",
    "closed_form": "closed form",
    "mean_map": "mean map",
    "flow": "flow with moments",
}
OF_RULE = ("mean_map", "flow")  # the curves of a rule such as Adam
RUNG_OF_CURVE = {
    "mean_field": MEAN_FIELD,
    "finite_length": FINITE_LENGTH,
    "modified_decoder": EXACT,
    "closed_form": ORBIT,
}

SYSTEM = "system"  # the curve of an own system
MOST_STEPS = 100_000_000
BETWEEN = 100  # steps between the records of a trace, evenly spaced and in ratio


def compute(
    classes: SequenceClasses,
    eta_Y: float,
    eta_Z: float,
    steps: int,
    seeds: Sequence[int],
    observables: Sequence[str],
    curves: Sequence[str] | None = None,
    record: Sequence[int] | None = None,
    **settings: Any,
) -> xarray.Dataset:
    """Run SGD with several seeds, and compute the theory on the same clock.

    Parameters
    ----------
    classes : SequenceClasses
        Classes of the sequences.
    eta_Y : float
        Learning rate of the decoder, per step.
    eta_Z : float
        Learning rate of attention, per step.
    steps : int
        Number of SGD steps.
    seeds : sequence of int
        Seeds of the SGD runs.
    observables : sequence of str
        Observables of the runs and of the theory: "loss", "entropy n", "attention n l", "growth_factor n l",
        "relative_gain n l l0", of class n and tokens l and l0.
    curves : sequence of str, optional
        Keys of `CURVES`; default the mean field, or "mean_map" and "flow" for a rule such as Adam. "mean_field",
        "modified_decoder" and "closed_form" describe infinitely long sequences; "finite_length" is the mean field with
        the second-order correction for the `seq_len` of SGD. "descent" makes the updates of SGD on the expected
        gradient, with its momentum and `seq_len`: the model of `fit`. "closed_form" is the orbit of Section 6 (derived
        in `analytic.orbit`); it needs classes of one query with one common token and equal profiles. "mean_map" is the
        update of the rule on the mean gradient and mean square of batches, "flow" its flow with moments, both of
        infinitely long sequences.
    record : sequence of int, optional
        SGD steps at which the observables are recorded; default about 200 log-spaced steps.
    **settings : dict
        Further arguments of `sgd`: batch_size, seq_len, momentum, init, residual, schedule, ...

    Returns
    -------
    xarray.Dataset
        sgd (seed, observable, step); theory (curve, observable, step); t (step), the theory's time in batch-size-1
        steps: `momentum_clock` of the step and the schedule; the updates themselves for a rule such as Adam. The
        attributes of the dataset hold all settings. They also
        hold the theory's transition times, except for Adam, a random or given start, weight decay, unequal priors, or
        shared next tokens.

    Raises
    ------
    InputError
        If a name is unknown; an index lies outside the classes; no theory covers a setting (Adam, random start); or
        the sequences are too short for the correction.
    KeyboardInterrupt
        If Ctrl-C stopped a run.
    """
    _, seeds = seed_list(seeds)
    clock = TraceClock(
        "updates", settings.get("batch_size", 1), settings.get("momentum", 0.0),
        optimizer=settings.get("optimizer", "sgd"),
    )  # fmt: skip
    observables, curves = _checked_names(observables, curves, clock)
    most_evaluations = settings.pop("most_evaluations", None)
    list_of("seeds", seeds, object, different=True)
    if curves and settings.get("init", "zeros") != "zeros":
        raise InputError(
            f"expected init = 'zeros' where theory is laid over SGD, received {shown(settings['init'])}; leave curves "
            "empty"
        )
    other = [name for name, wanted in OF_THEORY.items() if settings.get(name, wanted) != wanted]
    steps = whole("steps", steps, 1, MOST_STEPS)
    steps_kept = np.unique(np.geomspace(1, steps, 200).round().astype(int)) if record is None else np.array(record)
    steps_kept = np.union1d(steps_kept, [0])
    if steps_kept.size < 2:
        raise InputError("expected a record with at least one step after the start, received none; add one")
    runs = sgd(classes, eta_Y, eta_Z, steps, seed=seeds, record=steps_kept, **settings)
    for seed, run in zip(seeds, not_interrupted(runs), strict=True):
        if run.status != "finished":
            raise InputError(
                f"expected rates at which SGD stays finite, received a run (seed {seed}) that {run.message}"
            )
    values = np.array([_curves(run, observables) for run in runs])
    schedule = runs[0].parameters["schedule"]
    clock = replace(clock, schedule=None if schedule is None else np.array(schedule))
    settings |= {"schedule": schedule} if "schedule" in settings else {}
    settings |= {"optimizer": clock.optimizer_as_json} if clock.has_rule else {}
    t = clock.to_time(steps_kept)
    recorded = {"sgd": values, "step": steps_kept, "updates": steps_kept, "t": t, "seed": seeds}
    rates = eta_Y, eta_Z
    return _over_theory(recorded, classes, rates, clock, settings, observables, curves, most_evaluations, not other)


def compare(
    trace: Trace,
    classes: SequenceClasses | System,
    eta_Y: float | None = None,
    eta_Z: float | None = None,
    observables: Sequence[str] | None = None,
    curves: Sequence[str] | None = None,
    most_evaluations: int | None = None,
) -> xarray.Dataset:
    """Lay the theory's curves over a trace that was recorded elsewhere, on the clock of the trace.

    `snapdyn.figures.residuals.draw` draws the dataset; `snapdyn compare FILE.toml --trace FILE` does both.

    Parameters
    ----------
    trace : Trace
        One seed or several.
    classes : SequenceClasses, or an own system
        With an own system the trace holds its observables; rates and curves are left out.
    eta_Y : float
        Learning rate of the decoder, per update of the trace where the multiplier of its schedule is 1.
    eta_Z : float
        Learning rate of attention, per update of the trace.
    observables : sequence of str, optional
        As in `compute`, without growth_factor; entropy and relative gain are computed from attention. Default: the
        loss, and the entropy of the first four recorded classes, as far as the trace has them.
    curves : sequence of str, optional
        Keys of `CURVES`; default the mean field, or "mean_map" and "flow" for a trace of a rule such as Adam.
        "finite_length" and "descent" take the `seq_len` of the trace, "descent" also takes its
        updates, momentum and schedule.
    most_evaluations : int, optional
        Most evaluations of the rate for a curve; default 500,000 for small tables, else what `integrate` allows.

    Returns
    -------
    xarray.Dataset
        As `compute` returns it; "sgd" holds the trace. Theory is computed between the records too, where "sgd" is NaN.

    Raises
    ------
    InputError
        The trace does not fit the classes, or an observable is not in it; or what `compute` raises.

    Examples
    --------
    >>> import snapdyn as sd
    >>> run = sd.sgd(sd.syn_small(), 0.5, 0.5, steps=100, seed=[0, 1, 2], batch_size=32, record=range(0, 101, 10))
    >>> dataset = sd.compare(sd.Trace.from_runs(run), sd.syn_small(), eta_Y=0.5, eta_Z=0.5)
    >>> dataset.observable.values.tolist(), dict(dataset.sizes)
    (['loss', 'entropy 0', 'entropy 1'], {'seed': 3, 'observable': 3, 'step': 101, 'curve': 1})
    """
    trace = instance("trace", trace, Trace, "build it with Trace(steps, ...) or read_trace(path)")
    if isinstance(classes, System):
        if eta_Y is not None or eta_Z is not None or curves is not None:
            raise InputError(
                "expected neither rates nor curves beside an own system, received some; leave them out, and set "
                "parameters with with_parameters"
            )
        return _over_system(trace, classes, observables)
    trace = trace.for_classes(classes)
    if observables is None:
        observables = ["loss"] if trace.loss is not None else []
        of_classes = trace.entropy if trace.entropy is not None else trace.attention
        if of_classes is not None:
            blank = np.isnan(of_classes).all(axis=(0, 1)).reshape(classes.num_classes, -1)[:, 0]
            observables += [f"entropy {n}" for n in np.flatnonzero(~blank)[:4]]
    clock = trace.clock
    observables, curves = _checked_names(observables, curves, clock)
    values = np.array([[_of_trace(trace, classes, o, seed) for o in observables] for seed in range(trace.num_seeds)])
    if unrecorded := [
        name for name, empty in zip(observables, np.isnan(values).all(axis=(0, 2)), strict=True) if empty
    ]:
        raise InputError(
            f"expected observables that were recorded, received {', '.join(unrecorded)}, of which the trace has no "
            "value; leave them out"
        )
    steps, values = _between(trace, values)
    settings = {
        "recorded": "trace", "clock": clock.sentence, "batch_size": clock.batch_size, "momentum": clock.momentum,
        "seq_len": trace.finite_length, "length": trace.length_sentence,
        "schedule": None if clock.schedule is None else clock.schedule.tolist(),
        **({"optimizer": clock.optimizer_as_json} if clock.has_rule else {}),
    }  # fmt: skip
    updates = None if clock.counts == "theory" else clock.updates(steps)
    recorded = {
        "sgd": values, "step": steps, "updates": updates, "t": clock.to_time(steps),
        "seed": list(range(trace.num_seeds)),
    }  # fmt: skip
    if eta_Y is None or eta_Z is None:
        raise InputError("expected eta_Y and eta_Z for sequence classes, received none; give both rates")
    rates = positive("eta_Y", eta_Y), positive("eta_Z", eta_Z)
    return _over_theory(recorded, classes, rates, clock, settings, observables, curves, most_evaluations, True)


def _between(trace: Trace, values: Floats) -> tuple[Floats, Floats]:
    """Steps of a trace and about a hundred between them; values (R, observables, steps), NaN between the records."""
    if trace.steps.size < 2:
        raise InputError("expected a trace of at least two recorded steps, received one; record more")
    clock, last = trace.clock, trace.steps[-1]
    first = trace.steps[trace.steps > 0][0]
    further = np.concatenate([np.linspace(0.0, last, BETWEEN), np.geomspace(first, last, BETWEEN)])
    if clock.counts != "theory":
        unit = clock.batch_size if clock.counts == "sequences" else 1
        further = unit * np.rint(further / unit)
    steps = np.union1d(trace.steps, further[(further > trace.steps[0]) & (further < last)])
    found = np.full((*values.shape[:2], steps.size), np.nan)
    found[..., np.searchsorted(steps, trace.steps)] = values
    return steps, found


def _over_system(trace: Trace, system: System, observables: Sequence[str] | None) -> xarray.Dataset:
    """Dataset of an own system laid over a trace of its observables."""
    names = list(trace.observables) if observables is None else list_of("observables", observables, str, at_least=1)
    if not trace.observables:
        raise InputError(
            f"expected a trace of observables of {system.name}, received one of a training run; build it with "
            "Trace(steps, observables={name: values})"
        )
    for name in names:
        choice("observable", name, tuple(trace.observables))
    steps, values = _between(trace, np.stack([trace.observables[name] for name in names], axis=1))
    try:
        run = whole_run(system, steps, **TOLERANCES)
    except RuntimeError as error:
        raise InputError(f"expected a system that can be integrated, received: {error}") from error
    theory = np.array([run.observable(name) for name in names])[None]
    recorded = {"sgd": values, "step": steps, "t": steps, "seed": list(range(trace.num_seeds))}
    recorded["clock"] = run.clock
    settings = {"recorded": "trace", "clock": "t is the recorded step", "system": system.name}
    return _dataset(recorded, theory, names, [SYSTEM], {"settings": settings, "transition_times": {}})


def _curves(run: Trajectory, observables: Sequence[str]) -> list[Floats]:
    """Values (N,) of each observable of a run."""
    return [observable.curve_of(run, *indices) for observable, indices in map(curve_named, observables)]


def _of_trace(trace: Trace, classes: SequenceClasses, name: str, seed: int) -> Floats:
    """Values (N,) of one observable of a trace."""
    observable, indices = curve_named(name)
    kind = observable.name
    n = classes.check_class(indices[0]) if indices else 0
    given = getattr(trace, kind, None)
    if kind in ("loss", "entropy") and given is not None:
        return given[seed] if kind == "loss" else given[seed][:, n]
    if kind not in ("entropy", "attention", "relative_gain") or trace.attention is None:
        has = [name for name in ("attention", "loss", "entropy") if getattr(trace, name) is not None]
        raise InputError(
            f"expected observables that a trace with {', '.join(has)} gives, received {kind}; entropy and "
            "relative_gain come from attention, growth_factor from no trace"
        )
    c = trace.attention[seed][:, n]
    if kind == "entropy":
        return entropy_of(c)[:, 0]
    for l in indices[1:]:
        entry_of(classes, n, l)  # checks the token
    if kind == "attention":
        return c[:, indices[1]]
    with np.errstate(divide="ignore", invalid="ignore"):
        return (c[:, indices[1]] / c[:, indices[2]]) ** 2 - 1.0


def _checked_names(
    observables: Sequence[str], curves: Sequence[str] | None, clock: TraceClock
) -> tuple[list[str], list[str]]:
    """Observables and curves, by default those of the rule of the training; curves of other rules are refused."""
    observables = list_of("observables", observables, str, at_least=1)
    if curves is None:
        curves = OF_RULE if clock.has_rule else ("mean_field",)
    curves = list_of("curves", curves, str, different=True)
    for curve in curves:
        choice("curve", curve, CURVES)
        if (curve in OF_RULE) != clock.has_rule:
            those = OF_RULE if clock.has_rule else [name for name in CURVES if name not in OF_RULE]
            raise InputError(f"expected curves of {clock.words}, {', '.join(those)}, received {curve}; take these")
    return observables, curves


def _over_theory(
    recorded: Mapping[str, Any],
    classes: SequenceClasses,
    rates: tuple[float, float],
    clock: TraceClock,
    settings: dict[str, Any],
    observables: Sequence[str],
    curves: Sequence[str],
    most_evaluations: int | None,
    with_transitions: bool,
) -> xarray.Dataset:
    """Dataset of what was recorded, sgd (seed, observable, step), and of the theory's curves on its clock.

    `settings` gives seq_len and residual.
    """
    (eta_Y, eta_Z), t = rates, recorded["t"]
    different, place = np.unique(t, return_inverse=True)  # updates with the multiplier 0 take no time
    limit = {"most_evaluations": most_of_flow(classes, most_evaluations)}
    theory = []
    for curve in curves:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", ExpansionWarning)
                if curve in ("descent", "mean_map"):
                    found = _curves(_descent(classes, rates, recorded["updates"], clock, settings), observables)
                else:
                    run = _theory(curve, classes, rates, different, clock, settings, limit)
                    found = [values[place] for values in _curves(run, observables)]
        except (ExpansionWarning, NotApplicable) as error:
            raise InputError(f"{error}; leave {curve} out of curves") from error
        except RuntimeError as error:
            raise InputError(f"expected rates at which the theory can be integrated, received: {error}") from error
        theory.append(found)
    times = transition_times(classes, eta_Y)
    transitions = {
        name: times[f"t_{name}"]
        for name in ("start", "peak", "end")
        if with_transitions and np.isfinite(times[f"t_{name}"])
    }
    values = np.array(theory).reshape(len(theory), len(observables), t.size)
    attributes = {
        "eta_Y": eta_Y,
        "eta_Z": eta_Z,
        "num_classes": classes.num_classes,
        "vocab_size": classes.vocab_size,
        "transition_times": transitions,
        "settings": settings,
    }
    return _dataset(recorded, values, observables, curves, attributes)


def _dataset(
    recorded: Mapping[str, Any],
    theory: Floats,
    observables: Sequence[str],
    curves: Sequence[str],
    attributes: dict[str, Any],
) -> xarray.Dataset:
    """Dataset of what was recorded and of theory (curve, observable, step); mappings in the attributes become JSON."""
    return xarray.Dataset(
        {
            "sgd": (("seed", "observable", "step"), recorded["sgd"]),
            "theory": (("curve", "observable", "step"), theory),
            "t": ("step", recorded["t"], {"units": recorded.get("clock", STEPS)}),
        },
        {
            "seed": recorded["seed"],
            "step": ("step", recorded["step"], {"units": "SGD steps"}),
            "observable": [" ".join(str(name).split()) for name in observables],
            "curve": np.array(list(curves), dtype=object) if curves else np.empty(0, dtype="U1"),
        },
        {
            name: json.dumps(value, sort_keys=True, default=str) if isinstance(value, dict) else value
            for name, value in attributes.items()
        },
    )


def _descent(
    classes: SequenceClasses,
    rates: tuple[float, float],
    updates: np.ndarray | None,
    clock: TraceClock,
    settings: Mapping[str, Any],
) -> Trajectory:
    """Updates on the expected gradient, with velocity where the run has momentum."""
    if updates is None or not np.allclose(updates, np.rint(updates), rtol=0.0, atol=1e-6):
        raise InputError(
            "expected records at whole updates for the curves descent and mean_map, received "
            f"{'times of the theory' if updates is None else shown(updates)}; leave them out of curves"
        )
    seq_len, residual = None if clock.has_rule else settings.get("seq_len"), settings.get("residual", False)
    if seq_len is not None and residual:
        raise InputError(
            f"expected infinitely long sequences for the curve descent with the residual connection, received seq_len="
            f"{seq_len}; leave descent out of curves"
        )
    system = (
        of_rule(classes, *rates, replace(clock, momentum=0.0), residual=residual)
        if seq_len is None
        else FiniteLengthMeanField(classes, *rates, seq_len=seq_len)
    )
    made = np.rint(updates).astype(np.int64)
    schedule = None if clock.schedule is None else clock.schedule[: made[-1]]
    run = descend(system, int(made[-1]), 1.0, clock.momentum, record=made, schedule=schedule)
    require_complete([run])
    return run


def _theory(
    curve: str,
    classes: SequenceClasses,
    rates: tuple[float, float],
    t: np.ndarray,
    clock: TraceClock,
    settings: dict[str, Any],
    limit: dict[str, Any],
) -> Trajectory:
    seq_len, residual = settings.get("seq_len"), settings.get("residual", False)
    if curve == "flow":
        if clock.schedule is not None:
            raise InputError("expected no schedule with the curve flow, received one; use mean_map")
        return whole_run(of_rule(classes, *rates, clock, residual=residual), t, **TOLERANCES | limit)
    options: dict[str, Any] = {"beta": "exact"} if curve == "closed_form" else TOLERANCES | limit
    if curve == "mean_field":
        options["residual"] = residual
    elif residual:
        raise InputError(f"expected the curve mean_field with the residual connection, received {curve}; leave it out")
    if curve == "finite_length":
        if seq_len is None:
            raise InputError(
                "expected seq_len with the curve finite_length, received no number of tokens; the curve mean_field is "
                "that of infinitely long sequences"
            )
        options["seq_len"] = seq_len
    return run_on_rung(RUNG_OF_CURVE[curve], classes, *rates, t, **options)
