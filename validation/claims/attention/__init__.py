"""Which logits grow and which fall: Lemma 4, Theorems 2 and 3, Corollary 2."""
