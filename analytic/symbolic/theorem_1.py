"""Derivations for weakly correlated classes and Theorem 1: Lemmas 13-17, the back-propagated gradient (Eqs. 74-93).

Most hold for any number of classes K: identities of K x K matrices in G, sums over classes, and block elimination. The
matrices of (86)-(89) are written out for three classes; `coefficients` derives the same entries for any K. Products
over the V outputs and `three_rows` are for three classes and any V >= 3: an output belongs to the class itself, to one
of the two other classes, or to no class; all outputs of no class have equal entries.
"""

from collections.abc import Callable

import sympy as sp
from sympy.concrete.delta import deltasummation

from snapdyn.analytic.symbolic.derivation import (
    CLASSES,
    Derivation,
    E,
    E_prime,
    G,
    K,
    V,
    declare,
    gram,
    h,
    symmetric_matrix,
)
from snapdyn.analytic.symbolic.speed import gamma_of_h

eigenvalue = sp.Symbol("lambda", real=True)
largest = sp.Symbol("lambda_1", positive=True)


@declare
def eigenvalue_map() -> Derivation:
    """Return Lemma 14: an eigenvalue of E' = I - (I+E)^{-1} as a function of that of E."""
    n = sp.Symbol("n", integer=True, positive=True)
    small = sp.Symbol("x", positive=True)
    # Neumann's series for lambda = -x and |x| < 1; both signs are one analytic function.
    series = sp.summation(small**n, (n, 1, sp.oo)).args[0][0]
    return Derivation(
        "lambda' = lambda/(1+lambda)",
        "Lemmas 14-15, Eqs. (75)-(78)",
        r"{\lambda}'",
        eigenvalue / (1 + eigenvalue),
        lambda claim: {
            "1 - 1/(1+lambda)": 1 - 1 / (1 + eigenvalue) - claim,
            "Neumann series": -series - claim.subs(eigenvalue, -small),
            # So E u = lambda u gives E' u = lambda' u, whatever K; E has K orthonormal eigenvectors.
            "E' - lambda' = G^-1 (E - lambda)/(1+lambda)": sp.expand(
                E_prime - claim - G**-1 * (G - 1 - eigenvalue) / (1 + eigenvalue)
            ),
        },
    )


@declare
def second_order() -> Derivation:
    """Return E' beyond its first order: the sign of its diagonal (79) and its distance from E (80)."""
    return Derivation(
        "E' - E = -E^2 (I+E)^{-1}: diagonal -sum_k lambda_k^2 u_ik^2/(1+lambda_k) <= 0",
        "Lemmas 16-17, Eqs. (79)-(80)",
        "E' - E",
        -((G - 1) ** 2) * G**-1,
        lambda claim: {"E' - E": sp.expand(E_prime - (G - 1) - claim)},
    )


@declare
def entry_bound() -> Derivation:
    """Return the bound (90) on the entries of E' at the edge of Assumption 2, |lambda_1| = 1/K."""
    return Derivation(
        "|E'_kn| < 1/(K-1) where |lambda_1| < 1/K",
        "Theorem 1, Eq. (90), by Lemma 15",
        r"\max |E'_{kn}|",
        1 / (K - 1),
        {"|lambda_1|/(1-|lambda_1|)": (largest / (1 - largest)).subs(largest, 1 / K)},
    )


@declare
def smallest_weight() -> Derivation:
    """Return the smallest 1/(1+lambda) over |lambda| <= lambda_1, by which (93) bounds -E'_nn from below."""
    weight = 1 / (1 + eigenvalue)

    # The weight falls along the interval (its slope is -weight^2), so its smallest value is at lambda_1.
    return Derivation(
        "-E'_nn = sum_k lambda_k^2 u_nk^2/(1+lambda_k) >= min_k lambda_k^2/(1+|lambda_1|)",
        "Theorem 1, Eq. (93), where 1 - |lambda_1| is printed",
        r"\min 1/(1+\lambda)",
        1 / (1 + largest),
        lambda claim: {
            "at lambda = lambda_1": weight.subs(eigenvalue, largest) - claim,
            "slope": sp.diff(weight, eigenvalue) + weight**2,
        },
        printed=1 / (1 - largest),
    )


