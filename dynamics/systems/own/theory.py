"""Expressions of a system in sympy, and the code generated from them, in files named by content for numba's cache."""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import math
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache, cached_property
from itertools import combinations
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numba
import numpy as np
import sympy
from sympy.codegen.cfunctions import expm1, hypot, log1p, log2, log10
from sympy.functions.elementary.piecewise import ExprCondPair
from sympy.logic.boolalg import BooleanFalse, BooleanTrue
from sympy.printing.pycode import PythonCodePrinter

from snapdyn.core.errors import InputError, shown
from snapdyn.dynamics.classes.table import Floats
from snapdyn.dynamics.files.storage import output_folder, source_hash, write_text
from snapdyn.dynamics.kernels.called_rate import address_of
from snapdyn.dynamics.kernels.compilation import cache_folder

MOST_JUMPS = 100_000  # a stop costs a first step, about 0.1 ms: ten seconds
POINTS, POINTS_BETWEEN = 1000, 8  # at which a condition that is not linear in t is evaluated: in a run, between stops
BESIDE = 2e-14  # relative distance of two more points, on both sides of each stop


class Switch(NamedTuple):
    """An expression g of time and parameters at whose zeros the rate jumps or bends.

    Attributes
    ----------
    at_whole_numbers : bool
        The rate jumps wherever g is a whole number, as floor(g) does, and not only at zeros.
    linear : bool
        Whether g is a t + b.
    function : callable
        (*parameters) -> [a, b] for a linear g, else (t, *parameters) -> g.
    """

    at_whole_numbers: bool
    linear: bool
    function: Any


def jump_times(switches: Sequence[Switch], parameters: Sequence[float], t_end: float) -> Floats:
    """Increasing times in [0, t_end] at which a rate with these switches may jump.

    Those of a linear g are exact. Other zeros are found between the points of a grid, and at local extrema.

    Raises
    ------
    InputError
        More than 100,000 times.
    """
    found = np.zeros(0)
    for switch in switches:
        new = _zeros_of_line(switch, parameters, t_end) if switch.linear else _zeros(switch, parameters, found, t_end)
        found = np.union1d(found, [t for t in new if 0.0 <= t <= t_end])
        _require_few(found.size)
    return found


def _require_few(number: float) -> None:
    if number > MOST_JUMPS:
        raise InputError(
            f"expected a rate that jumps at most {MOST_JUMPS} times in a run, received {number:.6g} jumps; give an "
            "earlier last time, or state the rate by System.from_function"
        )


def _zeros_of_line(switch: Switch, parameters: Sequence[float], t_end: float) -> Sequence[float] | Floats:
    try:
        a, b = switch.function(*parameters)
    except (ArithmeticError, ValueError):  # of parameters for which g is not a number
        return []
    if a == 0.0 or not math.isfinite(a + b):
        return []
    if not switch.at_whole_numbers:
        return [-b / a]
    first, last = sorted((b, a * t_end + b))
    _require_few(last - first)
    return (np.arange(math.ceil(first), math.floor(last) + 1) - b) / a


def _zeros(switch: Switch, parameters: Sequence[float], known: Floats, t_end: float) -> list[float]:
    """Zeros, or crossings of whole numbers, of a function that is smooth between the times `known`."""

    def g(t: float) -> float:
        try:
            return float(switch.function(t, *parameters))
        except (ArithmeticError, ValueError):
            return math.nan

    ends = np.concatenate([[0.0], known, [t_end]])
    grid = [np.linspace(0.0, t_end, POINTS), np.geomspace(1e-12 * t_end, t_end, POINTS)]
    grid += [ends * (1 - BESIDE), ends * (1 + BESIDE)]
    grid += [np.linspace(ends[:-1], ends[1:], POINTS_BETWEEN, endpoint=False).ravel()]
    at = np.unique(np.concatenate(grid))
    at = at[at <= t_end]
    values = np.array([g(t) for t in at])
    zeros: list[float] = []
    for i in range(1, at.size):
        one, other = sorted((values[i - 1], values[i]))
        if not math.isfinite(other - one):
            continue
        if switch.at_whole_numbers:
            _require_few(len(zeros) + other - one)
            levels = range(math.ceil(one), math.floor(other) + 1)
        else:
            levels = range(1) if one <= 0.0 <= other else range(0)
        zeros += [_crossing(g, level, at[i - 1], at[i]) for level in levels]
        if i > 1 and not switch.at_whole_numbers and abs(values[i - 1]) < min(abs(values[i - 2]), abs(values[i])):
            zeros += _zeros_at_extremum(g, at[i - 2], at[i])
    return zeros


