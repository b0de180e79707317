"""Checks of the arrays that sequence classes are built from: P, ids, V and the prior."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from snapdyn.dynamics.memory import require_memory
from snapdyn.errors import InputError, real_array, whole, whole_array

# Rows of P are probabilities; a single-precision table still sums to 1 within this.
ROW_SUM_TOLERANCE = 1e-6


def checked_probabilities(P: Any) -> Any:
    """P as a sparse table (S, M) without zeros, columns sorted; rows sum to 1."""
    from scipy import sparse

    is_sparse = sparse.issparse(P)
    if is_sparse and P.dtype.kind not in "iuf":
        raise InputError(f"expected P to be an array of real numbers, received dtype {P.dtype}")
    require_memory("P", 48.0 * P.nnz if is_sparse else 0.0, "fewer classes or tokens")
    values = P if is_sparse else real_array("P", P)
    if values.ndim != 2 or 0 in values.shape:
        raise InputError(f"expected P of shape (S classes, M tokens), both at least 1, received shape {values.shape}")
    table = sparse.csr_array(values, dtype=np.float64, copy=True)
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


def checked_ids(name: str, ids: ArrayLike, S: int) -> NDArray[np.int64]:
    """Ids (S,), one per class, at least 0."""
    array = whole_array(name, ids)
    if array.shape != (S,):
        raise InputError(f"expected {name} with one id per class, shape ({S},), received shape {array.shape}")
    if array.min() < 0:
        raise InputError(f"expected {name} ids of at least 0, received {array.min()} for class {int(array.argmin())}")
    return array


def checked_vocab_size(vocab_size: int | None, M: int, next_tokens: int) -> int:
    """V, given or the default, after checking it against the number of next tokens."""
    if vocab_size is None:
        return max(M, next_tokens, 2)
    V = whole("vocab_size", vocab_size, 2)
    if next_tokens > V:
        raise InputError(
            f"expected vocab_size of at least the number of next tokens, {next_tokens}, received {V}; "
            "every next token is an output of the decoder"
        )
    return V


def require_comparable(weights: NDArray[np.float64]) -> None:
    """Raise when positive weights differ so much that their quotients leave the range of numbers."""
    least, most = weights.min(), weights.max()
    if least / most < np.finfo(np.float64).tiny:
        raise InputError(f"expected weights within a factor 1e307, received {least}..{most}; rescale them")


def checked_prior(prior: ArrayLike | None, S: int) -> NDArray[np.float64]:
    """Prior (S,), uniform by default, that sums to 1."""
    if prior is None:
        return np.full(S, 1.0 / S)
    array = real_array("prior", prior)
    if array.shape != (S,):
        raise InputError(f"expected one prior per class, shape ({S},), received shape {array.shape}")
    if not (np.isfinite(array).all() and (array > 0).all()):
        raise InputError(
            f"expected positive finite numbers in prior, received {array.min()}..{array.max()}; drop classes of prior 0"
        )
    require_comparable(array)
    scaled = array / array.max()  # the sum of huge weights would overflow
    normalised: NDArray[np.float64] = scaled / scaled.sum()
    # A prior that has been normalised before keeps its bits.
    return array if np.allclose(array, normalised, rtol=4 * S * np.finfo(np.float64).eps, atol=0) else normalised
