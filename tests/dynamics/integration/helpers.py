"""A small mean field, its independent solution, and the systems that every integrator runs."""

import math
from collections.abc import Callable

import numpy as np
from scipy.integrate import solve_ivp

from snapdyn.dynamics import (
    FrozenDecoder,
    MeanField,
    ModifiedDecoder,
    SingleCommonToken,
    System,
    Trajectory,
)
from tests.dynamics.dense_reference import Array, mean_field, random_instance

INSTANCE = random_instance(21, num_classes=4, num_tokens=8, twins=((1, 2), (5, 7)), vocab_size=12)
ETA_Y, ETA_Z = 1.0, 0.5


def mean_field_system(eta_Z: float = ETA_Z) -> MeanField:
    return MeanField(INSTANCE.classes(), ETA_Y, eta_Z)


def reference_z(times: Array, method: str, rtol: float, atol: float) -> Array:
    """z (N, Q, M) of the dense mean field by scipy's solve_ivp on a numpy right-hand side."""
    Q, M, V = len(INSTANCE.query_ids), INSTANCE.P.shape[1], INSTANCE.vocab_size

    def rate(t: float, state: Array) -> Array:
        z, Y = state[: Q * M].reshape(Q, M), state[Q * M :].reshape(-1, V)
        dY, dz, _ = mean_field(INSTANCE, Y, z, ETA_Y, ETA_Z)
        return np.concatenate([dz.ravel(), dY.ravel()])

    start = np.zeros(Q * M + INSTANCE.num_rows * V)
    run = solve_ivp(rate, (0.0, times[-1]), start, method=method, t_eval=times, rtol=rtol, atol=atol)
    assert run.success
    return run.y[: Q * M].T.reshape(-1, Q, M)


def tolerance(trajectory: Trajectory, size: float | None = None) -> float:
    """Bound on the accumulated error of values up to `size` (default: the largest logit, at least 1).

    Every step may err by its tolerance. It is accepted when the root mean square over the n state values of
    error/(atol + rtol |x|) is below 1, so one value may err by sqrt(n) tolerances; ascent on a log-likelihood does
    not amplify errors by more than an order-one factor, so they add up over the steps.
    """
    if size is None:
        size = max(1.0, float(np.abs(trajectory.z_support).max()))
    stats = trajectory.stats
    return stats["steps"] * math.sqrt(stats["state_size"]) * (stats["atol"] + stats["rtol"] * size)


START = np.random.default_rng(3).normal(size=(2, 8))
SYSTEMS: dict[str, Callable[[], System]] = {
    "MeanField": mean_field_system,
    "MeanField with residual": lambda: MeanField(INSTANCE.classes(), 1.0, 0.5, residual=True),
    "MeanField with initial logits": lambda: MeanField(INSTANCE.classes(), 1.0, 0.5, z_initial=START),
    "FrozenDecoder": lambda: FrozenDecoder(INSTANCE.classes(), 1.0),
    "modified FrozenDecoder": lambda: FrozenDecoder(INSTANCE.classes(), 1.0, modified=True, z_initial=START),
    "ModifiedDecoder": lambda: ModifiedDecoder(INSTANCE.classes(), 1.0, 0.5, z_initial=START),
    "SingleCommonToken": lambda: SingleCommonToken(5, 100, 1.0, 0.5, 3.0),
}


def overflowing() -> System:
    """z grows by exp(4 z) at a rate that no step can follow: infinite from the first step on."""
    return SingleCommonToken(5, 100, 1e300, 1e300, 1e-30)