def _crossing(g: Callable[[float], float], level: float, left: float, right: float) -> float:
    from scipy.optimize import brentq

    if g(left) == level or g(right) == level:
        return left if g(left) == level else right
    return float(brentq(lambda t: g(t) - level, left, right, xtol=1e-300, rtol=1e-15))


def _zeros_at_extremum(g: Callable[[float], float], left: float, right: float) -> list[float]:
    """Two zeros between the points of the grid, on both sides of an extremum."""
    from scipy.optimize import minimize_scalar

    side = math.copysign(1.0, g(left))
    extremum = float(minimize_scalar(lambda t: side * g(t), bounds=(left, right), method="bounded").x)
    if not side * g(extremum) < 0.0 < side * g(right):
        return []
    return [_crossing(g, 0.0, left, extremum), _crossing(g, 0.0, extremum, right)]


KERNEL = "@kernel(fastmath=EXACT)"
HEADER = '''"""Generated from sympy by snapdyn."""

import math

import numpy as np
from numba import carray

from snapdyn.dynamics.kernels.compilation import EXACT, kernel

'''
# Functions of the signature `kernels.called_rate.RATE`, for the integrator. `carray` is compiled as if it allocated.
CALLED = """

@kernel(allocates=True, fastmath=EXACT)
def called(state, out, size, parameters, t):
    return rate(carray(state, (size,)), carray(out, (size,)), carray(parameters, ({parameters},)), t)
"""
# How generated functions are compiled: numba's cache does not see that it changed.
BASIS = ("dynamics/kernels/compilation", "dynamics/kernels/called_rate")
Statement = tuple[str, sympy.Expr]
Measures = Mapping[str, tuple[tuple[int, ...], list[Any]]]


def own_symbol(array: str, index: int) -> sympy.Symbol:
    """The symbol whose name is the source of an entry of an array."""
    return sympy.Symbol(f"{array}[{index}]", real=True)


TIME = sympy.Symbol("(t)", real=True)  # a name that no user gives
MODULES = {"math": math, "np": np}  # of code that is not compiled


