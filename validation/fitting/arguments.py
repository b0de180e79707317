"""Which parameters of a fit are free, which are given, and where the search starts."""

from __future__ import annotations

from typing import Any

import numpy as np

from snapdyn.dynamics import SequenceClasses
from snapdyn.errors import InputError, choice, positive, shown
from snapdyn.validation.fitting.model import FREE, common_share


def checked_free(free: Any) -> tuple[str, ...]:
    names = (free,) if isinstance(free, str) else tuple(free) if isinstance(free, (list, tuple)) else ()
    for name in names:
        choice("each entry of free", name, FREE)
    if not names or len(set(names)) < len(names):
        raise InputError(f"expected free as different names of parameters, received {shown(free)}; name each once")
    if {"eta_Y", "eta_Z", "clock"} <= set(names):
        raise InputError(
            "expected at most two of eta_Y, eta_Z and clock free, received all three, which are exactly degenerate: "
            "rates twice as large and a clock half as fast give the same trace; fix one of them"
        )
    return names


def fixed_and_start(
    names: tuple[str, ...],
    eta_Y: float | None,
    eta_Z: float | None,
    common_probability: float | None,
    classes: SequenceClasses,
) -> tuple[dict[str, float], dict[str, float]]:
    """Values of the parameters that are not free, and the starts that are given or need no search."""
    fixed: dict[str, float] = {}
    start: dict[str, float] = {}
    for name, value in (("eta_Y", eta_Y), ("eta_Z", eta_Z)):
        if value is not None:
            (start if name in names else fixed)[name] = positive(name, value)
        elif name not in names:
            raise InputError(f"expected {name} free or given, received neither; add it to free, or give {name}=...")
    if "clock" in names:
        start["clock"] = 1.0
    if "common_probability" in names:
        share = common_share(classes)
        if (share <= 0).any() or (share >= 1).any():
            raise InputError(
                "expected common and distinct tokens in every class where common_probability is free, received class "
                f"{int(((share <= 0) | (share >= 1)).argmax())} with tokens of one kind; leave it out of free"
            )
        if np.ptp(share) > 1e-6:
            raise InputError(
                "expected the same probability of common tokens in every class where common_probability is free, "
                f"received {share.min():.4g} to {share.max():.4g}; leave it out of free"
            )
        start["common_probability"] = float(share.mean())
        if common_probability is not None:
            start["common_probability"] = positive("common_probability", common_probability)
    elif common_probability is not None:
        raise InputError(
            f"expected common_probability only where it is free, received {shown(common_probability)}; build the "
            "classes with it"
        )
    if not start.get("common_probability", 0.5) < 1.0:
        raise InputError(f"expected common_probability below 1, received {start['common_probability']:g}; give a share")
    return fixed, start
