"""The decoder with frozen attention: logits, speed control, Remark 1."""

from snapdyn.validation.claims.decoder import old_decoder, old_remark_1, old_speed

# In the order of the register.
MODULES = (
    old_decoder,
    old_speed,
    old_remark_1,
)
