"""Theorem 4: growth exponent, phase transition, scanning and snapping, the readings."""

from snapdyn.validation.claims.transition import (
    figure3_scale,
    insight_a,
    insight_b,
    insight_c,
    scanning,
    snapping,
    theorem4,
    theorem4_pieces,
)

# In the order of the register.
MODULES = (
    theorem4,
    theorem4_pieces,
    figure3_scale,
    scanning,
    snapping,
    insight_a,
    insight_b,
    insight_c,
)
