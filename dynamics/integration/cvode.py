"""Stiff systems: BDF of variable order without a Jacobian matrix, by CVODE of SUNDIALS through scikit-sundae."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import Any

import numpy as np

from snapdyn.dynamics.classes.table import Floats

# Dimension of the Krylov space of GMRES. Calls (evaluations and products) on Syn-Small at eta_Z/eta_Y = 1000 with
# 5, 10, 20: 3011, 1921, 1911; on Syn-Medium, Q = 10: 3378, 2312, 2172.
KRYLOV_DIMENSION = 10


# SUNDIALS writes warnings, such as "t + h = t on the next step", to the file that this variable names, else to stdout.
# A run that fails says so in its message.
WARNINGS = "SUNLOGGER_WARNING_FILENAME"
STDOUT = threading.RLock()  # of the one thread at a time whose CVODE makes a step
NO_STEP = "Required step size is less than spacing between numbers"


class CVODESolver:
    """BDF of order 1 to 5 with Newton's method and GMRES; has the attributes of scipy's solvers that `integrate` uses.

    GMRES needs products of the Jacobian with vectors only: `write_product`, or difference quotients of SUNDIALS. There
    is no preconditioner. Analytic products conserve linear invariants to rounding.

    Parameters
    ----------
    write_rate : callable
        Function (tau, state, out) that writes d(state)/dtau to `out`.
    write_product : callable or None
        Function (tau, state, vector, out) that writes the derivative of the rate along `vector` to `out`.
    start, end : float
        Values of the integration variable.
    state : (size,) array
        State at `start`.
    rtol : float
    atol : float
    max_step : float
        Largest step; 0: no limit.

    Attributes
    ----------
    nfev : int
        Evaluations of the right-hand side plus products with its Jacobian (each costs about two evaluations).
    """

    def __init__(
        self,
        write_rate: Callable[..., None],
        write_product: Callable[..., None] | None,
        start: float,
        state: Floats,
        end: float,
        rtol: float,
        atol: float,
        max_step: float = 0.0,
    ) -> None:
        os.environ.setdefault(WARNINGS, "stderr")
        from sksundae.cvode import CVODE, CVODEJacTimes

        self._rate, self._product = write_rate, write_product
        self.t = self.t_old = start
        self.t_bound = end
        self.y: Floats = state.copy()
        self.status = "running"
        self.nfev = 0
        # The arrays of SUNDIALS are read-only; for those the kernels would be compiled again.
        self._state, self._vector = np.empty((2, self.y.size))
        products = CVODEJacTimes(None, self._write_product) if write_product else None
        self._solver = CVODE(
            self._write_rate,
            method="BDF",
            rtol=rtol,
            atol=atol,
            linsolver="gmres",
            krylov_dim=min(KRYLOV_DIMENSION, self.y.size),
            jactimes=products,
            max_step=max_step,
        )
        self._solver.init_step(start, self.y)

    def _write_rate(self, tau: float, state: Floats, out: Floats) -> None:
        self.nfev += 1
        self._state[:] = state
        self._rate(tau, self._state, out)

    def _write_product(self, tau: float, state: Floats, rate: Floats, vector: Floats, out: Floats) -> None:
        self.nfev += 1
        self._state[:], self._vector[:] = state, vector
        assert self._product is not None
        self._product(tau, self._state, self._vector, out)

    def step(self) -> str | None:
        """Make one step; return the reason if it fails."""
        result: Any = None
        for _ in range(2):  # after dense output the first call only returns to the step's end
            with STDOUT, redirect_stdout(sys.stderr):  # scikit-sundae prints the error of a step that fails
                result = self._solver.step(self.t_bound, method="onestep", tstop=self.t_bound)
            if result.status < 0 or result.t > self.t:
                break
        if result.status < 0 or result.t <= self.t:
            self.status = "failed"
            return str(result.message) if result.status < 0 else NO_STEP
        self.t_old, self.t, self.y = self.t, float(result.t), result.y
        if self.t >= self.t_bound:
            self.status = "finished"
        return None

    def dense_output(self) -> Callable[[float | Floats], Floats]:
        """Interpolant of the method's order for states in the last step, (n,) or (n, N); valid until the next step."""

        def interpolate(tau: float | Floats) -> Floats:
            inside = np.clip(np.atleast_1d(tau), self.t_old, self.t)
            rows = np.array([self._solver.step(float(at), method="normal", tstop=None).y for at in inside])
            return rows[0] if np.ndim(tau) == 0 else rows.T

        return interpolate
