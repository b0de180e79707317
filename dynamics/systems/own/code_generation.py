"""Source code of compiled functions from sympy expressions, with common subexpressions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import sympy
from sympy.printing.codeprinter import PrintMethodNotImplementedError
from sympy.printing.pycode import PythonCodePrinter

from snapdyn.errors import InputError, shown

HEADER = '''"""Generated from sympy by snapdyn."""

import math

from snapdyn.dynamics.kernels import dormand_prince
from snapdyn.dynamics.kernels.compilation import EXACT, kernel
from snapdyn.dynamics.kernels.explicit_steps import explicit_steps

'''
INTEGRATOR = """

@kernel(nogil=True)
def advance(arguments, work, save_at, saved, losses, most_steps):
    return dormand_prince.advance(rate, rate, (*arguments, work.reals), work, save_at, saved, losses, most_steps)


@kernel(nogil=True)
def make_steps(arguments, state, velocity, change, reals, size, momentum, steps, record, saved):
    return explicit_steps(rate, arguments, state, velocity, change, reals, size, momentum, steps, record, saved)
"""
SENSITIVITY = """

@kernel(fastmath=EXACT)
def rate_and_derivatives(state, out, parameters, moves, reals):
    n = state.size // (1 + moves.shape[0])
    x = state[:n]
    rate(x, out[:n], parameters, reals)
    for i in range(moves.shape[0]):
        first, end = (i + 1) * n, (i + 2) * n
        derivative(x, state[first:end], out[first:end], parameters, moves[i], reals)
    return 0.0


@kernel(nogil=True)
def advance(arguments, work, save_at, saved, losses, most_steps):
    return dormand_prince.advance(
        rate_and_derivatives, rate_and_derivatives, (*arguments, work.reals), work, save_at, saved, losses, most_steps
    )
