"""Which logits grow and which fall: Lemma 4, Theorems 2 and 3, Corollary 2."""

from snapdyn.validation.claims.attention import conservation, old_attention, old_common_tokens, old_gains

# In the order of the register.
MODULES = (old_attention, old_common_tokens, old_gains, conservation)
