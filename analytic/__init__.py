"""Closed forms of the training dynamics: fast numeric evaluators here, their derivations in `symbolic`.

Importing this package loads numpy only. `snapdyn.analytic.symbolic` needs sympy and must be imported separately.
"""

from snapdyn.analytic.common_token import common_token_logit, xi
from snapdyn.analytic.discrete import discrete_h
from snapdyn.analytic.growth import GrowthExponentPieces, growth_exponent, growth_exponent_pieces
from snapdyn.analytic.orbit import Orbit, single_common_token_orbit
from snapdyn.analytic.relative_gains import companion_growth, relative_gain
from snapdyn.analytic.speed_control import error_norm, gamma, gamma_integral, h
from snapdyn.analytic.theorem_1 import SpeedCoefficients, speed_coefficients
from snapdyn.analytic.transition_times import omega_1, transition_time, u_minus, u_peak, u_plus

__all__ = [
    "GrowthExponentPieces",
    "Orbit",
    "SpeedCoefficients",
    "common_token_logit",
    "companion_growth",
    "discrete_h",
    "error_norm",
    "gamma",
    "gamma_integral",
    "growth_exponent",
    "growth_exponent_pieces",
    "h",
    "omega_1",
    "relative_gain",
    "single_common_token_orbit",
    "speed_coefficients",
    "transition_time",
    "u_minus",
    "u_peak",
    "u_plus",
    "xi",
]
