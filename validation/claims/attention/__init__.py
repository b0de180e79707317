"""Which logits grow and which fall: Lemma 4, Theorems 2 and 3, Corollary 2."""

from snapdyn.validation.claims.attention import (
    conservation,
    corollary2,
    lemma4,
    theorem2a,
    theorem2b,
    theorem3_bounds,
    theorem3_gain,
)

# In the order of the register.
MODULES = (lemma4, theorem2a, theorem2b, corollary2, theorem3_gain, theorem3_bounds, conservation)
