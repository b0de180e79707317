"""Systems stated in sympy: what the integrator and a trajectory ask of them, and their derivatives by parameters."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any, ClassVar

import numpy as np

from snapdyn.dynamics.classes import Floats
from snapdyn.dynamics.kernels.dormand_prince import Integrator
from snapdyn.dynamics.memory import require_memory
from snapdyn.dynamics.systems.own.declaration import Declaration, OwnSystem, at_time, new_class
from snapdyn.dynamics.systems.own.symbolic_theory import SymbolicTheory
from snapdyn.dynamics.systems.parameters import Direction
from snapdyn.dynamics.systems.variational import SensitivitySystem


class SymbolicSystem(OwnSystem):
    """A system stated in sympy; see `System.from_sympy`."""

    theory: ClassVar[SymbolicTheory]

    def __reduce__(self) -> tuple[Any, ...]:
        # The class is not in any module, so that another process has to make it again.
        return _made_again, (self.declaration, self.theory, self.parameters)

    @property
    def integrator(self) -> Integrator:
        return Integrator(self.theory.flow.advance, False)

    @property
    def stepper(self) -> Any:
        return self.theory.flow.make_steps

    @property
    def is_autonomous(self) -> bool:
        return self.theory.time is None

    def write_rate_at(self, t: float, state: Floats, out: Floats) -> float | None:
        self.theory.flow.rate(state, out, self.parameter_values, at_time(t))
        return None

    @property
    def has_jacobian(self) -> bool:
        return self.theory.product is not None

    def write_jacobian_product(self, t: float, state: Floats, vector: Floats, out: Floats) -> None:
        if self.theory.product is None:
            raise self._lacking("a Jacobian that compiles")
        self.theory.product.product(state, vector, out, self.parameter_values, at_time(t))

    def observables(self, states: Floats) -> dict[str, Floats]:
        return self._measured(self.theory.measures[0], self.theory.observables, states)

    def invariants(self, state: Floats) -> dict[str, Floats]:
        states = np.atleast_2d(state)
        now = self._measured(self.theory.measures[1], self.theory.conserved, states)
        before = self._measured(self.theory.measures[1], self.theory.conserved, self._start[None])
        drift = {}
        for name, values in now.items():
            change = np.abs(values - before[name]).reshape(len(states), -1).max(axis=1)
            drift[name] = change if np.ndim(state) > 1 else change[0]
        return drift

    def _measured(self, module: ModuleType | None, named: Any, states: Floats) -> dict[str, Floats]:
        if module is None:
            return {}
        sizes = {name: math.prod(shape) for name, (shape, _) in named.items()}
        rows = np.empty((len(states), sum(sizes.values())))
        states = np.ascontiguousarray(states)
        for state, row in zip(states, rows, strict=True):
            module.measure(state, row, self.parameter_values)
        values, first = {}, 0
        for name, (shape, _) in named.items():
            values[name] = rows[:, first : first + sizes[name]].reshape(-1, *shape)
            first += sizes[name]
        return values

    def _starting_state(self) -> Floats:
        start = np.empty(len(self.theory.start))
        try:
            with np.errstate(all="ignore"):
                self.theory.starting.start(None, start, self.parameter_values)
        except (ValueError, ArithmeticError):
            start[:] = np.nan
        return start

    def _rate_at_start(self) -> Floats:
        rate = np.empty(self._start.size)
        try:  # not compiled: a system is stated at once
            with np.errstate(all="ignore"):
                self.theory.flow.rate.py_func(self._start, rate, self.parameter_values, at_time(0.0))
            if np.isfinite(rate).all():
                return rate
        except (ValueError, ArithmeticError):  # Python raises where compiled code returns inf or NaN
            pass
        return super()._rate_at_start()


def _made_again(declaration: Declaration, theory: SymbolicTheory, parameters: dict[str, Any]) -> SymbolicSystem:
    return new_class(SymbolicSystem, declaration, theory=theory)(**parameters)


class SymbolicSensitivity(SensitivitySystem):
    """The state and its derivatives, compiled into the integrator: S' = (dF/dx) S + dF/dp, S(0) = dx(0)/dp, exactly.

    Use `of`, which returns None for a rate whose derivative is not compiled.

    Parameters
    ----------
    base : SymbolicSystem
    directions : list of Direction
        Parameters by name. Derivatives in the state are with respect to their logarithms (to a parameter itself that is
        0).
    code : module
        From `SymbolicTheory.derivatives`.
    """

    def __init__(self, base: SymbolicSystem, directions: list[Direction], code: ModuleType) -> None:
        super().__init__(base, directions)
        self.base: SymbolicSystem = base
        self.size = (1 + len(directions)) * base.size
        require_memory(f"{len(directions)} derivatives of {base.size} values", 160.0 * self.size, "fewer parameters")
        self._code, self._parameters = code, base.parameter_values
        self._moves = np.zeros((len(directions), self._parameters.size))
        for i, direction in enumerate(directions):
            value = abs(float(base.parameters[direction.kind])) or 1.0
            self.scales[i] = 1.0 / value
            self._moves[i, base.parameter_index(direction.kind)] = value

    @classmethod
    def of(cls, base: SymbolicSystem, directions: list[Direction]) -> SymbolicSensitivity | None:
        """Return the system with derivatives, or None where a derivative has no compiled function."""
        code = base.theory.derivatives(tuple(sorted(base.parameter_index(each.kind) for each in directions)))
        return None if code is None else cls(base, directions, code)

    @property
    def integrator(self) -> Integrator:
        return Integrator(self._code.advance, False)

    def initial_state(self) -> Floats:
        start = np.empty((1 + len(self.directions), self.base_size))
        start[0] = self.base.initial_state()
        for row, move in zip(start[1:], self._moves, strict=True):
            self._code.start_derivative(self._parameters, move, row)
        return start.ravel()

    def kernel_arguments(self) -> tuple[Any, ...]:
        return self._parameters, self._moves

    def write_rate(self, state: Floats, out: Floats) -> None:
        self.write_rate_at(0.0, state, out)

    def write_rate_at(self, t: float, state: Floats, out: Floats) -> None:
        self._code.rate_and_derivatives(state, out, *self.kernel_arguments(), at_time(t))

    def observable_changes(self, states: Floats) -> dict[str, Floats]:
        x, derivatives = self.parts(states)
        shapes = {name: shape for name, (shape, _) in self.base.theory.observables.items()}
        rows = np.empty((*derivatives.shape[:2], sum(math.prod(shape) for shape in shapes.values())))
        if rows.size == 0:
            return {}
        for k, state in enumerate(np.ascontiguousarray(x)):
            for i, move in enumerate(self._moves * self.scales[:, None]):
                self._code.measure_derivative(state, derivatives[k, i], rows[k, i], self._parameters, move)
        found, first = {}, 0
        for name, shape in shapes.items():
            width = math.prod(shape)
            found[name] = rows[..., first : first + width].reshape(*rows.shape[:2], *shape)
            first += width
        return found

    def losses(self, states: Floats) -> tuple[Floats, Floats]:
        return np.full(len(states), np.nan), np.full((len(states), len(self.directions)), np.nan)
