"""Covariance between times of the fluctuations of SGD runs: the linear noise, propagated from record to record."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from snapdyn.dynamics.classes.table import Floats
from snapdyn.dynamics.integration.driver import whole_run
from snapdyn.dynamics.systems.finite_length import FiniteLengthMeanField
from snapdyn.dynamics.traces.clock import TraceClock
from snapdyn.dynamics.training.explicit_steps import descend
from snapdyn.dynamics.training.linear_noise import LinearNoise

# The covariance itself is correct to leading order in the rates: some percent. Jacobian and noise are constant on each
# of about this many intervals, even in ln(1 + t/t_s), which gives about 1e-4.
INTERVALS = 100
RTOL = 1e-6  # of the mean path
MOST_UPDATES = 10_000  # for which the mean with velocity is made update by update: seconds
# Norm of Jacobian times step up to which a series of so many terms has an error of 1e-9.
LARGEST_NORM, TERMS = 0.1, 6


def covariance_between_times(
    mean: FiniteLengthMeanField, clock: TraceClock, updates: Floats, observe: Callable[[int, Floats], Floats]
) -> tuple[Floats, Floats]:
    """Covariance, over runs of SGD, of linear observables at all records of a trace.

    Let A = dF/dx and D the noise of a step, both along the mean path (`training.linear_noise`). Then
    Sigma' = A Sigma + Sigma A^T + D, the propagator obeys Phi' = A Phi, and Cov(x(t), x(s)) = Phi(t, s) Sigma(s) for
    t >= s. With momentum the state is [x, w] with the velocity w: x' = w, w' = kappa (F(x) - w), and the noise enters
    w (`TraceClock.relaxation`).

    Parameters
    ----------
    mean : FiniteLengthMeanField
        With lump=False; seq_len None for infinite sequences.
    clock : TraceClock
    updates : (N,) array
        Updates at the records, increasing, from 0 on.
    observe : callable (k, x (n,)) -> (m, n)
        Derivative of the m observables with respect to the state, at record k and mean state x.

    Returns
    -------
    covariance : (N m, N m) array
        Covariance of the observables at all records, ordered record after record.
    variance : (N,) array
        Sum of the variances of all state values.

    Raises
    ------
    InputError
        More than 400 state values.
    RuntimeError
        The mean path cannot be integrated, or its steps diverge.
    """
    kappa = clock.relaxation
    times = clock.rate_factor / (1.0 - clock.momentum) * updates
    noise, n = LinearNoise(mean), mean.size
    ends = _ends(times, mean.time_scale)
    starts = np.concatenate([[0.0], ends[:-1]])
    at_middles = _mean_states(mean, clock, 0.5 * (starts + ends))
    at_records, record_at = _mean_states(mean, clock, times), {float(t): k for k, t in enumerate(times)}
    values = n if kappa is None else 2 * n
    sigma, carried = np.zeros((values, values)), np.empty((values, 0))  # carried: Cov(x(t), y(s)) of all records s
    blocks: list[Floats] = []
    variance = np.empty(times.size)
    for start, end, x in zip(starts, ends, at_middles, strict=True):
        A, D = noise.linearised(x, mean.derivative(0.0, x))
        if kappa is not None:
            A, D = _with_velocity(kappa, A, D)
        phi, added = _propagated(A, D, end - start)
        sigma = phi @ sigma @ phi.T + added
        carried = phi @ carried
        k = record_at.get(float(end))
        if k is not None:
            H = observe(k, at_records[k])
            variance[k] = np.trace(sigma[:n, :n])
            carried = np.concatenate([carried, sigma[:, :n] @ H.T], axis=1)
            blocks.append(H @ carried[:n])
    m = blocks[0].shape[0]
    covariance = np.zeros((times.size * m, times.size * m))
    for k, block in enumerate(blocks):
        covariance[k * m : (k + 1) * m, : block.shape[1]] = block
    lower, factor = np.tril(covariance, -1), clock.noise_factor
    return factor * (lower + lower.T + np.diag(np.diagonal(covariance))), factor * variance


def _mean_states(mean: FiniteLengthMeanField, clock: TraceClock, times: Floats) -> Floats:
    """States (k, n) of the mean path: by steps with momentum if these are few, else by the flow at delayed times."""
    kappa, rows = clock.relaxation, np.arange(times.size)
    to_updates = (1.0 - clock.momentum) / clock.rate_factor
    if kappa is not None and times[-1] * to_updates <= MOST_UPDATES:
        made, rows = np.unique(np.rint(times * to_updates).astype(int), return_inverse=True)
        run = descend(mean, int(made[-1]), clock.rate_factor, clock.momentum, made, save_decoder=True)
        if run.status == "interrupted":
            raise KeyboardInterrupt
        if not run.success:
            raise RuntimeError(run.message)
    else:
        delayed = times if kappa is None else times + np.expm1(-kappa * times) / kappa
        run = whole_run(mean, delayed, rtol=RTOL, atol=RTOL / 100, save_decoder=True)
    assert run.Y is not None
    states = np.empty((run.t.size, mean.size))
    states[:, mean.layout.slot_of_z] = run.z_support
    states[:, mean.layout.num_slots :] = run.Y.reshape(run.t.size, -1)
    return states[rows]


def _ends(times: Floats, time_scale: float) -> Floats:
    """Ends of intervals of about equal length in ln(1 + t/time_scale): `times`, and further times between them."""
    u = np.log1p(np.concatenate([[0.0], times]) / time_scale)
    found: list[float] = []
    for start, end, time in zip(u[:-1], u[1:], times, strict=True):
        parts = int(np.ceil(INTERVALS * (end - start) / u[-1]))
        found += (np.expm1(np.linspace(start, end, parts, endpoint=False)[1:]) * time_scale).tolist()
        found.append(float(time))
    return np.array(found)


def _with_velocity(kappa: float, A: Floats, D: Floats) -> tuple[Floats, Floats]:
    """Jacobian (2n, 2n) of x' = w, w' = kappa (F(x) - w), and the noise of [x, w] per time."""
    nothing, one = np.zeros_like(A), np.eye(len(A))
    jacobian = np.block([[nothing, one], [kappa * A, -kappa * one]])
    return jacobian, np.block([[nothing, nothing], [nothing, kappa**2 * D]])


def _propagated(A: Floats, D: Floats, time: float) -> tuple[Floats, Floats]:
    """Phi = exp(A t) and int_0^t exp(A s) D exp(A^T s) ds: Taylor series over a short time, doubled repeatedly."""
    doublings = max(0, math.ceil(math.log2(max(float(np.linalg.norm(A)) * time / LARGEST_NORM, 1.0))))
    h = time / 2**doublings
    phi, of_phi, added, of_added = np.eye(len(A)), np.eye(len(A)), h * D, h * D
    for k in range(1, TERMS + 1):
        of_phi = A @ of_phi * (h / k)
        half = A @ of_added
        of_added = (half + half.T) * (h / (k + 1))
        phi, added = phi + of_phi, added + of_added
    for _ in range(doublings):
        phi, added = phi @ phi, added + phi @ added @ phi.T
    return phi, added
