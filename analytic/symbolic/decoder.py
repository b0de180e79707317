"""Derivations for the decoder, attention frozen: Lemmas 1, 3, 5, 6, Remark 1, Corollary 1 (Eqs. 7, 15-45, 71)."""

from collections.abc import Callable

import sympy as sp

from snapdyn.analytic.symbolic.derivation import (
    Derivation,
    E_prime,
    G,
    Residuals,
    V,
    declare,
    eta_Y,
    h,
    resolve_lambert,
    s,
    v,
)

visits = (sp.exp(V * h) - 1 + (V - 1) * V * h) / (V * eta_Y)
"""s(h), the visits needed to reach h: Eq. (45) solved for s."""
slope_of_h = eta_Y / (V - 1 + sp.exp(V * h))
"""dh/ds, Eq. (44), which is also the change of h* by one visit, Eq. (33)."""


def _matrix_of_symbols(name: str, rows: int, columns: int) -> sp.Matrix:
    return sp.Matrix(rows, columns, lambda i, j: sp.Symbol(f"{name}_{i + 1}{j + 1}", real=True))


_alpha = sp.symbols("alpha_1:4", positive=True)
_error_row = sp.Matrix([[1 - _alpha[0], -_alpha[1], -_alpha[2]]])
"""(e_1 - alpha)^T over three outputs."""


def _gradient_residuals(
    variables: sp.Matrix, logits: sp.Matrix, alpha_logits: sp.Matrix
) -> Callable[[sp.Basic], Residuals]:
    """Return the residuals of a claimed gradient of ln softmax(logits)_1, alpha the softmax of `alpha_logits`."""
    exponentials = alpha_logits.applyfunc(sp.exp)
    softmax = dict(zip(_alpha, exponentials / sum(exponentials), strict=True))
    J = logits[0] - sp.log(sum(logits.applyfunc(sp.exp)))
    gradient = variables.applyfunc(lambda entry: sp.diff(J, entry))
    return lambda claim: {"dJ": gradient - claim.subs(softmax)}


@declare
def decoder_gradient() -> Derivation:
    """Return the gradient in Y of Eqs. (3) and (7), here for two tokens and three outputs."""
    Y, f = _matrix_of_symbols("Y", 2, 3), sp.Matrix(sp.symbols("f_1:3", positive=True))
    logits = Y.T * f
    return Derivation(
        "dJ/dY = f (x_{T+1} - alpha)^T, alpha = softmax(Y^T f)",
        "Lemma 1, Eqs. (3), (7), (15)-(17)",
        r"\frac{\partial J}{\partial Y}",
        f * _error_row,
        _gradient_residuals(Y, logits, logits),
    )


@declare
def row_gradient() -> Derivation:
    """Return Eqs. (24)-(25): in W' = F'^T Y the gradient is zero except in the row of the visited class."""
    F, W = _matrix_of_symbols("F", 2, 2), _matrix_of_symbols("w", 2, 3)
    row_of_class = W[0, :].T
    # The logits of class 1, Y^T f_1 with Y = F'^{-T} W'.
    logits = ((F.T.inv() * W).T * F[:, 0]).applyfunc(sp.simplify)
    return Derivation(
        "dJ/dW' = e_n (x_{T+1} - alpha)^T, alpha = softmax(w_n)",
        "Lemma 3, Eqs. (24)-(25)",
        r"\frac{\partial J}{\partial W'}",
        sp.Matrix([1, 0]) * _error_row,
        _gradient_residuals(W, logits, row_of_class),
    )


@declare
def modified_flow() -> Derivation:
    """Return Lemma 3: under Eq. (26) the rows of W = F^T Y decouple, for any number of classes; 1 stands for I."""
    return Derivation(
        "The modified flow moves only the visited class's row of W: F^T (F - F E') = I",
        "Lemma 3, Eqs. (8), (26)-(30)",
        r"F^{T} (F - F E')",
        sp.Integer(1),
        {"G - G E'": sp.expand(G - G * E_prime)},
    )


def _logits() -> tuple[sp.Expr, sp.Expr]:
    """Return the entries of w_n = (V-1) h zeta_n: at the next token, and at each of the V-1 others."""
    scale = V / (V - 1)
    return sp.simplify((V - 1) * h * scale * (1 - 1 / V)), sp.simplify((V - 1) * h * scale * (-1 / V))


def _errors() -> tuple[sp.Expr, sp.Expr]:
    """Return the entries of e_n - softmax(w_n): at the class's next token, and at each of the V-1 others."""
    at_next, at_other = _logits()
    total = sp.exp(at_next) + (V - 1) * sp.exp(at_other)
    return 1 - sp.exp(at_next) / total, -sp.exp(at_other) / total


