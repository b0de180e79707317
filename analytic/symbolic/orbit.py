"""Derivations for the symmetric single-common-token system of `snapdyn.analytic`: `orbit` and `profile_growth`."""

import sympy as sp

from snapdyn.analytic.symbolic.derivation import Derivation, K, Residuals, V, declare, u

TOKENS = 3
S = sp.Symbol("S", positive=True)
C, D = sp.symbols("C D", positive=True)
p = sp.symbols(f"p_1:{TOKENS + 1}", positive=True)
overlap = sp.Symbol("rho", positive=True)


@declare
def orbit_distinct() -> Derivation:
    """Return the distinct logits as functions of S."""

    # Eq. (98) divided by S' = 2 eta_Z p_n xi/N, with f_nl^2 = p_l^2 exp(2 z_l)/N.
    return Derivation(
        "z_l = -(1/2) ln(1 - p_l^2 S)",
        "own, from Eqs. (98) and (110)",
        "z_l",
        -sp.log(1 - p[0] ** 2 * S) / 2,
        lambda claim: {
            "dz_l/dS of Eq. (98)": sp.diff(claim, S) - p[0] ** 2 * sp.exp(2 * claim) / 2,
            "zero start": claim.subs(S, 0),
        },
    )


@declare
def orbit_common() -> Derivation:
    """Return the common logit as a function of S, for d = 3 distinct tokens per class."""
    z = [-sp.log(1 - p_l**2 * S) / 2 for p_l in p]
    # Eq. (100), K equal terms with p_n = 1/K, divided by S' = 2 eta_Z xi/(K N); 1 - f_c^2 = D/N.
    D_of_S = sum(p_l**2 * sp.exp(2 * z_l) for p_l, z_l in zip(p, z, strict=True))
    return Derivation(
        "z_c = -K sum_l z_l = (K/2) sum_l ln(1 - p_l^2 S)",
        "own, from Eq. (100) and conservation",
        "z_c",
        K * sum(sp.log(1 - p_l**2 * S) for p_l in p) / 2,
        lambda claim: {
            "dz_c/dS of Eq. (100)": sp.diff(claim, S) + K * D_of_S / 2,
            "zero start": claim.subs(S, 0),
            "row sum of z": claim + K * sum(z),
        },
    )


def _inverse_gram() -> tuple[sp.Expr, sp.Expr]:
    """Return x, y of G^{-1} = x I + y J, G = (1-rho) I + rho J, J the K x K matrix of ones (J^2 = K J)."""
    x, y = sp.symbols("x y")
    identity = (1 - overlap) * x - 1
    ones = (1 - overlap) * y + overlap * x + K * overlap * y
    (solution,) = sp.solve([identity, ones], [x, y], dict=True)
    return solution[x], solution[y]


def _overlap(name: str, q1: sp.Expr, q0: sp.Expr, claim: sp.Expr) -> Derivation:
    """Derive xi_n/gamma; beta is minus the coefficient of f_k in g_n/gamma, -[G^{-1} ((q1-q0) e_n + q0 1)]_k."""
    x, y = _inverse_gram()
    X = -(K - 1) * overlap * ((q1 - q0) * y + q0 * (x + K * y))
    explicit = sp.Matrix(3, 3, lambda i, j: 1 if i == j else overlap).inv()[0, 1]
    title = f"xi_n/gamma of K equally overlapping classes, {name} beta"
    return Derivation(
        title,
        "own, from Theorem 1",
        r"\xi_{n} / \gamma",
        claim,
        lambda claimed: {
            "X = (K-1) rho beta": X.subs(overlap, C / (C + D)) - claimed,
            "inverse of G against an explicit one at K = 3": explicit - y.subs(K, 3),
        },
    )


@declare
def orbit_overlap_exact() -> Derivation:
    """Return xi_n/gamma in C, D with the exact beta."""
    claim = (K - 1) * V / (V - 1) ** 2 * C * (D + V * C) / (D * (D + K * C))
    return _overlap("exact", V / (V - 1), -V / (V - 1) ** 2, claim)


@declare
def orbit_overlap_leading() -> Derivation:
    """Return xi_n/gamma in C, D with the leading beta E'_nk = -(G^{-1})_nk off the diagonal: q1 = 1, q0 = 0."""
    return _overlap("leading", sp.Integer(1), sp.Integer(0), (K - 1) * C**2 / (D * (D + K * C)))


o = sp.Symbol("o", positive=True)
"""Odds C/D of the common part of ||c~_n||^2; in formulas with u = ln(o(0)/o(t)), the odds at the start."""
wbar = sp.Symbol("wbar", positive=True)
w = sp.symbols(f"w_1:{TOKENS + 1}", positive=True)
p_c = sp.Symbol("p_c", positive=True)
kappa = K + wbar


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


@declare
def odds_of_common_token() -> Derivation:
    """Return the rate of the logarithm of the odds, for d = 3 distinct tokens per class."""
    shares, odds, rates = _shares()

    def residuals(claim: sp.Basic) -> Residuals:
        claimed = claim.subs({wbar: sum(share**2 for share in shares), o: odds})
        return {"d ln o/dB of Eqs. (98), (100)": _along(sp.log(odds), rates) - claimed}

    return Derivation(
        "The odds of the common token fall with the growth exponent: d ln o/dB = -2 (K + wbar)/(1 + o)",
        "own, from Eqs. (98) and (100)",
        r"d \ln o / dB",
        -2 * kappa / (1 + o),
        residuals,
    )


