"""The compiled integrator and explicit steps for a right-hand side called through a pointer: a function of the user's.

Each is compiled once for all functions of the signature `RATE`, and kept on disk; numba itself would compile it anew
for each function.
"""

from __future__ import annotations

import threading

from numba import typeof, types

from snapdyn.dynamics.kernels import dormand_prince
from snapdyn.dynamics.kernels.compilation import kernel
from snapdyn.dynamics.kernels.explicit_steps import explicit_steps

_VECTOR = types.float64[::1]
RATE = types.float64(_VECTOR, _VECTOR, _VECTOR, _VECTOR)
"""Signature of such a right-hand side: (state, out, parameters, reals), the time is reals[NOW]."""
_COMPILING = threading.Lock()


@kernel(allocates=True, nogil=True)
def _advance(rate, arguments, work, save_at, saved, losses, most_steps):
    return dormand_prince.advance(rate, rate, (*arguments, work.reals), work, save_at, saved, losses, most_steps)


@kernel(allocates=True, nogil=True)
def _make_steps(rate, arguments, state, velocity, change, reals, size, momentum, steps, record, saved):
    return explicit_steps(rate, arguments, state, velocity, change, reals, size, momentum, steps, record, saved)


def advance_called_rate(rate, *arguments):
    """As `dormand_prince.advance_...`, with the compiled function `rate` in front."""
    return _called(_advance, rate, arguments)


def steps_of_called_rate(rate, *arguments):
    """As `explicit_steps`, for a compiled function `rate`."""
    return _called(_make_steps, rate, arguments)


def _called(function, rate, arguments):
    if function.overloads:
        try:
            return function(rate, *arguments)
        except TypeError:  # compiled for arguments of other types, and numba must not compile for this function alone
            pass
    with _COMPILING:
        function.disable_compile(False)
        function.compile((types.FunctionType(RATE), *map(typeof, arguments)))
        function.disable_compile()
    return function(rate, *arguments)
