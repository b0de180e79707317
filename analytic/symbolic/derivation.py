"""What a derivation is: a claimed formula, and equations whose residuals sympy must simplify to exactly zero."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, wraps

import sympy as sp

eta_Y, eta_Z = sp.symbols("eta_Y eta_Z", positive=True)
V, K = sp.symbols("V K", positive=True)
s, t, h, u = sp.symbols("s t h u", positive=True)
# V > 1 enters as V = 1 + v with v > 0, which sympy can use in roots, logarithms and Lambert's function.
v = sp.Symbol("v", positive=True)

CLASSES = 3
"""Number of classes in derivations with a Gram matrix: the class itself, another one, and a third."""


def symmetric_matrix(name: str) -> sp.ImmutableMatrix:
    """Return a symmetric matrix of real symbols, one row per class."""
    return sp.ImmutableMatrix(
        CLASSES, CLASSES, lambda i, j: sp.Symbol(f"{name}_{min(i, j) + 1}{max(i, j) + 1}", real=True)
    )


E = symmetric_matrix("rho").multiply_elementwise(sp.ones(CLASSES) - sp.eye(CLASSES)).as_immutable()
"""E = F^T F - I, symmetric with zero diagonal."""
gram = sp.eye(CLASSES).as_immutable() + E
"""Gram matrix G = F^T F = I + E of the attention vectors."""
G = sp.Symbol("G", commutative=False)
"""The Gram matrix of any number of classes, as an element of the algebra of K x K matrices; 1 stands for I."""
E_prime = 1 - G**-1
"""E' = I - (I+E)^{-1}, of any number of classes."""


Residuals = dict[str, sp.Expr]
"""What must vanish, by name."""


@dataclass(frozen=True)
class Derivation:
    """One formula of the theory, with the equations that decide whether it holds.

    Parameters
    ----------
    title : str
        The formula in words or plain text, in one line.
    source : str
        Equation or lemma of arXiv 2305.16380v4; "own" for a result that is not in the paper.
    left : str or sympy.Basic
        Left side of the formula: an expression, or the LaTeX of a symbol (of a matrix, if the claim is one).
    claim : sympy.Basic
        Right side of the formula.
    equations : mapping of str to sympy.Basic, or callable
        What the claim is equal to, by name; or a function from a claimed right-hand side to what must vanish, by name
        (defining equation, initial condition, ...). The formula holds if and only if all residuals vanish identically
        (for an asymptotic formula, to leading order).
    printed : sympy.Basic, optional
        The right-hand side as the paper prints it, where the residuals show that it is wrong.
    id : str
        Name of the derivation, unique; the decorator `declare` sets it.
    """

    title: str
    source: str
    left: str | sp.Basic
    claim: sp.Basic
    equations: Residuals | Callable[[sp.Basic], Residuals]
    printed: sp.Basic | None = None
    id: str = ""

    @property
    def statement(self) -> sp.Eq:
        """The formula; its right-hand side is the claim."""
        claim, left = self.claim, self.left
        if isinstance(claim, sp.MatrixBase):
            claim = claim.as_immutable()
        if isinstance(left, str):
            left = sp.MatrixSymbol(left, *claim.shape) if isinstance(claim, sp.MatrixBase) else sp.Symbol(left)
        return sp.Eq(left, claim, evaluate=False)

    def residuals(self, claim: sp.Basic) -> Residuals:
        """Return what must vanish for a claimed right-hand side, by name; for a matrix, every entry.

        Parameters
        ----------
        claim : sympy.Basic

        Returns
        -------
        dict of str to sympy.Expr
        """
        equal = self.equations
        found = equal(claim) if callable(equal) else {name: value - claim for name, value in equal.items()}
        return {
            f"{name}, entry {i}" if i else name: entry
            for name, residual in found.items()
            for i, entry in enumerate(sp.Matrix([residual]))
        }

    def verify(self, claim: sp.Basic | None = None) -> Residuals:
        """Simplify the residuals of a claim exactly.

        Parameters
        ----------
        claim : sympy.Basic, optional
            A right-hand side to test; default: the right-hand side of the statement.

        Returns
        -------
        dict of str to sympy.Expr
            Residuals by name. All are 0 for a true formula; a wrong claim, such as `printed`, has at least one
            residual that is not 0.
        """
        residuals = self.residuals(self.claim if claim is None else claim)
        return {name: sp.simplify(residual) for name, residual in residuals.items()}

    def latex(self) -> str:
        """Return the statement as LaTeX mathematics, without delimiters."""
        return sp.latex(self.statement)


DECLARED: dict[str, Callable[[], Derivation]] = {}
"""Functions that build the declared derivations, by id."""


def declare(build: Callable[[], Derivation]) -> Callable[[], Derivation]:
    """Declare a derivation by decorating the function that builds it.

    Parameters
    ----------
    build : callable
        Function without arguments, whose name, with - in place of _, becomes the id.

    Returns
    -------
    callable
        The same function, which now sets the id and builds the derivation once.

    Raises
    ------
    ValueError
        If the id is that of a derivation of snapdyn. A derivation of a user's file with the same id is replaced by the
        new one.
    """
    id_ = build.__name__.replace("_", "-")
    if id_ in DECLARED and DECLARED[id_].__module__.startswith("snapdyn."):
        raise ValueError(f"expected a new id for a derivation, received {id_!r}, which is taken; rename the function")

    @cache
    @wraps(build)
    def built() -> Derivation:
        return replace(build(), id=id_)

    DECLARED[id_] = built
    return built


def resolve_lambert(expr: sp.Expr) -> sp.Expr:
    """Replace each W = LambertW(x, k) by a symbol w, using exp(w) = x/w, and W(a exp(a)) = a for a > 0.

    sympy applies neither rule to a W inside a longer exponent. The result is rational in w where the rules
    apply, so `simplify` decides whether it vanishes. V is written as 1 + v.
    """
    expr = expr.subs(V, 1 + v)
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
