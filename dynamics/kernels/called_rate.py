"""The compiled integrator and explicit steps for a right-hand side of the user, which is called by its address.

The integrator and the steps are compiled once for all functions of the signature `RATE`, and kept on disk. The vectors
are passed as bare pointers: if a function is an argument, numba itself would call it with seven numbers for each array,
and count references to the array by atomic operations. That takes several times as long as a small right-hand side.
"""

from __future__ import annotations

from typing import Any

from numba import config, types
from numba.extending import intrinsic

from snapdyn.dynamics.kernels import dormand_prince
from snapdyn.dynamics.kernels.compilation import kernel
from snapdyn.dynamics.kernels.explicit_steps import explicit_steps

_POINTER = types.CPointer(types.float64)
RATE = types.float64(_POINTER, _POINTER, types.intp, _POINTER, types.float64)
"""Signature of such a right-hand side: (state, out, size, parameters, time)."""


def address_of(function: Any) -> int:
    """Compile a jitted function to the signature RATE, and return the address of its machine code.

    The address is valid as long as the function exists. It is 0 where numba's compiler is switched off.
    """
    options: Any = config
    if options.DISABLE_JIT:
        return 0
    function.compile(RATE)
    compiled = function.overloads[RATE.args]
    return int(compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name))


@intrinsic
def _call(typing_context, address, state, out, parameters, time):
    """Call the function of signature RATE at `address`; its errors are raised here."""

    def generate(context, builder, signature, arguments):
        vectors = [
            context.make_array(each)(context, builder, value)
            for each, value in zip(signature.args[1:4], arguments[1:4], strict=True)
        ]
        x, rate, values = (each.data for each in vectors)
        size = builder.extract_value(vectors[0].shape, 0)
        function = builder.inttoptr(
            arguments[0], context.call_conv.get_function_type(RATE.return_type, RATE.args).as_pointer()
        )
        status, result = context.call_conv.call_function(
            builder, function, RATE.return_type, RATE.args, (x, rate, size, values, arguments[4])
        )
        with builder.if_then(status.is_error, likely=False):
            context.call_conv.return_status_propagate(builder, status)
        return result

    return RATE.return_type(address, state, out, parameters, time), generate


@kernel(forceinline=True)
def _rate(state, out, address, parameters, reals):
    return _call(address, state, out, parameters, reals[dormand_prince.NOW])


@kernel(nogil=True)
def write_called_rate(address, state, out, parameters, time):
    """Write the rate at `time` to `out`."""
    _call(address, state, out, parameters, time)


@kernel(nogil=True)
def advance_called_rate(arguments, work, saves, samples, most_steps):
    """As `dormand_prince.advance`, with arguments (address, parameters)."""
    return dormand_prince.advance(_rate, _rate, (*arguments, work.reals), work, saves, samples, most_steps)


@kernel(nogil=True)
def steps_of_called_rate(arguments, motion):
    """As `explicit_steps`, with arguments (address, parameters, reals)."""
    return explicit_steps(_rate, arguments, motion)
