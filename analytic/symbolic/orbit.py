"""Derivations for the orbit of the symmetric single-common-token system (see `snapdyn.analytic.orbit`)."""

from collections.abc import Callable

import sympy as sp

from snapdyn.analytic.symbolic.derivation import Derivation, Derivations, K, V

DERIVATIONS = Derivations()

TOKENS = 3
S = sp.Symbol("S", positive=True)
C, D = sp.symbols("C D", positive=True)
p = sp.symbols(f"p_1:{TOKENS + 1}", positive=True)
overlap = sp.Symbol("rho", positive=True)


@DERIVATIONS.declare
def orbit_distinct() -> Derivation:
    """Return the distinct logits as functions of S."""

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        # Eq. (98) divided by S' = 2 eta_Z p_n xi/N, with f_nl^2 = p_l^2 exp(2 z_l)/N.
        return {
            "dz_l/dS of Eq. (98)": sp.diff(claim, S) - p[0] ** 2 * sp.exp(2 * claim) / 2,
            "zero start": claim.subs(S, 0),
        }

    return Derivation(
        title="z_l = -(1/2) ln(1 - p_l^2 S)",
        source="own, from Eqs. (98) and (110)",
        statement=sp.Eq(sp.Symbol("z_l"), -sp.log(1 - p[0] ** 2 * S) / 2, evaluate=False),
        steps=(("d exp(-2 z_l)/dS", -(p[0] ** 2)),),
        residuals=residuals,
    )


@DERIVATIONS.declare
def orbit_common() -> Derivation:
    """Return the common logit as a function of S, for d = 3 distinct tokens per class."""
    z = [-sp.log(1 - p_l**2 * S) / 2 for p_l in p]

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        # Eq. (100), K equal terms with p_n = 1/K, divided by S' = 2 eta_Z xi/(K N); 1 - f_c^2 = D/N.
        D_of_S = sum(p_l**2 * sp.exp(2 * z_l) for p_l, z_l in zip(p, z, strict=True))
        return {
            "dz_c/dS of Eq. (100)": sp.diff(claim, S) + K * D_of_S / 2,
            "zero start": claim.subs(S, 0),
            "row sum of z": claim + K * sum(z),
        }

    return Derivation(
        title="z_c = -K sum_l z_l = (K/2) sum_l ln(1 - p_l^2 S)",
        source="own, from Eq. (100) and conservation",
        statement=sp.Eq(sp.Symbol("z_c"), K * sum(sp.log(1 - p_l**2 * S) for p_l in p) / 2, evaluate=False),
        steps=(("distinct logits sum to", sum(z)),),
        residuals=residuals,
    )


def _inverse_gram() -> tuple[sp.Expr, sp.Expr]:
    """Return x, y of G^{-1} = x I + y J, G = (1-rho) I + rho J, J the K x K matrix of ones (J^2 = K J)."""
    x, y = sp.symbols("x y")
    identity = (1 - overlap) * x - 1
    ones = (1 - overlap) * y + overlap * x + K * overlap * y
    (solution,) = sp.solve([identity, ones], [x, y], dict=True)
    return solution[x], solution[y]


def _leading_beta() -> sp.Expr:
    """Return E'_nk = -(G^{-1})_nk off the diagonal."""
    return -_inverse_gram()[1]


def _exact_beta() -> sp.Expr:
    """Return minus the coefficient of f_k in g_n/gamma: -[G^{-1} ((q1-q0) e_n + q0 1)]_k, k != n."""
    x, y = _inverse_gram()
    q1, q0 = V / (V - 1), -V / (V - 1) ** 2
    return -((q1 - q0) * y + q0 * (x + K * y))


def _overlap(title: str, beta: Callable[[], sp.Expr], claim: sp.Expr) -> Derivation:
    def residuals(claimed: sp.Basic) -> dict[str, sp.Expr]:
        X = (K - 1) * overlap * beta()
        explicit = sp.Matrix(3, 3, lambda i, j: 1 if i == j else overlap).inv()[0, 1]
        return {
            "X = (K-1) rho beta": X.subs(overlap, C / (C + D)) - claimed,
            "inverse of G against an explicit one at K = 3": explicit - _inverse_gram()[1].subs(K, 3),
        }

    return Derivation(
        title=title,
        source="own, from Theorem 1",
        statement=sp.Eq(sp.Symbol(r"\xi_{n} / \gamma"), claim, evaluate=False),
        steps=(
            ("G^{-1} = x I + y J: x", _inverse_gram()[0]),
            ("y", _inverse_gram()[1]),
            ("beta", sp.factor(beta())),
        ),
        residuals=residuals,
    )


@DERIVATIONS.declare
def orbit_overlap_exact() -> Derivation:
    """Return xi_n/gamma in C, D with the exact beta."""
    claim = (K - 1) * V / (V - 1) ** 2 * C * (D + V * C) / (D * (D + K * C))
    return _overlap("xi_n/gamma of K equally overlapping classes, exact beta", _exact_beta, claim)


@DERIVATIONS.declare
def orbit_overlap_leading() -> Derivation:
    """Return xi_n/gamma in C, D with the leading beta E'_nk."""
    claim = (K - 1) * C**2 / (D * (D + K * C))
    return _overlap(
        "xi_n/gamma of K equally overlapping classes, leading beta",
        _leading_beta,
        claim,
    )
