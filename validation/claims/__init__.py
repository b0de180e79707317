"""The claims, one file per family of statements; importing this package fills the register in this order."""

from snapdyn.validation.claims import gradient, decoder, speed, attention, gains, transition  # noqa: F401, I001  (order of the paper)
