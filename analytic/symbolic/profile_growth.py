"""Derivations for the growth exponent with the growth of distinct tokens (see `snapdyn.analytic.profile_growth`)."""

import sympy as sp

from snapdyn.analytic.symbolic.derivation import Derivation, Derivations, K, V, u
from snapdyn.analytic.symbolic.orbit import C, D, orbit_overlap_exact, orbit_overlap_leading

DERIVATIONS = Derivations()

TOKENS = 3
o = sp.Symbol("o", positive=True)
"""Odds C/D of the common part of ||c~_n||^2, at the start in the formulas that contain u = ln(o(0)/o(t))."""
pi = sp.Symbol("pi", positive=True)
w = sp.symbols(f"w_1:{TOKENS + 1}", positive=True)
p = sp.symbols(f"p_1:{TOKENS + 1}", positive=True)
p_c = sp.Symbol("p_c", positive=True)
kappa = K + pi


def _shares() -> tuple[list[sp.Expr], sp.Expr, dict[sp.Symbol, sp.Expr]]:
    """Return w_l and the odds as functions of the logits, and the logits' derivatives with respect to B."""
    z, z_c = sp.symbols(f"z_1:{TOKENS + 1}", real=True), sp.Symbol("z_c", real=True)
    parts = [p_l**2 * sp.exp(2 * z_l) for p_l, z_l in zip(p, z, strict=True)]
    common, distinct = p_c**2 * sp.exp(2 * z_c), sum(parts)
    # Eqs. (98), (100), divided by dB/dt = eta_Z p_n xi_n, with f_l^2 = parts/N and 1 - f_c^2 = distinct/N.
    rates = {z_l: part / (common + distinct) for z_l, part in zip(z, parts, strict=True)}
    rates[z_c] = -K * distinct / (common + distinct)
    return [part / distinct for part in parts], common / distinct, rates


def _along(quantity: sp.Expr, rates: dict[sp.Symbol, sp.Expr]) -> sp.Expr:
    return sum(sp.diff(quantity, logit) * rate for logit, rate in rates.items())


@DERIVATIONS.declare
def odds_of_common_token() -> Derivation:
    """Return the rate of the logarithm of the odds, for d = 3 distinct tokens per class."""
    shares, odds, rates = _shares()

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        claimed = claim.subs({pi: sum(share**2 for share in shares), o: odds})
        return {"d ln o/dB of Eqs. (98), (100)": _along(sp.log(odds), rates) - claimed}

    return Derivation(
        title="The odds of the common token fall with the growth exponent: d ln o/dB = -2 (K + pi)/(1 + o)",
        source="own, from Eqs. (98) and (100)",
        statement=sp.Eq(sp.Symbol(r"d \ln o / dB"), -2 * kappa / (1 + o), evaluate=False),
        steps=(("dz_c/dB", -K / (1 + o)),),
        residuals=residuals,
    )


@DERIVATIONS.declare
def profile_drift() -> Derivation:
    """Return the rate of pi along sigma = -z_c/K, four times a variance, for d = 3 distinct tokens per class."""
    shares, odds, rates = _shares()
    mean = sum(w_l**2 for w_l in w)

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        rate = _along(sum(share**2 for share in shares), rates) * (1 + odds)  # dsigma = dB/(1+o)
        return {"d pi/dsigma": rate - claim.subs(dict(zip(w, shares, strict=True)), simultaneous=True)}

    return Derivation(
        title="pi = sum_l w_l^2 never falls: d pi/dsigma = 4 sum_l w_l (w_l - pi)^2",
        source="own, from Eqs. (98) and (100)",
        statement=sp.Eq(sp.Symbol(r"d \pi / d\sigma"), 4 * sum(w_l * (w_l - mean) ** 2 for w_l in w), evaluate=False),
        steps=(("dw_l/dsigma", 2 * w[0] * (w[0] - mean)),),
        residuals=residuals,
    )


@DERIVATIONS.declare
def profile_growth() -> Derivation:
    """Return B_n at constant pi as a function of u = ln(o(0)/o(t))."""

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        return {
            "d ln o/dB = -2 (K + pi)/(1 + o)": sp.diff(claim, u) * 2 * kappa / (1 + o * sp.exp(-u)) - 1,
            "zero start": claim.subs(u, 0),
            "z_c = -K u/(2 (K+pi)), with dz_c/dB = -K/(1+o)": sp.diff(claim, u) * K / (1 + o * sp.exp(-u))
            - K / (2 * kappa),
        }

    return Derivation(
        title="B_n = (u + o (1 - exp(-u)))/(2 (K + pi)) at constant pi, o the odds at the start",
        source="own, corrects Theorem 4, which takes pi = 0",
        statement=sp.Eq(sp.Symbol("B_n"), (u + o * (1 - sp.exp(-u))) / (2 * kappa), evaluate=False),
        steps=(("z_c", -K * u / (2 * kappa)),),
        residuals=residuals,
    )


