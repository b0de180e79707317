"""The check of a table of probabilities P, dense or sparse, before any code uses it."""

from __future__ import annotations

from typing import Any

import numpy as np

from snapdyn.core.errors import InputError, finite_array
from snapdyn.core.memory import require_memory

# Rows of P are probabilities; a single-precision table still sums to 1 within this.
ROW_SUM_TOLERANCE = 1e-6


def checked_probabilities(P: Any) -> Any:
    """P as a sparse table (S, M) without zeros, columns sorted; rows sum to 1."""
    from scipy import sparse

    is_sparse = sparse.issparse(P)
    if is_sparse and P.dtype.kind not in "iuf":
        raise InputError(f"expected P to be an array of real numbers, received dtype {P.dtype}")
    if is_sparse and (len(P.shape) != 2 or 0 in P.shape):
        raise InputError(f"expected P of shape (S, M), both at least 1, received shape {P.shape}; give a row per class")
    table = _sparse_rows(P) if is_sparse else sparse.csr_array(finite_array("P", P, ("S", "M")))
    table.sum_duplicates()
    row = np.repeat(np.arange(table.shape[0]), np.diff(table.indptr))
    for bad, what in ((~np.isfinite(table.data), "finite"), (table.data < 0, "non-negative")):
        if bad.any():
            k = int(np.flatnonzero(bad)[0])
            raise InputError(
                f"expected {what} probabilities in P, received {table.data[k]} at class {row[k]}, token "
                f"{table.indices[k]}; correct that entry"
            )
    table.eliminate_zeros()
    table.sort_indices()
    sums = np.asarray(table.sum(axis=1)).ravel()
    wrong = np.flatnonzero(~(np.abs(sums - 1.0) <= ROW_SUM_TOLERANCE))
    if wrong.size:
        n = int(wrong[0])
        raise InputError(
            f"expected every row of P to sum to 1, received {sums[n]:.9g} in row {n} ({wrong.size} rows are off); "
            "divide each row by its sum"
        )
    table.indices = table.indices.astype(np.int64)
    table.indptr = table.indptr.astype(np.int64)
    return table


def _sparse_rows(P: Any) -> Any:
    """Sparse P, copied into a csr array, after checking that no index points outside its arrays: kernels do not check.

    scipy checks coo, dia and dok arrays when it copies them, and csr, csc and bsr arrays on request. It does not check
    the lengths of rows in lil arrays, nor an indptr that falls so far that its differences overflow.
    """
    from scipy import sparse

    try:
        if P.format in ("csr", "csc", "bsr") and (
            P.indptr.dtype.kind != "i" or P.indptr[0] != 0 or (P.indptr[1:] < P.indptr[:-1]).any()
        ):
            raise ValueError("an indptr that falls, starts at another number than 0, or has another type than int")
        if P.format == "lil" and list(map(len, P.rows)) != list(map(len, P.data)):
            raise ValueError("rows whose numbers of indices and of values differ")
        # What is made of P holds arrays of its entries, classes and tokens.
        require_memory("P", 48.0 * max(P.nnz, *P.shape), "fewer classes or tokens")
        if P.format in ("csr", "csc", "bsr"):
            P.copy().check_format()
        table = sparse.csr_array(P.astype(np.float64))
        table.check_format()
        return table
    except InputError:
        raise
    except (ArithmeticError, AttributeError, IndexError, MemoryError, TypeError, ValueError) as error:
        raise InputError(
            f"expected indices of sparse P that fit its shape {P.shape}, received: {str(error).rstrip('.')}; build P "
            "anew from rows, columns and probabilities"
        ) from error
