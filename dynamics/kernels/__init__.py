"""Compiled right-hand sides over plain arrays: no objects, no globals, no allocation.

Three rules of numba decide how these files are written. First, a function without its own options inherits those of the
caller that compiles it first, so every function states its `fastmath` (`compilation.kernel` does the rest): the sums in
`exp` must not be reassociated. Second, inner loops run over slices: a computed index such as `a[offset + j]` may be
negative, which stops the vectoriser. Third, slices are copied by loops: where one slice is assigned to another, numba
may allocate a copy.
"""

import os

from snapdyn.core.errors import InputError

# numba reads this variable when it is imported, and does not say which one is wrong.
_threads = os.environ.get("NUMBA_NUM_THREADS", "1")
if not (_threads.isdecimal() and int(_threads)):
    raise InputError(
        "expected the environment variable NUMBA_NUM_THREADS to be a whole number of at least 1, received "
        f"{_threads!r}; correct it, or unset it"
    )
