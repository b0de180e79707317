"""How kernels are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit
from numba.core.options import DefaultOptions

# Sums may be reassociated (vector lanes) and contracted (fused multiply-add); NaN and infinity keep their
# meaning, so that a run that diverges is seen.
REASSOCIATE = {"reassoc", "contract", "nsz", "arcp"}
EXACT: set[str] = {"contract"}

# numba counts the references to every view of an array, by two atomic operations: a quarter of the time of a small
# system. Kernels keep and return no array, and those that allocate none have nothing to count. numba does not document
# the option; where it is gone, kernels are slower and nothing else.
COUNTS_REFERENCES = "_nrt" if hasattr(DefaultOptions, "_nrt") else None


def kernel(allocates: bool = False, **options: Any) -> Callable[..., Any]:
    """Decorate a kernel that keeps and returns no array; `options` are numba's.

    `allocates` is stated for every kernel, because one that does not say inherits it from the caller that compiles it
    first. `forceinline`: besides the call it saves this. A function that is not inlined is compiled twice, on its own
    and with its caller, which may round differently; the process that compiles uses the one, all later processes the
    other. A test compares the two; what differs is inlined.
    """
    if COUNTS_REFERENCES:
        options[COUNTS_REFERENCES] = allocates
    decorate: Callable[..., Any] = njit(cache=True, error_model="numpy", **options)
    return decorate
