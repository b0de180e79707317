"""What each approximation costs: Theorem 1(b), clocks, orders, the ladder."""

from snapdyn.validation.claims.approximations import ladder, old_clocks, old_ladder, orders, theorem1_form, theorem1b

# In the order of the register.
MODULES = (
    theorem1b,
    theorem1_form,
    old_clocks,
    orders,
    ladder,
    old_ladder,
)