@dataclass(frozen=True, eq=False)
class SymbolicTheory:
    """Expressions of a system in the symbols of the generated code: state[0], ..., parameters[0], ..., the time.

    Attributes
    ----------
    state, parameters : list of sympy.Symbol
        Flat lists, in the order of the arrays.
    start, rate : list of sympy.Expr
        `start` in the parameters, `rate` in all symbols.
    depends_on_time : bool
    observables, conserved : mapping of str to (shape, expressions)
    """

    state: list[Any]
    parameters: list[Any]
    start: list[Any]
    rate: list[Any]
    depends_on_time: bool
    observables: Measures
    conserved: Measures

    @cached_property
    def flow(self) -> ModuleType:
        """Module with the compiled rate(state, out, parameters, t), and with `called`, which the integrator calls."""
        rate = function("rate", "state, out, parameters, t", assignments(self.rate))
        return generated_module(rate, CALLED.format(parameters=len(self.parameters)))

    @cached_property
    def address(self) -> int:
        """Address of the compiled rate; 0 where numba's compiler is switched off."""
        return address_of(self.flow.called)

    @cached_property
    def derivative(self) -> ModuleType | None:
        """Module of derivative(state, vector, out, parameters, t), the Jacobian times `vector`; None if not compilable.

        Forward differentiation: each common subexpression is differentiated with respect to earlier ones, so that the
        code is about twice as long as that of the rate, whatever the size of the state.
        """
        replacements, reduced = common_subexpressions(self.rate)
        tangent = {symbol: own_symbol("vector", i) for i, symbol in enumerate(self.state)}

        def along(expression: sympy.Expr) -> sympy.Expr:
            moving = sorted(expression.free_symbols & tangent.keys(), key=str)
            change = sympy.Add(*(sympy.diff(expression, each) * tangent[each] for each in moving))
            return change.replace(sympy.DiracDelta, lambda *_: sympy.S.Zero)  # of jumps, which have no derivative

        statements: list[Statement] = []
        for symbol, expression in replacements:
            change = along(expression)
            statements.append((str(symbol), expression))
            if change != 0:
                tangent[symbol] = sympy.Symbol(f"d{symbol}", real=True)
                statements.append((str(tangent[symbol]), change))
        statements += to_out(along(each) for each in reduced)
        try:
            return generated_module(function("derivative", "state, vector, out, parameters, t", statements))
        except InputError:  # such as that of loggamma
            return None

    @cached_property
    def starting(self) -> Any:
        """Start as a function of the parameters; not compiled."""
        return self.of_parameters(self.start)

    def of_parameters(self, expressions: list[Any]) -> Any:
        """Function of the parameters that returns the values of `expressions`; not compiled."""
        return sympy.lambdify(self.parameters, expressions, [MODULES], _Printer())

    @cached_property
    def measures(self) -> list[ModuleType]:
        """Compiled observables and conserved quantities."""
        every = [assignments(entries_of(named)) for named in (self.observables, self.conserved)]
        return [generated_module(function("measure", "state, out, parameters", each)) for each in every]

    @cached_property
    def switches(self) -> list[Switch]:
        """What makes the rate jump or bend at times that state values do not change; of nested ones, inner first."""
        found: dict[tuple[Any, bool], Switch] = {}
        for entry in self.rate if self.depends_on_time else ():
            for node in sympy.postorder_traversal(entry):
                for argument, whole in _switching(node):
                    if TIME in argument.free_symbols and argument.free_symbols <= {TIME, *self.parameters}:
                        found.setdefault((argument, whole), self._switch(argument, whole))
        return list(found.values())

    @cached_property
    def may_jump(self) -> bool:
        """Whether a part of the rate may jump, at any time or state."""
        return any(_switching(node) for entry in self.rate for node in sympy.preorder_traversal(entry))

    def _switch(self, argument: sympy.Expr, whole: bool) -> Switch:
        line = argument.as_poly(TIME) if argument.is_polynomial(TIME) else None
        if line is not None and line.degree() == 1:
            return Switch(whole, True, self.of_parameters(line.all_coeffs()))
        return Switch(whole, False, sympy.lambdify([TIME, *self.parameters], argument, [MODULES], _Printer()))

    def __reduce__(self) -> tuple[Any, ...]:
        # The generated modules are left out: another process makes or finds them for itself.
        return SymbolicTheory, tuple(getattr(self, field.name) for field in fields(self))


def _switching(node: Any) -> list[tuple[Any, bool]]:
    """Arguments at whose zeros (True: at whose whole numbers) a node jumps or bends."""
    kind = type(node)
    if kind in COMPARISONS:
        return [(node.lhs - node.rhs, False)] if isinstance(node.lhs - node.rhs, sympy.Expr) else []
    if kind in (sympy.Heaviside, sympy.sign, sympy.Abs, sympy.acot, sympy.atan2):
        return [(node.args[0], False)]
    if kind in (sympy.floor, sympy.ceiling, sympy.frac):
        return [(node.args[0], True)]
    if kind is sympy.Mod:
        return [(node.args[0] / node.args[1], True)]
    if kind in (sympy.Max, sympy.Min):
        return [(one - other, False) for one, other in combinations(node.args, 2)]
    return []


def function(name: str, arguments: str, statements: Iterable[Statement]) -> str:
    """Source of a function with these statements."""
    lines = [f"    {target} = {printed(expression)}" for target, expression in statements]
    return "\n".join([KERNEL, f"def {name}({arguments}):", *lines, "    return 0.0", ""])


