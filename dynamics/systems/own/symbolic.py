"""`System.from_sympy`: systems stated in sympy, and their derivatives with respect to parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from snapdyn.dynamics.classes.table import Floats
from snapdyn.dynamics.systems.own.own_system import OwnSystem, new_class
from snapdyn.dynamics.systems.own.theory import jump_times

if TYPE_CHECKING:
    from snapdyn.dynamics.systems.own.theory import Measures, SymbolicTheory


class SymbolicSystem(OwnSystem):
    """A system stated in sympy; see `System.from_sympy`."""

    theory: ClassVar[SymbolicTheory]

    def __reduce__(self) -> tuple[Any, ...]:
        # The class is not in any module, so that another process has to make it again.
        names = "name", "defaults", "state_shapes", "value_names", "theory"
        return _made_again, ({name: getattr(self, name) for name in names}, self.parameters)

    @property
    def address(self) -> int:
        return self.theory.address

    @property
    def is_autonomous(self) -> bool:
        return not self.theory.depends_on_time

    def write_plain_rate(self, t: float, state: Floats, out: Floats) -> None:
        rate = self.theory.flow.rate
        try:
            with np.errstate(all="ignore"):
                getattr(rate, "py_func", rate)(state, out, self.parameter_values, t)
        except (ValueError, ArithmeticError):  # Python raises where compiled code returns inf or NaN
            out.fill(np.nan)

    @property
    def may_jump(self) -> bool:  # type: ignore[override]
        return self.theory.may_jump

    def jump_times(self, t_end: float) -> Floats:
        return jump_times(self.theory.switches, self.parameter_values.tolist(), t_end)

    @property
    def has_jacobian(self) -> bool:
        return self.theory.derivative is not None

    def write_jacobian_product(self, t: float, state: Floats, vector: Floats, out: Floats) -> None:
        self.check_values(state, vector, out)
        compiled = self.theory.derivative
        if compiled is None:
            raise self._lacking("a Jacobian that compiles")
        compiled.derivative(state, vector, out, self.parameter_values, float(t))

    def observables(self, states: Floats) -> dict[str, Floats]:
        return self._measured(0, self.theory.observables, states)

    def invariants(self, state: Floats) -> dict[str, Floats]:
        states = np.atleast_2d(state)
        now = self._measured(1, self.theory.conserved, states)
        before = self._measured(1, self.theory.conserved, self._start[None])
        drift = {}
        for name, values in now.items():
            change = np.abs(values - before[name]).reshape(len(states), -1).max(axis=1)
            drift[name] = change if np.ndim(state) > 1 else change[0]
        return drift

    def _measured(self, kind: int, named: Measures, states: Floats) -> dict[str, Floats]:
        rows, states = _rows(named, len(states)), np.ascontiguousarray(states, np.float64)
        self.check_values(*states[:1])
        for state, row in zip(states, rows, strict=True):
            if row.size:
                self.theory.measures[kind].measure(state, row, self.parameter_values)
        return _by_name(named, rows)

    def _starting_state(self) -> Floats:
        try:
            return np.array(self.theory.starting(*self.parameter_values.tolist()), dtype=np.float64)
        except (ValueError, ArithmeticError):
            return np.full(len(self.theory.start), np.nan)

    def _rate_at_start(self) -> Floats:
        rate = np.empty(self._start.size)
        self.write_plain_rate(0.0, self._start, rate)  # not compiled: a system is stated at once
        return rate if np.isfinite(rate).all() else super()._rate_at_start()


def _made_again(stated: dict[str, Any], parameters: dict[str, Any]) -> SymbolicSystem:
    return new_class(SymbolicSystem, **stated)(**parameters)


def _rows(named: Measures, *lengths: int) -> Floats:
    """Space for all values of observables or conserved quantities, (*lengths, values)."""
    return np.empty((*lengths, sum(len(expressions) for _, expressions in named.values())))


def _by_name(named: Measures, rows: Floats) -> dict[str, Floats]:
    values, first = {}, 0
    for name, (shape, expressions) in named.items():
        end = first + len(expressions)
        values[name] = rows[..., first:end].reshape(*rows.shape[:-1], *shape)
        first = end
    return values


def from_sympy(
    name: str,
    state: Mapping[Any, Any],
    rate: Mapping[Any, Any],
    parameters: Mapping[Any, Any] | None = None,
    observables: Mapping[str, Any] | None = None,
    conserved: Mapping[str, Any] | None = None,
    time: Any = None,
) -> SymbolicSystem:
    """Make a system from a right-hand side in sympy.

    The rate is compiled with its common subexpressions computed once, and the integrator calls it at its address.
    Implicit methods (CVODE, BDF, Radau, LSODA) use the exact derivative of the rate, by symbolic differentiation.
    Generated code is kept in the cache folder under the hash of its content, and compiled in the first run: in
    half a second with 3 state values, in 9 s with 200 (in the first run of an installation some seconds more, for
    the integrator). `snapdyn.register` makes the system known to run files and sweeps, with its parameters as
    keys.

    Parameters
    ----------
    name : str
        Name of the system.
    state : mapping
        Start of each state variable. A key is a Symbol, or a MatrixSymbol with lengths that are numbers; the value is a
        number, an array of the same shape, or an expression in the parameters.
    rate : mapping
        d(variable)/dt, for the same keys: expressions in state, parameters and time.
    parameters : mapping, optional
        Value of each parameter: a number, or an array for a MatrixSymbol. `system.with_parameters(...)` changes them.
    observables : mapping of str to expression, optional
        Functions of state and parameters, scalars or matrices; see `Trajectory.observable`.
    conserved : mapping of str to expression, optional
        Functions of state and parameters that the flow should keep; `trajectory.invariants[name]` is
        abs(value - value at the start), the largest one for a matrix.
    time : sympy.Symbol, optional
        Symbol of the time t, for a rate that depends on it.

    Returns
    -------
    SymbolicSystem
        A System of a class of its own, whose keyword arguments are the parameters.

    Raises
    ------
    InputError
        Shapes that differ, symbols without value, a name used twice, functions that do not compile, or a start or rate
        at the start that is not finite.

    Examples
    --------
    Lotka and Volterra's equations conserve x - ln x + y - a ln y:

    >>> import sympy
    >>> import snapdyn as sd
    >>> x, y, a = sympy.symbols("x y a")
    >>> system = sd.System.from_sympy(
    ...     "Predators", {x: 2.0, y: 1.0}, {x: x * (a - y), y: y * (x - 1)}, {a: 1},
    ...     observables={"total": x + y}, conserved={"V": x - sympy.log(x) + y - a * sympy.log(y)},
    ... )
    >>> run = sd.integrate(system, [0.0, 1.0, 10.0])
    >>> run.observable("total").round(3)
    array([3.   , 3.134, 1.146])
    >>> bool(run.invariants["V"].max() < 1e-7)
    True
    """
    from snapdyn.dynamics.systems.own.statement import parse_statement

    return new_class(SymbolicSystem, **parse_statement(name, state, rate, parameters, observables, conserved, time))()
