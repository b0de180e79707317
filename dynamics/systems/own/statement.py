"""What a user states in sympy, as flat lists of expressions in symbols of our own; every check of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import sympy
from sympy.core.function import AppliedUndef

from snapdyn.dynamics.classes.table import Floats
from snapdyn.dynamics.systems.own.declaration import checked_name, require_names
from snapdyn.dynamics.systems.own.theory import Measures, SymbolicTheory, entries_of, printed
from snapdyn.errors import InputError, finite_array, shown

Shape = tuple[int, ...]


class Part(NamedTuple):
    """A symbol of the user's, or an array of them: its entries by row."""

    name: str
    shape: Shape
    entries: tuple[Any, ...]
    whole: Any = None  # MatrixSymbol or ArraySymbol


def stated(
    name: str, state: Any, rate: Any, parameters: Any, observables: Any, conserved: Any, time: Any
) -> dict[str, Any]:
    """Check and read the arguments of `from_sympy`; return those of `new_class`."""
    starts = [(_parts("state", key), value) for key, value in _pairs("state", state)]
    if not starts:
        raise InputError("expected a state of at least one symbol, received none; write {symbol: start}")
    values = [(_parts("parameters", key), value) for key, value in _pairs("parameters", parameters)]
    states, given = ([part for parts, _ in pairs for part in parts] for pairs in (starts, values))
    if time is not None and not isinstance(time, sympy.Symbol):
        raise InputError(f"expected time as the symbol of the time, received {shown(time)}; write time=Symbol('t')")
    for key, _ in _pairs("conserved quantities", conserved):
        checked_name("conserved quantities", key)
    require_names(
        name,
        state=[part.name for part in states],
        parameters=[part.name for part in given],
        time=[] if time is None else [str(time)],
        observables=[key for key, _ in _pairs("observables", observables)],
    )
    defaults: dict[str, float | Floats] = {}
    for parts, value in values:
        defaults |= _defaults(parts, value)

    own_state, rules = _rules(states, "s")
    own_parameters, of_parameters = _rules(given, "p")
    clock = None if time is None else sympy.Symbol("t", real=True)
    reader, early = Reader(rules | of_parameters), Reader(of_parameters)
    theory = SymbolicTheory(
        own_state,
        own_parameters,
        [entry for parts, value in starts for entry in early.entries("start", parts, value)],
        _rates(Reader(rules | of_parameters | ({time: clock} if clock else {})), states, rate),
        clock,
        _measures(reader, "observable", observables),
        _measures(reader, "conserved quantity", conserved),
    )
    for entry in (*theory.start, *theory.rate, *entries_of(theory.observables), *entries_of(theory.conserved)):
        printed(entry)  # refuses what does not compile, before a run
    value_names = [
        part.name if part.shape == () else f"{part.name}[{','.join(map(str, index))}]"
        for part in states
        for index in np.ndindex(part.shape)
    ]
    shapes = {part.name: part.shape for part in states}
    return {
        "name": name,
        "defaults": defaults,
        "state_shapes": shapes,
        "value_names": tuple(value_names),
        "theory": theory,
    }


def _pairs(what: str, values: Any) -> list[tuple[Any, Any]]:
    """Entries of a mapping, or of a list of pairs (a Matrix cannot be a key of a mapping)."""
    if values is None:
        return []
    try:
        return list(values.items()) if isinstance(values, Mapping) else [(key, value) for key, value in values]
    except (TypeError, ValueError):
        raise InputError(
            f"expected {what} as a mapping {{symbol: value}}, received {shown(values)}; write {{...}}"
        ) from None


def _parts(kind: str, key: Any) -> list[Part]:
    """What a key of the user's mapping names; a matrix of symbols gives a part for each of them."""
    if isinstance(key, sympy.MatrixSymbol):
        return [_array(kind, key, key.name, key.shape, key)]
    if isinstance(key, sympy.IndexedBase):
        return [_array(kind, key, str(key.label), key.shape or ())]
    if hasattr(key, "as_explicit") and hasattr(key, "name"):  # ArraySymbol
        return [_array(kind, key, str(key.name), key.shape, key)]
    if isinstance(key, (sympy.Symbol, AppliedUndef)):
        return [Part(key.name, (), (key,))]
    if isinstance(key, (tuple, list, sympy.Tuple, sympy.MatrixBase, sympy.NDimArray, np.ndarray)):
        parts = [part for each in np.ravel(np.array(key, dtype=object)) for part in _parts(kind, each)]
        if parts and all(part.shape == () for part in parts):
            return parts
    raise InputError(
        f"expected a symbol, a MatrixSymbol or a matrix of symbols as a name of the {kind}, received {shown(key)}; "
        "write sympy.Symbol('u')"
    )


