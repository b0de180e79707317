"""What a user states in sympy, checked and converted to flat lists of expressions in the symbols of generated code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import sympy
from sympy.core.function import AppliedUndef
from sympy.core.numbers import ImaginaryUnit
from sympy.matrices import expressions as matrices
from sympy.matrices.expressions.matexpr import MatrixElement

from snapdyn.core.errors import InputError, finite_array, instance, shown
from snapdyn.dynamics.classes.table import Floats
from snapdyn.dynamics.systems.own.own_system import checked_name, require_names
from snapdyn.dynamics.systems.own.theory import (
    TIME,
    Measures,
    SymbolicTheory,
    entries_of,
    is_accepted,
    not_accepted,
    number,
    own_symbol,
    printed,
)

Shape = tuple[int, ...]
# What becomes explicit entries, or disappears, once the symbols of the user are replaced by real ones.
OF_MATRICES = (
    matrices.MatrixExpr,
    matrices.Trace,
    matrices.Determinant,
    matrices.DotProduct,
    sympy.Lambda,
    sympy.Tuple,
)
OF_COMPLEX_NUMBERS = (sympy.re, sympy.conjugate, sympy.transpose, sympy.adjoint, sympy.UnevaluatedExpr, ImaginaryUnit)


class Part(NamedTuple):
    """A symbol of the user: a number, with the shape (), or a matrix."""

    name: str
    shape: Shape
    symbol: Any

    @property
    def entries(self) -> list[Any]:
        """The symbol itself, or the entries of the matrix, row by row."""
        return [self.symbol[index] for index in np.ndindex(self.shape)] if self.shape else [self.symbol]


def parse_statement(
    name: str, state: Any, rate: Any, parameters: Any, observables: Any, conserved: Any, time: Any
) -> dict[str, Any]:
    """Check and read the arguments of `from_sympy`; return those of `new_class`."""
    starts = {_part("state", key): value for key, value in _mapping("state", state).items()}
    if not starts:
        raise InputError("expected a state of at least one symbol, received none; write {symbol: start}")
    values = {_part("parameters", key): value for key, value in _mapping("parameters", parameters).items()}
    observables = _mapping("observables", observables)
    conserved = _mapping("conserved quantities", conserved)
    if time is not None:
        instance("time", time, sympy.Symbol, "write time=Symbol('t')")
    for key in conserved:
        checked_name("conserved quantities", key)
    require_names(
        name,
        state=[part.name for part in starts],
        parameters=[part.name for part in values],
        time=[] if time is None else [str(time)],
        observables=observables,
    )
    own_state, of_state = _rules(starts, "state")
    own_parameters, of_parameters = _rules(values, "parameters")
    both = of_state | of_parameters
    theory = SymbolicTheory(
        own_state,
        own_parameters,
        [
            entry
            for part, value in starts.items()
            for entry in _entries(of_parameters, f"the start of {part.name}", part.shape, value)
        ],
        _rates(both if time is None else both | {time: TIME}, list(starts), rate),
        time is not None,
        _measures(both, "observable", observables),
        _measures(both, "conserved quantity", conserved),
    )
    for entry in (*theory.start, *theory.rate, *entries_of(theory.observables), *entries_of(theory.conserved)):
        printed(entry)  # refuses what does not compile, before a run
    return {
        "name": name,
        "defaults": {part.name: _numbers(part, value) for part, value in values.items()},
        "state_shapes": {part.name: part.shape for part in starts},
        "value_names": tuple(
            f"{part.name}[{','.join(map(str, index))}]" if index else part.name
            for part in starts
            for index in np.ndindex(part.shape)
        ),
        "theory": theory,
    }


def _mapping(what: str, values: Any) -> Mapping[Any, Any]:
    if values is not None:
        instance(what, values, Mapping, "write {symbol: value}")
    return values or {}


def _part(kind: str, key: Any) -> Part:
    """The state variable or parameter that a key of the user's mapping names."""
    if isinstance(key, (sympy.Symbol, AppliedUndef)):
        return Part(key.name, (), key)
    if not isinstance(key, sympy.MatrixSymbol):
        raise InputError(
            f"expected a symbol or a MatrixSymbol as a name of the {kind}, received {shown(key)}; write "
            "sympy.Symbol('u')"
        )
    if not all(isinstance(each, sympy.Integer) for each in key.shape):
        raise InputError(
            f"expected a matrix of the {kind} with lengths that are whole numbers, received {shown(key)} of shape "
            f"{shown(key.shape)}; give the lengths as numbers"
        )
    return Part(key.name, tuple(int(each) for each in key.shape), key)


def _rules(parts: Iterable[Part], array: str) -> tuple[list[sympy.Symbol], dict[Any, Any]]:
    """Symbols of the generated code for all entries, and the replacements of the user's symbols by these symbols."""
    symbols: list[sympy.Symbol] = []
    rules: dict[Any, Any] = {}
    for part in parts:
        first = len(symbols)
        symbols += [own_symbol(array, first + i) for i in range(len(part.entries))]
        rules |= dict(zip(part.entries, symbols[first:], strict=True))
        if part.shape:
            rules[part.symbol] = sympy.ImmutableDenseMatrix(*part.shape, symbols[first:])
    return symbols, rules


