"""The symbolic derivations: sympy accepts each, rejects wrong ones, and the evaluators agree with them."""

from collections.abc import Callable

import pytest
import sympy as sp

from snapdyn.analytic.symbolic import Derivation, derivation_of, derivations
from snapdyn.analytic.symbolic.derivation import DECLARED, K, V, declare, t

IDS = list(DECLARED)


def _rejected(derivation: Derivation, claim: sp.Basic) -> bool:
    """Return whether some residual is a definite expression other than 0; one is enough."""
    return any(sp.simplify(residual) not in (0, sp.nan) for residual in derivation.residuals(claim).values())


def test_a_derivation_is_declared_beside_its_code() -> None:
    """Assert that the decorator gives a toy derivation its id, and that ids of ours cannot be taken."""
    assert sorted(each.id for each in derivations()) == sorted(IDS)

    @declare
    def sum_of_two() -> Derivation:
        return Derivation("2 t", "test", K, 2 * t, lambda claim: {"sum": claim - t - t})

    try:
        toy = DECLARED["sum-of-two"]()
        assert toy.id == "sum-of-two"
        assert toy.verify() == {"sum": 0}
        assert toy.verify(3 * t) == {"sum": t}
        assert declare(sum_of_two)().id == "sum-of-two"  # of a user: replaced when a cell of a notebook runs again
        sum_of_two.__name__ = "error_norm"
        with pytest.raises(ValueError, match="'error-norm', which is taken"):
            declare(sum_of_two)
    finally:
        del DECLARED["sum-of-two"]


@pytest.mark.slow
@pytest.mark.parametrize("id_", IDS)
def test_sympy_verifies_the_formula(id_: str) -> None:
    """Assert that every residual is exactly 0, and that twice the formula is rejected.

    So is what the paper prints, wherever it differs. Each derivation names its source and prints as LaTeX.
    """
    derivation = derivation_of(id_)
    residuals = derivation.verify()
    assert residuals
    assert set(residuals.values()) == {sp.Integer(0)}
    claim = derivation.statement.rhs
    # The conserved sum is 0, of which every multiple is right.
    assert _rejected(derivation, 2 * (sp.Symbol("g_1", real=True) if claim == 0 else claim))
    if derivation.printed is not None:
        assert any(residual not in (0, sp.nan) for residual in derivation.verify(derivation.printed).values())
    assert derivation.title
    assert derivation.source
    assert "=" in derivation.latex()


E_12 = sp.Symbol("e_12", real=True)
WBAR, RHO, G_ = sp.symbols("wbar rho g", positive=True)
WRONG: dict[str, tuple[str, Callable[[sp.Expr], sp.Basic]]] = {
    "exponent 3 for 4": (
        "common-logit",
        lambda rhs: rhs.replace(sp.log, lambda x: sp.Rational(4, 3) * sp.log(1 + (x - 1) * 3 / 4)),
    ),
    "h shifted by the 1 in A": ("h-closed", lambda rhs: rhs - 1 / ((V - 1) * V)),
    "other Lambert branch": ("u-plus", lambda rhs: -sp.LambertW(-1 / (V - 1))),
    "transposed sign in iota": ("iota", lambda rhs: rhs.subs(E_12, -E_12)),
    "leading for exact beta": ("orbit-overlap-exact", lambda _: derivation_of("orbit-overlap-leading").statement.rhs),
    "first order of E' only": ("second-order", lambda rhs: 0 * rhs),
    "counts left out of one class": ("beta-counted", lambda rhs: rhs.subs(sp.Symbol("theta_2", real=True), 0)),
    "drift of the distinct tokens left out": ("odds-of-common-token", lambda rhs: rhs.subs(WBAR, 0)),
    "rate of Remark 1 for K < V": (
        "overlap-time",
        lambda _: (sp.exp(V * G_) - 1 + (V - 1) * V * G_) / (V * (1 - RHO)),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_formula_is_rejected(fault: str) -> None:
    """Assert that a formula with one specific fault is rejected."""
    id_, spoil = WRONG[fault]
    claim = derivation_of(id_).statement.rhs
    wrong = spoil(claim)
    assert wrong != claim
    assert _rejected(derivation_of(id_), wrong)
