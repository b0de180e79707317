"""Runs behind the fine phase diagrams: grids of equal classes, with few runs by scaling and one class per run.

The mean field is integrated on one class. Eq. (10) is solved by Runge-Kutta steps along the orbit of
`analytic.single_common_token_orbit`, for many settings together. Eq. (13) is evaluated by its closed form.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from snapdyn import analytic
from snapdyn.dynamics.classes.synthetic import profile, random_classes, single_common_token
from snapdyn.dynamics.classes.table import Floats, SequenceClasses
from snapdyn.dynamics.integration.driver import integrate_many
from snapdyn.dynamics.integration.request import log_times
from snapdyn.dynamics.systems.mean_field import MeanField
from snapdyn.dynamics.trajectories.trajectory import Trajectory
from snapdyn.validation import observables

# Relative errors of a gap; it is drawn in colours.
RTOL = 1e-7
# Largest step of w in the orbit, -ln of what is left of a dominant token's distance: RK4 errs by its fourth power.
STEP = 0.05
MOST_STEPS = 400
NEAR = 5e-3  # share of a law's time within which the transition is looked for
MOST_LOGITS = 5_000_000  # held at once, of the cells of a diagram at all times
SHARE = 1e-7  # absolute error of a step over 1/V, the order of Y on outputs that are not the next token

Sections = Mapping[str, Mapping[str, Any]]
Runs = Iterable[tuple[Floats, Floats]]


def at_the_ends(
    members: Sequence[SequenceClasses],
    eta_Y: Floats,
    eta_Z: Floats,
    times: Floats,
    read: Callable[[Trajectory], Floats],
) -> Floats:
    """Mean over `members` of what `read` gives at the ends (eta_Y,) of mean fields, for each cell (eta_Z, eta_Y).

    The mean field is a function of eta_Y t and eta_Z/eta_Y: cells of equal ratio share one run, and differ in the
    saved time.
    """
    logarithms = np.round(np.log(eta_Z[:, None] / eta_Y), 9)
    different, of_cell = np.unique(logarithms, return_inverse=True)
    systems = [MeanField(each, 1.0, ratio) for each in members for ratio in np.exp(different)]
    read_off = [read(run) for run in integrate_many(systems, times, reduce=True)]
    values = np.reshape(read_off, (len(members), different.size, eta_Y.size)).mean(axis=0)
    return values[of_cell.reshape(logarithms.shape), np.arange(eta_Y.size)]


def rho0_of(common: ArrayLike, num_distinct: ArrayLike) -> Floats:
    """|c~_n|/P(l_c|n) of `single_common_token` classes whose common token has the probability `common`."""
    norm = np.vectorize(lambda d: float(np.linalg.norm(profile(max(1, int(d))))))(num_distinct)
    return np.hypot(common, (1 - np.asarray(common)) * norm) / common


def final_entropy(settings: Sections, eta_Y: Floats, eta_Z: Floats) -> Floats:
    """Entropy of attention at the end (eta_Z, eta_Y), nats, of equivalent classes."""
    # Read in one class: the cost does not depend on their number.
    ends = eta_Y * settings["run"]["last"]
    return at_the_ends([_classes(settings)], eta_Y, eta_Z, ends, lambda run: run.of_class(0).entropy()[:, 0])


def fallen_share(settings: Sections, eta_Y: Floats, eta_Z: Floats, instances: int) -> Floats:
    """Share of distinct tokens that fall (eta_Z, eta_Y), mean over seeds."""
    drawn = {name: value for name, value in settings["classes"].items() if name != "kind"}
    # Saves up to the end of every cell, 20 per decade like the grid: the ends are among them.
    ends = eta_Y * settings["run"]["last"]
    times = np.append(log_times(eta_Y[0] * settings["run"]["first"], ends[0], 100)[:-1], ends)

    def share(run: Trajectory) -> Floats:
        drop, largest = observables.falls(run)
        return (drop > observables.FALL * largest[:, None]).mean(axis=1)[-ends.size :]

    return at_the_ends([random_classes(**drawn, seed=seed) for seed in range(instances)], eta_Y, eta_Z, times, share)


def transition_times(settings: Sections, vocab_size: Floats, num_classes: Floats) -> Floats:
    """Measured time of the transition (num_classes, vocab_size), batch-size-1 steps; NaN where V < K.

    The loss is read at five times near the time that the law with overlap gives, in units of that time. A polynomial
    through them gives the transition, NaN if it is not between them.
    """
    classes, system, last = settings["classes"], settings["system"], settings["run"]["last"]
    V, K = np.meshgrid(vocab_size, num_classes)
    possible, law, found = V >= K, np.full(V.shape, np.nan), np.full(V.shape, np.nan)
    rho = rho0_of(classes["common_probability"], classes["num_distinct"]) ** -2
    law[possible] = analytic.transition_time_with_overlap(K[possible], V[possible], system["eta_Y"], rho)
    places = 1 + NEAR * np.linspace(-1, 1, 5)
    for column, size in enumerate(vocab_size.astype(int).tolist()):
        rows = np.flatnonzero(possible[:, column])
        systems = [
            MeanField(_classes(settings, num_classes=int(count), vocab_size=size), *rates)
            for count, rates in zip(
                num_classes[rows], np.outer(law[rows, column], [system["eta_Y"], system["eta_Z"]]), strict=True
            )
        ]
        runs = integrate_many(systems, places, reduce=True, rtol=1e-9, atol=SHARE / size)
        for row, run in zip(rows, runs, strict=True):
            excess = observables.transition_excess(run.loss, size)
            if excess[0] < 0 <= excess[-1]:
                found[row, column] = np.polynomial.Polynomial.fit(excess, places, 4)(0.0) * law[row, column]
    return np.where(found > last, np.inf, found)


def phases(settings: Sections, common_probability: Floats, eta_Z: Floats) -> Floats:
    """Phase at the end (eta_Z, common_probability), an index into `observables.PHASES`.

    The mean field is integrated in each cell. Eq. (10) is solved along the orbits of many cells at once, and all cells
    have the same loss.
    """
    classes, run = settings["classes"], settings["run"]
    times = log_times(run["first"], run["last"], run["count"])
    common, rates = (each.ravel() for each in np.meshgrid(common_probability, eta_Z))
    P = _profiles(common, classes["num_distinct"])
    at_once = max(1, MOST_LOGITS // (times.size * P.shape[1]))
    runs_of = _mean_fields if settings["system"]["kind"] == "MeanField" else _orbits
    found = []
    for first in range(0, rates.size, at_once):
        part = slice(first, first + at_once)
        for row, (z, loss) in zip(P[part], runs_of(settings, times, P[part], rates[part]), strict=True):
            weights = row * np.exp(z)
            attention = weights / weights.sum(axis=1, keepdims=True)
            speed = observables.late_speed_of(times, np.abs(np.diff(attention, axis=0)).sum(axis=1))
            transition = observables.transition_between(times, loss, classes["vocab_size"])
            found.append(observables.phase_of(attention[-1, 1:].max(), transition, times[-1], speed))
    return np.reshape(np.array(found, dtype=float), (eta_Z.size, common_probability.size))


def _mean_fields(settings: Sections, times: Floats, P: Floats, eta_Z: Floats) -> Runs:
    """Logits (N, 1 + d) of one class and loss (N,) of each cell: mean field."""
    built = {c: _classes(settings, common_probability=c) for c in P[:, 0].tolist()}
    pairs = zip(P[:, 0].tolist(), eta_Z.tolist(), strict=True)
    runs = integrate_many(
        [MeanField(built[c], settings["system"]["eta_Y"], rate) for c, rate in pairs], times, reduce=True
    )
    return ((_logits_of_one_class(run), run.loss) for run in runs)


def _orbits(settings: Sections, times: Floats, P: Floats, eta_Z: Floats) -> Runs:
    """As `_mean_fields`, under Eq. (10) with exact beta; the loss is ln(1 + (V-1) exp(-V h)), whatever eta_Z."""
    K, V, eta_Y = settings["classes"]["num_classes"], settings["classes"]["vocab_size"], settings["system"]["eta_Y"]
    many_K, many_V, many_eta_Y = np.full((3, eta_Z.size), [[K], [V], [eta_Y]], dtype=float)
    loss = np.log1p((V - 1) * np.exp(-V * analytic.h(times / K, eta_Y, V)))
    logits = orbits(times, P, many_K, many_V, many_eta_Y, eta_Z, "exact")
    return zip(logits, itertools.repeat(loss, eta_Z.size), strict=True)


def largest_gaps(settings: Sections, x: Floats, y: Floats, over: tuple[str, str]) -> Floats:
    """Largest gap of z between neighbouring rungs (y, x), as `validation.rungs.ladder` without SGD measures it.

    `over` names the parameters on the axes x and y. The gap is NaN for V < K. The mean field is one run per
    eta_Z/eta_Y, at the times eta_Y t.
    """
    run = settings["ladder"]
    given = {**settings["classes"], **run, **dict(zip(over, np.meshgrid(x, y), strict=True))}
    names = ("num_classes", "vocab_size", "common_probability", "eta_Y", "eta_Z")
    cells = np.array([np.broadcast_to(given[name], (y.size, x.size)).ravel() for name in names], dtype=float)
    found, possible = np.full(y.size * x.size, np.nan), cells[1] >= cells[0]
    K, V, common, eta_Y, eta_Z = cells[:, possible]
    times = log_times(run["first"], run["last"], run["count"])
    ratio = np.exp(np.round(np.log(eta_Z / eta_Y), 9))
    P = _profiles(common, given["num_distinct"])
    mean_field = np.empty((K.size, times.size, P.shape[1]))
    for size in np.unique(V):
        members = np.flatnonzero(size == V)
        # Logits end at (eta_Z/eta_Y)/V or more: beta is 1/V at first.
        atol = RTOL * ratio[members].min() / size
        visits, place = np.unique(np.multiply.outer(eta_Y[members], times), return_inverse=True)
        different, of_member = np.unique(np.array([K, common, ratio])[:, members], axis=1, return_inverse=True)
        systems = [
            MeanField(_classes(settings, num_classes=int(k), common_probability=c, vocab_size=int(size)), 1.0, r)
            for k, c, r in different.T.tolist()
        ]
        runs = integrate_many(systems, visits, reduce=True, z_only=True, rtol=RTOL, atol=atol)
        z = np.array([_logits_of_one_class(each) for each in runs])
        mean_field[members] = z[of_member.ravel()[:, None], place.reshape(members.size, times.size)]
    rungs = [orbits(times, P, K, V, eta_Y, eta_Z, beta) for beta in ("exact", "leading")]
    largest = np.zeros(K.shape)
    for finer, coarser in pairwise((mean_field, *rungs, _closed_form(times, P, K, V, eta_Y, eta_Z))):
        gap = np.abs(finer - coarser).max(axis=(1, 2)) / np.abs(finer).max(axis=(1, 2))
        # A rung without a value, after the end of Eq. (13), is infinitely far.
        largest = np.maximum(largest, np.where(np.isnan(gap), np.inf, gap))
    found[possible] = largest
    return found.reshape(y.size, x.size)


def _closed_form(times: Floats, P: Floats, K: Floats, V: Floats, eta_Y: Floats, eta_Z: Floats) -> Floats:
    """Logits (C, N, 1 + d) of Eq. (13), consistent form, in closed form; NaN after its distinct logits diverge."""
    rho0 = np.linalg.norm(P, axis=1) / P[:, 0]
    Y, Z, size, count, start = (each[:, None] for each in (eta_Y, eta_Z, V, K, rho0))
    z_common = analytic.common_token_logit(times, Y, Z, size, count, start)
    B = analytic.growth_exponent(times, Y, Z, size, count, start)
    left = 1 - 2 * (P[:, None, 1:] / (P[:, :1] * rho0[:, None])[:, None]) ** 2 * B[:, :, None]
    z_distinct = -0.5 * np.log(np.where(left > 0, left, np.nan))
    return np.concatenate([z_common[:, :, None], z_distinct], axis=2)


def orbits(times: Floats, P: Floats, K: Floats, V: Floats, eta_Y: Floats, eta_Z: Floats, beta: str) -> Floats:
    """Logits (C, N, 1 + d) of Eq. (10), "exact" or "leading" beta, by Runge-Kutta steps along the orbit.

    In terms of tau (C, 1 + N) = eta_Z/K int gamma dt, which starts at 0, z_l' = f_l^2 X with X = xi_n/gamma, and
    z_c = -K sum_l z_l. So z_l = -ln(1 - r_l^2 (1 - exp(-w)))/2 with r_l = p_l/p_d and w = 2 z_d for the dominant token
    d. The steps are even in ln(tau_0 + tau), where w is smooth: tau_0 is the tau at which the first rate gives w = 1.
    """
    Gamma = analytic.gamma_integral(times, eta_Y[:, None], V[:, None], K[:, None])
    tau = np.column_stack([np.zeros(K.shape), eta_Z[:, None] / K[:, None] * Gamma])
    ratio2 = (P[:, 1:] / P[:, -1:]) ** 2

    def logits(w: Floats) -> Floats:
        return -0.5 * np.log1p(ratio2 * np.expm1(-w)[:, None])

    def rate(w: Floats) -> Floats:
        z = logits(w)
        C = P[:, 0] ** 2 * np.exp(-2 * K * z.sum(axis=1))
        D = (P[:, 1:] ** 2 * np.exp(2 * z)).sum(axis=1)
        across = (K - 1) * C / (D * (D + K * C))
        X = across * (V * (D + V * C) / (V - 1) ** 2 if beta == "exact" else C)
        return 2 * X * P[:, -1] ** 2 * np.exp(w) / (C + D)

    w, found = np.zeros(K.shape), []
    scale = 1 / (K * rate(w))
    place = np.log1p(tau / scale[:, None])

    def slope(at: Floats, w: Floats) -> Floats:
        return rate(w) * scale * np.exp(at)

    for before, after in pairwise(place.T):
        steps = int(np.clip(np.ceil((after - before).max() / STEP), 1, MOST_STEPS))
        size = (after - before) / steps
        for i in range(steps):
            at = before + i * size
            k1 = slope(at, w)
            k2 = slope(at + size / 2, w + size / 2 * k1)
            k3 = slope(at + size / 2, w + size / 2 * k2)
            k4 = slope(at + size, w + size * k3)
            w = w + size / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        z = logits(w)
        found.append(np.column_stack([-K * z.sum(axis=1), z]))
    return np.stack(found, axis=1)


def _classes(settings: Sections, **others: Any) -> SequenceClasses:
    """Equal classes of the settings; `others` replace their parameters or add to them."""
    given = {**settings["classes"], **others}
    del given["kind"]
    return single_common_token(**given)


def _profiles(common: Floats, num_distinct: int) -> Floats:
    """Probabilities (C, 1 + d) of one class of each setting: the common token, then the distinct ones."""
    return np.column_stack([common, np.multiply.outer(1 - common, profile(num_distinct))])


def _logits_of_one_class(run: Trajectory) -> Floats:
    """Logits (N, 1 + d) of one class of a reduced run of equal classes: the common token, then the distinct ones."""
    kept = run.representatives
    assert kept is not None
    return kept.z_of_kind(kept.z, 0)
