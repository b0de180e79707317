"""Largest gaps of z on the ladder of equal classes with one common token, on whole grids of settings at once.

The mean field is integrated on one class. Eq. (10) is the quadrature of its orbit, as in
`analytic.single_common_token_orbit`, here for many settings together. Eq. (13) is its closed form.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from snapdyn import analytic
from snapdyn.dynamics import MeanField, Trajectory, integrate_many, log_times, single_common_token
from snapdyn.dynamics.classes import Floats
from snapdyn.dynamics.synthetic import profile

Sections = Mapping[str, Mapping[str, Any]]
# Relative errors of a gap; it is drawn in colours.
RTOL = 1e-7
# Largest step of w in the orbit, -ln of what is left of a dominant token's distance: RK4 errs by its fourth power.
STEP = 0.05
MOST_STEPS = 400


def logits_of_one_class(run: Trajectory) -> Floats:
    """Logits (N, 1 + d) of one class of a reduced run of equal classes: the common token, then the distinct ones."""
    kept = run.representatives
    assert kept is not None
    return np.asarray(kept.z_of_kind(kept.z, 0))


def ratios_of(eta_Y: Floats, eta_Z: Floats) -> tuple[Floats, np.ndarray[Any, Any]]:
    """Different ratios eta_Z/eta_Y of a grid, and which of them each cell (eta_Z, eta_Y) has.

    The mean field is a function of eta_Y t and eta_Z/eta_Y: cells of equal ratio are one run, saved at other times.
    """
    logarithms = np.round(np.log(eta_Z[:, None] / eta_Y), 9)
    different, of_cell = np.unique(logarithms, return_inverse=True)
    return np.exp(different), of_cell.reshape(logarithms.shape)


def over_vocabulary(settings: Sections, vocab_size: Floats, **others: Floats) -> Floats:
    """Largest gap over (another key of the classes, vocab_size); NaN where V < K."""
    (key, values), classes, run = next(iter(others.items())), settings["classes"], settings["ladder"]
    V, swept = (each.ravel() for each in np.meshgrid(vocab_size, values))
    K, common = (
        swept if name == key else np.full(V.size, float(classes[name]))
        for name in ("num_classes", "common_probability")
    )
    possible, found = V >= K, np.full(V.size, np.nan)
    found[possible] = largest_gaps(
        log_times(run["first"], run["last"], run["count"]), K[possible], V[possible], common[possible],
        classes["num_distinct"], run["eta_Y"], run["eta_Z"],
    )  # fmt: skip
    return found.reshape(values.size, vocab_size.size)


def over_rates(settings: Sections, eta_Y: Floats, eta_Z: Floats) -> Floats:
    """Largest gap over (eta_Z, eta_Y)."""
    classes, run = settings["classes"], settings["ladder"]
    times = log_times(run["first"], run["last"], run["count"])
    K, V, common = (classes[name] for name in ("num_classes", "vocab_size", "common_probability"))
    return largest_gaps_over_rates(times, K, V, common, classes["num_distinct"], eta_Y, eta_Z)


def largest_gaps(
    times: Floats,
    num_classes: Floats,
    vocab_size: Floats,
    common: Floats,
    num_distinct: int,
    eta_Y: float,
    eta_Z: float,
) -> Floats:
    """Largest gap of the ladder of flows for settings (C,), as `validation.rungs.ladder` without SGD measures it in z.

    `times` (N,) in batch-size-1 steps. num_classes, vocab_size and common (C,): K, V and the common token's P.
    """
    K, V, common = np.broadcast_arrays(num_classes, vocab_size, common)
    mean_field = np.empty((K.size, times.size, num_distinct + 1))
    for size in np.unique(V):
        members = np.flatnonzero(size == V)
        systems = [
            MeanField(single_common_token(int(K[i]), num_distinct, float(common[i]), int(size)), eta_Y, eta_Z)
            for i in members
        ]
        # Logits end at (eta_Z/eta_Y)/V or more: beta is 1/V at first.
        runs = integrate_many(systems, times, reduce=True, z_only=True, rtol=RTOL, atol=RTOL * eta_Z / eta_Y / size)
        mean_field[members] = [logits_of_one_class(run) for run in runs]
    return _gaps(mean_field, times, K, V, common, num_distinct, np.full(K.shape, eta_Y), np.full(K.shape, eta_Z))


def largest_gaps_over_rates(
    times: Floats, num_classes: int, vocab_size: int, common: float, num_distinct: int, eta_Y: Floats, eta_Z: Floats
) -> Floats:
    """`largest_gaps` over rates (eta_Z, eta_Y): the mean field is one run per eta_Z/eta_Y, at the times eta_Y t."""
    ratios, of_cell = ratios_of(eta_Y, eta_Z)
    classes = single_common_token(num_classes, num_distinct, common, vocab_size)
    visits, place = np.unique(np.multiply.outer(eta_Y, times), return_inverse=True)
    place = place.reshape(eta_Y.size, times.size)
    systems = [MeanField(classes, 1.0, ratio) for ratio in ratios]
    runs = integrate_many(systems, visits, reduce=True, z_only=True, rtol=RTOL, atol=1e-4 * RTOL / vocab_size)
    z = np.array([logits_of_one_class(run) for run in runs])
    cells = z[of_cell[:, :, None], place[None]].reshape(-1, times.size, num_distinct + 1)
    Y, Z = (rates.ravel() for rates in np.broadcast_arrays(eta_Y, eta_Z[:, None]))
    K, V, c = (np.full(Y.shape, value) for value in (num_classes, vocab_size, common))
    return _gaps(cells, times, K, V, c, num_distinct, Y, Z).reshape(of_cell.shape)


def _gaps(
    mean_field: Floats, times: Floats, K: Floats, V: Floats, common: Floats, num_distinct: int, eta_Y: Floats,
    eta_Z: Floats,
) -> Floats:  # fmt: skip
    """Largest gap of z between neighbouring rungs (C,); `mean_field` (C, N, 1 + d)."""
    P = np.column_stack([common, np.multiply.outer(1 - common, profile(num_distinct))])
    exact, leading = (orbits(times, P, K, V, eta_Y, eta_Z, beta) for beta in ("exact", "leading"))
    rungs = (mean_field, exact, leading, _closed_form(times, P, K, V, eta_Y, eta_Z))
    largest = np.zeros(K.shape)
    for finer, coarser in pairwise(rungs):
        gap = np.abs(finer - coarser).max(axis=(1, 2)) / np.abs(finer).max(axis=(1, 2))
        # A rung without a value, after the end of Eq. (13), is infinitely far.
        largest = np.maximum(largest, np.where(np.isnan(gap), np.inf, gap))
    return largest


def _closed_form(times: Floats, P: Floats, K: Floats, V: Floats, eta_Y: Floats, eta_Z: Floats) -> Floats:
    """Logits (C, N, 1 + d) of Eq. (13), consistent form, in closed form; NaN after the end of its distinct logits."""
    rho0 = np.linalg.norm(P, axis=1) / P[:, 0]
    Y, Z, size, count, start = (each[:, None] for each in (eta_Y, eta_Z, V, K, rho0))
    z_common = np.asarray(analytic.common_token_logit(times, Y, Z, size, count, start, form="consistent"))
    B = np.asarray(analytic.growth_exponent(times, Y, Z, size, count, start, form="consistent"))
    left = 1 - 2 * (P[:, None, 1:] / (P[:, :1] * rho0[:, None])[:, None]) ** 2 * B[:, :, None]
    z_distinct = -0.5 * np.log(np.where(left > 0, left, np.nan))
    return np.concatenate([z_common[:, :, None], z_distinct], axis=2)


def orbits(times: Floats, P: Floats, K: Floats, V: Floats, eta_Y: Floats, eta_Z: Floats, beta: str) -> Floats:
    """Logits (C, N, 1 + d) of Eq. (10), "exact" or "leading" beta, by Runge-Kutta steps along the orbit."""
    Gamma = np.asarray(analytic.gamma_integral(times, eta_Y[:, None], V[:, None], K[:, None]))
    tau = np.column_stack([np.zeros(K.shape), eta_Z[:, None] / K[:, None] * Gamma])
    return _orbits_of(tau, P, K, V, beta)


def _orbits_of(tau: Floats, P: Floats, K: Floats, V: Floats, beta: str) -> Floats:
    """Logits at tau (C, 1 + N), which starts at 0, without the start: z_l' = f_l^2 X, z_c = -K sum_l z_l.

    z_l = -ln(1 - r_l^2 (1 - exp(-w)))/2, r_l = p_l/p_d with the dominant token d, so that w = 2 z_d. The steps are even
    in ln(tau_0 + tau), where w is smooth: tau_0 is the tau at which the first rate would give w = 1.
    """
    ratio2 = (P[:, 1:] / P[:, -1:]) ** 2

    def logits(w: Floats) -> Floats:
        return -0.5 * np.log1p(ratio2 * np.expm1(-w)[:, None])

    def rate(w: Floats) -> Floats:
        z = logits(w)
        C = P[:, 0] ** 2 * np.exp(-2 * K * z.sum(axis=1))
        D = (P[:, 1:] ** 2 * np.exp(2 * z)).sum(axis=1)
        across = (K - 1) * C / (D * (D + K * C))
        X = across * (V * (D + V * C) / (V - 1) ** 2 if beta == "exact" else C)
        return np.asarray(2 * X * P[:, -1] ** 2 * np.exp(w) / (C + D))

    w, found = np.zeros(K.shape), []
    scale = 1 / (K * rate(w))
    place = np.log1p(tau / scale[:, None])
    for before, after in zip(place.T[:-1], place.T[1:], strict=True):
        steps = int(np.clip(np.ceil((after - before).max() / STEP), 1, MOST_STEPS))
        size = (after - before) / steps

        def slope(at: Floats, w: Floats) -> Floats:
            return rate(w) * scale * np.exp(at)

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