@declare
def neumann_pairs() -> Derivation:
    """Return the sum of the first 2m terms of Neumann's series of (I+A)^{-1}, taken in pairs."""
    # Powers of one matrix commute, so a commuting symbol stands for A.
    A = sp.Symbol("A", real=True)
    m = sp.Symbol("m", integer=True, positive=True)

    return Derivation(
        "sum_{k < m} A^{2k} (I - A) = (I - A^{2m}) (I+A)^{-1}, so (I+A)^{-1} 1 >= 0 if A >= 0 and A 1 <= 1",
        "own; Theorem 1(a): xi_n > 0 where |lambda_1| <= 1/sqrt(K-2)",
        r"\sum_{k<m}A^{2k}(I-A)",
        (1 - A ** (2 * m)) / (1 + A),
        lambda claim: {
            "m = 1": claim.subs(m, 1) - (1 - A),
            "from m to m + 1": sp.powsimp(sp.expand((claim.subs(m, m + 1) - claim) * (1 + A)))
            - sp.powsimp(sp.expand(A ** (2 * m) * (1 - A) * (1 + A))),
        },
    )


@declare
def three_rows() -> Derivation:
    """Return an entry of G^{-1} 1 for three classes in closed form; its sign gives xi_n > 0 for K = 4."""
    a, b, c = E[0, 1], E[0, 2], E[1, 2]

    return Derivation(
        "(G^{-1} 1)_1 det G = (1-c)(1+c-a-b), a, b the overlaps of class 1, c that of the other two",
        "own; Theorem 1(a) for four classes",
        r"(G^{-1}\mathbf{1})_1\det G",
        (1 - c) * (1 + c - a - b),
        {"(G^-1 1)_1 det G": (gram.adjugate() * sp.ones(CLASSES, 1))[0]},
    )


e = symmetric_matrix("e")
"""E', symmetric, with free entries."""
q1, q0 = V / (V - 1), -V / (V - 1) ** 2
theta = sp.symbols(f"theta_1:{CLASSES + 1}", real=True)
sigma = sp.Symbol("sigma", real=True)
"""Sampled counts: theta_k, relative excess of h(N_k) over h(N/K); sigma, that of the error of class n over its mean."""


def _zeta(n: int) -> sp.Matrix:
    """Return the entries of zeta_n at the K next tokens, and the entry shared by all tokens that are never next."""
    return V / (V - 1) * sp.Matrix([[(1 if j == n else 0) - 1 / V for j in range(CLASSES + 1)]])


def _product(a: sp.Matrix, b: sp.Matrix) -> sp.Expr:
    """Return the inner product over all V outputs."""
    next_tokens = sum(a[j] * b[j] for j in range(CLASSES))
    return next_tokens + (V - CLASSES) * a[CLASSES] * b[CLASSES]


def _error(n: int) -> sp.Matrix:
    """Return e_n - softmax((V-1) h zeta_n) in the same entries as `_zeta`."""
    exponentials = ((V - 1) * h * _zeta(n)).applyfunc(lambda logit: sp.exp(sp.simplify(logit)))
    total = sum(exponentials[j] for j in range(CLASSES)) + (V - CLASSES) * exponentials[CLASSES]
    return sp.Matrix([[(1 if j == n else 0) - exponentials[j] / total for j in range(CLASSES + 1)]])


# Of f_k in g_n/gamma = F (I-E') W (e_n - alpha_n)/gamma, Eqs. (82)-(83), row n, column k. Products of the rows of W
# with the error: derivation `error-products`.
_drive = sp.Matrix(CLASSES, CLASSES, lambda n, k: (1 + theta[k]) * (q1 if k == n else q0))
_coefficients = (1 + sigma) * _drive * (sp.eye(CLASSES) - e)
EQUAL = {sigma: 0, **dict.fromkeys(theta, 0)}
"""Equally frequent classes."""