def entries_of(named: Measures) -> list[Any]:
    """All expressions of observables or conserved quantities."""
    return [each for _, expressions in named.values() for each in expressions]


# What an expression may consist of, beside numbers and symbols: functions, with their code, and what combines them.
FUNCTIONS: dict[Any, str] = {
    **{each: f"math.{each.__name__}({{0}})" for each in (
        sympy.exp, sympy.log, sympy.sin, sympy.cos, sympy.tan, sympy.asin, sympy.acos, sympy.atan, sympy.sinh,
        sympy.cosh, sympy.tanh, sympy.asinh, sympy.acosh, sympy.atanh, sympy.erf, sympy.erfc,
    )},
    sympy.cot: "(1.0/math.tan({0}))",
    sympy.sec: "(1.0/math.cos({0}))",
    sympy.csc: "(1.0/math.sin({0}))",
    sympy.sinc: "(math.sin({0})/({0}) if ({0}) != 0.0 else 1.0)",
    sympy.acot: "math.atan(1.0/({0}))",
    sympy.asec: "math.acos(1.0/({0}))",
    sympy.acsc: "math.asin(1.0/({0}))",
    sympy.atan2: "math.atan2({0}, {1})",
    sympy.coth: "(1.0/math.tanh({0}))",
    sympy.sech: "(1.0/math.cosh({0}))",
    sympy.csch: "(1.0/math.sinh({0}))",
    sympy.acoth: "math.atanh(1.0/({0}))",
    sympy.asech: "math.acosh(1.0/({0}))",
    sympy.acsch: "math.asinh(1.0/({0}))",
    sympy.gamma: "math.gamma({0})",
    # sympy's is complex below 0, where that of Python is the logarithm of the absolute value.
    sympy.loggamma: "(math.lgamma({0}) if ({0}) > 0.0 else math.nan)",
    sympy.Abs: "math.fabs({0})",
    # The last value of both is for 0, and keeps NaN.
    sympy.sign: "(1.0 if ({0}) > 0.0 else (-1.0 if ({0}) < 0.0 else ({0})))",
    sympy.Heaviside: "(1.0 if ({0}) > 0.0 else (0.0 if ({0}) < 0.0 else ({1}) + ({0})))",
    sympy.floor: "np.floor({0})",
    sympy.ceiling: "np.ceil({0})",
    sympy.frac: "(({0}) - np.floor({0}))",
    sympy.Mod: "(({0}) % ({1}))",
    expm1: "math.expm1({0})",
    log1p: "math.log1p({0})",
    log2: "math.log2({0})",
    log10: "math.log10({0})",
    hypot: "math.hypot({0}, {1})",
}  # fmt: skip
COMPARISONS = (sympy.Eq, sympy.Ne, sympy.Lt, sympy.Le, sympy.Gt, sympy.Ge)
STRUCTURE = {
    *(sympy.Add, sympy.Mul, sympy.Pow, sympy.Max, sympy.Min, sympy.Piecewise, ExprCondPair),
    *(*COMPARISONS, sympy.And, sympy.Or, sympy.Not, BooleanTrue, BooleanFalse),
}


def is_accepted(node: Any) -> bool:
    """Whether a node of an expression, without its arguments, has code: a number, a symbol, or one of the lists."""
    return isinstance(node, (sympy.Symbol, sympy.Number, sympy.NumberSymbol)) or type(node) in {*FUNCTIONS, *STRUCTURE}


def not_accepted(node: Any, what: str, expression: Any) -> InputError:
    """The error for a node that has no code."""
    return InputError(
        f"expected {what} in functions that compile to code, received {type(node).__name__} in {shown(expression)}; "
        f"write its value (of a finite sum: .doit()) with {', '.join(map(str, FUNCTIONS))}, Max, Min and Piecewise, or "
        "use System.from_function"
    )


