"""What `sensitivity` returns: a trajectory with the derivatives of its state and of its observables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from snapdyn.dynamics.classes import Floats
from snapdyn.dynamics.trajectory import Trajectory
from snapdyn.errors import LARGEST_WHOLE, InputError, choice, number, shown, unknown_name, whole


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
        Derivatives of the attention c_n[l] (5) on the stored entries of P; empty for a system without classes.
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
            "loss", "entropy" or "attention"; of another system, an observable or a state value by name.
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
            An unknown observable, other indices, or fewer than four saved times.

        Examples
        --------
        How much later the loss falls below 1 nat if the decoder's rate is larger by 0.01:

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

    def _observable(self, observable: str, indices: tuple[int, ...]) -> tuple[Floats, Floats]:
        """Values (N,) and derivatives (N, k)."""
        if observable in self.observables or observable in self.trajectory.value_names:
            return self._named(observable, indices)
        if not self.trajectory.has_z:
            raise unknown_name("observable", observable, [*self.observables, *self.trajectory.value_names])
        choice("observable", observable, ("loss", "entropy", "attention"))
        expected = {"loss": 0, "entropy": 1, "attention": 2}[observable]
        if len(indices) != expected:
            raise InputError(f"expected {expected} indices for {observable}, received {len(indices)}; give {expected}")
        run = self.trajectory
        if observable == "loss":
            return run.loss, self.loss
        n = run.require_classes().check_class(indices[0])
        if observable == "entropy":
            return run.entropy()[:, n], self.entropy()[..., n]
        return run.token_attention(n, indices[1]), self.attention[:, :, n, whole("token", indices[1], 0)]

    def _named(self, name: str, indices: tuple[int, ...]) -> tuple[Floats, Floats]:
        run = self.trajectory
        indices = tuple(whole("index", each, -LARGEST_WHOLE) for each in indices)
        values = run.observable(name)
        changes = self.observables.get(name)
        if changes is None:
            changes = self.state[..., list(run.value_names).index(name)]
        if len(indices) != values.ndim - 1 or any(
            not -length <= each < length for each, length in zip(indices, values.shape[1:], strict=False)
        ):
            raise InputError(
                f"expected {values.ndim - 1} indices for {name}, of shape {values.shape[1:]}, received "
                f"{shown(indices)}; name one number"
            )
        place: tuple[Any, ...] = tuple(indices)
        return values[:, *place], changes[:, :, *place]
