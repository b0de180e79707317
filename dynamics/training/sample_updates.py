"""Steps along samples that a user's function draws: its checks, and its compilation."""

from __future__ import annotations

from typing import Any

import numpy as np

from snapdyn.dynamics.classes import Floats
from snapdyn.dynamics.kernels.dormand_prince import NOW
from snapdyn.dynamics.kernels.explicit_steps import explicit_steps
from snapdyn.dynamics.systems.own.compiled_rate import compiled_for_user
from snapdyn.errors import InputError, shown


def _try_in_python(sample_update: Any, start: Floats, arguments: tuple[Any, ...]) -> None:
    """Draw one sample in Python, since compiled code does not notice an index beyond the state."""
    state, out = start.copy(), np.full(start.size, np.nan)
    try:
        with np.errstate(all="ignore"):
            sample_update(state, np.random.Generator(np.random.PCG64(0)), out, *arguments)
    except IndexError as error:
        raise InputError(
            f"expected a sample_update of {start.size} state values, received one that uses another entry ({error}); "
            "write to out[0] up to that number"
        ) from error
    except Exception:  # what Python cannot do may compile
        return
    if not np.array_equal(state, start):
        raise InputError("expected a sample_update that writes to out only, received one that changes state; copy it")
    if np.isnan(out).any():
        raise InputError(
            "expected a sample_update that writes every entry of out, received one that leaves some out or adds to "
            "them; set each entry, to 0.0 where nothing changes"
        )


def steps_along_samples(sample_update: Any, start: Floats, values: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """Compile steps along samples; the function, and the parameters that the user's function takes."""
    import numba

    plain = getattr(sample_update, "py_func", sample_update)
    code = getattr(plain, "__code__", None)
    count = code.co_argcount if code is not None else -1
    if count not in (3, 3 + len(values)):
        raise InputError(
            f"expected sample_update with arguments (state, rng, out) or these and {len(values)} parameters, received "
            f"{shown(plain)}; write it so"
        )
    jitted = sample_update if hasattr(sample_update, "py_func") else numba.njit(error_model="numpy")(sample_update)
    arguments = values if count > 3 else ()
    _try_in_python(plain, start, arguments)
    if count == 3:

        @numba.njit
        def draw(state, change, rng):  # type: ignore[no-untyped-def]
            change[:] = np.nan  # an entry that the sample leaves out would keep that of the sample before
            jitted(state, rng, change)

    else:

        @numba.njit
        def draw(state, change, rng, *parameters):  # type: ignore[no-untyped-def]
            change[:] = np.nan
            jitted(state, rng, change, *parameters)

    @numba.njit(nogil=True)
    def move(arguments, state, velocity, change, reals, size, momentum, steps, record, saved):  # type: ignore[no-untyped-def]
        return explicit_steps(draw, arguments, state, velocity, change, reals, size, momentum, steps, record, saved)

    rng = np.random.Generator(np.random.PCG64(0))
    nothing = np.zeros(2, np.int64), np.zeros(0, np.int64), np.zeros((0, start.size))
    vectors = start, np.zeros(start.size), np.zeros(start.size), np.zeros(NOW + 1)
    with compiled_for_user(plain):
        move((rng, *arguments), *vectors, 1.0, 0.0, *nothing)
    return move, arguments
