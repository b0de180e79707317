"""Derivations for weakly correlated classes: Lemmas 13-17 and the proof of Theorem 1(a) (Eqs. 74-80, 90-93)."""

import sympy as sp

from snapdyn.analytic.symbolic.derivation import CLASSES, Derivation, Derivations, E, K, gram, symmetric_matrix

DERIVATIONS = Derivations()

eigenvalue = sp.Symbol("lambda", real=True)
largest = sp.Symbol("lambda_1", positive=True)


@DERIVATIONS.declare
def eigenvalue_map() -> Derivation:
    """Return Lemma 14: an eigenvalue of E' = I - (I+E)^{-1} in the eigenvalue of E."""
    n = sp.Symbol("n", integer=True, positive=True)
    small = sp.Symbol("x", positive=True)

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        # Neumann's series for lambda = -x and |x| < 1; both signs are one analytic function.
        series = sp.summation(small**n, (n, 1, sp.oo)).args[0][0]
        return {
            "1 - 1/(1+lambda)": 1 - 1 / (1 + eigenvalue) - claim,
            "Neumann series": -series - claim.subs(eigenvalue, -small),
        }

    return Derivation(
        title="lambda' = lambda/(1+lambda)",
        source="Lemmas 14-15, Eqs. (75)-(78)",
        statement=sp.Eq(sp.Symbol(r"{\lambda}'"), eigenvalue / (1 + eigenvalue), evaluate=False),
        steps=(("(1+lambda)^{-1}", 1 / (1 + eigenvalue)),),
        residuals=residuals,
    )


@DERIVATIONS.declare
def second_order() -> Derivation:
    """Return E' beyond its first order: the sign of its diagonal (79) and its distance from E (80)."""
    inverse = gram.inv()
    # Entries of (I+E)^{-1}.
    n = symmetric_matrix("n")

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        difference = sp.eye(CLASSES) - inverse - E - claim.subs(dict(zip(n, inverse, strict=True)))
        return {f"entry {i}{j}": difference[i, j] for i in range(CLASSES) for j in range(i, CLASSES)}

    return Derivation(
        title="E' - E = -E^2 (I+E)^{-1}: diagonal -sum_k lambda_k^2 u_ik^2/(1+lambda_k) <= 0",
        source="Lemmas 16-17, Eqs. (79)-(80)",
        statement=sp.Eq(
            sp.MatrixSymbol("E'", CLASSES, CLASSES) - sp.MatrixSymbol("E", CLASSES, CLASSES),
            (-(E * E) * n).as_immutable(),
            evaluate=False,
        ),
        steps=(("E", E), ("n_11 = 1 - E'_11", sp.simplify(inverse[0, 0]))),
        residuals=residuals,
    )


@DERIVATIONS.declare
def entry_bound() -> Derivation:
    """Return the bound (90) on the entries of E' at the edge of Assumption 2, |lambda_1| = 1/K."""

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        return {"|lambda_1|/(1-|lambda_1|)": (largest / (1 - largest)).subs(largest, 1 / K) - claim}

    return Derivation(
        title="|E'_kn| < 1/(K-1) where |lambda_1| < 1/K",
        source="Theorem 1, Eq. (90), by Lemma 15",
        statement=sp.Eq(sp.Symbol(r"\max |E'_{kn}|"), 1 / (K - 1), evaluate=False),
        steps=(("bound of Lemma 15", largest / (1 - largest)),),
        residuals=residuals,
    )


@DERIVATIONS.declare
def smallest_weight() -> Derivation:
    """Return the smallest 1/(1+lambda) over |lambda| <= lambda_1, by which (93) bounds -E'_nn from below."""
    weight = 1 / (1 + eigenvalue)

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        # The weight falls along the interval (its slope is -weight^2), so its smallest value is at lambda_1.
        return {
            "at lambda = lambda_1": weight.subs(eigenvalue, largest) - claim,
            "slope": sp.diff(weight, eigenvalue) + weight**2,
        }

    return Derivation(
        title="-E'_nn = sum_k lambda_k^2 u_nk^2/(1+lambda_k) >= min_k lambda_k^2/(1+|lambda_1|)",
        source="Theorem 1, Eq. (93), where 1 - |lambda_1| is printed",
        statement=sp.Eq(sp.Symbol(r"\min 1/(1+\lambda)"), 1 / (1 + largest), evaluate=False),
        steps=(("two classes of overlap lambda_1: -E'_nn", largest**2 / (1 - largest**2)),),
        residuals=residuals,
        printed=1 / (1 - largest),
    )


@DERIVATIONS.declare
def neumann_pairs() -> Derivation:
    """Return the sum of the first 2m terms of Neumann's series of (I+A)^{-1}, taken in pairs."""
    # Powers of one matrix commute, so a commuting symbol stands for A.
    A = sp.Symbol("A", real=True)
    m = sp.Symbol("m", integer=True, positive=True)

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        return {
            "m = 1": claim.subs(m, 1) - (1 - A),
            "from m to m + 1": sp.powsimp(sp.expand((claim.subs(m, m + 1) - claim) * (1 + A)))
            - sp.powsimp(sp.expand(A ** (2 * m) * (1 - A) * (1 + A))),
        }

    return Derivation(
        title="sum_{k < m} A^{2k} (I - A) = (I - A^{2m}) (I+A)^{-1}, so (I+A)^{-1} 1 >= 0 if A >= 0 and A 1 <= 1",
        source="own; Theorem 1(a): xi_n > 0 where |lambda_1| <= 1/sqrt(K-2)",
        statement=sp.Eq(sp.Symbol(r"\sum_{k<m}A^{2k}(I-A)"), (1 - A ** (2 * m)) / (1 + A), evaluate=False),
        steps=(("as m -> oo, |A| < 1", 1 / (1 + A)),),
        residuals=residuals,
    )


@DERIVATIONS.declare
def three_rows() -> Derivation:
    """Return an entry of G^{-1} 1 for three classes: the closed core of xi_n > 0 for K = 4."""
    a, b, c = E[0, 1], E[0, 2], E[1, 2]

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        return {"(G^-1 1)_1 det G": (gram.adjugate() * sp.ones(CLASSES, 1))[0] - claim}

    return Derivation(
        title="(G^{-1} 1)_1 det G = (1-c)(1+c-a-b), a, b the overlaps of class 1, c that of the other two",
        source="own; Theorem 1(a) for four classes",
        statement=sp.Eq(sp.Symbol(r"(G^{-1}\mathbf{1})_1\det G"), (1 - c) * (1 + c - a - b), evaluate=False),
        steps=(("det G", gram.det()),),
        residuals=residuals,
    )
