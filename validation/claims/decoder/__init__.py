"""The decoder with frozen attention: logits, speed control, Remark 1."""

from snapdyn.validation.claims.decoder import lemma3, lemma5, lemma6, old_decoder, old_remark_1, old_speed

# In the order of the register.
MODULES = (
    lemma3,
    lemma5,
    lemma6,
    old_decoder,
    old_speed,
    old_remark_1,
)
