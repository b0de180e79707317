"""Compiled right-hand sides over plain arrays: no objects, no globals, no allocation.

Two rules of numba decide how these files are written. A function without its own `fastmath` inherits that
of the caller that compiles it first, so every function states its own: `exp` must not be reassociated. And
inner loops run over slices (a computed index such as `a[offset + j]` may be negative, which stops the
vectoriser).
"""
