"""What rounding and tolerance can leave of a conserved quantity; a run beyond it has failed.

Every conserved quantity here is a sum q = sum_j m_j y_j of state values with weights m_j (`ConservedSum`): a row of Y
over all outputs, a row of z over all tokens. Its rate is zero term by term sum, so a method that adds rates, as every
Runge-Kutta and multistep method does, changes it by rounding only, and by what an implicit method leaves of its
equations.

*Rounding.* By Higham's rule a sum of `terms` numbers, however ordered, errs by at most gamma times the sum of their
absolute values, gamma = terms * eps (Accuracy and Stability of Numerical Algorithms, 2nd ed., Sec. 3.1). `terms` counts
the additions behind one value of the rate: output columns or tokens, classes, and the stages of the method. One
evaluation contributes at most step times rate to the state, in absolute values at most about the state itself: a step
that changes the state by more than its size is rejected, and where the terms of a rate cancel (two classes with equal
attention and different next tokens), the eigenvalues -eta_Y p_n alpha_n (1 - alpha_n) of the Jacobian keep step times
term of an explicit method below its interval of stability. So

    |change of q| <= evaluations * gamma * (scale + margin),

with scale the largest sum_j m_j |y_j| so far and margin = 10 for the interval of stability (DOP853: 6). For z there is
one more contribution: the terms of its rate are eta_Z/eta_Y times those of Y, times |Y|, so the scale contains
(eta_Z/eta_Y) (1 + |Y|)^2. A Chebyshev method amplifies the rounding of stage j by at most s - j + 1 of its s stages:
a factor MOST_STAGES.

*Tolerance.* Implicit methods (LSODA, BDF, Radau, CVODE) solve their equations until the remainder has weighted root
mean square below 1, weights w_j = atol + rtol |y_j|. By Cauchy and Schwarz it moves q by at most
sqrt(n) sqrt(sum_j (m_j w_j)^2) <= sqrt(n) (atol sum_j m_j + rtol scale) a step.

The scale at a saved time includes the next saved time, since a save lies inside a step. Only linear sums have such a
bound; other invariants of a system are reported and not judged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from snapdyn.dynamics.classes import Floats
from snapdyn.dynamics.integration.rkc import MOST_STAGES
from snapdyn.dynamics.systems.base import ConservedSum

IMPLICIT = ("LSODA", "BDF", "Radau", "CVODE")
STAGES = 16  # largest number of stages that a method other than Chebyshev's adds
MARGIN = 10.0


def violation_bound(conserved: ConservedSum, run: Mapping[str, Any]) -> Floats:
    """Largest violation of a conserved sum, (N,), that rounding and the tolerance explain at the saved times.

    Parameters
    ----------
    conserved : ConservedSum
        Its scale at the N saved times.
    run : mapping
        The entries method, rtol, atol, state_size, evaluations and steps of `Trajectory.stats`.

    Returns
    -------
    (N,) array
    """
    scale = np.maximum.accumulate(np.append(conserved.scale[1:], conserved.scale[-1:]))
    scale = np.maximum(scale, conserved.scale)
    gamma = (conserved.terms + STAGES) * np.finfo(np.float64).eps * (MOST_STAGES if run["method"] == "RKC" else 1)
    bound = run["evaluations"] * gamma * (scale + MARGIN)
    if run["method"] in IMPLICIT:
        remainder = run["atol"] * conserved.weight + run["rtol"] * scale
        bound = bound + run["steps"] * np.sqrt(run["state_size"]) * remainder
    return np.asarray(bound)


def violation_message(
    times: Floats,
    invariants: Mapping[str, Floats],
    conserved: Mapping[str, ConservedSum],
    run: Mapping[str, Any],
) -> str | None:
    """Say from which time on a run violates what it conserves, or None for a run within the bound at all times.

    Parameters
    ----------
    times : (N,) array
        Saved times, batch-size-1 steps.
    invariants : mapping of str to (N,) array
        Violation of each conserved quantity.
    conserved : mapping of str to ConservedSum
        Those with a bound.
    run : mapping
        The entries method, rtol, atol, state_size, evaluations and steps of `Trajectory.stats`.
    """
    first = times.size
    message = None
    for name, each in conserved.items():
        violation = invariants[name]
        with np.errstate(all="ignore"):
            bound = violation_bound(each, run)
            beyond = np.flatnonzero(~(violation <= bound))  # also where one of them is not a number
        if beyond.size and beyond[0] < first:
            first = int(beyond[0])
            kept = f"use the times before it ({first} of {times.size})" if first else "use none of its times"
            message = (
                f"failed from t = {times[first]:.6g} on: the {name}, which the flow conserves, changed by "
                f"{violation[first]:.3g}, and rounding and the tolerances explain at most {bound[first]:.3g}; {kept}, "
                "or try another method, a smaller rtol or log_time=True"
            )
    return message
