"""What a derivation is: a claimed formula, and equations whose residuals sympy must bring to exactly zero."""

from collections.abc import Callable
from dataclasses import dataclass

import sympy as sp

eta_Y, eta_Z = sp.symbols("eta_Y eta_Z", positive=True)
V, K = sp.symbols("V K", positive=True)
s, t, h, u = sp.symbols("s t h u", positive=True)
# V > 1 enters as V = 1 + v with v > 0, which sympy can use in roots, logarithms and Lambert's function.
v = sp.Symbol("v", positive=True)


@dataclass(frozen=True)
class Derivation:
    """One formula of the theory together with the machinery that accepts or rejects it.

    Parameters
    ----------
    id : str
        Name of the derivation, unique in the register.
    title : str
        What the formula says, in one line.
    source : str
        Equation or lemma of arXiv 2305.16380v4, or "own".
    statement : sympy.Eq
        The formula; its right-hand side is the claim.
    steps : tuple of (str, sympy expression)
        The way there, as computed by sympy.
    residuals : callable
        From a claimed right-hand side to named residuals (defining equation, initial condition, ...). The
        formula holds if and only if all vanish identically (an asymptotic one to its leading order).
    printed : sympy expression, optional
        The right-hand side as the paper prints it, where the residuals reject that.
    """

    id: str
    title: str
    source: str
    statement: sp.Eq
    steps: tuple[tuple[str, sp.Basic], ...]
    residuals: Callable[[sp.Basic], dict[str, sp.Expr]]
    printed: sp.Basic | None = None

    def verify(self, claim: sp.Basic | None = None) -> dict[str, sp.Expr]:
        """Return the residuals of `claim` (default: the statement's right-hand side), simplified exactly.

        All are 0 for a true formula. Feeding another claim, such as `printed`, leaves at least one that is
        not.
        """
        residuals = self.residuals(self.statement.rhs if claim is None else claim)
        return {name: sp.simplify(residual) for name, residual in residuals.items()}

    def latex(self) -> str:
        """Return the statement as LaTeX mathematics, without delimiters."""
        return sp.latex(self.statement)


def resolve_lambert(expr: sp.Expr) -> sp.Expr:
    """Replace each W = LambertW(x, k) by a symbol w, using exp(w) = x/w, and W(a exp(a)) = a for a > 0.

    sympy knows neither rule for a W inside a longer exponent. The result is rational in w where the rules
    apply, so `simplify` decides whether it vanishes.
    """
    for lambert in sorted(expr.atoms(sp.LambertW), key=sp.default_sort_key):
        argument = lambert.args[0]
        principal = len(lambert.args) == 1 or lambert.args[1] == 0
        inverse = _inverse_of_x_exp_x(argument) if principal else None
        if inverse is not None:
            expr = expr.xreplace({lambert: inverse})
            continue
        w = sp.Dummy("w")
        expr = expr.xreplace({lambert: w})
        expr = expr.replace(sp.exp, lambda power, w=w, x=argument: _split_exponent(power, w, x))
    return expr


def _inverse_of_x_exp_x(argument: sp.Expr) -> sp.Expr | None:
    for exponential in argument.atoms(sp.exp):
        a = exponential.args[0]
        if a.is_positive and sp.simplify(argument - a * exponential) == 0:
            return a
    return None


def _split_exponent(power: sp.Expr, w: sp.Symbol, argument: sp.Expr) -> sp.Expr:
    multiple = sp.expand(power).coeff(w)
    if not multiple.is_Integer:
        return sp.exp(power)
    return sp.exp(sp.expand(power) - multiple * w) * (argument / w) ** multiple
