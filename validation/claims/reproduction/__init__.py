"""Reproductions of the paper's numbers."""

from snapdyn.validation.claims.reproduction import old_published

# In the order of the register.
MODULES = (old_published,)
