"""Derivations for Theorem 1: the back-propagated gradient in the f_n, K = 3 classes, any V >= 3.

By symmetry in the classes, K = 3 holds every kind of entry: the class itself, a named other, the remaining
ones.
"""

from collections.abc import Callable
from itertools import product

import sympy as sp

from snapdyn.analytic.symbolic.derivation import CLASSES, Derivation, Derivations, E, V, e_prime, h, symmetric_matrix
from snapdyn.analytic.symbolic.speed import gamma_of_h

DERIVATIONS = Derivations()

e = symmetric_matrix("e")
"""E', symmetric, with free entries."""
q1, q0 = V / (V - 1), -V / (V - 1) ** 2
theta = sp.symbols(f"theta_1:{CLASSES + 1}", real=True)
sigma = sp.Symbol("sigma", real=True)
"""Relative excess of h(N_k) over h(N/K), and of the error of class n over its mean: sampled counts."""


def _zeta(n: int) -> sp.Matrix:
    """Return the entries of zeta_n at the K next tokens, and the one shared by the V-K tokens never next."""
    return V / (V - 1) * sp.Matrix([[(1 if j == n else 0) - 1 / V for j in range(CLASSES + 1)]])


def _product(a: sp.Matrix, b: sp.Matrix) -> sp.Expr:
    """Return the inner product over all V outputs."""
    next_tokens = sum(a[j] * b[j] for j in range(CLASSES))
    return next_tokens + (V - CLASSES) * a[CLASSES] * b[CLASSES]


def _error(n: int) -> sp.Matrix:
    """Return e_n - softmax((V-1) h zeta_n) over the same entries."""
    exponentials = ((V - 1) * h * _zeta(n)).applyfunc(lambda logit: sp.exp(sp.simplify(logit)))
    total = sum(exponentials[j] for j in range(CLASSES)) + (V - CLASSES) * exponentials[CLASSES]
    return sp.Matrix([[(1 if j == n else 0) - exponentials[j] / total for j in range(CLASSES + 1)]])


def _counted(n: int) -> sp.Matrix:
    """Return the coefficients of f_1..f_K in g_n/gamma = F (I-E') W (e_n - alpha_n)/gamma, Eqs. (82)-(83)."""
    # Products of the rows of W with the error: derivation `error-products`.
    drive = sp.Matrix([(1 + theta[k]) * (q1 if k == n else q0) for k in range(CLASSES)])
    return (1 + sigma) * (sp.eye(CLASSES) - e) * drive


def _coefficients(n: int) -> sp.Matrix:
    """Return the same coefficients for equally frequent classes."""
    return _counted(n).subs({sigma: 0, **dict.fromkeys(theta, 0)})


@DERIVATIONS.declare
def zeta_products() -> Derivation:
    """Return the inner products of the zeta_n: q1 on the diagonal, q0 off it."""

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        return {
            f"zeta_{i} . zeta_{j}": _product(_zeta(i), _zeta(j)) - claim[i, j] for i, j in product(range(3), repeat=2)
        }

    return Derivation(
        title="zeta_i . zeta_i = q1 = V/(V-1), zeta_i . zeta_j = q0 = -V/(V-1)^2",
        source="Appendix D.1; Eq. (83)",
        statement=sp.Eq(
            sp.MatrixSymbol("zeta", 3, 3),
            sp.ImmutableMatrix(CLASSES, CLASSES, lambda i, j: q1 if i == j else q0),
            evaluate=False,
        ),
        steps=(("zeta_1 at the next tokens, and at any other output", _zeta(0).as_immutable()),),
        residuals=residuals,
    )


@DERIVATIONS.declare
def error_products() -> Derivation:
    """Return Eq. (83): products of the rows of the solution with the error of class 1, over gamma."""

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        return {f"row {k}": _product((V - 1) * h * _zeta(k), _error(0)) / gamma_of_h - claim[k] for k in range(CLASSES)}

    return Derivation(
        title="(V-1) h zeta_k . (e_n - alpha_n) = gamma (zeta_k . zeta_n), gamma = (V-1)^2 h/(V-1+exp(V h))",
        source="Theorem 1, Eqs. (81)-(85)",
        statement=sp.Eq(
            sp.MatrixSymbol("v", CLASSES, 1),
            sp.ImmutableMatrix([q1 if k == 0 else q0 for k in range(CLASSES)]),
            evaluate=False,
        ),
        steps=(("e_1 - alpha_1 at the next tokens, and at any other output", _error(0).as_immutable()),),
        residuals=residuals,
    )


def _iota(title: str, coefficients: Callable[[int], sp.Matrix], form: Callable[[int], sp.Expr]) -> Derivation:
    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        return {f"class {n}": coefficients(n)[n] - claim[n] for n in range(CLASSES)}

    return Derivation(
        title=title,
        source="Theorem 1, Eqs. (86)-(87)",
        statement=sp.Eq(
            sp.MatrixSymbol("iota", CLASSES, 1),
            sp.ImmutableMatrix([form(n) for n in range(CLASSES)]),
            evaluate=False,
        ),
        steps=(("coefficients of f_1, f_2, f_3 in g_1/gamma", coefficients(0).as_immutable()),),
        residuals=residuals,
    )