"""
FLOW = "state, out, parameters, reals"
PRODUCT = "state, vector, out, parameters, reals"
DERIVATIVE = "state, vector, out, parameters, move, reals"
MEASURE_DERIVATIVE = "state, vector, out, parameters, move"
Statement = tuple[str, sympy.Expr]


class _Printer(PythonCodePrinter):
    """Expressions as Python that numba compiles: numbers are floats, whole powers are products."""

    def __init__(self) -> None:
        super().__init__({"fully_qualified_modules": True, "allow_unknown_functions": False})

    def _print_Integer(self, expr: Any) -> str:
        return f"{int(expr)}.0" if abs(int(expr)) < 10**15 else repr(float(expr))

    def _print_Rational(self, expr: Any) -> str:
        return repr(float(expr)) if expr.q & (expr.q - 1) == 0 else f"({float(expr.p)!r}/{float(expr.q)!r})"

    def _print_Float(self, expr: Any) -> str:
        return repr(float(expr))

    def _print_Pow(self, expr: Any, rational: bool = False) -> str:
        base, exponent = expr.as_base_exp()
        if base is sympy.E:
            return self._print(sympy.exp(exponent, evaluate=False))
        if exponent.is_Integer and abs(int(exponent)) < 1000:
            power = abs(int(exponent))
            whole = f"({self._print(base)})" + (f"**{power}" if power != 1 else "")
            return whole if exponent > 0 else f"(1.0/{whole})"
        if exponent == sympy.Rational(1, 2):
            return f"math.sqrt({self._print(base)})"
        if exponent == -sympy.Rational(1, 2):
            return f"(1.0/math.sqrt({self._print(base)}))"
        return f"({self._print(base)})**({self._print(exponent)})"

    def _print_factorial(self, expr: Any) -> str:
        raise PrintMethodNotImplementedError("expected another function: factorial")

    def _print_Heaviside(self, expr: Any) -> str:
        x, at_zero = self._print(expr.args[0]), self._print(expr.args[1])
        return f"(1.0 if {x} > 0.0 else (0.0 if {x} < 0.0 else {at_zero}))"

    def _print_sign(self, expr: Any) -> str:
        x = self._print(expr.args[0])
        return f"(1.0 if {x} > 0.0 else (-1.0 if {x} < 0.0 else 0.0))"

    def _print_DiracDelta(self, expr: Any) -> str:
        return "0.0"  # a derivative by the state, of a function that jumps at this state

    def _print_Abs(self, expr: Any) -> str:
        return f"math.fabs({self._print(expr.args[0])})"


def printed(expression: sympy.Expr) -> str:
    """Source of one expression.

    Raises
    ------
    InputError
        It has a function that numba does not compile, or a complex number.
    """
    if expression.has(sympy.I):
        raise InputError(f"expected real expressions, received {shown(expression)} with the imaginary unit I")
    for piecewise in expression.atoms(sympy.Piecewise):
        if piecewise.args[-1].cond != True:  # noqa: E712  (sympy's)
            raise InputError(
                f"expected a value of Piecewise everywhere, received {shown(piecewise)}; add a last (value, True)"
            )
    try:
        return str(_Printer().doprint(expression))
    except PrintMethodNotImplementedError as error:
        named = str(error).partition("\n")[0].rpartition(": ")[2] or type(expression).__name__
        raise InputError(
            f"expected functions that compile (exp, log, sqrt, sin, tanh, erf, Piecewise, ...), received {named} in "
            f"{shown(expression)}; write it with those, or use System.from_function"
        ) from None


def common_subexpressions(expressions: Sequence[sympy.Expr], prefix: str) -> tuple[list[Any], list[sympy.Expr]]:
    """Replacements (symbol, expression), each of earlier ones, and the expressions with these symbols."""
    names = sympy.numbered_symbols(prefix, real=True)
    return sympy.cse(list(expressions), symbols=names, order="none")


def assignments(outputs: Sequence[str], expressions: Sequence[sympy.Expr]) -> list[Statement]:
    """Statements that compute `expressions` and assign them to `outputs`."""
    replacements, reduced = common_subexpressions(expressions, "x")
    return [(str(symbol), each) for symbol, each in replacements] + list(zip(outputs, reduced, strict=True))


def product_statements(
    rate: Sequence[sympy.Expr], variables: Sequence[sympy.Symbol], outputs: Sequence[str]
) -> list[Statement]:
    """Statements for the derivative of `rate` when `variables` move along v0, v1, ...: forward differentiation.

    Each common subexpression of the rate is differentiated by those before it, so that the code has about twice the
    size of the rate, whatever the number of variables.
    """
    replacements, reduced = common_subexpressions(rate, "x")
    tangent: dict[sympy.Symbol, sympy.Expr] = {
        symbol: sympy.Symbol(f"v{i}", real=True) for i, symbol in enumerate(variables)
    }

    def along(expression: sympy.Expr) -> sympy.Expr:
        moving = sorted(expression.free_symbols & set(tangent), key=str)
        return sympy.Add(*(sympy.diff(expression, each) * tangent[each] for each in moving))

    values: list[tuple[Any, sympy.Expr]] = []
    for symbol, expression in replacements:
        values.append((symbol, expression))
        change = along(expression)
        if change != 0:
            moved = sympy.Symbol(f"d{symbol}", real=True)
            values.append((moved, change))
            tangent[symbol] = moved
    results = [along(each) for each in reduced]
    # Once more, since a function and its derivative share terms: statements in the order of what they need.
    shared, again = common_subexpressions([each for _, each in values] + results, "y")
    known: dict[Any, sympy.Expr] = dict(shared)
    known.update((symbol, each) for (symbol, _), each in zip(values, again, strict=False))
    statements: list[Statement] = []
    written: set[Any] = set()

    def need(expression: sympy.Expr) -> None:
        waiting = [expression]
        while waiting:
            missing = [each for each in waiting[-1].free_symbols if each in known and each not in written]
            if missing:
                waiting.extend(known[each] for each in sorted(missing, key=str))
                continue
            done = waiting.pop()
            for symbol in owners.get(done, ()):
                if symbol not in written:
                    written.add(symbol)
                    statements.append((str(symbol), done))

    owners: dict[sympy.Expr, list[Any]] = {}
    for symbol, each in known.items():
        owners.setdefault(each, []).append(symbol)
    for output, each in zip(outputs, again[len(values) :], strict=True):
        need(each)
        statements.append((output, each))
    return statements


def function_source(
    name: str, arguments: str, statements: Iterable[Statement], loads: Iterable[tuple[str, str]], decorator: str
) -> str:
    """Source of a function: it loads those of `loads` (name, source) that it needs, then makes the statements."""
    lines, used = [], set()
    for target, expression in statements:
        used |= {str(each) for each in expression.free_symbols}
        lines.append(f"    {target} = {printed(expression)}")
    loaded = [f"    {symbol} = {source}" for symbol, source in loads if symbol in used]
    return "\n".join([f"{decorator}", f"def {name}({arguments}):", *loaded, *lines, "    return 0.0", ""])
