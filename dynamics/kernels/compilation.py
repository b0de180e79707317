"""Compilation of the kernels: the decorator, and the floating-point options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit
from numba.core.options import DefaultOptions

# Sums may be reassociated (vector lanes) and contracted (fused multiply-add). NaN and infinity keep their
# meaning, so that a diverging run is detected.
REASSOCIATE = {"reassoc", "contract", "nsz", "arcp"}
EXACT: set[str] = {"contract"}

# numba counts references to every view of an array by two atomic operations, which take a quarter of the time of a
# small system. Kernels keep and return no array, so a kernel that allocates no array needs no count. The option is not
# documented by numba; in a version without it, kernels are slower but correct.
COUNTS_REFERENCES = "_nrt" if hasattr(DefaultOptions, "_nrt") else None


def kernel(allocates: bool = False, **options: Any) -> Callable[..., Any]:
    """Return a decorator that compiles a kernel, which must keep and return no array.

    Parameters
    ----------
    allocates : bool
        Whether the kernel allocates arrays. The option is set for every kernel, since a kernel without it would
        inherit it from the caller that compiles it first.
    **options : dict
        Options of `numba.njit`. `forceinline` saves the call and avoids two versions: a function that is not inlined is
        compiled twice, alone and with its caller, and the versions may round differently. The process that compiles
        uses one version, all later processes use the other. A test compares the two processes; a function that differs
        must be inlined.

    Returns
    -------
    callable
        The decorator.
    """
    if COUNTS_REFERENCES:
        options[COUNTS_REFERENCES] = allocates
    decorate: Callable[..., Any] = njit(cache=True, error_model="numpy", **options)
    return decorate
