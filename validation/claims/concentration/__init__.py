"""Batch-size-1 counts, finite sequences, and the decoder after N steps."""

from snapdyn.validation.claims.concentration import lemma10, lemma11, lemma12, lemma18, old_theorem_5

# In the order of the register.
MODULES = (
    lemma10,
    lemma11,
    lemma12,
    lemma18,
    old_theorem_5,
)
