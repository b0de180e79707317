"""`System.from_sympy`: what a user states in sympy, checked and made a system."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from snapdyn.dynamics.classes import Floats
from snapdyn.dynamics.systems.own.declaration import Declaration, checked_name, new_class, require_different
from snapdyn.dynamics.systems.own.symbolic import SymbolicSystem
from snapdyn.dynamics.systems.own.symbolic_theory import SymbolicTheory
from snapdyn.errors import InputError, shown, text


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
    ... )
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
