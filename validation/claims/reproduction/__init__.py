"""Reproductions of the paper's numbers."""

from snapdyn.validation.claims.reproduction import figure6

# In the order of the register.
MODULES = (figure6,)
