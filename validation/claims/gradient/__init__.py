"""Gradients of the loss, and attention of long sequences."""

from snapdyn.validation.claims.gradient import old_gradient

# In the order of the register.
MODULES = (old_gradient,)
