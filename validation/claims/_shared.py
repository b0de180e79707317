"""The widest domain of the claims, which they narrow or rename by `dataclasses.replace`."""

from snapdyn.validation.statement import Family

# Rates, V and times as wide as float64 allows.
WIDEST = Family(
    "any classes",
    "any",
    uniform=False,
    num_classes=(1, 6),
    num_common=(0, 3),
    num_distinct=(0, 4),
    vocab_size=(2, 10**12),
    ratio=(1e-6, 1e6),
    horizon=(1e-2, 1e12),
    eta_Y=(1e-6, 1e6),
)
