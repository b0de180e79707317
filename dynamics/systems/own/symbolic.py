"""Systems stated in sympy: what the integrator and a trajectory ask of them."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any, ClassVar

import numpy as np

from snapdyn.dynamics.classes import Floats
from snapdyn.dynamics.systems.own.declaration import Declaration, OwnSystem, at_time, new_class
from snapdyn.dynamics.systems.own.symbolic_theory import SymbolicTheory


class SymbolicSystem(OwnSystem):
    """A system stated in sympy; see `System.from_sympy`."""

    theory: ClassVar[SymbolicTheory]

    def __reduce__(self) -> tuple[Any, ...]:
        # The class is not in any module, so that another process has to make it again.
        return _made_again, (self.declaration, self.theory, self.parameters)

    @property
    def integrator(self) -> Any:
        return self.theory.flow.advance

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
