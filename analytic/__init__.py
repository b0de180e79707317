"""Closed forms of the training dynamics: fast numeric evaluators here, their derivations in `symbolic`.

Importing this package loads numpy only. `snapdyn.analytic.symbolic` needs sympy and must be imported separately.
"""

from snapdyn.analytic.attention import SpeedCoefficients, relative_gain, speed_coefficients
from snapdyn.analytic.growth import (
    GrowthExponentPieces,
    common_token_logit,
    growth_exponent,
    growth_exponent_pieces,
    xi,
)
from snapdyn.analytic.many_classes import (
    early_common_logit_of_many_classes,
    growth_exponent_of_many_classes,
    turn_of_distinct_tokens_of_many_classes,
)
from snapdyn.analytic.orbit import Orbit, single_common_token_orbit
from snapdyn.analytic.overlapping_decoder import (
    LadderGaps,
    OverlapDecoder,
    first_ladder_gaps,
    ladder_gaps,
    largest_ladder_gap,
    overlap_decoder,
    transition_time_with_overlap,
)
from snapdyn.analytic.profile_growth import (
    DistinctProfile,
    GrowthAndCommonLogit,
    bounds_of_growth,
    distinct_profile,
    error_of_consistent_form,
    growth_and_common_logit,
    growth_exponent_of_profile,
    growth_exponent_with_drift,
)
from snapdyn.analytic.speed_control import discrete_h, error_norm, gamma, gamma_integral, h
from snapdyn.analytic.spurious_tokens import (
    expected_spurious,
    expected_spurious_attention,
    variance_of_spurious,
)
from snapdyn.analytic.transition_times import omega_1, transition_time, u_minus, u_peak, u_plus

__all__ = [
    "DistinctProfile",
    "GrowthAndCommonLogit",
    "GrowthExponentPieces",
    "LadderGaps",
    "Orbit",
    "OverlapDecoder",
    "SpeedCoefficients",
    "bounds_of_growth",
    "common_token_logit",
    "discrete_h",
    "distinct_profile",
    "early_common_logit_of_many_classes",
    "error_norm",
    "error_of_consistent_form",
    "expected_spurious",
    "expected_spurious_attention",
    "first_ladder_gaps",
    "gamma",
    "gamma_integral",
    "growth_and_common_logit",
    "growth_exponent",
    "growth_exponent_of_many_classes",
    "growth_exponent_of_profile",
    "growth_exponent_pieces",
    "growth_exponent_with_drift",
    "h",
    "ladder_gaps",
    "largest_ladder_gap",
    "omega_1",
    "overlap_decoder",
    "relative_gain",
    "single_common_token_orbit",
    "speed_coefficients",
    "transition_time",
    "transition_time_with_overlap",
    "turn_of_distinct_tokens_of_many_classes",
    "u_minus",
    "u_peak",
    "u_plus",
    "variance_of_spurious",
    "xi",
]
