"""The symbolic derivations: sympy accepts each, rejects wrong ones, and the evaluators agree with them."""

from collections.abc import Callable

import numpy as np
import pytest
import sympy as sp

from snapdyn import analytic
from snapdyn.analytic.symbolic import Derivation, derivations
from snapdyn.analytic.symbolic.derivation import DECLARED, K, V, declare, t

BY_ID = {derivation.id: derivation for derivation in derivations()}
PRINTED = {
    "original-flow-speed",
    "late-lag",
    "late-h",
    "smallest-weight",
    "beta",
    "beta-counted",
    "relative-gain-rate",
    "premise",
    "growth-exponent-printed",
    "growth-exponent",
    "late-dominance",
}


def _rejected(derivation: Derivation, claim: sp.Basic) -> bool:
    """Return whether some residual is a definite expression other than 0; one is enough."""
    return any(sp.simplify(residual) not in (0, sp.nan) for residual in derivation.residuals(claim).values())


def test_a_derivation_is_declared_beside_its_code() -> None:
    """Assert that the decorator gives a toy derivation its id, and that an id is declared once in all modules."""
    assert len(DECLARED) == len(derivations())

    @declare
    def sum_of_two() -> Derivation:
        return Derivation("2 t", "test", K, 2 * t, lambda claim: {"sum": claim - t - t})

    try:
        toy = DECLARED["sum-of-two"]()
        assert toy.id == "sum-of-two"
        assert toy.verify() == {"sum": 0}
        assert toy.verify(3 * t) == {"sum": t}
        with pytest.raises(ValueError, match="'sum-of-two', which is taken"):
            declare(sum_of_two)
    finally:
        del DECLARED["sum-of-two"]


def test_ids_are_unique() -> None:
    """Assert that no two derivations share an id."""
    assert len(BY_ID) == len(derivations()) > 75


@pytest.mark.slow
@pytest.mark.parametrize("id_", BY_ID)
def test_sympy_verifies_the_formula(id_: str) -> None:
    """Assert that every residual of the formula simplifies to exactly 0."""
    residuals = BY_ID[id_].verify()
    assert residuals
    assert set(residuals.values()) == {sp.Integer(0)}


@pytest.mark.slow
@pytest.mark.parametrize("id_", BY_ID)
@pytest.mark.parametrize("factor", [-1, 2])
def test_a_multiple_of_the_formula_is_rejected(id_: str, factor: int) -> None:
    """Assert that the machinery rejects the formula with its sign flipped, and doubled."""
    derivation = BY_ID[id_]
    claim = derivation.statement.rhs
    # The conserved sum is 0, of which every multiple is right.
    wrong = factor * sp.Symbol("g_1", real=True) if claim == 0 else factor * claim
    assert _rejected(derivation, wrong)


@pytest.mark.slow
@pytest.mark.parametrize("id_", sorted(PRINTED))
def test_the_printed_formula_is_rejected(id_: str) -> None:
    """Assert that what the paper prints is rejected by the same machinery, wherever the two differ."""
    derivation = BY_ID[id_]
    assert derivation.printed is not None
    assert any(residual not in (0, sp.nan) for residual in derivation.verify(derivation.printed).values())


def test_no_other_printed_formula_is_on_record() -> None:
    """Assert that the list of rejected printed formulas is complete."""
    assert {id_ for id_, derivation in BY_ID.items() if derivation.printed is not None} == PRINTED


