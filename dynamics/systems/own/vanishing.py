"""Proof in sympy that an expression is 0 identically."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import sympy


def vanishes(expression: sympy.Expr) -> bool:
    """Whether sympy shows that an expression is 0 identically: exponentials and roots as symbols, then one fraction.

    False says that no proof was found.
    """
    import sympy
    from sympy.functions.elementary.hyperbolic import HyperbolicFunction
    from sympy.functions.elementary.trigonometric import TrigonometricFunction

    plain: Any = sympy.sympify(expression)
    if plain == 0:
        return True
    periodic = TrigonometricFunction, HyperbolicFunction
    plain = plain.replace(lambda each: isinstance(each, periodic), lambda each: each.rewrite(sympy.exp))
    exponentials: dict[Any, Any] = {}

    def of_exponential(argument: Any) -> Any:
        """exp(sum of q_i x_i) as a product of powers of one positive symbol for each x_i."""
        product = sympy.Integer(1)
        for term in sympy.Add.make_args(sympy.expand(argument)):
            factor, rest = term.as_coeff_Mul(rational=True)
            if rest not in exponentials:
                exponentials[rest] = sympy.Symbol(f"e{len(exponentials)}", positive=True)
            product *= exponentials[rest] ** factor
        return product

    plain = plain.replace(sympy.exp, of_exponential)
    roots: dict[Any, Any] = {}

    def of_root(base: Any, exponent: Any) -> Any:
        key = base, exponent.q
        if key not in roots:
            roots[key] = sympy.Symbol(f"r{len(roots)}", positive=True)
        return roots[key] ** exponent.p

    def is_root(each: Any) -> bool:
        return bool(each.is_Pow and each.exp.is_Rational and not each.exp.is_Integer and not each.base.is_Symbol)

    plain = plain.replace(is_root, lambda each: of_root(each.base, each.exp))
    numerator = sympy.expand(sympy.numer(sympy.together(plain)))
    for (base, order), symbol in reversed(roots.items()):
        # r^q = base: replace whole powers of r, which lowers the degree in r below q.
        above, below = sympy.fraction(sympy.together(base))
        terms = sympy.Poly(numerator, symbol).terms()
        highest = max((degree for (degree,), _ in terms), default=0) // order
        numerator = sympy.expand(
            sympy.Add(
                *(
                    factor
                    * symbol ** (degree % order)
                    * above ** (degree // order)
                    * below ** (highest - degree // order)
                    for (degree,), factor in terms
                )
            )
        )
    return bool(numerator == 0)
