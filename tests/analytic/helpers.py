"""Eq. (10) integrated by dense algebra and scipy: no kernel."""

import numpy as np
from scipy.integrate import solve_ivp

from tests.dynamics.dense_reference import Array, Instance, eq_10


def integrated_eq_10(instance: Instance, times: Array, eta_Y: float, eta_Z: float, leading: bool = False) -> Array:
    """z (N, M) of the only query under Eq. (10) from zero, E' by matrix inversion."""
    K, M = instance.P.shape

    def rates(t: float, state: Array) -> Array:
        dz, du = eq_10(instance, state[M:], state[None, :M], eta_Y, eta_Z, leading)
        return np.concatenate([dz[0], du])

    settings = {"method": "DOP853", "t_eval": times, "rtol": 1e-12, "atol": 1e-18}
    solution = solve_ivp(rates, (0, times[-1]), np.zeros(M + K), **settings)
    assert solution.success
    return solution.y[:M].T