@declare
def zeta_products() -> Derivation:
    """Return the inner products of the zeta_n: q1 on the diagonal, q0 off it."""
    return Derivation(
        "zeta_i . zeta_i = q1 = V/(V-1), zeta_i . zeta_j = q0 = -V/(V-1)^2",
        "Appendix D.1; Eq. (83)",
        "zeta",
        sp.ImmutableMatrix(CLASSES, CLASSES, lambda i, j: q1 if i == j else q0),
        {"zeta_i . zeta_j": sp.Matrix(CLASSES, CLASSES, lambda i, j: _product(_zeta(i), _zeta(j)))},
    )


@declare
def error_products() -> Derivation:
    """Return Eq. (83): products of the rows of the solution with the error of class 1, divided by gamma."""
    return Derivation(
        "(V-1) h zeta_k . (e_n - alpha_n) = gamma (zeta_k . zeta_n), gamma = (V-1)^2 h/(V-1+exp(V h))",
        "Theorem 1, Eqs. (81)-(85)",
        "v",
        sp.ImmutableMatrix([q1 if k == 0 else q0 for k in range(CLASSES)]),
        {"rows": sp.Matrix([_product((V - 1) * h * _zeta(k), _error(0)) / gamma_of_h for k in range(CLASSES)])},
    )


def _iota(title: str, counts: dict[sp.Symbol, int]) -> Derivation:
    def form(n: int) -> sp.Expr:
        others = sum((1 + theta[k]) * e[k, n] for k in range(CLASSES) if k != n)
        return (1 + sigma) * (q1 * (1 + theta[n]) * (1 - e[n, n]) - q0 * others)

    return Derivation(
        title,
        "Theorem 1, Eqs. (86)-(87)",
        "iota",
        sp.ImmutableMatrix([form(n) for n in range(CLASSES)]).subs(counts),
        {"coefficient of f_n": sp.Matrix(_coefficients.diagonal()).T.subs(counts)},
    )


def _beta(title: str, source: str, counts: dict[sp.Symbol, int]) -> Derivation:
    """Build a derivation of beta; the sign of q0 is +1 in the paper and -1 in the derivation."""

    def form(n: int, k: int, sign: int) -> sp.Expr:
        others = sum((1 + theta[j]) * e[j, k] for j in range(CLASSES) if j != n)
        return (1 + sigma) * (q1 * (1 + theta[n]) * e[n, k] + sign * q0 * (1 + theta[k] + sign * others))

    def off_diagonal(entry: Callable[[int, int], sp.Expr]) -> sp.ImmutableMatrix:
        return sp.ImmutableMatrix(CLASSES, CLASSES, lambda n, k: 0 if n == k else entry(n, k).subs(counts))

    return Derivation(
        title,
        source,
        "beta",
        off_diagonal(lambda n, k: form(n, k, -1)),
        {"-coefficient of f_k": off_diagonal(lambda n, k: -_coefficients[n, k])},
        printed=off_diagonal(lambda n, k: form(n, k, +1)),
    )


@declare
def iota() -> Derivation:
    """Return iota_n, the coefficient of the attention vector of the class itself."""
    return _iota("iota_n = q1 (1 - E'_nn) - q0 sum_{k != n} E'_nk", EQUAL)


@declare
def beta() -> Derivation:
    """Return beta_nk, the coefficients of the other classes' f_k; Eq. (88) prints a wrong sign."""
    return _beta("beta_nk = q1 E'_kn - q0 (1 - sum_{j != n} E'_kj)", "Theorem 1, Eq. (88), sign corrected", EQUAL)


@declare
def iota_counted() -> Derivation:
    """Return Eq. (86), iota_n with the sampled counts of the classes."""
    return _iota("iota_n = (1+sigma) [q1 (1+theta_n) (1 - E'_nn) - q0 sum_{k != n} (1+theta_k) E'_kn]", {})