def _beta(
    title: str, source: str, coefficients: Callable[[int], sp.Matrix], form: Callable[[int, int, int], sp.Expr]
) -> Derivation:
    """Build a derivation of beta; `form` takes n, k and the sign of q0, printed +1, derived -1."""

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        pairs = [(n, k) for n, k in product(range(CLASSES), repeat=2) if n != k]
        return {f"beta_{n}{k}": -coefficients(n)[k] - claim[n, k] for n, k in pairs}

    def matrix(sign: int) -> sp.ImmutableMatrix:
        return sp.ImmutableMatrix(CLASSES, CLASSES, lambda n, k: 0 if n == k else form(n, k, sign))

    return Derivation(
        title=title,
        source=source,
        statement=sp.Eq(sp.MatrixSymbol("beta", CLASSES, CLASSES), matrix(-1), evaluate=False),
        steps=(("coefficients of f_1, f_2, f_3 in g_1/gamma", coefficients(0).as_immutable()),),
        residuals=residuals,
        printed=matrix(+1),
    )


@DERIVATIONS.declare
def iota() -> Derivation:
    """Return iota_n, the coefficient of the attention vector of the class itself."""

    def form(n: int) -> sp.Expr:
        return q1 * (1 - e[n, n]) - q0 * sum(e[n, k] for k in range(CLASSES) if k != n)

    return _iota("iota_n = q1 (1 - E'_nn) - q0 sum_{k != n} E'_nk", _coefficients, form)


@DERIVATIONS.declare
def beta() -> Derivation:
    """Return beta_nk, the coefficients of the other classes' f_k; Eq. (88) prints a wrong sign."""

    def form(n: int, k: int, sign: int) -> sp.Expr:
        return q1 * e[k, n] + sign * q0 * (1 + sign * sum(e[k, j] for j in range(CLASSES) if j != n))

    return _beta(
        "beta_nk = q1 E'_kn - q0 (1 - sum_{j != n} E'_kj)",
        "Theorem 1, Eq. (88), sign corrected",
        _coefficients,
        form,
    )


@DERIVATIONS.declare
def iota_counted() -> Derivation:
    """Return Eq. (86), iota_n with the sampled counts of the classes."""

    def form(n: int) -> sp.Expr:
        others = sum((1 + theta[k]) * e[k, n] for k in range(CLASSES) if k != n)
        return (1 + sigma) * (q1 * (1 + theta[n]) * (1 - e[n, n]) - q0 * others)

    return _iota("iota_n = (1+sigma) [q1 (1+theta_n) (1 - E'_nn) - q0 sum_{k != n} (1+theta_k) E'_kn]", _counted, form)


@DERIVATIONS.declare
def beta_counted() -> Derivation:
    """Return Eq. (88), beta_nk with the sampled counts of the classes, its sign corrected."""

    def form(n: int, k: int, sign: int) -> sp.Expr:
        others = sum((1 + theta[j]) * e[j, k] for j in range(CLASSES) if j != n)
        return (1 + sigma) * (q1 * (1 + theta[n]) * e[n, k] + sign * q0 * (1 + theta[k] + sign * others))

    return _beta(
        "beta_nk = (1+sigma) [q1 (1+theta_n) E'_nk - q0 (1+theta_k - sum_{j != n} (1+theta_j) E'_jk)]",
        "Theorem 1, Eqs. (88)-(89), sign corrected",
        _counted,
        form,
    )


@DERIVATIONS.declare
def leading_xi() -> Derivation:
    """Return the leading-order xi_n/gamma = -E'_nn, in terms of the Gram matrix."""
    E_prime = e_prime()

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        overlap = [sum(E_prime[n, k] * E[n, k] for k in range(CLASSES) if k != n) for n in range(CLASSES)]
        return {f"class {n}": overlap[n] - claim[n].subs({e[n, n]: E_prime[n, n]}) for n in range(CLASSES)}

    return Derivation(
        title="sum_{k != n} E'_nk f_n.f_k = -E'_nn",
        source="Theorem 1, Eqs. (91)-(92)",
        statement=sp.Eq(
            sp.MatrixSymbol("X", CLASSES, 1),
            sp.ImmutableMatrix([-e[n, n] for n in range(CLASSES)]),
            evaluate=False,
        ),
        steps=(("E'_11 from the Gram matrix", sp.simplify(E_prime[0, 0])),),
        residuals=residuals,
    )


@DERIVATIONS.declare
def xi_eliminated() -> Derivation:
    """Return xi_n/(gamma q1) with class n eliminated from the Gram matrix, by which its sign is decided."""
    overlaps, others = E[1:, 0], sp.eye(CLASSES - 1) + E[1:, 1:]
    inverse_nn = 1 / (1 - (overlaps.T * others.inv() * overlaps)[0])
    claimed = inverse_nn * (overlaps.T * others.inv() * (overlaps + sp.ones(CLASSES - 1, 1) / (V - 1)))[0]

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        coefficients = _coefficients(0).subs(dict(zip(e, e_prime(), strict=True)))
        # beta_nk is minus the coefficient of f_k.
        return {"class 1": -(coefficients.T * E[:, 0])[0] / q1 - claim}

    return Derivation(
        title="xi_n/(gamma q1) = (G^{-1})_nn e^T G_n^{-1} (e + 1/(V-1)), e the overlaps of n, G_n that of the others",
        source="own; Theorem 1(a), sign of (88) corrected",
        statement=sp.Eq(sp.Symbol(r"\xi_1/(\gamma q_1)"), sp.factor(claimed), evaluate=False),
        steps=(("(G^-1)_11", sp.factor(inverse_nn)),),
        residuals=residuals,
    )
