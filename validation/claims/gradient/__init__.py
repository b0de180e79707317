"""Gradients of the loss, and attention of long sequences."""

from snapdyn.validation.claims.gradient import lemma1, lemma2

# In the order of the register.
MODULES = (lemma1, lemma2)