def _array(kind: str, key: Any, name: str, given: Iterable[Any], whole: Any = None) -> Part:
    lengths = tuple(given)
    if not lengths or not all(isinstance(each, (int, sympy.Integer)) and each > 0 for each in lengths):
        raise InputError(
            f"expected an array of the {kind} with lengths that are whole numbers, received {shown(key)} of shape "
            f"{shown(lengths)}; give the lengths as numbers"
        )
    shape = tuple(int(each) for each in lengths)
    return Part(name, shape, tuple(key[index] for index in np.ndindex(shape)), whole)


def _rules(parts: list[Part], letter: str) -> tuple[list[sympy.Symbol], dict[Any, Any]]:
    """Symbols of the generated code for all entries, and the replacements of the user's symbols by them."""
    symbols: list[sympy.Symbol] = []
    rules: dict[Any, Any] = {}
    for part in parts:
        first = len(symbols)
        own = [sympy.Symbol(f"{letter}{first + i}", real=True) for i in range(len(part.entries))]
        symbols += own
        rules |= dict(zip(part.entries, own, strict=True))
        if isinstance(part.whole, sympy.MatrixSymbol):
            rules[part.whole] = sympy.ImmutableDenseMatrix(*part.shape, own)
        elif part.whole is not None:
            rules[part.whole] = sympy.ImmutableDenseNDimArray(own, part.shape)
    return symbols, rules


def _defaults(parts: list[Part], value: Any) -> dict[str, float | Floats]:
    """Values of the parameters that one key names."""
    if len(parts) > 1:
        flat = _numbers("parameters", (len(parts),), np.ravel(np.array(value, dtype=object)).tolist())
        return {part.name: float(each) for part, each in zip(parts, flat, strict=True)}
    array = _numbers(parts[0].name, parts[0].shape, value)
    return {parts[0].name: float(array) if array.ndim == 0 else array}


def _numbers(what: str, shape: Shape, value: Any) -> Floats:
    if isinstance(value, (sympy.MatrixBase, sympy.NDimArray)):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        given = np.array(value, dtype=object)
        entries = [float(each) if isinstance(each, sympy.Expr) and each.is_number else each for each in given.ravel()]
        value = np.array(entries, dtype=object).reshape(given.shape)
    elif isinstance(value, sympy.Expr) and value.is_number and value.is_real:
        value = float(value)
    array = finite_array(what, value)
    if array.shape != shape and _as_list(array.shape) != _as_list(shape):
        raise InputError(f"expected {what} of shape {shape}, received shape {array.shape}; give one entry for each")
    return array.reshape(shape)


def _as_list(shape: Shape) -> Shape:
    return shape[:1] if len(shape) == 2 and shape[1] == 1 else shape


def _rates(reader: Reader, states: list[Part], rate: Any) -> list[Any]:
    """Expressions of the rate in the order of the state."""
    found: dict[str, list[Any]] = {}
    known = {part.name: part for part in states}
    for key, value in _pairs("rate", rate):
        parts = _parts("rate", key)
        for part in parts:
            if part.name not in known or known[part.name].entries != part.entries:
                raise InputError(
                    f"expected rates of the state {', '.join(known)}, received one of {part.name}; use the same symbols"
                )
            if part.name in found:
                raise InputError(f"expected every name once, received {part.name!r} twice in the rate; leave one out")
        entries = reader.entries("rate", parts, value)
        split = [entries] if len(parts) == 1 else [[each] for each in entries]
        found |= {part.name: each for part, each in zip(parts, split, strict=True)}
    missing = [each for each in known if each not in found]
    if missing:
        raise InputError(f"expected a rate of every state variable, received none of {', '.join(missing)}; add it")
    return [entry for each in known for entry in found[each]]


