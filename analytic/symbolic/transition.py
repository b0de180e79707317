"""Derivations for the phase transition: common token, growth exponent (Theorem 4, Eqs. 13-14, 118-133)."""

import sympy as sp

from snapdyn.analytic.symbolic.derivation import Derivation, K, Residuals, V, declare, eta_Y, eta_Z, h, t, u
from snapdyn.analytic.symbolic.speed import integral_of_gamma
from snapdyn.analytic.symbolic.stages import elasticity

C0, rho0, nu = sp.symbols("C_0 rho_0 nu", positive=True)
Gamma = sp.Function("Gamma")(t)
"""eta_Z times the integral of gamma: Gamma(0) = 0."""
gamma = Gamma.diff(t) / eta_Z
A = (K - 1) / rho0**4
START = {Gamma: 0}


def _common_logit(coefficient: sp.Expr) -> sp.Expr:
    """Return z_c = -(1/4) ln(1 + 4 a Gamma), Eq. (122), for the coefficient a of xi = a gamma exp(4 z_c)."""
    return -sp.log(1 + 4 * coefficient * Gamma) / 4


def _logit(name: str, source: str, coefficient: sp.Expr) -> Derivation:
    return Derivation(
        f"exp(-4 z_c) = 1 + 4 a Gamma, a = {name}, solved for the common token's logit",
        source,
        "z_c",
        _common_logit(coefficient),
        lambda claim: {
            "z' = -eta_Z gamma a exp(4 z)": sp.diff(claim, t) + eta_Z * gamma * coefficient * sp.exp(4 * claim),
            "zero start": claim.subs(START),
        },
    )


def _xi(name: str, source: str, coefficient: sp.Expr) -> Derivation:
    logit = _common_logit(coefficient)

    return Derivation(
        f"xi_n = a gamma/(1 + 4 a Gamma), a = {name}",
        source,
        "xi_n",
        gamma / (1 / coefficient + 4 * Gamma),
        {"xi = a gamma exp(4 z_c)": coefficient * gamma * sp.exp(4 * logit)},
    )


@declare
def premise() -> Derivation:
    """Return the consistent premise: Eq. (100) under f_n.f_k ~ beta_nk ~ exp(2 z)/rho0^2 and 1 - f_c^2 ~ 1.

    Printed with K instead of K-1: Eq. (13), C0 = rho0^4/K.
    """
    z = sp.Symbol("z", real=True)
    overlap = sp.exp(2 * z) / rho0**2
    xi_n = gamma * (K - 1) * overlap * overlap
    rate = -eta_Z * gamma * sp.exp(4 * z) / rho0**4
    return Derivation(
        "z_c' = -eta_Z gamma (K-1) exp(4 z_c)/rho0^4 per batch-size-1 step",
        "Eq. (13), its K corrected to K-1",
        r"\dot z_c",
        (K - 1) * rate,
        {"Eq. (100), K equal classes of weight 1/K": -eta_Z * K * (1 / K) * xi_n},
        printed=K * rate,
    )


@declare
def common_logit_printed() -> Derivation:
    """Return Eq. (122) from the printed premise (13), a = 1/C0."""
    return _logit("1/C0", "Eqs. (13), (118), (120)-(122)", 1 / C0)


@declare
def common_logit() -> Derivation:
    """Return the common token's logit with the consistent coefficient a = (K-1)/rho0^4."""
    return _logit("(K-1)/rho0^4", "own, from Eqs. (98), (100)", A)


@declare
def xi_printed() -> Derivation:
    """Return Eq. (123) from the printed premise (13), a = 1/C0."""
    return _xi("1/C0", "Eqs. (13), (119), (123)", 1 / C0)


@declare
def xi() -> Derivation:
    """Return xi_n with the consistent coefficient a = (K-1)/rho0^4."""
    return _xi("(K-1)/rho0^4", "own, from Eqs. (98), (100)", A)


@declare
def growth_exponent_printed() -> Derivation:
    """Return the integral from 0 of the printed xi; the printed result is (1/4) ln C0 at t = 0."""
    return Derivation(
        "The printed xi integrates to (1/4) ln(1 + 4 Gamma/C0), which is 0 at t = 0",
        "Eq. (124), its missing -(1/4) ln C0 added",
        "B_n",
        sp.log(1 + 4 * Gamma / C0) / 4,
        lambda claim: {
            "B' = eta_Z xi": sp.diff(claim, t) - eta_Z * gamma / (C0 + 4 * Gamma),
            "B(0) = 0": claim.subs(START),
        },
        printed=sp.log(C0 + 4 * Gamma) / 4,
    )


@declare
def growth_exponent() -> Derivation:
    """Return the consistent growth exponent; the printed one, Eq. (124), differs at t = 0 and in slope."""
    return Derivation(
        "B_n = (1/(4K)) ln(1 + 4 A Gamma), A = (K-1)/rho0^4",
        "own, from Eqs. (12), (98), (100); Theorem 4 lacks the factor p_n = 1/K",
        "B_n",
        sp.log(1 + 4 * A * Gamma) / (4 * K),
        lambda claim: {
            # B' = eta_Z p_n xi_n of Eq. (12), with p_n = 1/K.
            "B' = eta_Z xi/K": sp.diff(claim, t) - eta_Z / K * A * gamma / (1 + 4 * A * Gamma),
            "B(0) = 0": claim.subs(START),
            # All distinct tokens together gain sum_n B_n (1 - f_c^2 ~ 1); the common token loses that.
            "conservation: K B = -z_c": K * claim + _common_logit(A),
        },
        printed=sp.log(rho0**4 / K + 4 * Gamma) / 4,
    )


