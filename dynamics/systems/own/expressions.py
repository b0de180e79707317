"""What a user states in sympy, as flat lists of expressions in symbols of our own; every check of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import sympy
from sympy.core.function import AppliedUndef

from snapdyn.dynamics.systems.own.declaration import checked_name
from snapdyn.errors import InputError, finite_array, shown

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Part:
    """A symbol of the user's, or an array of them: its entries by row, and what replaces each in generated code."""

    name: str
    shape: Shape
    entries: tuple[Any, ...]
    stand_ins: tuple[sympy.Symbol, ...]
    whole: Any = None  # MatrixSymbol or ArraySymbol

    @property
    def names(self) -> list[str]:
        """Name of each entry, as Y[0,1]."""
        if self.shape == ():
            return [self.name]
        return [f"{self.name}[{','.join(map(str, index))}]" for index in np.ndindex(self.shape)]

    def rules(self) -> dict[Any, Any]:
        """Replacements of the user's symbols."""
        rules: dict[Any, Any] = dict(zip(self.entries, self.stand_ins, strict=True))
        if isinstance(self.whole, sympy.MatrixSymbol):
            rules[self.whole] = sympy.ImmutableDenseMatrix(*self.shape, self.stand_ins)
        elif self.whole is not None:
            rules[self.whole] = sympy.ImmutableDenseNDimArray(self.stand_ins, self.shape)
        return rules


@dataclass
class Parts:
    """All symbols of one kind (state, parameters), in the order in which they were given."""

    kind: str
    letter: str
    parts: list[Part] = field(default_factory=list)

    @property
    def stand_ins(self) -> list[sympy.Symbol]:
        """What replaces the entries, flat."""
        return [each for part in self.parts for each in part.stand_ins]

    def add(self, key: Any) -> list[Part]:
        """Add what a key of the user's mapping names; a matrix of symbols gives a part for each of them."""
        parts = []
        for name, shape, entries, whole in _symbols(self.kind, key):
            first = len(self.stand_ins)
            stand_ins = tuple(sympy.Symbol(f"{self.letter}{first + i}", real=True) for i in range(len(entries)))
            parts.append(Part(checked_name(self.kind, name), shape, tuple(entries), stand_ins, whole))
            self.parts.append(parts[-1])
        return parts


def _symbols(kind: str, key: Any) -> list[tuple[str, Shape, list[Any], Any]]:
    """Name, shape, entries and whole of each symbol that a key names."""
    if isinstance(key, sympy.MatrixSymbol):
        shape = _shape(kind, key, key.shape)
        return [(key.name, shape, [key[index] for index in np.ndindex(shape)], key)]
    if isinstance(key, sympy.IndexedBase):
        shape = _shape(kind, key, key.shape or ())
        return [(str(key.label), shape, [key[index] for index in np.ndindex(shape)], None)]
    if hasattr(key, "as_explicit") and hasattr(key, "name"):  # ArraySymbol
        shape = _shape(kind, key, key.shape)
        return [(str(key.name), shape, [key[index] for index in np.ndindex(shape)], key)]
    if isinstance(key, sympy.Symbol):
        return [(key.name, (), [key], None)]
    if isinstance(key, AppliedUndef):
        return [(key.func.__name__, (), [key], None)]
    if isinstance(key, (tuple, list, sympy.Tuple, sympy.MatrixBase, sympy.NDimArray, np.ndarray)):
        entries = [entry for each in np.ravel(np.array(key, dtype=object)) for entry in _symbols(kind, each)]
        if entries and all(shape == () for _, shape, _, _ in entries):
            return entries
    raise InputError(
        f"expected a symbol, a MatrixSymbol or a matrix of symbols as a name of the {kind}, received {shown(key)}; "
        "write sympy.Symbol('u')"
    )


def _shape(kind: str, key: Any, given: Iterable[Any]) -> Shape:
    lengths = tuple(given)
    if not lengths or not all(isinstance(each, (int, sympy.Integer)) and each > 0 for each in lengths):
        raise InputError(
            f"expected an array of the {kind} with lengths that are whole numbers, received {shown(key)} of shape "
            f"{shown(lengths)}; give the lengths as numbers"
        )
    return tuple(int(each) for each in lengths)


def pairs(what: str, values: Any) -> list[tuple[Any, Any]]:
    """Entries of a mapping, or of a list of pairs (a Matrix cannot be a key of a mapping)."""
    if values is None:
        return []
    try:
        return list(values.items()) if isinstance(values, Mapping) else [(key, value) for key, value in values]
    except (TypeError, ValueError):
        raise InputError(
            f"expected {what} as a mapping {{symbol: value}}, received {shown(values)}; write {{...}}"
        ) from None


class Reader:
    """Turns the user's expressions into flat lists of expressions in the stand-ins.

    Parameters
    ----------
    rules : mapping
        From the user's symbols to stand-ins.
    """

    def __init__(self, rules: Mapping[Any, Any]) -> None:
        self._rules = dict(rules)
        self._known = {each for value in rules.values() for each in sympy.sympify(value).free_symbols}
        self._own = {each for key in rules for each in sympy.sympify(key).free_symbols}

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
                shape, entries = nested.shape, [self._scalar(what, each) for each in nested.ravel()]
            except ValueError as error:
                if isinstance(error, InputError):
                    raise
                raise InputError(f"expected {what} as rows of one length, received {shown(value)}") from None
            return shape, entries
        replaced = self._replaced(what, value)
        if isinstance(replaced, (sympy.MatrixBase, sympy.NDimArray)):
            entries = [self._checked(what, each) for each in sympy.flatten(replaced.tolist())]
            return tuple(int(each) for each in replaced.shape), entries
        return (), [self._checked(what, replaced)]

    def _scalar(self, what: str, value: Any) -> sympy.Expr:
        return self._checked(what, self._replaced(what, value))

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
        if own & (self._known - self._own):  # named like a stand-in
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


def fitted(what: str, shape: Shape, received: tuple[Shape, list[Any]]) -> list[Any]:
    """Entries of an expression whose shape must be `shape`; a column counts as a list."""
    if received[0] != shape and not (_as_list(received[0]) == _as_list(shape) and len(received[1]) > 1):
        raise InputError(
            f"expected {what} of shape {shape}, as the state, received shape {received[0]}; give one entry for each"
        )
    return received[1]


def _as_list(shape: Shape) -> Shape:
    return shape[:1] if len(shape) == 2 and shape[1] == 1 else shape


def numbers(what: str, shape: Shape, value: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Value of a parameter as an array of `shape`."""
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