def _time(title: str, overlap: Derivation, claim: sp.Expr) -> Derivation:
    """Derive Gamma(u) at constant pi from xi_n/gamma of `overlap`, in C and D."""
    X = sp.factor(overlap.statement.rhs.subs(C, o * D))
    now = o * sp.exp(-u)

    def residuals(claimed: sp.Basic) -> dict[str, sp.Expr]:
        rate = 2 * kappa / (1 + now) * X.subs(o, now) / K
        return {"du/dGamma": sp.diff(claimed, u) * rate - 1, "zero start": claimed.subs(u, 0)}

    return Derivation(
        title=title,
        source="own, from Theorem 1 and Eqs. (98), (100)",
        statement=sp.Eq(sp.Symbol("Gamma"), claim, evaluate=False),
        steps=(("K dB/dGamma = xi_n/gamma", X),),
        residuals=residuals,
    )


@DERIVATIONS.declare
def profile_time_leading() -> Derivation:
    """Return Gamma at constant pi as a function of u, leading beta."""
    q = sp.exp(u)
    claim = q**2 - 1 + 2 * (K + 1) * o * (q - 1) + 2 * K * o**2 * u
    return _time(
        "Gamma at constant pi, leading beta, as a function of u = ln(o(0)/o(t))",
        orbit_overlap_leading(),
        claim * K / (4 * kappa * (K - 1) * o**2),
    )


@DERIVATIONS.declare
def profile_time_exact() -> Derivation:
    """Return Gamma at constant pi as a function of u, exact beta."""
    y = 1 / (V * o)
    delta = y * (sp.exp(u) - 1) / (1 + y)
    log = sp.log(1 + delta)
    claim = V * (delta - log + delta * y) + (K + 1) * log + K / V * (u - log)
    return _time(
        "Gamma at constant pi, exact beta, as a function of u = ln(o(0)/o(t))",
        orbit_overlap_exact(),
        claim * K * (V - 1) ** 2 / (2 * kappa * (K - 1) * V),
    )


@DERIVATIONS.declare
def growth_overlap() -> Derivation:
    """Return the first order of B_n in epsilon = 1/rho0^2 at fixed x, as a function of q = sqrt(1 + (1+pi/K) x)."""
    q, epsilon, first = sp.Symbol("q", positive=True), sp.Symbol("epsilon", positive=True), sp.Symbol("q_1")
    odds = epsilon / (1 - epsilon)
    # profile-time-leading with Gamma = x rho0^4/(4 (K-1)), so that (1+pi/K) x = q^2 - 1; its root is q + first epsilon.
    now = q + first * epsilon
    equation = now**2 - 1 + 2 * (K + 1) * odds * (now - 1) - (q**2 - 1) / (1 - epsilon) ** 2
    (root,) = sp.solve(sp.diff(equation, epsilon).subs(epsilon, 0), first)
    B = (sp.log(now) + odds * (1 - 1 / now)) / (2 * kappa)

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        return {"dB/depsilon at 0": sp.diff(B, epsilon).subs(epsilon, 0).subs(first, root) - claim}

    return Derivation(
        title="Overlap adds (1 - 1/q)(2 - K/q)/(2 (K+pi) rho0^2) to B_n = ln(q)/(2 (K+pi)), q = sqrt(1 + (1+pi/K) x)",
        source="own, first order of profile-time-leading",
        statement=sp.Eq(sp.Symbol(r"\rho_{0}^{2} \delta B_n"), (1 - 1 / q) * (2 - K / q) / (2 * kappa), evaluate=False),
        steps=(("first order of the root", sp.factor(root)),),
        residuals=residuals,
    )


@DERIVATIONS.declare
def growth_drift() -> Derivation:
    """Return the first order of B_n in the slope of pi, rho0 -> infinity, as a function of L = ln(1 + (1+pi/K) x)."""
    L, B = sp.symbols("L B", positive=True)
    # With pi + slope sigma and sigma = B, dGamma/dB ~ exp(4 kappa B + 2 slope B^2): its first order in the slope.
    integral = sp.integrate(2 * B**2 * sp.exp(4 * kappa * B), (B, 0, L / (4 * kappa)))

    def residuals(claim: sp.Basic) -> dict[str, sp.Expr]:
        return {"Gamma at first order": claim * sp.exp(L) + integral}

    return Derivation(
        title="The slope of pi takes (L^2 - 2 L + 2 - 2 exp(-L))/(32 (K+pi)^3) times itself off B_n",
        source="own, first-order perturbation",
        statement=sp.Eq(
            sp.Symbol(r"\delta B_n / \dot\pi"),
            -(L**2 - 2 * L + 2 - 2 * sp.exp(-L)) / (32 * kappa**3),
            evaluate=False,
        ),
        steps=(("int 2 B^2 exp(4 kappa B) dB", integral),),
        residuals=residuals,
    )