def _four_gamma(h_of_t: sp.Expr) -> sp.Expr:
    """Return 4 Gamma = 2 (eta_Z/eta_Y) K (V-1)^2 h^2 (derivation ``gamma-integral``)."""
    return 4 * eta_Z * integral_of_gamma.subs(h, h_of_t)


def _piece(title: str, source: str, h_of_t: sp.Expr, claim: sp.Expr) -> Derivation:
    return Derivation(
        title,
        source,
        "B_n",
        claim,
        lambda claimed: {"Eq. (129) with the limiting h": 4 * claimed - sp.log(C0 + _four_gamma(h_of_t))},
    )


@declare
def growth_exponent_in_h() -> Derivation:
    """Return Eq. (129), the printed growth exponent in closed form in h."""
    claim = sp.log(C0 + 2 * eta_Z / eta_Y * K * (V - 1) ** 2 * h**2) / 4
    return _piece("Printed growth exponent in h, for every t", "Eq. (129)", h, claim)


@declare
def early_piece() -> Derivation:
    """Return the early printed piece of (14), from h ~ eta_Y s/V (derivation ``early-h``)."""
    claim = sp.log(C0 + 2 * (V - 1) ** 2 / (K * V**2) * eta_Y * eta_Z * t**2) / 4
    return _piece("Printed growth exponent before the transition", "Eqs. (14), (130)", eta_Y * (t / K) / V, claim)


@declare
def late_piece() -> Derivation:
    """Return the late printed piece of (14), from V h ~ ln(V eta_Y s) (derivation ``late-h``)."""
    logarithm = sp.log(V * eta_Y * t / K)
    claim = sp.log(C0 + 2 * K * (V - 1) ** 2 / V**2 * eta_Z / eta_Y * logarithm**2) / 4
    return _piece("Printed growth exponent after the transition", "Eqs. (14), (131)", logarithm / V, claim)


LOGARITHM = sp.Symbol("L", positive=True)
"""ln(V eta_Y t/K) = ln(V eta_Z nu t/K)."""


@declare
def late_growth() -> Derivation:
    """Return Eq. (132): the late printed piece once Gamma outweighs C0."""
    piece = 2 * K * (V - 1) ** 2 / (V**2 * nu) * LOGARITHM**2
    return Derivation(
        "B_n = (1/2) ln ln(V eta_Y t/K) + (1/4) ln(2 K (V-1)^2/(V^2 nu)), nu = eta_Y/eta_Z",
        "Eq. (132), on the printed premise",
        "B_n",
        sp.log(LOGARITHM) / 2 + sp.log(2 * K * (V - 1) ** 2 / (V**2 * nu)) / 4,
        lambda claim: {"exp(4 B) of Eq. (131), C0 -> 0": sp.exp(4 * claim) - piece},
    )


@declare
def late_size() -> Derivation:
    """Return Eq. (132) for V >> 1 as a multiple of one difference of logarithms, as (133) gives it up to constants."""
    late = late_growth().claim
    return Derivation(
        "B_n = (1/4) [ln ln^2(V eta_Z nu t/K) - ln(nu/(2 K))]: positive where ln^2(...) > nu/(2 K)",
        "Eq. (133), up to the constants that Theta leaves open",
        "B_n",
        (2 * sp.log(LOGARITHM) - sp.log(nu / (2 * K))) / 4,
        lambda claim: {
            "exp(4 B) of Eq. (132), V -> oo": sp.exp(4 * claim) - sp.limit(sp.simplify(sp.exp(4 * late)), V, sp.oo)
        },
    )


@declare
def decoder_rate_effect() -> Derivation:
    """Return how B of (129) depends on eta_Y at fixed eta_Z and t: at late times, a larger eta_Y means a smaller B."""
    h_of = sp.Function("h")(eta_Y)
    slope = sp.diff(sp.log(h_of**2 / eta_Y), eta_Y) * eta_Y
    # d ln h/d ln eta_Y at fixed t: derivation `h-elasticity`.
    return Derivation(
        "4 Gamma ~ h^2/eta_Y at fixed eta_Z, t: it falls with eta_Y where exp(u) (u-2) > (V-1) u - 2, u = V h",
        "own; Eq. (133)(b) and Section 6, reading (c) of Theorem 4",
        r"d \ln {\Gamma} / d \ln {\eta_{Y}}",
        ((V - 1) * u - 2 - sp.exp(u) * (u - 2)) / (u * (V - 1 + sp.exp(u))),
        {"d ln(h^2/eta_Y)/d ln eta_Y": slope.subs(h_of.diff(eta_Y), elasticity * h_of / eta_Y)},
    )


@declare
def late_dominance() -> Derivation:
    """Return the time from which Gamma outweighs C0 in the late piece, nu = eta_Y/eta_Z, V >> 1."""

    def residuals(claim: sp.Basic) -> Residuals:
        four_gamma = 2 * K / nu * sp.expand_log(sp.log(V * eta_Y * claim / K), force=True) ** 2
        return {"4 Gamma = C0": four_gamma - C0}

    return Derivation(
        "Gamma outweighs C0 for t >> (K/(V eta_Y)) exp(sqrt(nu C0/(2K))), nu = eta_Y/eta_Z",
        "condition of Eqs. (132)-(133), printed for K = C0 = 1 and with 1/nu in place of nu",
        t,
        K / (V * eta_Y) * sp.exp(sp.sqrt(nu * C0 / (2 * K))),
        residuals,
        printed=sp.exp(1 / sp.sqrt(2 * nu)) / (V * eta_Y),
    )
