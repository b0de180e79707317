"""The decoder with frozen attention: logits, speed control, Remark 1."""

from snapdyn.validation.claims.decoder import lemma3, lemma5, lemma6, lemma7, old_remark_1, old_speed, remark2

# In the order of the register.
MODULES = (
    lemma3,
    lemma5,
    lemma6,
    lemma7,
    remark2,
    old_speed,
    old_remark_1,
)