def _measures(reader: Reader, kind: str, named: Any) -> Measures:
    """Shape and expressions of each observable or conserved quantity."""
    return {
        name: reader.read(f"the {kind} {name!r} (a function of state and parameters)", value)
        for name, value in _pairs(kind, named)
    }


class Reader:
    """Turns the user's expressions into flat lists of expressions in the symbols of the generated code.

    Parameters
    ----------
    rules : mapping
        From the user's symbols to ours.
    """

    def __init__(self, rules: Mapping[Any, Any]) -> None:
        self._rules = dict(rules)
        self._known = {each for value in rules.values() for each in sympy.sympify(value).free_symbols}
        self._own = {each for key in rules for each in sympy.sympify(key).free_symbols}

    def entries(self, kind: str, parts: list[Part], value: Any) -> list[sympy.Expr]:
        """Entries of the start or rate of the parts that one key names; a column counts as a list."""
        what = f"the {kind} of {', '.join(part.name for part in parts)}"
        shape, entries = self.read(what, value)
        expected = parts[0].shape
        if len(parts) > 1:
            expected, shape = (len(parts),), (len(entries),)
        if shape != expected and not (_as_list(shape) == _as_list(expected) and len(entries) > 1):
            raise InputError(
                f"expected {what} of shape {expected}, as the state, received shape {shape}; give one entry for each"
            )
        return entries

    def read(self, what: str, value: Any) -> tuple[Shape, list[sympy.Expr]]:
        """Shape and entries of an expression, a matrix, an array or a list.

        Raises
        ------
        InputError
            It is no expression, or has symbols without a value.
        """
        if isinstance(value, (list, tuple, np.ndarray)):
            try:
                nested = np.array(value, dtype=object)
            except ValueError:
                raise InputError(f"expected {what} as rows of one length, received {shown(value)}") from None
            return nested.shape, [self._checked(what, self._replaced(what, each)) for each in nested.ravel()]
        replaced = self._replaced(what, value)
        if isinstance(replaced, (sympy.MatrixBase, sympy.NDimArray)):
            entries = [self._checked(what, each) for each in sympy.flatten(replaced.tolist())]
            return tuple(int(each) for each in replaced.shape), entries
        return (), [self._checked(what, replaced)]

    def _replaced(self, what: str, value: Any) -> Any:
        if isinstance(value, (str, bytes, bool)) or callable(getattr(value, "py_func", None)):
            raise InputError(f"expected {what} as a sympy expression, received {shown(value)}; write it without quotes")
        try:
            expression = sympy.sympify(value, strict=True)
        except (sympy.SympifyError, AttributeError, TypeError):
            raise InputError(
                f"expected {what} as a sympy expression, received {shown(value)}; write it in sympy's functions, or "
                "use System.from_function"
            ) from None
        own: set[Any] = getattr(expression, "free_symbols", set())
        if own & (self._known - self._own):  # named like a symbol of ours
            names = ", ".join(sorted(map(str, own & (self._known - self._own))))
            raise InputError(f"expected a value of every symbol, received {what} with {names}; add it to parameters")
        try:
            replaced = expression.xreplace(self._rules).doit()
            return replaced.as_explicit() if hasattr(replaced, "as_explicit") else replaced
        except (sympy.ShapeError, ValueError, TypeError, IndexError) as error:
            raise InputError(f"expected {what} to be computable, received {shown(value)} ({error})") from error

    def _checked(self, what: str, expression: Any) -> sympy.Expr:
        if not isinstance(expression, sympy.Expr):
            raise InputError(f"expected {what} as an expression with numbers as values, received {shown(expression)}")
        unknown = sorted({str(each) for each in expression.free_symbols - self._known})
        unknown += sorted({str(each) for each in expression.atoms(AppliedUndef)})
        if unknown:
            raise InputError(
                f"expected a value of every symbol, received {what} with {', '.join(unknown)}; add it to parameters, "
                "or to the state"
            )
        if expression.has(sympy.nan, sympy.zoo, sympy.oo, -sympy.oo):
            raise InputError(f"expected {what} to be finite, received {shown(expression)}; correct the expression")
        return expression
