"""A system together with its derivatives with respect to parameters: forward variational equations.

With x' = F(x, p), the derivative S = dx/dp obeys S' = (dF/dx) S + dF/dp, S(0) = dx(0)/dp. The state is [x, S_1, ...].
Here p is scaled (`scales`): it is the logarithm of a rate, or moves along a direction whose largest entry is 1.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from snapdyn.core.errors import InputError
from snapdyn.core.memory import require_memory, scratch
from snapdyn.dynamics.classes.table import Floats
from snapdyn.dynamics.kernels.compilation import EXACT, kernel
from snapdyn.dynamics.kernels.dormand_prince import integrator_of
from snapdyn.dynamics.kernels.law import TANGENT_ROWS, mean_field, tangent
from snapdyn.dynamics.systems.base import System
from snapdyn.dynamics.systems.layout import Layout, build_layout
from snapdyn.dynamics.systems.mean_field import MeanField

# Relative step of central differences: their truncation and rounding are both about 1e-10 of the rate.
STEP = 1e-5


@kernel(fastmath=EXACT)
def sensitivity(
    state: Floats,
    out: Floats,
    size: int,
    lists: Any,
    rates: Floats,
    work: Floats,
    log_p_changes: Floats,
    of_rates: Floats,
) -> float:
    """Write the rates of [x, dx/dp_1, dx/dp_2, ...] to `out`, x the `size` values of the mean field; return the loss.

    d(dx/dp)/dt = J dx/dp + dF/dp, with F the rate of x. Each of the k parameters changes ln P on the entries by
    log_p_changes (k, entries), and the logarithms of eta_Y and eta_Z by of_rates (k, 2): F is proportional to eta_Y in
    the rows of Y, and to eta_Z in z. `work` is (TANGENT_ROWS, W).
    """
    x, rate = state[:size], out[:size]
    loss = mean_field(x, rate, lists, rates, work)
    slots = lists.num_slots
    for k in range(of_rates.shape[0]):
        start = (k + 1) * size
        change = out[start : start + size]
        tangent(x, state[start : start + size], change, lists, rates, work, log_p_changes[k])
        for i in range(slots):
            change[i] += of_rates[k, 1] * rate[i]
        for i in range(slots, size):
            change[i] += of_rates[k, 0] * rate[i]
    return loss


@dataclass(frozen=True, eq=False)
class Direction:
    """A parameter: one by name, or a change of P or of the initial logits along an array.

    Attributes
    ----------
    kind : str
        "P", "z_initial", or the name of a parameter of the system.
    values : array or None
        Change of P (S, M) or of the initial logits (Q, M) per unit of the parameter; None for a parameter by name.
    """

    kind: str
    values: Floats | None = None


class SensitivitySystem(System):
    """A system with derivatives; its trajectory holds the state [x, S_1, ..., S_k].

    Parameters
    ----------
    base : System
    directions : list of Direction
    """

    def __init__(self, base: System, directions: list[Direction]) -> None:
        self.base, self.directions = base, directions
        self.parameters = base.parameters
        self.eta_Y = base.eta_Y
        self.base_size = base.size
        self.scales = np.ones(len(directions))
        # d ln P/dp on the stored entries of P, (k, nnz), p in its own units.
        self.log_p_changes = np.zeros((len(directions), 1))

    @property
    def name(self) -> str:
        return self.base.name

    @property
    def rate_ratio(self) -> float:
        return self.base.rate_ratio

    @property
    def is_autonomous(self) -> bool:
        return self.base.is_autonomous

    @property
    def multiplications(self) -> float:
        # A product with the Jacobian takes as long as two evaluations of the rate.
        return (1.0 + 2.0 * len(self.directions)) * self.base.multiplications

    def jump_times(self, t_end: float) -> Floats:
        return self.base.jump_times(t_end)

    def write_rate(self, state: Floats, out: Floats) -> float | None:
        return self.write_rate_at(0.0, state, out)

    def parts(self, states: Floats) -> tuple[Floats, Floats]:
        """(x (..., n), dx/dp (..., k, n)) of states (..., size), with p in the units of the user, not scaled."""
        n, k = self.base_size, len(self.directions)
        derivatives = states[..., n:].reshape(*states.shape[:-1], k, n)
        return states[..., :n], derivatives * self.scales[:, None]

    def value_name(self, index: int) -> str:
        block, place = divmod(index, self.base_size)
        name = self.base.value_name(place)
        return name if block == 0 else f"the derivative of {name} with respect to {self.directions[block - 1].kind}"

    def z_of(self, states: Floats) -> Floats:
        """Attention logits on classes.z_coordinates, (..., nz), of x or of its derivatives (..., n)."""
        return self.base.z_support(states)

    def losses(self, states: Floats) -> tuple[Floats, Floats]:
        """Loss (N,) and its derivatives (N, k) at states (N, size); NaN for a system without loss."""
        return np.full(len(states), np.nan), np.full((len(states), len(self.directions)), np.nan)

    def observable_changes(self, states: Floats) -> dict[str, Floats]:
        """Derivatives (N, k, ...) of the observables that the system declares, by name."""
        return {}


class MeanFieldSensitivity(SensitivitySystem):
    """The mean field with derivatives, compiled into the integrator.

    P enters the rate only through ln P + z, so a direction of P acts as a change of the logit of each entry. Tokens
    are lumped only where the parameters are rates: a direction may tell equal tokens apart.
    """

    compiled = integrator_of(sensitivity)

    def __init__(self, base: MeanField, directions: list[Direction]) -> None:
        super().__init__(base, directions)
        lump = all(direction.values is None for direction in directions)
        L: Layout = base.layout if lump else build_layout(base.classes, base.z_initial, lump=False)
        self.layout, self.base_size = L, L.size
        self.size = (1 + len(directions)) * L.size
        require_memory(f"{len(directions)} derivatives of {L.size} values", 160.0 * self.size, "fewer parameters")
        self._constants = L.lists, np.array([base.eta_Y, base.eta_Z])
        k = len(directions)
        self._log_p_changes, self._of_rates = np.zeros((k, L.lists.log_p.size)), np.zeros((k, 2))
        classes = base.classes
        self._start = np.zeros((1 + k, L.size))
        self._start[0, : L.num_slots] = L.slots(base.classes, base.z_initial)
        for i, direction in enumerate(directions):
            if direction.values is None:
                self._of_rates[i] = direction.kind == "eta_Y", direction.kind == "eta_Z"
                self.scales[i] = 1.0 / base.parameters[direction.kind]
                continue
            entries = direction.values
            if direction.kind == "P":
                entries = entries[classes.class_of_entry, classes.P.indices] / classes.P.data
            self.scales[i] = np.abs(entries).max() or 1.0
            if direction.kind == "P":
                self._log_p_changes[i] = entries / self.scales[i]
            else:
                self._start[1 + i, : L.num_slots] = L.slots(classes, entries / self.scales[i])
        if not lump:
            self.log_p_changes = self._log_p_changes * self.scales[:, None]
        self._arguments = self.kernel_arguments()

    def initial_state(self) -> Floats:
        return self._start.ravel().copy()

    def kernel_arguments(self) -> tuple[Any, ...]:
        work = scratch(TANGENT_ROWS, self.layout.width)
        return self.base_size, *self._constants, work, self._log_p_changes, self._of_rates

    def write_rate(self, state: Floats, out: Floats) -> None:
        sensitivity(state, out, *self._arguments)

    def z_of(self, states: Floats) -> Floats:
        return self.layout.z_support(states[..., : self.layout.num_slots])

    def losses(self, states: Floats) -> tuple[Floats, Floats]:
        n, k = self.base_size, len(self.directions)
        arguments = *self._constants, scratch(TANGENT_ROWS, self.layout.width)
        out = scratch(n)
        values, derivatives = np.empty(len(states)), np.empty((len(states), k))
        for row, state in enumerate(np.ascontiguousarray(states)):
            blocks = state.reshape(1 + k, n)
            values[row] = mean_field(blocks[0], out, *arguments)
            for i in range(k):
                derivatives[row, i] = tangent(blocks[0], blocks[1 + i], out, *arguments, self._log_p_changes[i])
        return values, derivatives * self.scales


class DifferencedSensitivity(SensitivitySystem):
    """Any system with derivatives: products with the Jacobian and dF/dp by central differences of the rate.

    The relative error of these differences is about 1e-9. `with_parameter` changes the parameters of the system.
    """

    def __init__(self, base: System, directions: list[Direction]) -> None:
        super().__init__(base, directions)
        for direction in directions:
            if direction.values is not None:
                raise InputError(
                    f"expected a MeanField without residual connection for wrt {direction.kind!r}, received "
                    f"{base.name}; name parameters"
                )
        self.size = (1 + len(directions)) * base.size
        self._changed: list[tuple[System, System, float]] = []
        for i, direction in enumerate(directions):
            value = float(base.parameters[direction.kind])
            step = STEP * abs(value) or STEP
            self.scales[i] = 1.0 / (abs(value) or 1.0)
            above, below = (with_parameter(base, direction.kind, value + sign * step) for sign in (1.0, -1.0))
            self._changed.append((above, below, 2.0 * step * self.scales[i]))
        self._rates = np.empty((2, base.size))

    @property
    def multiplications(self) -> float:
        return (1.0 + 4.0 * len(self.directions)) * self.base.multiplications

    def initial_state(self) -> Floats:
        rows = [self.base.initial_state()]
        rows += [(above.initial_state() - below.initial_state()) / step for above, below, step in self._changed]
        return np.concatenate(rows)

    def write_rate_at(self, t: float, state: Floats, out: Floats) -> None:
        n = self.base_size
        above, below = self._rates
        x = np.ascontiguousarray(state[:n])
        self.base.write_rate_at(t, x, above)
        out[:n] = above
        for i, (higher, lower, step) in enumerate(self._changed):
            part = slice((i + 1) * n, (i + 2) * n)
            change = state[part]
            largest = float(np.abs(change).max())
            h = STEP * (1.0 + float(np.abs(x).max())) / largest if largest > 0 else 0.0
            out[part] = 0.0
            if h > 0:
                self.base.write_rate_at(t, x + h * change, above)
                self.base.write_rate_at(t, x - h * change, below)
                out[part] = (above - below) / (2.0 * h)
            higher.write_rate_at(t, x, above)
            lower.write_rate_at(t, x, below)
            out[part] += (above - below) / step

    def losses(self, states: Floats) -> tuple[Floats, Floats]:
        if not self.base.has_loss:
            return super().losses(states)
        return _losses(self.base, self.parts(states)[0])["loss"], self._changes(states, _losses)["loss"]

    def observable_changes(self, states: Floats) -> dict[str, Floats]:
        return self._changes(states, lambda system, x: system.observables(x))

    def _changes(self, states: Floats, measure: Callable[[System, Floats], dict[str, Floats]]) -> dict[str, Floats]:
        """Derivatives (N, k, ...) of the quantities that `measure` returns for a system and its states."""
        x, derivatives = self.parts(states)
        found: dict[str, list[Floats]] = {}
        for i, (higher, lower, step) in enumerate(self._changed):
            change = derivatives[:, i] * (step / (2.0 * self.scales[i]))  # over half the step of the parameter
            below = measure(lower, x - change)
            for name, above in measure(higher, x + change).items():
                found.setdefault(name, []).append((above - below[name]) / step * self.scales[i])
        return {name: np.stack(values, axis=1) for name, values in found.items()}


def _losses(system: System, states: Floats) -> dict[str, Floats]:
    return {"loss": np.array([system.loss(state) for state in np.ascontiguousarray(states)])}


def with_parameter(system: System, name: str, value: float) -> System:
    """Return the system with another value of one parameter.

    If the constructor has an argument of this name, it builds a new system; else a copy with changed `parameters` is
    returned.

    Parameters
    ----------
    system : System
    name : str
        A key of `system.parameters`.
    value : float

    Returns
    -------
    System

    Raises
    ------
    InputError
        The constructor has an argument that is neither in `parameters` nor an attribute of its name.
    """
    signature = inspect.signature(type(system))
    if name not in signature.parameters:
        changed = copy.copy(system)
        changed.parameters = {**system.parameters, name: value}
        return changed
    arguments: dict[str, Any] = {}
    for argument, declared in signature.parameters.items():
        if argument in system.parameters:
            arguments[argument] = system.parameters[argument]
        elif hasattr(system, argument):
            arguments[argument] = getattr(system, argument)
        elif declared.default is inspect.Parameter.empty:
            raise InputError(
                f"expected {system.name} to keep its argument {argument} in parameters or as an attribute, received "
                "neither; store it in the constructor"
            )
    arguments[name] = value
    return type(system)(**arguments)
