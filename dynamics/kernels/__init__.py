"""Compiled right-hand sides over plain arrays: no objects, no globals, no allocation.

Three rules of numba decide how these files are written. First, a function without its own options inherits those of the
caller that compiles it first, so every function states its `fastmath` (`compilation.kernel` does the rest): the sums in
`exp` must not be reassociated. Second, inner loops run over slices: a computed index such as `a[offset + j]` may be
negative, which stops the vectoriser. Third, slices are copied by loops: where one slice is assigned to another, numba
may allocate a copy.
"""
