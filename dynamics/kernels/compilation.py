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

# numba counts the references to every view of an array by two atomic operations: a quarter of the time of a small
# system. Kernels keep and return no array, and a kernel that allocates none needs no count. numba does not document
# the option; in a version without it kernels are only slower.
COUNTS_REFERENCES = "_nrt" if hasattr(DefaultOptions, "_nrt") else None


def kernel(allocates: bool = False, **options: Any) -> Callable[..., Any]:
    """Decorate a kernel that keeps and returns no array; `options` are numba's.

    `allocates` is set for every kernel: without it a kernel would inherit the option from the caller that compiles it
    first. `forceinline` saves the call, and it avoids two versions: a function that is not inlined is compiled twice,
    alone and with its caller, and the versions may round differently. The process that compiles uses one version, all
    later processes the other. A test compares the two processes; a function that differs is inlined.
    """
    if COUNTS_REFERENCES:
        options[COUNTS_REFERENCES] = allocates
    decorate: Callable[..., Any] = njit(cache=True, error_model="numpy", **options)
    return decorate
