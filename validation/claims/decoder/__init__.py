"""The decoder with frozen attention: logits, speed control, Remark 1."""

from snapdyn.validation.claims.decoder import lemma3, lemma5, lemma6, lemma7, lemma8, lemma9, remark1, remark2

# In the order of the register.
MODULES = (lemma3, lemma5, lemma6, lemma7, remark2, lemma8, lemma9, remark1)
