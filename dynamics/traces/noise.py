"""Covariance between times of what runs of SGD fluctuate in: the linear noise, propagated from record to record."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from snapdyn.dynamics.classes.table import Floats
from snapdyn.dynamics.integration.driver import whole_run
from snapdyn.dynamics.systems.base import System
from snapdyn.dynamics.systems.finite_length import FiniteLengthMeanField
from snapdyn.dynamics.training.linear_noise import LinearNoise

# The covariance itself is correct to leading order in the rates: some percent.
RTOL = 1e-4


class NoiseBetweenTimes(System):
    """Mean path, covariance and propagator from one time to the next: state [x, Sigma/unit, Phi], Phi' = A Phi.

    With a relaxation rate kappa, the state of a run is [x, w] with the velocity w: x' = w, w' = kappa (F(x) - w), and
    the noise enters w. Then x, Sigma and Phi are those of [x, w], and A is their Jacobian.

    Parameters
    ----------
    noise : LinearNoise
        It gives A = dF/dx and the noise of a step, D = B^T B.
    relaxation : float, optional
        kappa, per unit of time; None is a run without momentum.
    """

    def __init__(self, noise: LinearNoise, relaxation: float | None = None) -> None:
        self.noise, self.relaxation = noise, relaxation
        self.eta_Y, n = noise.eta_Y, noise.mean.size
        self.values = n if relaxation is None else 2 * n
        self.size = self.values + 2 * self.values**2
        self.start = np.zeros(self.size)
        self.start[:n] = noise.mean.initial_state()

    @property
    def rate_ratio(self) -> float:
        return self.noise.rate_ratio

    def initial_state(self) -> Floats:
        return self.start

    def write_rate(self, state: Floats, out: Floats) -> None:
        (x, sigma, phi), (F, sigma_rate, phi_rate) = self.split(state), self.split(out)
        n = self.noise.mean.size
        mean_rate = F[:n]
        self.noise.mean.write_rate(x[:n], mean_rate)
        A, D = self.noise.linearised(x[:n], mean_rate)
        if self.relaxation is not None:
            kappa, A, D = self.relaxation, *_with_velocity(self.relaxation, A, D)
            F[n:] = kappa * (mean_rate - x[n:])
            F[:n] = x[n:]
        half = A @ sigma
        sigma_rate[...] = half + half.T + D
        np.matmul(A, phi, out=phi_rate)

    def split(self, state: Floats) -> tuple[Floats, Floats, Floats]:
        """(x (n,), Sigma/unit (n, n), Phi (n, n)) as views of a state, n the number of values of a run."""
        n = self.values
        return state[:n], state[n : n + n * n].reshape(n, n), state[n + n * n :].reshape(n, n)

    def restart(self, state: Floats) -> None:
        """Start the next run from x and Sigma of `state`, with Phi = 1."""
        self.start = state.copy()
        self.split(self.start)[2][...] = np.eye(self.values)


def _with_velocity(kappa: float, A: Floats, D: Floats) -> tuple[Floats, Floats]:
    """Jacobian (2n, 2n) of x' = w, w' = kappa (F(x) - w), and the noise of [x, w] per time."""
    n = len(A)
    jacobian, noise = np.zeros((2 * n, 2 * n)), np.zeros((2 * n, 2 * n))
    jacobian[:n, n:] = np.eye(n)
    jacobian[n:, :n] = kappa * A
    jacobian[n:, n:] = -kappa * np.eye(n)
    noise[n:, n:] = kappa**2 * D
    return jacobian, noise


def covariance_between_times(
    mean: FiniteLengthMeanField,
    times: Floats,
    observe: Callable[[int, Floats], Floats],
    relaxation: float | None = None,
) -> tuple[Floats, Floats]:
    """Covariance of linear observables over runs of SGD of batch size 1, all times together.

    With Phi(t, s) the propagator of the linearised mean field, Cov(x(t), x(s)) = Phi(t, s) Sigma(s) for t >= s; Sigma
    and its derivation are in `training.linear_noise`. With momentum, x is [x, w] with the velocity w.

    Parameters
    ----------
    mean : FiniteLengthMeanField
        With lump=False; seq_len None for infinite sequences.
    times : (N,) array
        Batch-size-1 steps, increasing, from 0 on.
    observe : callable (k, x (n,)) -> (m, n)
        Derivative of the m observables with respect to the state, at time k and mean state x.
    relaxation : float, optional
        Rate at which the velocity of the heavy ball follows the gradient, per unit of `times` (`TraceClock.relaxation`).

    Returns
    -------
    covariance : (N m, N m) array
        Time after time.
    variance : (N,) array
        Sum of the variances of all state values.

    Raises
    ------
    InputError
        More than 400 state values.
    RuntimeError
        The integration failed.
    """
    system = NoiseBetweenTimes(LinearNoise(mean), relaxation)
    unit, n, t = system.noise.unit, mean.size, 0.0
    state = system.start
    carried = np.empty((system.values, 0))  # Cov(x(t), y(s)) of all earlier records s
    blocks: list[Floats] = []
    variance = np.empty(times.size)
    for k, time in enumerate(times):
        system.restart(state)
        state = system.start
        if time > t:
            state = whole_run(system, [time - t], rtol=RTOL, atol=RTOL / 100).require_state()[0]
            t = float(time)
        x, sigma, phi = system.split(state)
        H = observe(k, x[:n])
        variance[k] = unit * np.trace(sigma[:n, :n])
        carried = np.concatenate([phi @ carried, unit * sigma[:, :n] @ H.T], axis=1)
        blocks.append(H @ carried[:n])
    m = blocks[0].shape[0]
    covariance = np.zeros((times.size * m, times.size * m))
    for k, block in enumerate(blocks):
        covariance[k * m : (k + 1) * m, : block.shape[1]] = block
    lower = np.tril(covariance, -1)
    return lower + lower.T + np.diag(np.diagonal(covariance)), variance
