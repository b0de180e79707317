"""Whether a run keeps what its flow conserves: a function of states at the ends of steps, and of the tolerances.

A run has failed if a conserved quantity changes by more than a bound that rounding and the tolerances set.

Every conserved quantity here is a sum q = sum_j m_j y_j of state values with weights m_j (`ConservedSum`): a row of Y
over all outputs, a row of z over all tokens. In every state the terms of its rate sum_j m_j dy_j/dt cancel. A
Runge-Kutta or multistep method adds multiples of rates, so it changes q by rounding only; an implicit method changes q
also by the residual that it leaves in its equations.

*Rounding.* By Higham's rule a sum of `terms` numbers, however ordered, errs by at most gamma times the sum of their
absolute values, gamma = terms * eps (Accuracy and Stability of Numerical Algorithms, 2nd ed., Sec. 3.1). `terms` counts
the additions behind one value of the rate: output columns or tokens, classes, and the stages of the method. One
evaluation adds at most step times rate to the state. In absolute value, the terms of the rate times the step are at
most about as large as the state. For the solver rejects a step that changes the state by more than the size of the
state; and where the terms of a rate cancel (two classes with equal attention and different next tokens), the
eigenvalues -eta_Y p_n alpha_n (1 - alpha_n) of the Jacobian keep the product of step and term within the stability
interval of an explicit method. So

    |change of q| <= evaluations * gamma * (scale + margin),

with scale the largest sum_j m_j |y_j| so far and margin = 10 for the interval of stability (DOP853: 6). For z there is
one more contribution: the terms of its rate are eta_Z/eta_Y times those of Y, times |Y|, so the scale contains
(eta_Z/eta_Y) (1 + |Y|)^2. A Chebyshev method of s stages amplifies the rounding of stage j by at most s - j + 1: hence
the factor MOST_STAGES in gamma.

*Tolerance.* Implicit methods (LSODA, BDF, Radau, CVODE) solve their equations until the residual, divided by
w_j = atol + rtol |y_j|, has a root mean square below 1. By Cauchy and Schwarz this residual moves q by at most
sqrt(n) sqrt(sum_j (m_j w_j)^2) <= sqrt(n) (atol sum_j m_j + rtol scale) a step, n the number of state values.

Only linear sums have such a bound; other invariants of a system are reported but not checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from snapdyn.dynamics.classes.table import Floats
from snapdyn.dynamics.systems.base import ConservedSum, System

IMPLICIT = ("LSODA", "BDF", "Radau", "CVODE")
STAGES = 16  # largest number of stages that a method other than Chebyshev's adds
MARGIN = 10.0
Conserved = dict[str, tuple[Floats, ConservedSum]]
"""Violation (N,) and scale of each conserved sum of N states, by name."""


def conserved(system: System, states: Floats) -> Conserved:
    """Violation and scale of each sum that the flow of a system conserves, for states (N, size)."""
    with np.errstate(all="ignore"):  # of a run that overflows
        sums = system.conserved_sums(states)
        violations = system.invariants(states) if sums else {}
    return {name: (violations[name], each) for name, each in sums.items()}


def violation_bound(conserved: ConservedSum, run: Mapping[str, Any]) -> Floats:
    """Largest violation of a conserved sum, (N,), that rounding and the tolerance explain at N increasing times.

    Parameters
    ----------
    conserved : ConservedSum
        Its scale at these times.
    run : mapping
        The entries method, rtol, atol, state_size, evaluations and steps of `Trajectory.stats`.

    Returns
    -------
    (N,) array
    """
    scale = np.maximum.accumulate(conserved.scale)
    gamma = (conserved.terms + STAGES) * np.finfo(np.float64).eps
    if run["method"] == "RKC":
        from snapdyn.dynamics.integration.scipy_solvers import MOST_STAGES

        gamma *= MOST_STAGES
    bound = run["evaluations"] * gamma * (scale + MARGIN)
    if run["method"] in IMPLICIT:
        remainder = run["atol"] * conserved.weight + run["rtol"] * scale
        bound = bound + run["steps"] * np.sqrt(run["state_size"]) * remainder
    return np.asarray(bound)


def violation_message(times: Floats, conserved: Conserved, run: Mapping[str, Any]) -> str:
    """Say from which time on a run violates a conserved sum; "" for a run within the bounds at all times.

    Parameters
    ----------
    times : (N,) array
        Increasing times, batch-size-1 steps.
    conserved : Conserved
        Of the states at these times.
    run : mapping
        As for `violation_bound`.
    """
    first, message = times.size, ""
    for name, (violation, sums) in conserved.items():
        with np.errstate(all="ignore"):
            bound = violation_bound(sums, run)
            beyond = np.flatnonzero(~(violation <= bound))  # also where one of them is not a number
        if beyond.size and beyond[0] < first:
            first = int(beyond[0])
            message = (
                f"failed at t = {times[first]:.6g} or before: the {name}, which the flow conserves, changed by "
                f"{violation[first]:.3g}, and rounding and the tolerances explain at most {bound[first]:.3g}; try "
                "another method, a smaller rtol or log_time=True"
            )
    return message
