"""Checks of the arrays that sequence classes are built from: P, ids, V and the prior."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from snapdyn.errors import InputError, real_array, whole, whole_array
from snapdyn.memory import require_memory

# Rows of P are probabilities; a single-precision table still sums to 1 within this.
ROW_SUM_TOLERANCE = 1e-6


def checked_probabilities(P: Any) -> Any:
    """P as a sparse table (S, M) without zeros, columns sorted; rows sum to 1."""
    from scipy import sparse

    is_sparse = sparse.issparse(P)
    if is_sparse and P.dtype.kind not in "iuf":
        raise InputError(f"expected P to be an array of real numbers, received dtype {P.dtype}")
    values = P if is_sparse else real_array("P", P)
    if values.ndim != 2 or 0 in values.shape:
        raise InputError(f"expected P of shape (S classes, M tokens), both at least 1, received shape {values.shape}")
    table = _sparse_rows(P) if is_sparse else sparse.csr_array(values)
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
    """Sparse P, copied into a csr array, after checking that no index leads out of its arrays: kernels would follow it.

    scipy checks coo, dia and dok when it copies them, but does not look into the arrays of csr, csc and bsr.
    """
    from scipy import sparse

    S, M = P.shape
    try:
        if P.format == "lil":
            row = np.repeat(np.arange(S), [len(tokens) for tokens in P.rows])
            tokens = np.fromiter(chain.from_iterable(P.rows), np.int64)
            P = sparse.coo_array((np.fromiter(chain.from_iterable(P.data), np.float64), (row, tokens)), shape=(S, M))
        elif P.format in ("csr", "csc", "bsr"):
            height, width = P.data.shape[1:] if P.format == "bsr" else (1, 1)
            if S % height or M % width:
                raise ValueError(f"blocks of shape {height, width}")
            outer, inner = (M, S) if P.format == "csc" else (S // height, M // width)
            starts, indices, number = P.indptr, P.indices, len(P.data)
            if starts.dtype.kind != "i" or indices.dtype.kind != "i":
                raise ValueError(f"indptr of dtype {starts.dtype} and indices of dtype {indices.dtype}")
            rises = starts.shape == (outer + 1,) and (starts[1:] >= starts[:-1]).all()
            if not rises or starts[0] != 0 or starts[-1] != number:
                raise ValueError(f"an indptr that does not rise from 0 to {number} in {outer} steps")
            if indices.shape != (number,) or (indices < 0).any() or (indices >= inner).any():
                raise ValueError(f"indices that are not {number} numbers from 0 to {inner - 1}")
        require_memory("P", 48.0 * max(P.nnz, S), "fewer classes or tokens")
        return sparse.csr_array(P.astype(np.float64))
    except InputError:
        raise
    except (ArithmeticError, AttributeError, IndexError, TypeError, ValueError) as error:
        raise InputError(
            f"expected indices of sparse P that fit its shape {S, M}, received: {str(error).rstrip('.')}; build P anew "
            "from rows, columns and probabilities"
        ) from error


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