@declare
def profile_drift() -> Derivation:
    """Return d wbar/dsigma, sigma = -z_c/K, which is four times a variance, for d = 3 distinct tokens per class."""
    shares, odds, rates = _shares()
    mean = sum(w_l**2 for w_l in w)
    rate = _along(sum(share**2 for share in shares), rates) * (1 + odds)  # dsigma = dB/(1+o)
    return Derivation(
        "wbar = sum_l w_l^2 never falls: d wbar/dsigma = 4 sum_l w_l (w_l - wbar)^2",
        "own, from Eqs. (98) and (100)",
        r"d \bar w / d\sigma",
        4 * sum(w_l * (w_l - mean) ** 2 for w_l in w),
        lambda claim: {"d wbar/dsigma": rate - claim.subs(dict(zip(w, shares, strict=True)), simultaneous=True)},
    )


@declare
def profile_growth() -> Derivation:
    """Return B_n at constant wbar as a function of u = ln(o(0)/o(t))."""
    return Derivation(
        "B_n = (u + o (1 - exp(-u)))/(2 (K + wbar)) at constant wbar, o the odds at the start",
        "own, corrects Theorem 4, which takes wbar = 0",
        "B_n",
        (u + o * (1 - sp.exp(-u))) / (2 * kappa),
        lambda claim: {
            "d ln o/dB = -2 (K + wbar)/(1 + o)": sp.diff(claim, u) * 2 * kappa / (1 + o * sp.exp(-u)) - 1,
            "zero start": claim.subs(u, 0),
            "z_c = -K u/(2 (K+wbar)), with dz_c/dB = -K/(1+o)": sp.diff(claim, u) * K / (1 + o * sp.exp(-u))
            - K / (2 * kappa),
        },
    )


def _time(title: str, overlap: Derivation, claim: sp.Expr) -> Derivation:
    """Derive Gamma(u) at constant wbar from xi_n/gamma of `overlap`, in C and D."""
    X = sp.factor(overlap.claim.subs(C, o * D))
    now = o * sp.exp(-u)
    rate = 2 * kappa / (1 + now) * X.subs(o, now) / K
    return Derivation(
        title,
        "own, from Theorem 1 and Eqs. (98), (100)",
        "Gamma",
        claim,
        lambda claimed: {"du/dGamma": sp.diff(claimed, u) * rate - 1, "zero start": claimed.subs(u, 0)},
    )


@declare
def profile_time_leading() -> Derivation:
    """Return Gamma at constant wbar as a function of u, leading beta."""
    q = sp.exp(u)
    claim = q**2 - 1 + 2 * (K + 1) * o * (q - 1) + 2 * K * o**2 * u
    return _time(
        "Gamma at constant wbar, leading beta, as a function of u = ln(o(0)/o(t))",
        orbit_overlap_leading(),
        claim * K / (4 * kappa * (K - 1) * o**2),
    )


@declare
def profile_time_exact() -> Derivation:
    """Return Gamma at constant wbar as a function of u, exact beta."""
    y = 1 / (V * o)
    delta = y * (sp.exp(u) - 1) / (1 + y)
    log = sp.log(1 + delta)
    claim = V * (delta - log + delta * y) + (K + 1) * log + K / V * (u - log)
    return _time(
        "Gamma at constant wbar, exact beta, as a function of u = ln(o(0)/o(t))",
        orbit_overlap_exact(),
        claim * K * (V - 1) ** 2 / (2 * kappa * (K - 1) * V),
    )


@declare
def growth_overlap() -> Derivation:
    """Return the first order of B_n in epsilon = 1/rho0^2 at fixed x, as a function of q = sqrt(1 + (1+wbar/K) x)."""
    q, epsilon, first = sp.Symbol("q", positive=True), sp.Symbol("epsilon", positive=True), sp.Symbol("q_1")
    odds = epsilon / (1 - epsilon)
    # profile-time-leading with Gamma = x rho0^4/(4 (K-1)), so (1+wbar/K) x = q^2 - 1; its root is q + first epsilon.
    now = q + first * epsilon
    equation = now**2 - 1 + 2 * (K + 1) * odds * (now - 1) - (q**2 - 1) / (1 - epsilon) ** 2
    (root,) = sp.solve(sp.diff(equation, epsilon).subs(epsilon, 0), first)
    B = (sp.log(now) + odds * (1 - 1 / now)) / (2 * kappa)

    return Derivation(
        "Overlap adds (1 - 1/q)(2 - K/q)/(2 (K+wbar) rho0^2) to B_n = ln(q)/(2 (K+wbar)), q = sqrt(1 + (1+wbar/K) x)",
        "own, first order of profile-time-leading",
        r"\rho_{0}^{2} \delta B_n",
        (1 - 1 / q) * (2 - K / q) / (2 * kappa),
        {"dB/depsilon at 0": sp.diff(B, epsilon).subs(epsilon, 0).subs(first, root)},
    )


@declare
def growth_drift() -> Derivation:
    """Return the first order of B_n in the slope of wbar, rho0 -> infinity; L = ln(1 + (1+wbar/K) x)."""
    L, B = sp.symbols("L B", positive=True)
    # With wbar + slope sigma and sigma = B, dGamma/dB ~ exp(4 kappa B + 2 slope B^2): its first order in the slope.
    integral = sp.integrate(2 * B**2 * sp.exp(4 * kappa * B), (B, 0, L / (4 * kappa)))

    return Derivation(
        "The slope of wbar lowers B_n by the slope times (L^2 - 2 L + 2 - 2 exp(-L))/(32 (K+wbar)^3)",
        "own, first-order perturbation",
        r"\delta B_n / \dot{\bar w}",
        -(L**2 - 2 * L + 2 - 2 * sp.exp(-L)) / (32 * kappa**3),
        lambda claim: {"Gamma at first order": claim * sp.exp(L) + integral},
    )
