"""Symbolic derivations of the theory's formulas, verified by sympy, and the exact gradient of the loss."""

from functools import cache

from snapdyn.analytic.symbolic import attention, decoder, orbit, speed, theorem_1, transition
from snapdyn.analytic.symbolic.derivation import Derivation
from snapdyn.analytic.symbolic.gradient import gradient

__all__ = ["Derivation", "derivations", "gradient"]


@cache
def derivations() -> tuple[Derivation, ...]:
    """Return every derivation: decoder, speed, Theorem 1, attention, orbit, transition."""
    return (
        decoder.modified_flow(),
        decoder.discrete_recursion(),
        decoder.error_norm(),
        decoder.h_implicit(),
        decoder.h_closed(),
        speed.gamma_integral(),
        speed.gamma_peak(),
        speed.peak_time(),
        speed.u_minus(),
        speed.u_plus(),
        speed.omega_1(),
        speed.transition_balance(),
        speed.early_h(),
        speed.late_h(),
        speed.early_gamma(),
        speed.late_gamma(),
        theorem_1.zeta_products(),
        theorem_1.iota(),
        theorem_1.beta(),
        theorem_1.leading_xi(),
        attention.attention_gradient(),
        attention.conservation(),
        attention.distinct_rate(),
        attention.common_rate(),
        attention.relative_gain(),
        attention.relative_gain_rate(),
        attention.companion_growth(),
        orbit.orbit_distinct(),
        orbit.orbit_common(),
        orbit.orbit_overlap_exact(),
        orbit.orbit_overlap_leading(),
        transition.premise(),
        transition.common_logit_printed(),
        transition.common_logit(),
        transition.xi_printed(),
        transition.xi(),
        transition.growth_exponent_printed(),
        transition.growth_exponent(),
        transition.growth_exponent_in_h(),
        transition.early_piece(),
        transition.late_piece(),
        transition.late_dominance(),
    )
