"""Overlaps of classes: E, its eigenvalues, Assumption 2 and Theorem 1(a)."""

from snapdyn.validation.claims.correlation import old_assumption_2, old_correlation, old_theorem_1a

# In the order of the register.
MODULES = (
    old_correlation,
    old_assumption_2,
    old_theorem_1a,
)
