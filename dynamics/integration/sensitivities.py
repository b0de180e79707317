"""`sensitivity`: integrates a system with its derivatives with respect to parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.dynamics.classes import Floats, SequenceClasses
from snapdyn.dynamics.integration.driver import integrate
from snapdyn.dynamics.integration.sensitivity_result import Sensitivity
from snapdyn.dynamics.systems.base import System
from snapdyn.dynamics.systems.mean_field import MeanField
from snapdyn.dynamics.systems.own.symbolic import SymbolicSensitivity, SymbolicSystem
from snapdyn.dynamics.systems.parameters import Direction, checked_directions
from snapdyn.dynamics.systems.variational import DifferencedSensitivity, MeanFieldSensitivity, SensitivitySystem
from snapdyn.dynamics.trajectory import Trajectory
from snapdyn.errors import instance


def sensitivity(
    system: System,
    t_eval: ArrayLike,
    wrt: Any = ("eta_Y", "eta_Z"),
    rtol: float = 1e-9,
    atol: float = 1e-11,
) -> Sensitivity:
    """Integrate a system with its derivatives with respect to parameters.

    Forward variational equations: with x' = F(x, p), dx/dp obeys S' = (dF/dx) S + dF/dp. For a `MeanField` without
    residual connection the products with dF/dx are exact and compiled into the integrator; P acts through ln P + z.
    For a system of `System.from_sympy` rate and start are differentiated symbolically, and compiled too. For every
    other system the products are central differences of the rate, with a relative error of about 1e-9.

    Parameters
    ----------
    system : System
    t_eval : (N,) array_like
        Times in batch-size-1 steps.
    wrt : sequence
        Parameters: names of real parameters of the system; for a `MeanField` also pairs ("P", direction), direction
        (S, M) with rows that sum to 0 and zeros where P is 0, and ("z_initial", direction), direction (Q, M).
    rtol : float
        Relative tolerance of state and derivatives.
    atol : float
        Absolute tolerance of the state, and of derivatives with respect to the logarithm of a parameter or to a
        direction of unit size.

    Returns
    -------
    Sensitivity

    Raises
    ------
    InputError
        Unknown parameters or directions of another shape; what `integrate` raises.
    RuntimeError
        The integration failed; the message says where.

    Examples
    --------
    >>> import snapdyn as sd
    >>> system = sd.MeanField(sd.syn_small(), eta_Y=1.0, eta_Z=1.0)
    >>> result = sd.sensitivity(system, [1.0, 10.0, 100.0], wrt=("eta_Y", "eta_Z"))
    >>> result.attention.shape
    (3, 2, 2, 30)
    >>> result.loss.round(4)
    array([[-0.4496, -0.    ],
           [-0.9741, -0.0129],
           [-0.0318, -0.0018]])
    """
    instance("system", system, System, "build one, such as MeanField(classes, eta_Y, eta_Z)")
    directions = checked_directions(system, wrt)
    augmented = _with_derivatives(system, directions)
    run = integrate(augmented, t_eval, rtol=rtol, atol=atol)
    if run.status == "interrupted":
        raise KeyboardInterrupt
    if not run.success:
        raise RuntimeError(run.message)
    states = run.require_state()
    x, derivatives = augmented.parts(states)
    losses, loss_changes = augmented.losses(states)
    classes, has_z = system.classes, system.has_z
    # None: a system without attention logits, or without a loss.
    z: Any = augmented.z_of(x) if has_z else None
    z_initial: Any = system.z_initial
    loss: Any = losses if system.has_loss else None
    trajectory = Trajectory(
        classes=classes,
        t=run.t,
        z_support=z,
        z_initial=z_initial,
        loss=loss,
        system=system.name,
        parameters=dict(system.parameters),
        stats=run.stats,
        wall_time=run.wall_time,
        state=None if has_z else x,
        value_names=tuple(system.value_names),
        state_shapes={} if has_z else dict(system.state_shapes),
        observables=system.observables(x),
    )
    z_changes = augmented.z_of(derivatives) if has_z else np.empty((*derivatives.shape[:2], 0))
    entries = np.empty((*derivatives.shape[:2], 0))
    if classes is not None and z is not None:
        entries = _attention_changes(classes, z, z_changes, augmented.log_p_changes())
    kinds = tuple(direction.kind for direction in directions)
    observables = augmented.observable_changes(states)
    return Sensitivity(trajectory, kinds, derivatives, z_changes, entries, loss_changes, observables)


def _with_derivatives(system: System, directions: list[Direction]) -> SensitivitySystem:
    if type(system) is MeanField and not system.residual:
        return MeanFieldSensitivity(system, directions)
    by_name = all(direction.values is None for direction in directions)
    exact = SymbolicSensitivity.of(system, directions) if isinstance(system, SymbolicSystem) and by_name else None
    return exact or DifferencedSensitivity(system, directions)


def _attention_changes(classes: SequenceClasses, z: Floats, z_changes: Floats, log_p_changes: Floats) -> Floats:
    """dc_n[l] = c_n[l] (x_l - sum_k c_n[k] x_k), x the change of ln P + z: (N, k, nnz)."""
    c = classes.attention_from_support(z)[:, None]
    change = z_changes[..., classes.z_of_entry] + log_p_changes
    mean = np.add.reduceat(c * change, classes.P.indptr[:-1], axis=-1)
    return np.asarray(c * (change - np.repeat(mean, np.diff(classes.P.indptr), axis=-1)))
