"""Runs behind the fine diagrams of the figure of phases: by the scaling of the rates, and by equivalent classes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from snapdyn import analytic
from snapdyn.dynamics import (
    MeanField,
    Trajectory,
    integrate_many,
    log_times,
    random_classes,
    single_common_token,
)
from snapdyn.dynamics.classes import Floats
from snapdyn.dynamics.synthetic import profile
from snapdyn.validation import observables
from snapdyn.validation.phases.ladder_gaps import logits_of_one_class, orbits, ratios_of
from snapdyn.validation.phases.theory import theory_of

NEAR = 5e-3  # share of a law's time within which the transition is looked for first
MOST_LOGITS = 5_000_000  # held at once, of the cells of a diagram at all times
SHARE = 1e-7  # absolute error of a step over 1/V, the order of Y on outputs that are not the next token

Sections = Mapping[str, Mapping[str, Any]]


def of_one_class(systems: Sequence[MeanField], times: ArrayLike, **options: Any) -> list[Trajectory]:
    """Runs of equivalent classes, read in one of them: the cost does not depend on the number of classes."""
    return [run.of_class(0) for run in integrate_many(systems, times, reduce=True, **options)]


def final_entropy(settings: Sections, eta_Y: Floats, eta_Z: Floats) -> Floats:
    """Entropy of attention at the end (eta_Z, eta_Y), nats, of equivalent classes; one run per eta_Z/eta_Y."""
    arguments, last = dict(settings["classes"]), settings["run"]["last"]
    del arguments["kind"]
    ratios, of_cell = ratios_of(eta_Y, eta_Z)
    classes = single_common_token(**arguments)
    runs = of_one_class([MeanField(classes, 1.0, ratio) for ratio in ratios], eta_Y * last)
    entropy = np.array([run.entropy()[:, 0] for run in runs])
    return np.asarray(entropy[of_cell, np.arange(eta_Y.size)])


def fallen_share(settings: Sections, eta_Y: Floats, eta_Z: Floats, instances: int) -> Floats:
    """Share of distinct tokens that fall (eta_Z, eta_Y), mean over seeds; one run per eta_Z/eta_Y and seed."""
    drawn = dict(settings["classes"])
    del drawn["kind"]
    ratios, of_cell = ratios_of(eta_Y, eta_Z)
    first, last = settings["run"]["first"], settings["run"]["last"]
    # Saves up to the end of every cell, 20 per decade like the grid: the ends are among them.
    ends = eta_Y * last
    times = np.append(log_times(eta_Y[0] * first, ends[0], 100)[:-1], ends)
    members = [random_classes(**drawn, seed=seed) for seed in range(instances)]
    runs = integrate_many([MeanField(each, 1.0, ratio) for each in members for ratio in ratios], times)
    shares = np.array([_fallen_by(run)[-ends.size :] for run in runs])
    shares = shares.reshape(instances, ratios.size, ends.size)
    return np.asarray(shares.mean(axis=0)[of_cell, np.arange(eta_Y.size)])


def _fallen_by(run: Trajectory) -> Floats:
    """`observables.fallen_share` of the run up to each of its times, (N,)."""
    z, classes = run.z_support, run.require_classes()
    distinct = classes.omega_size[classes.z_coordinates[1]] == 1
    highest = np.maximum.accumulate(np.vstack([np.zeros(z.shape[1]), z]), axis=0)[1:]
    drop = np.maximum.accumulate(highest - z, axis=0)[:, distinct]
    largest = np.maximum.accumulate(np.abs(z).max(axis=1))
    return np.asarray((drop > observables.FALL * largest[:, None]).mean(axis=1))


def transition_times(settings: Sections, vocab_size: Floats, num_classes: Floats) -> Floats:
    """Measured time of the transition (num_classes, vocab_size), batch-size-1 steps; NaN where V < K.

    The loss is read at five times about the law of the overlap, on the clock on which that law is 1; a polynomial gives
    its crossing. Where the loss does not cross between them the crossing is an event of the run.
    """
    classes, system, last = settings["classes"], settings["system"], settings["run"]["last"]
    V, K = np.meshgrid(vocab_size, num_classes)
    possible = V >= K
    theory = theory_of(settings, {"classes.vocab_size": V, "classes.num_classes": K})
    law = np.full(V.shape, np.nan)
    law[possible] = analytic.transition_time_with_overlap(
        K[possible], V[possible], system["eta_Y"], np.broadcast_to(theory.rho, V.shape)[possible]
    )
    found = np.full(V.shape, np.nan)
    places = 1 + NEAR * np.linspace(-1, 1, 5)
    for column, size in enumerate(vocab_size):
        rows = np.flatnonzero(possible[:, column])
        systems = []
        for row in rows:
            member = single_common_token(
                int(num_classes[row]), classes["num_distinct"], classes["common_probability"], int(size)
            )
            rate = law[row, column]
            systems.append(MeanField(member, system["eta_Y"] * rate, system["eta_Z"] * rate))
        for row, one, run in zip(
            rows, systems, integrate_many(systems, places, reduce=True, rtol=1e-9, atol=SHARE / size), strict=True
        ):
            excess = observables.transition_excess(run.loss, int(size))
            if excess[0] < 0 <= excess[-1]:
                time = float(np.polynomial.Polynomial.fit(excess, places, 4)(0.0))
            else:
                event = replace(observables.transition_event(int(size)), terminal=True)
                (run,) = integrate_many(
                    [one], [last / law[row, column]], 1, reduce=True, rtol=1e-9, atol=SHARE / size, events={"it": event}
                )
                time = run.events[0].t if run.events else np.inf
            found[row, column] = time * law[row, column]
    return np.where(found <= last, found, np.where(np.isnan(found), np.nan, np.inf))


def phases(settings: Sections, common_probability: Floats, eta_Z: Floats) -> Floats:
    """Phase at the end (eta_Z, common_probability), an index into `observables.PHASES`.

    The mean field is integrated in each cell. Eq. (10) is the orbit of many cells at once, and one loss for all.
    """
    classes, system, run = settings["classes"], settings["system"], settings["run"]
    num_distinct = classes["num_distinct"]
    times = log_times(run["first"], run["last"], run["count"])
    common, rates = (each.ravel() for each in np.meshgrid(common_probability, eta_Z))
    P = np.column_stack([common, np.multiply.outer(1 - common, profile(num_distinct))])
    at_once = max(1, MOST_LOGITS // (times.size * (num_distinct + 1)))
    runs_of = _mean_fields if system["kind"] == "MeanField" else _orbits
    found = []
    for first in range(0, rates.size, at_once):
        part = slice(first, first + at_once)
        for row, (z, loss) in zip(P[part], runs_of(settings, times, P[part], rates[part]), strict=True):
            weights = row * np.exp(z)
            attention = weights / weights.sum(axis=1, keepdims=True)
            found.append(_phase(times, attention, loss, classes["vocab_size"]))
    return np.reshape(np.array(found, dtype=float), (eta_Z.size, common_probability.size))


Runs = Iterable[tuple[Floats, Floats]]


def _mean_fields(settings: Sections, times: Floats, P: Floats, eta_Z: Floats) -> Runs:
    """Logits (N, 1 + d) of one class and loss (N,) of each cell: mean field."""
    arguments, eta_Y = dict(settings["classes"]), settings["system"]["eta_Y"]
    del arguments["kind"]
    built = {c: single_common_token(**arguments, common_probability=c) for c in P[:, 0].tolist()}
    systems = [MeanField(built[c], eta_Y, rate) for c, rate in zip(P[:, 0].tolist(), eta_Z.tolist(), strict=True)]
    runs = integrate_many(systems, times, reduce=True)
    return ((logits_of_one_class(run), run.loss) for run in runs)


def _orbits(settings: Sections, times: Floats, P: Floats, eta_Z: Floats) -> Runs:
    """`_mean_fields` under Eq. (10), exact beta; its loss is ln(1 + (V-1) exp(-V h)), which eta_Z does not enter."""
    K, V, eta_Y = settings["classes"]["num_classes"], settings["classes"]["vocab_size"], settings["system"]["eta_Y"]
    many_K, many_V, many_eta_Y = np.full((3, eta_Z.size), [[K], [V], [eta_Y]], dtype=float)
    loss = np.log1p((V - 1) * np.exp(-V * analytic.h(times / K, eta_Y, V)))
    return zip(
        orbits(times, P, many_K, many_V, many_eta_Y, eta_Z, "exact"), itertools.repeat(loss, eta_Z.size), strict=True
    )


def _phase(t: Floats, attention: Floats, loss: Floats, vocab_size: int) -> int:
    """Phase at the end of equal classes, as `observables.phase` has it, from the attention (N, 1 + d) of one of them.

    The common token is the first one.
    """
    if attention[-1, 1:].max() > observables.WINNER_SHARE:
        return observables.WINNER
    if not observables.transition_between(t, loss, vocab_size) <= t[-1]:
        return observables.SCANNING
    speed = observables.late_speed_of(t, np.abs(np.diff(attention, axis=0)).sum(axis=1))
    return observables.SNAPPED if speed < observables.FROZEN_SPEED else observables.MOVING
