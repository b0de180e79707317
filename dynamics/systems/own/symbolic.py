"""Systems stated in sympy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from types import ModuleType
from typing import Any, ClassVar

import numpy as np

from snapdyn.dynamics.classes import Floats
from snapdyn.dynamics.systems.own.declaration import (
    Declaration,
    OwnSystem,
    at_time,
    checked_name,
    new_class,
    require_different,
)
from snapdyn.dynamics.systems.own.generated_files import generated_module
from snapdyn.errors import InputError, shown, text

KERNEL = "@kernel(fastmath=EXACT)"  # of generated functions


@dataclass(frozen=True, eq=False)
class SymbolicTheory:
    """Expressions of a system in the symbols of the generated code, s0, s1, ... (state), p0, ... (parameters), t.

    Attributes
    ----------
    state, parameters : list of sympy.Symbol
        Flat, in the order of the arrays.
    start, rate : list of sympy.Expr
        Of the parameters; of all symbols.
    time : sympy.Symbol or None
        The symbol t of a system that depends on time.
    observables, conserved : mapping of str to (shape, expressions)
    """

    state: list[Any]
    parameters: list[Any]
    start: list[Any]
    rate: list[Any]
    time: Any
    observables: Mapping[str, tuple[tuple[int, ...], list[Any]]]
    conserved: Mapping[str, tuple[tuple[int, ...], list[Any]]]

    @cached_property
    def flow(self) -> ModuleType:
        """Compiled rate and integrator."""
        from snapdyn.dynamics.systems.own import code_generation as code

        statements = code.assignments([f"out[{i}]" for i in range(len(self.rate))], self.rate)
        rate = code.function_source("rate", code.FLOW, statements, self._loads(), KERNEL)
        return generated_module(code.HEADER + "\n" + rate + code.INTEGRATOR)

    @cached_property
    def product(self) -> ModuleType | None:
        """Compiled product of the Jacobian with a vector; None where a derivative has no compiled function."""
        from snapdyn.dynamics.systems.own import code_generation as code

        outputs = [f"out[{i}]" for i in range(len(self.rate))]
        statements = code.product_statements(self.rate, self.state, outputs)
        loads = self._loads() + [(f"v{i}", f"vector[{i}]") for i in range(len(self.state))]
        try:
            source = code.function_source("product", code.PRODUCT, statements, loads, KERNEL)
        except InputError:  # such as that of loggamma
            return None
        return generated_module(code.HEADER + "\n" + source)

    def derivatives(self, moving: tuple[int, ...]) -> ModuleType | None:
        """Compiled rate and integrator of the state with its derivatives; None where one has no compiled function.

        `moving` are the indices of the parameters that may change. The module has derivative(state, vector, out,
        parameters, move, reals), the derivative of the rate when the state moves along `vector` and the parameters
        along `move`, and start_derivative(parameters, move, out), that of the start; this one is not compiled.
        """
        from snapdyn.dynamics.systems.own import code_generation as code

        changed = [self.parameters[i] for i in moving]
        outputs = [f"out[{i}]" for i in range(len(self.rate))]
        of_rate = code.product_statements(self.rate, [*self.state, *changed], outputs)
        of_start = code.product_statements(self.start, changed, outputs)
        n = len(self.state)
        moves = [f"move[{i}]" for i in moving]
        loads = self._loads() + [(f"v{i}", each) for i, each in enumerate([f"vector[{i}]" for i in range(n)] + moves)]
        start_loads = self._loads() + [(f"v{i}", each) for i, each in enumerate(moves)]
        rate = code.function_source("rate", code.FLOW, code.assignments(outputs, self.rate), self._loads(), KERNEL)
        try:
            derivative = code.function_source("derivative", code.DERIVATIVE, of_rate, loads, KERNEL)
            start = code.function_source("start_derivative", "parameters, move, out", of_start, start_loads, "")
        except InputError:
            return None
        return generated_module("\n".join([code.HEADER, rate, "", derivative, start, code.SENSITIVITY]))

    @cached_property
    def starting(self) -> ModuleType:
        """Start as a function of the parameters; not compiled."""
        return self._measure("start", self.start, "")

    @cached_property
    def measures(self) -> tuple[ModuleType | None, ModuleType | None]:
        """Compiled observables and conserved quantities."""
        found = []
        for named in (self.observables, self.conserved):
            entries = [each for _, expressions in named.values() for each in expressions]
            found.append(self._measure("measure", entries, "@kernel(fastmath=EXACT, nogil=True)") if entries else None)
        return found[0], found[1]

    def __reduce__(self) -> tuple[Any, ...]:
        # Without the generated modules, which another process makes or finds for itself.
        return SymbolicTheory, tuple(getattr(self, field.name) for field in fields(self))

    def _loads(self) -> list[tuple[str, str]]:
        loads = [(str(each), f"state[{i}]") for i, each in enumerate(self.state)]
        loads += [(str(each), f"parameters[{i}]") for i, each in enumerate(self.parameters)]
        return [*loads, ("t", "reals[dormand_prince.NOW]")]

    def _measure(self, name: str, entries: list[Any], decorator: str) -> ModuleType:
        from snapdyn.dynamics.systems.own import code_generation as code

        statements = code.assignments([f"out[{i}]" for i in range(len(entries))], entries)
        source = code.function_source(name, "state, out, parameters", statements, self._loads(), decorator)
        return generated_module(code.HEADER + "\n" + source)


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

    The rate is compiled into the integrator with its common subexpressions computed once. Implicit methods (CVODE, BDF,
    Radau, LSODA) get its derivative, by symbolic differentiation. Generated code is kept in the cache folder by its
    content: the first run of a system takes some seconds, later ones do not. `snapdyn.register` makes the system known
    to run files and sweeps, with its parameters as keys.

    Parameters
    ----------
    name : str
        Name of the system.
    state : mapping
        Start of each state variable. A key is a Symbol, a MatrixSymbol, an IndexedBase or ArraySymbol with lengths that
        are numbers, or a tuple or immutable matrix of symbols; the value is a number, an array of the same shape, or
        an expression in the parameters. A list of pairs is accepted as well.
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
    Lotka and Volterra's equations conserve x - ln x + y - ln y:

    >>> import sympy
    >>> import snapdyn as sd
    >>> x, y, a = sympy.symbols("x y a")
    >>> system = sd.System.from_sympy(
    ...     "Predators", {x: 2.0, y: 1.0}, {x: x * (a - y), y: y * (x - 1)}, {a: 1},
    ...     observables={"total": x + y}, conserved={"V": x - sympy.log(x) + y - a * sympy.log(y)},
    ... )  # fmt: skip
    >>> run = sd.integrate(system, [0.0, 1.0, 10.0])
    >>> run.observable("total").round(3)
    array([3.   , 3.134, 1.146])
    >>> bool(run.invariants["V"].max() < 1e-7)
    True
    """
    from snapdyn.dynamics.systems.own import expressions as read
    from snapdyn.dynamics.systems.own.code_generation import printed

    name = checked_name("system", text("name", name))
    states, values = read.Parts("state", "s"), read.Parts("parameters", "p")
    given = []
    for key, value in read.pairs("state", state):
        given.append((states.add(key), value))
    if not given:
        raise InputError("expected a state of at least one symbol, received none; write {symbol: start}")
    defaults: dict[str, float | Floats] = {}
    for key, value in read.pairs("parameters", parameters):
        parts = values.add(key)
        if len(parts) == 1:
            array = read.numbers(parts[0].name, parts[0].shape, value)
            defaults[parts[0].name] = float(array) if array.ndim == 0 else array
        else:
            flat = read.numbers("parameters", (len(parts),), np.ravel(np.array(value, dtype=object)).tolist())
            defaults |= {part.name: float(each) for part, each in zip(parts, flat, strict=True)}
    for kind, named in (("observables", observables), ("conserved quantities", conserved)):
        for key, _ in read.pairs(kind, named):
            checked_name(kind, key)
    clock = _time_symbol(time)
    require_different(
        [("state", part.name) for part in states.parts]
        + [("parameters", part.name) for part in values.parts]
        + ([("time", str(time))] if clock else [])
        + [("observables", key) for key, _ in read.pairs("observables", observables)]
    )
    of_parameters = {key: rule for part in values.parts for key, rule in part.rules().items()}
    of_state = of_parameters | {key: rule for part in states.parts for key, rule in part.rules().items()}
    start = []
    for parts, value in given:
        shape = parts[0].shape if len(parts) == 1 else (len(parts),)
        what = f"the start of {', '.join(part.name for part in parts)}"
        received = read.Reader(of_parameters).read(what, value)
        start += read.fitted(what, shape, received if len(parts) == 1 else ((len(received[1]),), received[1]))
    reader = read.Reader(of_state | ({time: clock} if clock else {}))
    theory = SymbolicTheory(
        states.stand_ins,
        values.stand_ins,
        start,
        _rates(reader, states, rate),
        clock,
        _measured(read.Reader(of_state), "observable", observables),
        _measured(read.Reader(of_state), "conserved quantity", conserved),
    )
    measured = [each for _, entries in (*theory.observables.values(), *theory.conserved.values()) for each in entries]
    for entry in (*start, *theory.rate, *measured):
        printed(entry)  # refuses what does not compile, before a run
    shapes = {part.name: part.shape for part in states.parts}
    names = tuple(each for part in states.parts for each in part.names)
    return new_class(SymbolicSystem, Declaration(name, shapes, names, defaults), theory=theory)()