@declare
def beta_counted() -> Derivation:
    """Return Eq. (88), beta_nk with the sampled counts of the classes, its sign corrected."""
    return _beta(
        "beta_nk = (1+sigma) [q1 (1+theta_n) E'_nk - q0 (1+theta_k - sum_{j != n} (1+theta_j) E'_jk)]",
        "Theorem 1, Eqs. (88)-(89), sign corrected",
        {},
    )


@declare
def coefficients() -> Derivation:
    """Return (86) and (88) for any number of classes: sums over j of x_j (zeta_j . zeta_n) (I - E')_jk."""
    j, k, n = sp.symbols("j k n", integer=True, positive=True)
    size = sp.Symbol("K", integer=True, positive=True)
    weight, entry, equal = sp.IndexedBase("x"), sp.IndexedBase("E'"), sp.KroneckerDelta  # x_j = 1 + theta_j
    term = weight[j] * (q0 + (q1 - q0) * equal(j, n)) * (equal(j, k) - entry[j, k])
    whole = deltasummation(sp.expand(term), (j, 1, size), no_piecewise=True)
    others = sp.Sum(weight[j] * entry[j, k], (j, 1, size)) - weight[n] * entry[n, k]  # over j != n

    return Derivation(
        "beta_nk = q1 x_n E'_nk - q0 (x_k - sum_{j != n} x_j E'_jk), x = 1 + theta, for any number of classes",
        "Theorem 1, Eqs. (86), (88), sign corrected",
        r"\beta_{nk}/(1+\sigma)",
        q1 * weight[n] * entry[n, k] - q0 * (weight[k] - others),
        lambda claim: {
            "-coefficient of f_k, k != n": sp.expand(-whole.subs(equal(k, n), 0) - claim),
            "coefficient of f_n": sp.expand(
                whole.subs(k, n) - q1 * weight[n] * (1 - entry[n, n]) + q0 * others.subs(k, n)
            ),
        },
    )


@declare
def leading_xi() -> Derivation:
    """Return the leading-order xi_n/gamma = -E'_nn, in terms of the Gram matrix."""
    return Derivation(
        "E' E = E - E', so sum_{k != n} E'_nk f_n.f_k = -E'_nn: the diagonal of E is 0",
        "Theorem 1, Eqs. (91)-(92)",
        "E' E",
        G - 2 + G**-1,
        lambda claim: {
            "E' E": sp.expand(E_prime * (G - 1) - claim),
            "E - E'": sp.expand(G - 1 - E_prime - claim),
        },
    )


@declare
def xi_eliminated() -> Derivation:
    """Return xi_n/(gamma q1) with class n eliminated from the Gram matrix, which shows its sign; for any K.

    Let e be the overlaps of class n, H the Gram matrix of the other classes, and x = H^-1 e. Row n of G^-1 is
    g (1, -x^T) with g = 1/(1 - e.x). In the other rows, column n is -g x and the other columns are H^-1 + g x x^T. In
    G G^-1 the terms in e and e x^T cancel, since H x = e.
    """
    own, ones = sp.symbols("a b", real=True)  # e.x and x.1
    g = 1 / (1 - own)
    # Coefficients of the other f_k, minus beta_nk, are (q1, q0 1^T) times those columns of G^-1; their product with e.
    coefficients = -q1 * g * own + q0 * (ones + g * ones * own)
    return Derivation(
        "xi_n/(gamma q1) = (G^{-1})_nn e^T G_n^{-1} (e + 1/(V-1)), e the overlaps of n, G_n the G of the others",
        "own; Theorem 1(a), sign of (88) corrected",
        r"\xi_{n} / (\gamma q_{1})",
        g * (own + ones / (V - 1)),
        lambda claim: {
            "-[coefficients of f_k].e/q1": -coefficients / q1 - claim,
            "row n of G G^-1, column n": g - g * own - 1,
            "row n of G G^-1, the others, over x^T": -g + (1 + g * own),
        },
    )
