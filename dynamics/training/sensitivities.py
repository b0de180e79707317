"""`sensitivity`: integrates a system with its derivatives with respect to parameters, and what it returns."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.core.errors import (
    LARGEST_WHOLE,
    InputError,
    choice,
    finite_array,
    instance,
    list_of,
    number,
    shown,
    whole,
)
from snapdyn.dynamics.classes.table import Floats, SequenceClasses
from snapdyn.dynamics.integration.driver import integrate, whole_run
from snapdyn.dynamics.systems.base import System
from snapdyn.dynamics.systems.mean_field import MeanField
from snapdyn.dynamics.systems.own.own_system import OwnSystem
from snapdyn.dynamics.systems.variational import (
    DifferencedSensitivity,
    Direction,
    MeanFieldSensitivity,
    SensitivitySystem,
)
from snapdyn.dynamics.trajectories.trajectory import Trajectory

# Rows of a direction in P sum to 0 within this share of their absolute values.
ROW_SUM_TOLERANCE = 1e-9
# Relative steps of the differences of runs, and what may lie between them and the derivatives: far above the error of
# the first one of a smooth rate, far below what a jump adds.
DIFFERENCES, LARGEST_GAP = (1e-4, 2.5e-5), 1e-3


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """A trajectory and its derivatives with respect to k parameters, each in its own units.

    Attributes
    ----------
    trajectory : Trajectory
        The run itself; t in batch-size-1 steps. Its `state` is kept for a system without attention logits.
    wrt : sequence of str
        Kinds of the parameters: names, "P" or "z_initial".
    state : (N, k, n) array
        Derivatives of the state values, in the layout of the system.
    z_support : (N, k, nz) array
        Derivatives of the attention logits on classes.z_coordinates; empty for a system without them.
    attention_entries : (N, k, nnz) array
        Derivatives of the attention c_n[l] of Eq. (5) on the stored entries of P; empty for a system without classes.
    loss : (N, k) array
        Derivatives of the loss; NaN for a system without loss.
    observables : dict of str to (N, k, ...) array
        Derivatives of the observables that the system declares.

    Examples
    --------
    >>> import snapdyn as sd
    >>> sd.sensitivity(sd.MeanField(sd.syn_small(), 1.0, 1.0), [1.0, 10.0]).entropy().shape
    (2, 2, 2)
    """

    trajectory: Trajectory
    wrt: Sequence[str]
    state: Floats
    z_support: Floats
    attention_entries: Floats
    loss: Floats
    observables: dict[str, Floats] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Sensitivity({self.trajectory!r}, wrt {', '.join(self.wrt)})"

    @property
    def attention(self) -> Floats:
        """Derivatives of the attention, (N, k, S, M)."""
        classes = self.trajectory.require_classes()
        dense = np.zeros((*self.attention_entries.shape[:2], classes.num_classes, classes.num_tokens))
        dense[..., classes.class_of_entry, classes.P.indices] = self.attention_entries
        return dense

    def entropy(self) -> Floats:
        """Derivatives of the entropy of each class's attention, (N, k, S), nats."""
        classes = self.trajectory.require_classes()
        c = self.trajectory.attention_entries[:, None]
        # d(-sum c ln c) = -sum dc ln c, since sum dc = 0.
        terms = -self.attention_entries * np.log(c, out=np.zeros_like(c), where=c > 0)
        return np.asarray(np.add.reduceat(terms, classes.P.indptr[:-1], axis=-1))

    def crossing(self, observable: str, *indices: int, level: float) -> tuple[float, Floats]:
        """First time at which an observable passes a level, and the derivatives of that time.

        From o(t(p), p) = level: dt/dp = -(do/dp)/(do/dt). Between the saved times o and do/dp are interpolated by
        cubic splines, so save densely around the crossing.

        Parameters
        ----------
        observable : str
            "loss", "entropy" or "attention"; for a system that lacks it, an observable or a state value by name.
        *indices : int
            The class for "entropy"; class and token for "attention"; the place in an observable that is an array.
        level : float

        Returns
        -------
        t : float
            In batch-size-1 steps; NaN where the observable does not pass the level.
        derivatives : (k,) array
            Steps per unit of each parameter.

        Raises
        ------
        InputError
            An unknown observable, a wrong number of indices, or fewer than four saved times.

        Examples
        --------
        How much later the loss falls below 1 nat if eta_Y, or eta_Z, is larger by 0.01:

        >>> import numpy as np
        >>> import snapdyn as sd
        >>> system = sd.MeanField(sd.syn_small(), eta_Y=1.0, eta_Z=1.0)
        >>> result = sd.sensitivity(system, np.linspace(0, 20, 81), ("eta_Y", "eta_Z"))
        >>> t, derivatives = result.crossing("loss", level=1.0)
        >>> round(t, 2), (0.01 * derivatives).round(4)
        (7.74, array([-0.077 , -0.0004]))
        """
        from scipy.interpolate import CubicSpline

        values, changes = self._observable(observable, indices)
        level, t = number("level", level), self.trajectory.t
        if t.size < 4:
            raise InputError(f"expected at least 4 saved times for a crossing, received {t.size}; add times to t_eval")
        passed = np.flatnonzero(np.diff(np.sign(values - level)) != 0)
        if passed.size == 0:
            return float("nan"), np.full(changes.shape[1], np.nan)
        first = int(passed[0])
        spline = CubicSpline(t, values - level)
        roots = spline.solve(0.0, extrapolate=False)
        inside = roots[(roots >= t[first]) & (roots <= t[first + 1])]
        at = float(inside[0]) if inside.size else float(t[first])
        return at, np.asarray(-CubicSpline(t, changes)(at) / spline(at, 1))

    def _observable(self, name: str, indices: tuple[int, ...]) -> tuple[Floats, Floats]:
        """Values (N,) and derivatives (N, k)."""
        run = self.trajectory
        changes = dict(zip(run.value_names, np.moveaxis(self.state, -1, 0), strict=False)) | self.observables
        if run.has_loss:
            changes["loss"] = self.loss
        if run.classes:
            changes |= {"entropy": self.entropy(), "attention": self.attention}
        choice("observable", name, changes)
        values = run.observable(name)
        place: Any = tuple(whole("index", each, -LARGEST_WHOLE) for each in indices)
        if len(place) == values.ndim - 1:
            with suppress(IndexError):
                return values[:, *place], changes[name][:, :, *place]
        raise InputError(
            f"expected {values.ndim - 1} indices for {name}, of shape {values.shape[1:]}, received {shown(indices)}; "
            "give the indices of one entry"
        )


