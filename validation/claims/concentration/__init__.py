"""Batch-size-1 counts, finite sequences, and the decoder after N steps."""

from snapdyn.validation.claims.concentration import corollary1, lemma10, lemma11, lemma12, lemma18, theorem5

# In the order of the register.
MODULES = (lemma10, lemma11, lemma12, lemma18, theorem5, corollary1)
