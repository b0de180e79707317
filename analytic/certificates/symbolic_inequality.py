"""Certificates of a user's theory: an inequality in sympy on a box, for the interval prover."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import add, mul
from typing import Any

import sympy as sp
from flint import arb, fmpq

from snapdyn.analytic.certificates.prover import Ball, Inequality, Statement
from snapdyn.core.errors import InputError, instance, list_of, pair, real, shown, text
from snapdyn.core.registry import Registry

# Functions of sympy, and the method of a ball that encloses their values.
FUNCTIONS: dict[type[sp.Basic], str] = {
    sp.Abs: "__abs__", sp.LambertW: "lambertw", sp.loggamma: "lgamma",
    **{getattr(sp, name): name for name in (
        "exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh",
        "erf", "erfc", "gamma",
    )},
}  # fmt: skip
CERTIFICATES: Registry[Statement] = Registry("certificate", lambda statement: statement.id)


def certify(
    id: str,
    inequality: sp.Rel,
    box: Mapping[sp.Symbol, tuple[float, float]],
    wrong: Sequence[sp.Rel],
    words: str = "",
    source: str = "own",
) -> Statement:
    """Declare a certificate: an inequality in sympy that interval arithmetic proves at every real point of a box.

    A claim names it in ``certified=(id,)``. The proof runs when the claim is checked; where it fails, the result names
    the sub-box on which the inequality is false or undecided. Numbers such as 0.1 stand for their float64 values.

    Parameters
    ----------
    id : str
        Name of the certificate; a later certificate of a user with the same name replaces it.
    inequality : sympy.Rel
        ``left < right`` or ``left > right``. Where both sides are equal somewhere on the box, there is no proof.
    box : mapping of sympy.Symbol to (float, float)
        Smallest and largest value of each symbol, finite. A range with a positive lower end is halved in the logarithm.
    wrong : sequence of sympy.Rel
        False inequalities in the same symbols, at least one: the prover must not prove them (negative controls).
    words : str
        The statement in words, and how it follows from the inequality.
    source : str
        Where it is printed.

    Returns
    -------
    Statement
        With `run()`, which gives the proof.

    Raises
    ------
    InputError
        The inequality is not strict, or it has symbols that are not in the box or functions without interval
        arithmetic; a range is empty or not finite; or the id is that of a certificate of snapdyn.

    Examples
    --------
    >>> import sympy
    >>> from snapdyn.analytic.certificates import certify
    >>> u = sympy.Symbol("u")
    >>> certify("above-line", sympy.exp(u) > 2.7 * u, {u: (0, 5)}, [sympy.exp(u) > 2.8 * u]).run().proved
    True
    """
    if text("id", id) in CERTIFICATES.own:
        raise InputError(f"expected a new id of a certificate, received {shown(id)}, one of snapdyn's; choose another")
    ranges: dict[str, tuple[float, float]] = {}
    for symbol, given in instance("box", box, Mapping, "give {symbol: (smallest, largest)}").items():
        name = str(instance("a coordinate of the box", symbol, sp.Symbol, "give {symbol: (smallest, largest)}"))
        low, high = (real(f"the range of {name}", end) for end in pair(f"the range of {name}", given))
        if low > high:
            raise InputError(
                f"expected a range of {name} that does not fall, received {shown(given)}; write (smallest, largest)"
            )
        if name in ranges:
            raise InputError(f"expected symbols of different names in the box, received two of {name}; rename one")
        ranges[name] = (low, high)
    false = list_of("wrong", wrong, sp.core.relational.Relational, at_least=1)
    made = _inequality(inequality, ranges)
    controls = tuple(_inequality(each, ranges) for each in false)
    statement = Statement(
        id=id,
        title=text("words", words) or made.text,
        source=text("source", source),
        words=words or made.text,
        latex=sp.latex(inequality),
        box=ranges,
        reduction="",
        inequalities=(made,),
        wrong=controls,
    )
    CERTIFICATES.pop(id, None)
    return CERTIFICATES.add(statement)


def _inequality(relation: Any, box: Mapping[str, tuple[float, float]]) -> Inequality:
    """The relation as a margin of balls."""
    if not isinstance(relation, sp.StrictLessThan | sp.StrictGreaterThan):
        raise InputError(
            f"expected an inequality left < right or left > right, received {shown(relation)}; a proof by intervals "
            "needs a distance between both sides"
        )
    margin = relation.gts - relation.lts
    if names := {str(symbol) for symbol in margin.free_symbols} - set(box):
        raise InputError(
            f"expected a range for each symbol of {shown(str(relation))}, received none for "
            f"{', '.join(sorted(names))}; add it to the box"
        )
    point = {name: arb(low) for name, (low, _) in box.items()}
    _ball(margin, point)  # refuses functions that it does not know
    return Inequality(str(relation), lambda **coordinates: _ball(margin, coordinates), box)


def _ball(expression: Any, coordinates: Mapping[str, Ball]) -> Ball:
    """Enclose the values of an expression."""
    if expression.is_Symbol:
        return coordinates[str(expression)]
    if expression.is_Rational or expression.is_Float:
        exact = sp.Rational(expression)
        return arb(fmpq(int(exact.p), int(exact.q)))
    if expression in (sp.pi, sp.E):
        return arb.pi() if expression == sp.pi else arb.const_e()
    parts = [_ball(part, coordinates) for part in expression.args]
    if expression.is_Add or expression.is_Mul:
        return reduce(add if expression.is_Add else mul, parts)
    if expression.is_Pow:
        exponent = expression.exp
        if exponent.is_Integer:
            return parts[0] ** int(exponent)
        return parts[0].sqrt() if exponent == sp.Rational(1, 2) else parts[0] ** parts[1]
    if type(expression) in FUNCTIONS and len(parts) == 1:
        return getattr(parts[0], FUNCTIONS[type(expression)])()
    known = ", ".join(sorted(each.__name__ for each in FUNCTIONS))
    raise InputError(
        f"expected sums, products, powers, numbers and {known} in an inequality, received {shown(str(expression))}; "
        "write it with these"
    )
