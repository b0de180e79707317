"""What each approximation costs: Theorem 1(b), clocks, orders, the ladder."""

from snapdyn.validation.claims.approximations import (
    clock,
    ladder,
    momentum_clock,
    orders,
    slow_attention,
    theorem1_form,
    theorem1b,
)

# In the order of the register.
MODULES = (theorem1b, theorem1_form, clock, momentum_clock, orders, ladder, slow_attention)
