"""Batch-size-1 counts, finite sequences, and the decoder after N steps."""

from snapdyn.validation.claims.concentration import old_concentration, old_theorem_5

# In the order of the register.
MODULES = (
    old_concentration,
    old_theorem_5,
)
