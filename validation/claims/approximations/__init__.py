"""What each approximation costs: Theorem 1(b), clocks, orders, the ladder."""

from snapdyn.validation.claims.approximations import old_clocks, old_ladder, old_orders, old_theorem_1

# In the order of the register.
MODULES = (
    old_theorem_1,
    old_clocks,
    old_orders,
    old_ladder,
)
