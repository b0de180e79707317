"""Theorem 4: growth exponent, phase transition, scanning and snapping, the readings."""

from snapdyn.validation.claims.transition import (
    insight_a,
    insight_b,
    insight_c,
    old_transition,
    scanning,
    snapping,
)

# In the order of the register.
MODULES = (
    old_transition,
    scanning,
    snapping,
    insight_a,
    insight_b,
    insight_c,
)
