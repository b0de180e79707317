"""The claims, one file per family of statements; importing this package fills the register."""

from importlib import import_module

# The register lists claims in the order in which these are imported.
for _family in (
    "gradient",
    "decoder",
    "speed",
    "remark_1",
    "concentration",
    "theorem_5",
    "correlation",
    "assumption_2",
    "theorem_1a",
    "attention",
    "common_tokens",
    "gains",
    "transition",
    "stages",
    "readings",
    "priors",
    "theorem_1",
    "clocks",
    "orders",
    "ladder",
    "reparameterisation",
    "published",
):
    import_module(f"{__name__}.{_family}")
