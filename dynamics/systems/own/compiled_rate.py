"""Rates of the user's, compiled for the integrator, and the sentence for a function that does not compile."""

from __future__ import annotations

import dis
import inspect
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np

from snapdyn.dynamics.kernels.called_rate import RATE
from snapdyn.errors import InputError, shown

_COMPILING = threading.Lock()


class CompiledRate:
    """A rate of the user's, compiled to the signature that the integrator calls.

    Parameters
    ----------
    rate : callable
        Plain or jitted.
    shapes : sequence of shape
        Of the parameters.

    Attributes
    ----------
    address : int
        Of the machine code, which lives as long as this object; 0 where numba's compiler is switched off.
    """

    def __init__(self, rate: Any, shapes: Sequence[tuple[int, ...]]) -> None:
        import numba

        self._origin, self.address = (rate, tuple(shapes)), 0
        options: Any = numba.config
        if options.DISABLE_JIT:
            return
        if not inspect.isfunction(getattr(rate, "py_func", rate)):
            raise InputError(
                f"expected the rate as a function, received {shown(rate)}; write def rate(t, state, out, ...)"
            )
        jitted = rate if hasattr(rate, "py_func") else numba.njit(error_model="numpy")(rate)
        values, first = [], 0
        for shape in shapes:
            width = int(np.prod(shape, dtype=int))
            values.append(f"values[{first}:{first + width}].reshape({shape})" if shape else f"values[{first}]")
            first += width
        code = (
            "def called(state, out, size, parameters, t):\n"
            f"    values = carray(parameters, ({first},))\n"
            f"    rate({', '.join(['t', 'carray(state, (size,))', 'carray(out, (size,))', *values])})\n"
            "    return 0.0\n"
        )
        scope: dict[str, Any] = {"rate": jitted, "carray": numba.carray}
        exec(code, scope)
        with compiled_for_user(jitted.py_func):
            self._code = numba.njit(RATE, error_model="numpy")(scope["called"])
        compiled: Any = self._code.overloads[RATE.args]
        self.address = int(compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name))

    def __reduce__(self) -> tuple[Any, ...]:
        return CompiledRate, self._origin  # an address is of one process


def compile_rate(rate: Any, shapes: Sequence[tuple[int, ...]]) -> CompiledRate:
    """Compile a rate, once for a jitted one; a plain one is compiled anew, because it may see other globals by now."""
    return _kept(rate, tuple(shapes)) if hasattr(rate, "py_func") else CompiledRate(rate, shapes)


_kept = lru_cache(maxsize=64)(CompiledRate)


@contextmanager
def compiled_for_user(plain: Callable[..., Any]) -> Iterator[None]:
    """Turn numba's error in the block into an InputError with the line of the user's function `plain`."""
    from numba.core.errors import NumbaError

    with _COMPILING:
        try:
            yield
        except NumbaError as error:
            raise InputError(_why(plain, str(error))) from error


def _why(plain: Any, message: str) -> str:
    """One sentence on a function that does not compile: the line of the user's file, and numba's reason."""
    file = re.escape(plain.__code__.co_filename.rpartition("/")[2])
    lines = re.findall(rf'File "[^"]*{file}", line (\d+)', message)
    reasons = [each.strip() for each in message.splitlines() if each.strip()]
    said = [each for each in reasons if not each.startswith(("Failed in", "File ", "During:", "def ", "<source"))]
    reason = " ".join(said[0].split())[:200] if said else "no reason given"
    line = lines[-1] if lines else _line_of_name(plain, reason)
    return (
        f"expected a function that numba compiles, received {plain.__name__} with an error in line {line} of "
        f"{plain.__code__.co_filename.rpartition('/')[2]}: {reason}; write it with numbers, arrays and numpy functions"
    )


def _line_of_name(plain: Any, reason: str) -> int:
    """Line that loads the name that `reason` quotes (numba gives none for an unknown name), else the first line."""
    quoted = re.findall(r"'(\w+)'", reason)
    for instruction in dis.get_instructions(plain):
        if instruction.argval in quoted and instruction.positions and instruction.positions.lineno:
            return instruction.positions.lineno
    return int(plain.__code__.co_firstlineno)


def reads_first_argument(plain: Callable[..., Any]) -> bool:
    """Whether the code of a function mentions its first argument."""
    code = plain.__code__
    first = code.co_varnames[0]
    # One instruction may name several variables.
    named = (each.argval if isinstance(each.argval, tuple) else (each.argval,) for each in dis.get_instructions(plain))
    return first in code.co_cellvars or any(first in names for names in named)