def sensitivity(
    system: System,
    t_eval: ArrayLike,
    wrt: Any = ("eta_Y", "eta_Z"),
    rtol: float = 1e-9,
    atol: float = 1e-11,
    most_evaluations: int | None = None,
) -> Sensitivity:
    """Integrate a system with its derivatives with respect to parameters.

    Forward variational equations: with x' = F(x, p), dx/dp obeys S' = (dF/dx) S + dF/dp. For a `MeanField` without
    residual connection the products with dF/dx are exact and compiled into the integrator; P acts through ln P + z.
    For every other system the products are central differences of the rate, with a relative error of about 1e-9. Where
    an own rate may jump, the derivatives are compared with differences of runs, since they lack what a jump adds that
    moves with a parameter.

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
    most_evaluations : int, optional
        As in `integrate`: without it, a run that is estimated to take too long is refused.

    Returns
    -------
    Sensitivity

    Raises
    ------
    InputError
        Unknown parameters or directions of another shape; a parameter that moves a jump of the rate; what `integrate`
        raises.
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
    run = integrate(augmented, t_eval, rtol=rtol, atol=atol, most_evaluations=most_evaluations)
    if run.status == "interrupted":
        raise KeyboardInterrupt
    if not run.success:
        raise RuntimeError(run.message)
    states = run.require_state()
    x, derivatives = augmented.parts(states)
    if isinstance(system, OwnSystem) and system.may_jump:
        _require_same_as_differences(system, directions, run.t, derivatives)
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
        entries = _attention_changes(classes, z, z_changes, augmented.log_p_changes)
    kinds = tuple(direction.kind for direction in directions)
    observables = augmented.observable_changes(states)
    return Sensitivity(trajectory, kinds, derivatives, z_changes, entries, loss_changes, observables)


def _require_same_as_differences(
    system: OwnSystem, directions: list[Direction], t: Floats, derivatives: Floats
) -> None:
    """Raise InputError where derivatives (N, k, n) differ from differences of runs, however small these are.

    A jump of the rate at t* adds (F before - F after) dt*/dp to the derivatives, which the variational equations lack.
    """
    for i, direction in enumerate(directions):
        value, gaps = float(system.parameters[direction.kind]), []
        size = np.abs(derivatives[:, i]).max(initial=0.0)
        for step in DIFFERENCES:
            h = step * (abs(value) or 1.0)
            above, below = (
                whole_run(system.with_parameters(**{direction.kind: moved}), t, rtol=1e-10, atol=1e-12).require_state()
                for moved in (value + h, value - h)
            )
            difference = (above - below) / (2.0 * h)
            scale = max(size, float(np.abs(difference).max(initial=0.0)))
            gaps.append(float(np.abs(difference - derivatives[:, i]).max(initial=0.0)) / (scale or 1.0))
        if gaps[1] > LARGEST_GAP and gaps[1] > 0.5 * gaps[0]:
            raise InputError(
                f"expected a rate of {system.name} whose jumps do not move with {direction.kind}, received derivatives "
                f"that differ from differences of runs by {gaps[1]:.2g} of their size, since they lack what a moving "
                "jump adds; make the jump smooth, such as tanh(x/width) in place of sign(x), or take differences of "
                "runs"
            )


def _with_derivatives(system: System, directions: list[Direction]) -> SensitivitySystem:
    if type(system) is MeanField and not system.residual:
        return MeanFieldSensitivity(system, directions)
    return DifferencedSensitivity(system, directions)


def _attention_changes(classes: SequenceClasses, z: Floats, z_changes: Floats, log_p_changes: Floats) -> Floats:
    """dc_n[l] = c_n[l] (x_l - sum_k c_n[k] x_k), x the change of ln P + z: (N, k, nnz)."""
    c = classes.attention_from_support(z)[:, None]
    change = z_changes[..., classes.z_of_entry] + log_p_changes
    mean = np.add.reduceat(c * change, classes.P.indptr[:-1], axis=-1)
    return np.asarray(c * (change - np.repeat(mean, np.diff(classes.P.indptr), axis=-1)))


def checked_directions(system: System, wrt: Any) -> list[Direction]:
    """Return the parameters `wrt` of `sensitivity` after checking them.

    Parameters
    ----------
    system : System
    wrt : str, or iterable of str and of pairs (str, array)

    Returns
    -------
    list of Direction

    Raises
    ------
    InputError
        An unknown parameter, one that is no real number, a name twice, or a direction of another shape.
    """
    entries = list_of("wrt", [wrt] if isinstance(wrt, str) else wrt, str, tuple, list, at_least=1)
    found = [_checked_direction(system, entry) for entry in entries]
    names = [direction.kind for direction in found if direction.values is None]
    list_of("wrt", names, str, different=True)
    return found


def _checked_direction(system: System, entry: Any) -> Direction:
    if isinstance(entry, str):
        value = system.parameters.get(entry)
        if isinstance(value, bool) or not isinstance(value, (float, np.floating)):
            known = [name for name, each in system.parameters.items() if isinstance(each, float)]
            raise InputError(
                f"expected wrt to name a real parameter of {system.name} ({', '.join(known) or 'it has none'}), or a "
                f"pair ('P', array) or ('z_initial', array), received {shown(entry)}; correct the name"
            )
        return Direction(entry)
    pair = tuple(entry) if len(entry) == 2 else (None, None)
    if not isinstance(pair[0], str) or pair[0] not in ("P", "z_initial"):
        raise InputError(
            f"expected each entry of wrt as a name or a pair ('P', array) or ('z_initial', array), received "
            f"{shown(entry)}; write the name in quotes"
        )
    classes = system.classes
    if classes is None:
        raise InputError(f"expected a system with sequence classes for wrt {pair[0]!r}, received {system.name}")
    values = finite_array(f"the direction of {pair[0]}", pair[1])
    if pair[0] == "z_initial":
        return Direction("z_initial", classes.check_z(values))
    return Direction("P", _checked_change_of_P(classes, values))


def _checked_change_of_P(classes: SequenceClasses, change: Floats) -> Floats:
    finite_array("a direction of P", change, classes.P.shape, advice="give one row per class")
    outside = change.copy()
    outside[classes.class_of_entry, classes.P.indices] = 0.0
    if outside.any():
        n, l = np.argwhere(outside)[0]
        raise InputError(
            f"expected a direction of P that is 0 where P is 0, received {change[n, l]:g} for class {n}, token {l}; "
            "the dynamics are not differentiable there"
        )
    sums = np.abs(change.sum(axis=1))
    if (sums > ROW_SUM_TOLERANCE * np.abs(change).sum(axis=1)).any():
        n = int(sums.argmax())
        raise InputError(
            f"expected a direction of P whose rows sum to 0, received a row of class {n} with sum "
            f"{change[n].sum():g}; take away from one token what another one gains"
        )
    return change