def number(constant: sympy.Expr) -> float:
    """Value of an expression without symbols, rounded once.

    Raises
    ------
    InputError
        It is not a real number, or its absolute value is neither 0 nor between 2.3e-308 and 1.7e308.
    """
    try:
        value = int(constant.p) / int(constant.q) if isinstance(constant, sympy.Rational) else float(constant)
    except OverflowError:
        value = math.inf
    except TypeError:
        raise InputError(
            f"expected real numbers, received {shown(constant)}; write it in real numbers and real functions"
        ) from None
    if not math.isfinite(value) or (abs(value) < sys.float_info.min and constant.is_zero is not True):
        raise InputError(
            f"expected numbers of absolute value 0, or between 2.3e-308 and 1.7e308, received {shown(constant)}; "
            "combine it with its neighbours to one number, or change the units"
        )
    return value


class _Printer(PythonCodePrinter):
    """Expressions as Python that numba compiles: numbers are floats, whole powers are products."""

    def __init__(self) -> None:
        super().__init__({"fully_qualified_modules": True, "allow_unknown_functions": False})

    def _print(self, expr: Any, **options: Any) -> str:
        if isinstance(expr, sympy.Expr) and expr.is_number:
            return repr(number(expr))
        if type(expr) in FUNCTIONS:
            return FUNCTIONS[type(expr)].format(*map(self._print, expr.args))
        if isinstance(expr, sympy.Basic) and not is_accepted(expr):
            raise not_accepted(expr, "expressions", expr)
        return str(super()._print(expr, **options))


def printed(expression: sympy.Expr) -> str:
    """Source of one expression.

    Raises
    ------
    InputError
        It has a function that is not in the list, or a number that float64 does not hold.
    """
    if expression.has(sympy.I):
        raise InputError(f"expected real expressions, received {shown(expression)} with the imaginary unit I")
    for piecewise in expression.atoms(sympy.Piecewise):
        if piecewise.args[-1].cond != True:  # noqa: E712  (sympy's)
            raise InputError(
                f"expected a value of Piecewise everywhere, received {shown(piecewise)}; add a last (value, True)"
            )
    return str(_Printer().doprint(expression))


def common_subexpressions(expressions: Sequence[sympy.Expr]) -> tuple[list[Any], list[sympy.Expr]]:
    """Replacements (symbol, expression in earlier symbols), and the given expressions in terms of all these symbols."""
    names = sympy.numbered_symbols("x", real=True)
    return sympy.cse(list(expressions), symbols=names, order="none")


def to_out(expressions: Iterable[sympy.Expr]) -> list[Statement]:
    """Statements that assign to the entries of out."""
    return [(f"out[{i}]", each) for i, each in enumerate(expressions)]


def assignments(expressions: Sequence[sympy.Expr]) -> list[Statement]:
    """Statements that compute `expressions` and assign them to the entries of out."""
    replacements, reduced = common_subexpressions(expressions)
    return [(str(symbol), each) for symbol, each in replacements] + to_out(reduced)


def generated_module(*parts: str) -> ModuleType:
    """Write functions (sources after the imports) to a file named after its content, unless it is there, and import it.

    The folder is "theories" in the cache folder; where that cannot be written to, a temporary one.
    """
    source = "\n".join([HEADER, *parts, f"# numba {numba.__version__}, snapdyn {_basis()}\n"])
    name = f"theory_{hashlib.sha256(source.encode()).hexdigest()[:24]}"
    if name in sys.modules:
        return sys.modules[name]
    file = _folder() / f"{name}.py"
    # A file that is there keeps its time of writing, which numba's cache compares.
    if not file.is_file() or file.read_text(encoding="utf-8") != source:
        write_text(file, source)
    specification = importlib.util.spec_from_file_location(name, file)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    sys.modules[name] = module
    return module


@cache
def _basis() -> str:
    return source_hash(*BASIS)


@cache
def _folder() -> Path:
    try:
        return output_folder(cache_folder() / "theories")
    except InputError:
        folder = tempfile.mkdtemp(prefix="snapdyn-theories-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        return Path(folder)