def _numbers(part: Part, value: Any) -> float | Floats:
    """Value of a parameter."""
    given = np.array(value.tolist() if isinstance(value, sympy.MatrixBase) else value, dtype=object)
    entries = [number(each) if isinstance(each, sympy.Expr) and each.is_number else each for each in given.ravel()]
    array = finite_array("parameters", np.array(entries, dtype=object).reshape(given.shape))
    if array.shape != part.shape and _as_list(array.shape) != _as_list(part.shape):
        raise InputError(
            f"expected parameters of shape {part.shape}, received shape {array.shape}; give one entry for each"
        )
    return array.reshape(part.shape) if part.shape else float(array)


def _as_list(shape: Shape) -> Shape:
    return shape[:1] if len(shape) == 2 and shape[1] == 1 else shape


def _rates(rules: Mapping[Any, Any], states: list[Part], rate: Any) -> list[Any]:
    """Expressions of the rate in the order of the state."""
    found = {}
    for key, value in _mapping("rate", rate).items():
        part = _part("rate", key)
        if part not in states:
            raise InputError(
                f"expected rates of the state {', '.join(each.name for each in states)}, received one of {part.name}; "
                "use the same symbols"
            )
        found[part] = _entries(rules, f"the rate of {part.name}", part.shape, value)
    missing = [each.name for each in states if each not in found]
    if missing:
        raise InputError(f"expected a rate of every state variable, received none of {', '.join(missing)}; add it")
    return [entry for each in states for entry in found[each]]


def _measures(rules: Mapping[Any, Any], kind: str, named: Mapping[str, Any]) -> Measures:
    """Shape and expressions of each observable or conserved quantity."""
    return {
        name: _read(rules, f"the {kind} {name!r} (a function of state and parameters)", value)
        for name, value in named.items()
    }


def _entries(rules: Mapping[Any, Any], what: str, expected: Shape, value: Any) -> list[sympy.Expr]:
    """Entries of the start or rate of a part of the state; a column counts as a list."""
    shape, entries = _read(rules, what, value)
    if shape != expected and not (_as_list(shape) == _as_list(expected) and len(entries) > 1):
        raise InputError(
            f"expected {what} of shape {expected}, as the state, received shape {shape}; give one entry for each"
        )
    return entries


def _read(rules: Mapping[Any, Any], what: str, value: Any) -> tuple[Shape, list[sympy.Expr]]:
    """Shape and entries of an expression, a matrix or a list, in the symbols of the generated code."""
    known = {*rules.values()}
    if not isinstance(value, (list, tuple, np.ndarray)):
        replaced = _replaced(rules, what, value)
        if not isinstance(replaced, sympy.MatrixBase):
            return (), [_checked(known, what, replaced)]
        return replaced.shape, [_checked(known, what, each) for each in replaced]
    try:
        nested = np.array(value, dtype=object)
    except ValueError:
        raise InputError(f"expected {what} as rows of one length, received {shown(value)}") from None
    return nested.shape, [_checked(known, what, _replaced(rules, what, each)) for each in nested.ravel()]


def _replaced(rules: Mapping[Any, Any], what: str, value: Any) -> Any:
    if isinstance(value, (str, bytes, bool)) or callable(getattr(value, "py_func", None)):
        raise InputError(f"expected {what} as a sympy expression, received {shown(value)}; write it without quotes")
    try:
        expression = sympy.sympify(value, strict=True)
    except (sympy.SympifyError, AttributeError, TypeError):
        raise InputError(
            f"expected {what} as a sympy expression, received {shown(value)}; write it in sympy's functions, or "
            "use System.from_function"
        ) from None
    # Before anything is replaced: the derivative of q(t) by t would be that of a symbol, which is 0.
    nodes = [expression]
    while nodes:
        node = nodes.pop()
        if isinstance(node, sympy.MatrixBase):
            nodes += node.flat()
        elif isinstance(node, (AppliedUndef, sympy.MatrixSymbol, MatrixElement)) or node in rules:
            continue
        elif is_accepted(node) or isinstance(node, (*OF_MATRICES, *OF_COMPLEX_NUMBERS)):
            nodes += node.args
        elif isinstance(node, sympy.Expr):
            raise not_accepted(node, what, expression)
    try:
        replaced = expression.xreplace(rules).doit()
        return replaced.as_explicit() if hasattr(replaced, "as_explicit") else replaced
    except (sympy.ShapeError, ValueError, TypeError, IndexError) as error:
        raise InputError(f"expected {what} to be computable, received {shown(value)} ({error})") from error


def _checked(known: set[Any], what: str, expression: Any) -> sympy.Expr:
    if not isinstance(expression, sympy.Expr):
        raise InputError(f"expected {what} as an expression with numbers as values, received {shown(expression)}")
    unknown = sorted(str(each) for each in expression.free_symbols - known)
    unknown += sorted({str(each) for each in expression.atoms(AppliedUndef)})
    if unknown:
        raise InputError(
            f"expected a value of every symbol, received {what} with {', '.join(unknown)}; add it to parameters, "
            "or to the state"
        )
    if expression.has(sympy.nan, sympy.zoo, sympy.oo, -sympy.oo):
        raise InputError(f"expected {what} to be finite, received {shown(expression)}; correct the expression")
    return expression