def _made_again(declaration: Declaration, theory: SymbolicTheory, parameters: dict[str, Any]) -> SymbolicSystem:
    return new_class(SymbolicSystem, declaration, theory=theory)(**parameters)


def _time_symbol(time: Any) -> Any:
    import sympy

    if time is None:
        return None
    if not isinstance(time, sympy.Symbol):
        raise InputError(f"expected time as the symbol of the time, received {shown(time)}; write time=Symbol('t')")
    return sympy.Symbol("t", real=True)


def _rates(reader: Any, states: Any, rate: Any) -> list[Any]:
    """Expressions of the rate in the order of the state."""
    from snapdyn.dynamics.systems.own import expressions as read

    found: dict[str, list[Any]] = {}
    known = {part.name: part for part in states.parts}
    for key, value in read.pairs("rate", rate):
        parts = read.Parts("rate", "r").add(key)
        what = f"the rate of {', '.join(part.name for part in parts)}"
        for part in parts:
            if part.name not in known or known[part.name].entries != part.entries:
                raise InputError(
                    f"expected rates of the state {', '.join(known)}, received one of {part.name}; use the same symbols"
                )
            if part.name in found:
                raise InputError(f"expected every name once, received {part.name!r} twice in the rate; leave one out")
        received = reader.read(what, value)
        if len(parts) == 1:
            found[parts[0].name] = read.fitted(what, parts[0].shape, received)
        else:
            entries = read.fitted(what, (len(parts),), ((len(received[1]),), received[1]))
            found |= {part.name: [entry] for part, entry in zip(parts, entries, strict=True)}
    missing = [each for each in known if each not in found]
    if missing:
        raise InputError(f"expected a rate of every state variable, received none of {', '.join(missing)}; add it")
    return [entry for each in known for entry in found[each]]


def _measured(reader: Any, kind: str, named: Any) -> dict[str, tuple[tuple[int, ...], list[Any]]]:
    """Shape and expressions of each observable or conserved quantity."""
    from snapdyn.dynamics.systems.own import expressions as read

    found = {}
    for name, value in read.pairs(kind, named):
        found[name] = reader.read(f"the {kind} {name!r} (a function of state and parameters)", value)
    return found
