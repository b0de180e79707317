"""The compiled integrator for a right-hand side that is called through a pointer: a function of the user's."""

from __future__ import annotations

import threading
from typing import Any

from numba import typeof, types

from snapdyn.dynamics.kernels import dormand_prince
from snapdyn.dynamics.kernels.compilation import kernel

_VECTOR = types.float64[::1]
RATE = types.float64(_VECTOR, _VECTOR, _VECTOR, _VECTOR)
"""Signature of such a right-hand side: (state, out, parameters, reals), the time is reals[NOW]."""

_COMPILED: set[Any] = set()
_COMPILING = threading.Lock()


@kernel(allocates=True, nogil=True)
def _advance(rate, arguments, work, save_at, saved, losses, most_steps):
    return dormand_prince.advance(rate, rate, (*arguments, work.reals), work, save_at, saved, losses, most_steps)


def advance_called_rate(rate, arguments, work, save_at, saved, losses, most_steps):
    """As `dormand_prince.advance_...`, with the compiled function `rate` in front.

    The integrator is compiled for any function of the signature `RATE`, once for all of them and kept on disk; numba
    itself would compile it anew for each function.
    """
    others = (arguments, work, save_at, saved, losses, most_steps)
    kinds = typeof(work), typeof(save_at), typeof(saved), typeof(losses)
    if kinds not in _COMPILED:
        with _COMPILING:
            _advance.disable_compile(False)
            _advance.compile((types.FunctionType(RATE), typeof(arguments), *kinds, types.int64))
            _advance.disable_compile()
            _COMPILED.add(kinds)
    return _advance(rate, *others)