@declare
def discrete_recursion() -> Derivation:
    """Return Eq. (33): one SGD step on w_n = (V-1) h zeta_n leaves it proportional to zeta_n and raises h."""
    next_logit, other_logit = _logits()
    next_error, other_error = _errors()

    # zeta_n has the entry 1 at the next token and -1/(V-1) elsewhere.
    return Derivation(
        "One SGD step on a class raises its h by eta_Y/(V-1+exp(V h))",
        "Lemma 5, Eqs. (31)-(39)",
        sp.Symbol("h_{next}") - h,
        slope_of_h,
        lambda claim: {
            "next token": next_logit + eta_Y * next_error - (V - 1) * (h + claim),
            "other tokens": other_logit + eta_Y * other_error + (h + claim),
        },
    )


@declare
def error_norm() -> Derivation:
    """Return Corollary 1's norm of the error e_n - alpha_n."""
    next_error, other_error = _errors()
    norm = sp.sqrt(sp.simplify(next_error**2 + (V - 1) * other_error**2))
    return Derivation(
        "Norm of the prediction error of a class with decoder growth h",
        "Corollary 1, Eq. (71)",
        r"\left\| e_{n} - \alpha_{n} \right\|",
        (V - 1) / (V - 1 + sp.exp(V * h)) * sp.sqrt(V / (V - 1)),
        lambda claim: {"norm": (claim - norm).subs(V, 1 + v)},
    )


@declare
def original_flow() -> Derivation:
    """Return Eq. (40): the change of W by a visit under the original flow, any number of classes; 1 stands for I."""
    return Derivation(
        "The original flow moves every overlapping class's row of W: I + (I+E) E' = F^T F",
        "Remark 1, Eqs. (40)-(42)",
        r"I + (I+E) E'",
        G,
        {"I + G E'": sp.expand(1 + G * E_prime)},
    )


@declare
def original_flow_speed() -> Derivation:
    """Return Remark 1 for K = V equally overlapping classes: dh/ds of w_n = (V-1) h zeta_n, s = t/K.

    Eq. (43) prints w_n = (1-rho) (V-1) h zeta_n with h of Eq. (44).
    """
    rho = sp.Symbol("rho", positive=True)
    next_error, other_error = _errors()
    # Per round, Eqs. (41)-(42): the visit of the class itself, and those of the K - 1 = V - 1 others.
    at_next = eta_Y * (next_error + rho * (V - 1) * other_error)
    at_other = eta_Y * (other_error + rho * (next_error + (V - 2) * other_error))
    return Derivation(
        "Original flow, K = V equal overlaps: w_n = (V-1) h zeta_n with h at the rate (1-rho) eta_Y",
        "Remark 1, Eq. (43), its prefactor moved into the rate",
        r"\dot h",
        (1 - rho) * slope_of_h,
        lambda claim: {"next token": at_next - (V - 1) * claim, "other tokens": at_other + claim},
        printed=((1 - rho) * slope_of_h).subs(h, h / (1 - rho)),
    )


@declare
def h_implicit() -> Derivation:
    """Return Eq. (45) from the ODE (44) by separation of variables."""
    x = sp.Symbol("x", positive=True)
    integral = sp.integrate((1 / slope_of_h).subs(h, x), (x, 0, h))

    return Derivation(
        "Visits needed to reach h: exp(V h) + (V-1) V h = V eta_Y s + 1, solved for s",
        "Lemma 6, Eqs. (44)-(45)",
        s,
        visits,
        lambda claim: {
            "dh/ds of Eq. (44)": sp.diff(claim, h) * slope_of_h - 1,
            "h(0) = 0": claim.subs(h, 0),
            "sympy's integral": claim - integral,
        },
    )


@declare
def h_closed() -> Derivation:
    """Return the closed form of h by Lambert's function."""
    A = (V * eta_Y * s + 1) / (V - 1)
    return Derivation(
        "h in closed form: V h = A - W(exp(A)/(V-1)), A = (V eta_Y s + 1)/(V-1)",
        "own, from Eq. (45)",
        h,
        (A - sp.LambertW(sp.exp(A) / (V - 1))) / V,
        lambda claim: {
            "Eq. (45)": resolve_lambert(visits.subs(h, claim) - s),
            "dh/ds of Eq. (44)": resolve_lambert(sp.diff(claim, s) - slope_of_h.subs(h, claim)),
            "h(0) = 0": resolve_lambert(claim.subs(s, 0)),
        },
    )