E_12 = sp.Symbol("e_12", real=True)
N, R0 = sp.symbols("N r_0", positive=True)
PI, RHO, G_ = sp.symbols("pi rho g", positive=True)
GROWTH_OF_L = sp.Function("dz_l")(t)
WRONG: dict[str, tuple[str, Callable[[sp.Expr], sp.Basic]]] = {
    "exponent 3 for 4": (
        "common-logit",
        lambda rhs: rhs.replace(sp.log, lambda x: sp.Rational(4, 3) * sp.log(1 + (x - 1) * 3 / 4)),
    ),
    "K for K-1": ("common-logit", lambda rhs: rhs.subs(K, K + 1)),
    "h shifted by the 1 in A": ("h-closed", lambda rhs: rhs - 1 / ((V - 1) * V)),
    "other Lambert branch": ("u-plus", lambda rhs: -sp.LambertW(-1 / (V - 1))),
    "V for V-1 in the recursion": (
        "discrete-recursion",
        lambda rhs: rhs.subs(V, V + 1),
    ),
    "missing class clock K": ("gamma-integral", lambda rhs: rhs / K),
    "V for V-1 in the peak": ("gamma-peak", lambda rhs: rhs.subs(V, V + 1)),
    "another vocabulary in q1, q0": ("zeta-products", lambda rhs: rhs.subs(V, 2 * V)),
    "transposed sign in iota": ("iota", lambda rhs: rhs.subs(E_12, -E_12)),
    "leading for exact beta": ("orbit-overlap-exact", lambda _: BY_ID["orbit-overlap-leading"].statement.rhs),
    "exp(z) for exp(2z)": ("relative-gain", lambda rhs: rhs.subs(GROWTH_OF_L, GROWTH_OF_L / 2)),
    "early h with V-1": ("early-h", lambda rhs: rhs * V / (V - 1)),
    "late gamma with V-1": ("late-gamma", lambda rhs: rhs * V / (V - 1)),
    "rate for prefactor": ("original-flow-speed", lambda rhs: rhs.subs(V, V + 1)),
    "logarithm of V-1 in the lead": ("lag", lambda rhs: rhs + sp.log(V / (V - 1)) / 2),
    "stage with V for V-1": ("gamma-late-stage", lambda rhs: rhs * V / (V - 1)),
    "first order of E' only": ("second-order", lambda rhs: 0 * rhs),
    "K for K-1 in the bound": ("entry-bound", lambda rhs: rhs.subs(K, K + 1)),
    "T for T-1 in the radius": ("hoeffding-radius", lambda rhs: rhs.subs(N, N + 1)),
    "counts left out of one class": ("beta-counted", lambda rhs: rhs.subs(sp.Symbol("theta_2", real=True), 0)),
    "squared share left out": ("equal-shares", lambda rhs: rhs / sp.Symbol("f_c0", positive=True)),
    "gain without its 1": ("rate-ratio", lambda rhs: rhs * R0 / (R0 + 1)),
    "M-1 for M": ("dominant-share", lambda rhs: 1 / (1 / rhs - 1)),
    "constant term": ("growth-exponent", lambda rhs: rhs + 1),
    "drift of the distinct tokens left out": ("odds-of-common-token", lambda rhs: rhs.subs(PI, 0)),
    "growth without drift": ("profile-growth", lambda rhs: rhs.subs(PI, 0)),
    "leading for exact beta at constant pi": (
        "profile-time-exact",
        lambda _: BY_ID["profile-time-leading"].statement.rhs,
    ),
    "K for K-2 in the overlap": ("growth-overlap", lambda rhs: rhs.subs(K, K + 2)),
    "no outputs but those of classes": ("overlap-lead-own", lambda rhs: rhs.subs(V, K)),
    "rate of Remark 1 for K < V": (
        "overlap-time",
        lambda _: (sp.exp(V * G_) - 1 + (V - 1) * V * G_) / (V * (1 - RHO)),
    ),
    "beta of decoupled classes": ("overlap-beta-integral", lambda _: V * G_**2 / 2),
    "V rho for the first gap": ("first-gap-modified", lambda _: V * RHO),
    "1/(1 + V rho) for the leading gap": ("gap-leading", lambda _: -1 / (1 + V * RHO)),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_formula_is_rejected(fault: str) -> None:
    """Assert that a formula with one specific fault is rejected."""
    id_, spoil = WRONG[fault]
    claim = BY_ID[id_].statement.rhs
    wrong = spoil(claim)
    assert wrong != claim
    assert _rejected(BY_ID[id_], wrong)


def test_the_missing_origin_is_exactly_a_quarter_log() -> None:
    """Assert that the printed exponent exceeds the integral from 0 by (1/4) ln C0, at every t."""
    derivation = BY_ID["growth-exponent-printed"]
    C0 = sp.Symbol("C_0", positive=True)
    difference = sp.exp(4 * derivation.printed) / sp.exp(4 * derivation.statement.rhs)
    assert sp.simplify(difference - C0) == 0


def test_the_printed_exponent_grows_too_fast() -> None:
    """Assert that the printed exponent's slope in Gamma is K^2/(K-1) times the consistent one's early, K times late."""
    derivation = BY_ID["growth-exponent"]
    symbols = {symbol.name: symbol for symbol in derivation.printed.free_symbols}
    x = sp.Symbol("x", positive=True)

    def slope(exponent: sp.Expr) -> sp.Expr:
        # Gamma as such is a function of t: replace it by a symbol.
        gamma_integral = next(iter(exponent.atoms(sp.Function) - exponent.atoms(sp.log)))
        return sp.diff(exponent.subs(gamma_integral, x), x)

    ratio = sp.simplify(slope(derivation.printed) / slope(derivation.statement.rhs))
    assert {symbol.name for symbol in ratio.free_symbols} >= {"x", "K"}
    assert sp.simplify(ratio.subs(x, 0) - K**2 / (K - 1)) == 0
    assert sp.simplify(sp.limit(ratio, x, sp.oo) - K) == 0
    assert symbols["K"] == K


@pytest.mark.parametrize("id_", BY_ID)
def test_each_derivation_can_be_read(id_: str) -> None:
    """Assert that each derivation names its source and prints as LaTeX."""
    derivation = BY_ID[id_]
    assert derivation.title
    assert derivation.source
    assert "=" in derivation.latex()


VALUES = {"eta_Y": 0.7, "eta_Z": 0.3, "V": 40, "K": 6, "s": 11.0, "t": 66.0, "rho_0": 1.7, "u": 2.0}
GROWTH = (66.0, 0.7, 0.3, 40, 6, 1.7)
NUMERIC: dict[str, Callable[[], np.ndarray]] = {
    "h-closed": lambda: analytic.h(11.0, 0.7, 40),
    "gamma-integral": lambda: analytic.gamma_integral(66.0, 0.7, 40, 6),
    "gamma-peak": lambda: analytic.u_peak(40),
    "peak-time": lambda: analytic.transition_time(6, 40, 0.7),
    "u-minus": lambda: analytic.u_minus(40),
    "u-plus": lambda: analytic.u_plus(40),
    "omega-1": lambda: analytic.omega_1(40),
    "error-norm": lambda: analytic.error_norm(11.0, 0.7, 40),
    "discrete-recursion": lambda: analytic.discrete_h(4, 0.7, 40)[4] - analytic.discrete_h(4, 0.7, 40)[3],
    "common-logit": lambda: analytic.common_token_logit(*GROWTH),
    "common-logit-printed": lambda: analytic.common_token_logit(*GROWTH, form="printed"),
    "xi": lambda: analytic.xi(*GROWTH),
    "xi-printed": lambda: analytic.xi(*GROWTH, form="printed"),
    "growth-exponent": lambda: analytic.growth_exponent(*GROWTH),
    "growth-exponent-in-h": lambda: analytic.growth_exponent(*GROWTH, form="printed"),
}


@pytest.mark.parametrize("id_", NUMERIC)
def test_the_evaluator_computes_the_derived_formula(id_: str) -> None:
    """Assert that each numeric evaluator equals its verified formula, evaluated by sympy."""
    h = analytic.discrete_h(3, 0.7, 40)[3] if id_ == "discrete-recursion" else analytic.h(11.0, 0.7, 40)
    values = VALUES | {
        "C_0": 1.7**4 / 6,
        "h": float(h),
        "u^*": float(analytic.u_peak(40)),
    }
    Gamma = sp.Function("Gamma")(t)
    expression = (
        BY_ID[id_]
        .statement.rhs.subs({Gamma.diff(t): 0.3 * analytic.gamma(66.0, 0.7, 40, 6)})
        .subs({Gamma: 0.3 * analytic.gamma_integral(66.0, 0.7, 40, 6)})
    )
    expected = sp.N(expression.subs({symbol: values[symbol.name] for symbol in expression.free_symbols}), 30)
    # discrete-recursion is a difference of neighbours, which costs a digit or two.
    assert float(NUMERIC[id_]()) == pytest.approx(float(expected), rel=1e-12)


@pytest.mark.parametrize("name", ["iota", "beta"])
def test_speed_coefficients_compute_the_derived_formula(name: str) -> None:
    """Assert that `speed_coefficients` equals the verified iota and beta, and the printed beta."""
    rng = np.random.default_rng(5)
    E_prime = rng.uniform(-0.1, 0.1, (3, 3))
    E_prime += E_prime.T
    values = {sp.Symbol(f"e_{i + 1}{j + 1}", real=True): E_prime[i, j] for i in range(3) for j in range(i, 3)}
    values[V] = 25

    def numbers(matrix: sp.Basic) -> np.ndarray:
        return np.array(matrix.subs(values).evalf(20), dtype=float)

    derivation = BY_ID[name]
    computed = getattr(analytic.speed_coefficients(E_prime, 25), name)
    np.testing.assert_allclose(computed, numbers(derivation.statement.rhs).reshape(computed.shape), rtol=1e-12)
    if derivation.printed is not None:
        printed = getattr(analytic.speed_coefficients(E_prime, 25, "printed"), name)
        np.testing.assert_allclose(printed, numbers(derivation.printed), rtol=1e-12)
